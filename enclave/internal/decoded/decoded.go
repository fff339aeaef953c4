// Package decoded shows approvers what a signature would be of, from the very bytes that would be signed: a transaction of
// any chain, typed data, an authorization, a message, or bytes that nobody can read, which it says.
//
// It depends on the bytes and on show.Known alone, so that the enclave, a command and a browser come to one document.
package decoded

import (
	"encoding/hex"
	"unicode/utf8"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/btc"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/chain/tempo"
	"cloister/enclave/internal/chain/tron"
	"cloister/enclave/internal/keys"
)

// readers are the chains by the interface's names of their transactions, and how those are encoded.
var readers = map[string]struct {
	chain    chain.Reader
	encoding string
}{
	"TRANSACTION_TYPE_ETHEREUM": {eth.Chain{}, "RLP"},
	"TRANSACTION_TYPE_SOLANA":   {sol.Chain{}, "SOLANA_WIRE"},
	"TRANSACTION_TYPE_TRON":     {tron.Chain{}, "PROTOBUF"},
	"TRANSACTION_TYPE_BITCOIN":  {btc.Chain{}, "PSBT"},
	"TRANSACTION_TYPE_TEMPO":    {tempo.Chain{}, "RLP"},
}

// schemes are what signatures are called beside digests.
var schemes = map[chain.Scheme]string{chain.ECDSA: "ECDSA", chain.EdDSA: "EDDSA_ED25519", chain.Taproot: "BIP340_TAPROOT", chain.Schnorr: "BIP340"}

// Transaction shows an unsigned transaction of a type of the interface in a part of its own, and answers its kind. The
// errors are those of chain.Reader, and of the view's interfaces.
func Transaction(v *show.View, typ string, unsigned []byte) (kind string, err error) {
	r := readers[typ]
	if r.chain == nil {
		return "", chain.Unsupported("of type %s", typ)
	}
	tx, err := r.chain.Read(unsigned, v.Signer())
	if err != nil {
		return "", err
	}
	return transaction(v, v.Part(), tx, r.encoding, unsigned)
}

func transaction(v *show.View, o *show.Object, tx chain.Transaction, encoding string, unsigned []byte) (kind string, err error) {
	o.Input(encoding, unsigned)
	list := o.List("signs")
	for _, d := range tx.Digests() {
		signs(v, list.Object(), d)
	}
	shown, ok := tx.(show.Transaction)
	if !ok {
		o.Unreadable(show.UnknownProgram, unsigned)
		return "TRANSACTION", nil
	}
	return shown.Kind(), shown.Show(v, o)
}

// signs tells what is signed: 32 bytes, or of a whole message the SHA-256, as app proofs have it.
func signs(v *show.View, o *show.Object, d chain.Digest) {
	by := v.Signer()
	scheme := schemes[d.Scheme]
	if d.Scheme == chain.ECDSA {
		scheme += "_SECP256K1"
		if by.Public.Curve() == chain.P256 {
			scheme = "ECDSA_P256"
		}
	}
	digest := d.Message
	if d.Scheme == chain.EdDSA {
		digest = show.Sum(digest)
	}
	o.Plain("scheme", scheme)
	o.Plain("digest", hex.EncodeToString(digest))
	if by.Address != "" {
		o.Plain("by", by.Address)
	} else {
		o.Plain("by", hex.EncodeToString(by.Public.Compressed()))
	}
}

// The encodings of payloads.
const (
	encodingTyped         = "PAYLOAD_ENCODING_EIP712"
	encodingAuthorization = "PAYLOAD_ENCODING_EIP7702_AUTHORIZATION"
)

// Payload shows a raw payload of an encoding and a hash function of the interface, and answers its kind. The errors are
// *fault.Error, as for a request to sign it.
func Payload(v *show.View, encoding, hash, payload string) (kind string, err error) {
	by := v.Signer()
	scheme := chain.SchemeOf(by.Format, by.Public.Curve())
	switch encoding {
	case encodingTyped:
		t, err := eth.ParseTypedData([]byte(payload))
		if err != nil {
			return "", err
		}
		o := begin(v, "JSON", []byte(payload), chain.Digest{Scheme: scheme, Message: bytesOf(t.Digest())})
		return "EIP712", eth.ShowTypedData(v, o, []byte(payload))
	case encodingAuthorization:
		a, err := eth.ParseAuthorization([]byte(payload))
		if err != nil {
			return "", err
		}
		o := begin(v, "JSON", []byte(payload), chain.Digest{Scheme: scheme, Message: bytesOf(a.Digest())})
		a.Show(v, o, by.Public)
		return "EIP7702_AUTHORIZATION", nil
	}
	b, err := keys.DecodePayload(encoding, payload)
	if err != nil {
		return "", err
	}
	h, err := keys.ParseHashFunction(hash)
	if err != nil {
		return "", err
	}
	digest, err := keys.Digest(by.Public.Curve(), h, b)
	if err != nil {
		return "", err
	}
	o := begin(v, "BYTES", b, chain.Digest{Scheme: scheme, Message: digest})
	return raw(v, o, h, b)
}

func bytesOf(d [32]byte) []byte { return d[:] }

func begin(v *show.View, encoding string, input []byte, d chain.Digest) *show.Object {
	o := v.Part()
	o.Input(encoding, input)
	signs(v, o.List("signs").Object(), d)
	return o
}

// digestSize is the size of what is taken for a hash: nobody can tell of what.
const digestSize = 32

// raw shows bytes, under the hash function that they are signed with: a message of Ethereum, a transaction in disguise, a
// hash, a text, or none of these.
func raw(v *show.View, o *show.Object, h keys.HashFunction, b []byte) (kind string, err error) {
	by := v.Signer()
	if message, ok := eth.MessageOf(b); ok && h == keys.HashKeccak256 {
		eth.ShowMessage(v, o, message, by.Public)
		return "ETHEREUM_MESSAGE", nil
	}
	const kindRaw = "RAW_PAYLOAD"
	if tx, encoding := asTransaction(h, b, by); tx != nil {
		o.Warn(show.MessageIsTransaction)
		shown := tx.(show.Transaction)
		o.Plain("is", shown.Kind())
		v.Title("Sign a transaction as bytes")
		of := o.Object("of")
		of.Input(encoding, b)
		return kindRaw, shown.Show(v, of)
	}
	v.Title("Sign bytes")
	switch typed := h == keys.HashKeccak256 && len(b) == 66 && b[0] == 0x19 && b[1] == 1; {
	case typed, len(b) == digestSize:
		o.Unreadable(show.Digest, b)
	case utf8.Valid(b) && len(b) > 0:
		o.Lines("lines", string(b))
	default:
		o.Unreadable(show.DoesNotDecode, b)
		o.Warn(show.BlindSignature)
		v.Blind()
	}
	return kindRaw, nil
}

// asTransaction reads bytes as a transaction whose signature theirs would be.
func asTransaction(h keys.HashFunction, b []byte, by chain.SigningKey) (chain.Transaction, string) {
	signer := chain.SigningKey{Public: by.Public} // whatever address was named: the signature is the key's
	try := func(r chain.Reader) chain.Transaction {
		if tx, err := r.Read(b, signer); err == nil {
			return tx
		}
		return nil
	}
	switch {
	case by.Public.Curve() == chain.Ed25519:
		if tx, err := sol.ReadMessage(b, by.Public); err == nil {
			return tx, "SOLANA_MESSAGE"
		}
	case h == keys.HashKeccak256:
		if tx := try(eth.Chain{}); tx != nil {
			return tx, "RLP"
		}
		if tx := try(tempo.Chain{}); tx != nil {
			return tx, "RLP"
		}
	case h == keys.HashSHA256:
		if tx := try(tron.Chain{}); tx != nil {
			return tx, "PROTOBUF"
		}
	}
	return nil, ""
}

// New begins a view of what is known, in which calls of contracts are read.
func New(known *show.Known) *show.View {
	k := *known
	k.Calls = eth.ShowCall
	return show.New(&k)
}
