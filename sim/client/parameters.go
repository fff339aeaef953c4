package client

import (
	"encoding/hex"
	"encoding/json"

	"cloister/sim/laptop"
)

// NewKey makes an API key.
func NewKey() KeyPair {
	k, err := laptop.NewKey()
	if err != nil {
		panic(err) // no randomness
	}
	return k
}

// APIKey are the parameters of an API key.
func APIKey(name string, k KeyPair) Object {
	return Object{"apiKeyName": name, "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"}
}

// NewRootUser are the parameters of a root user of a new organization, who has these API keys.
func NewRootUser(name string, keys ...KeyPair) Object {
	all := []any{}
	for _, k := range keys {
		all = append(all, APIKey("Key "+k.PublicKey[2:10], k))
	}
	return Object{"userName": name, "apiKeys": all, "authenticators": []any{}, "oauthProviders": []any{}}
}

// NewUser are the parameters of a user without tags, who has these API keys.
func NewUser(name string, keys ...KeyPair) Object {
	u := NewRootUser(name, keys...)
	u["userTags"] = []any{}
	return u
}

// Users are the parameters of CREATE_USERS.
func Users(all ...Object) Object { return Object{"users": all} }

// SubOrganization are the parameters of a sub-organization, each of whose root users may act alone.
func SubOrganization(name string, roots ...Object) Object {
	return Object{"subOrganizationName": name, "rootQuorumThreshold": 1, "rootUsers": roots}
}

// Account are the parameters of a wallet's account, say of SECP256K1 at m/44'/60'/0'/0/0 for ETHEREUM.
func Account(curve, path, format string) Object {
	return Object{"curve": "CURVE_" + curve, "pathFormat": "PATH_FORMAT_BIP32", "path": path, "addressFormat": "ADDRESS_FORMAT_" + format}
}

// The first accounts of two chains.
var (
	Ethereum = Account("SECP256K1", "m/44'/60'/0'/0/0", "ETHEREUM")
	Solana   = Account("ED25519", "m/44'/501'/0'/0'", "SOLANA")
)

// Wallet are the parameters of a wallet.
func Wallet(name string, accounts ...Object) Object {
	return Object{"walletName": name, "accounts": append([]Object{}, accounts...)}
}

// Payload are the parameters of a signature of a payload in hex. hash is KECCAK256, SHA256, NO_OP or NOT_APPLICABLE.
func Payload(signWith, hex, hash string) Object {
	return Object{"signWith": signWith, "payload": hex, "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_" + hash}
}

// Tag are the parameters of a user tag that nobody has.
func Tag(name string) Object { return Object{"userTagName": name, "userIds": []any{}} }

// Policy are the parameters of a policy. effect is ALLOW or DENY; an empty condition or consensus is left out.
func Policy(name, effect, condition, consensus string) Object {
	p := Object{"policyName": name, "effect": "EFFECT_" + effect, "notes": ""}
	if condition != "" {
		p["condition"] = condition
	}
	if consensus != "" {
		p["consensus"] = consensus
	}
	return p
}

// Target is the point to encrypt an import to, of the enclave's message with a target; nil if there is none.
func Target(message string) []byte {
	var outer struct{ Data string }
	var inner struct{ TargetPublic string }
	if json.Unmarshal([]byte(message), &outer) != nil {
		return nil
	}
	data, err := hex.DecodeString(outer.Data)
	if err != nil || json.Unmarshal(data, &inner) != nil {
		return nil
	}
	point, err := hex.DecodeString(inner.TargetPublic)
	if err != nil {
		return nil
	}
	return point
}
