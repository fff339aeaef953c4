package policytest_test

import (
	"fmt"
	"math/big"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"cloister/enclave/internal/policy/policytest"
)

// A generator makes organizations, policies and requests. The same seed makes the
// same ones.
type generator struct {
	*rand.Rand
	zones []*time.Location
}

func newGenerator(seed uint64) *generator {
	g := &generator{Rand: rand.New(rand.NewPCG(seed, 1))}
	for _, name := range []string{"America/New_York", "Europe/Paris", "Australia/Lord_Howe", "Asia/Kathmandu", "America/St_Johns", "Africa/Casablanca", "Pacific/Apia", "Antarctica/Troll",
		"America/Sao_Paulo", "Asia/Tehran", "Etc/UTC", "Africa/Cairo", "America/Caracas", "Pacific/Auckland", "Europe/Lisbon"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			panic(err)
		}
		g.zones = append(g.zones, zone)
	}
	return g
}

func (g *generator) chance(percent int) bool { return g.IntN(100) < percent }

func pick[T any](g *generator, from ...T) T { return from[g.IntN(len(from))] }

func (g *generator) hex(n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = "0123456789abcdef"[g.IntN(16)]
	}
	return string(b)
}

func (g *generator) uuid() string {
	return g.hex(8) + "-" + g.hex(4) + "-4" + g.hex(3) + "-a" + g.hex(3) + "-" + g.hex(12)
}

// Values of facts come from small pools, so that conditions written for one
// request can hold for another.
var (
	addresses = []string{"0x113e6debd9c0e655fe2e59e2f494bbe27a906c1f", "0xd0cb9206cce3988abc3ad441081f0a76efaaee5c", "0xa0b86991c6218b36c1d19d4a2e9eb0ce3606eb48"}
	base58    = []string{"GvLcpNSdQsn53G3Q6vUx1zwTsrrcrEget5gJh4S24UXv", "DP6Y5ux21Rvjs2T4X1aaL1EM9SgRX1soCPVTcPkAMuw", "11111111111111111111111111111111", "ADDRESS_TABLE_LOOKUP"}
	trons     = []string{"TNfL6D1eedhMBV9ZnPCyQZyaV2F3Yz7555", "TVqmNQUHbSePfCPnFDccj2zfJYXQ4dQao6"}
	labels    = []string{"treasury", "hot", "", "Größe", "日本"}
	walletIDs = []string{"e7d5dcb4-ff38-59ba-b324-329e25a2c37c", "da702bb5-c70d-552e-bde0-7a08ddf2a9a7"}
	allTags   = []string{"b2c4cf08-ed83-5e7b-aff9-915a5b1c9bca", "0ee9481d-0e7c-54bd-99dd-0f6d163d4bd2", "c0b93a45-6dc2-5d67-b0a9-2213851902b7"}
	credTypes = []string{"CREDENTIAL_TYPE_API_KEY_P256", "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR", "CREDENTIAL_TYPE_LOGIN", "CREDENTIAL_TYPE_API_KEY_SECP256K1", "CREDENTIAL_TYPE_OAUTH_KEY_P256"}
	names     = []string{"alice", "bob", "carol", "dave", "erin", "frank"}
)

// text is a text, in which an id ignores case.
func text(s string) any {
	return policytest.Text{Value: s, Hex: len(s) == 36 && strings.Count(s, "-") == 4}
}
func hexed(s string) any {
	return policytest.Text{Value: s, Hex: true}
}
func num(n int64) any { return big.NewInt(n) }

type (
	object = policytest.Struct
	table  = policytest.Map
)

func (g *generator) address() any { return hexed(pick(g, addresses...)) }
func (g *generator) key() any     { return text(pick(g, base58...)) }
func (g *generator) small() any   { return num(int64(g.IntN(5))) }
func (g *generator) flag() any    { return g.chance(50) }
func (g *generator) label() any   { return text(pick(g, labels...)) }
func (g *generator) texts(n int, from ...string) any {
	l := []any{}
	for range n {
		l = append(l, text(pick(g, from...)))
	}
	return l
}

func (g *generator) list(most int, item func() any) any {
	l := []any{}
	for range g.IntN(most + 1) {
		l = append(l, item())
	}
	return l
}

// rare is a list that mostly is empty.
func (g *generator) rare(item func() any) any {
	if g.chance(85) {
		return []any{}
	}
	return g.list(2, item)
}

// amount is a number, rarely one that no int can be.
func (g *generator) amount() any {
	switch g.IntN(30) {
	case 0:
		return new(big.Int).Lsh(big.NewInt(1), uint(126+g.IntN(3)))
	case 1:
		return new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 127), big.NewInt(int64(g.IntN(3))))
	case 2:
		return new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1+int64(g.IntN(3))))
	}
	return pick(g, num(0), num(1), num(7), num(21000), num(1000000000000000000), num(int64(g.IntN(1000))))
}

// dynamic is a value as contracts and typed data have them.
func (g *generator) dynamic(depth int) any {
	switch n := g.IntN(11); {
	case n < 3:
		return g.amount()
	case n == 3:
		return num(-int64(g.IntN(50)))
	case n == 4:
		return g.flag()
	case n == 5:
		return g.address()
	case n == 6:
		return pick(g, text("rent 2026"), text("7"), text("0"), text(""), text("Abc"))
	case depth > 2:
		return g.address()
	case n < 9:
		like := g.dynamic(depth + 1)
		if g.chance(20) {
			return g.list(3, func() any { return g.dynamic(depth + 1) })
		}
		return g.list(4, func() any {
			switch like.(type) {
			case *big.Int:
				return g.small()
			case policytest.Text:
				return g.address()
			}
			return like
		})
	}
	return g.args(depth + 1)
}

func (g *generator) args(depth int) any {
	m := table{}
	for _, k := range []string{"to", "value", "data", "spender", "permitted", "nonce", "flag"} {
		if g.chance(60) {
			m[k] = g.dynamic(depth)
		}
	}
	if g.chance(30) {
		m["nothing"] = nil
	}
	return m
}

func (g *generator) wallet() any {
	return object{"id": text(pick(g, walletIDs...)), "imported": g.flag(), "exported": g.flag(), "label": g.label()}
}

func (g *generator) account() any {
	indexes, hardened := []any{num(44), num(pick(g, int64(60), 501, 0, 195))}, []any{true, true}
	for range g.IntN(4) {
		indexes, hardened = append(indexes, g.small()), append(hardened, g.flag())
	}
	return object{"address": pick(g, hexed("0x857bAD280D39f6f6AD00316f106adEfE90a2346d"), g.key()), "path_indexes": indexes, "path_hardened": hardened}
}

func (g *generator) privateKey() any {
	return object{"id": text(pick(g, walletIDs...)), "tags": g.texts(g.IntN(3), allTags...), "imported": g.flag(), "exported": g.flag(), "label": g.label()}
}

func (g *generator) ethTx() any {
	tx := object{"from": g.address(), "to": pick(g, g.address(), g.address(), text("")), "data": hexed("0x" + pick(g, "", "a9059cbb", "a9059cbb"+g.hex(24))),
		"type": text(pick(g, "LEGACY", "TYPE_1", "TYPE_2")), "function_name": text(""), "function_signature": hexed("")}
	for _, k := range []string{"value", "gas", "gas_price", "chain_id", "nonce", "max_fee_per_gas", "max_priority_fee_per_gas", "max_fee_per_blob_gas"} {
		tx[k] = g.amount()
	}
	if g.chance(60) {
		tx["function_name"], tx["function_signature"], tx["contract_call_args"] = text("transfer"), hexed("0xa9059cbb"), g.args(0)
	}
	return tx
}

func (g *generator) lookups() any {
	return g.list(2, func() any {
		return object{"address_table_key": g.key(), "writable_indexes": g.list(3, g.small), "readonly_indexes": g.list(3, g.small)}
	})
}

func (g *generator) solanaTx() any {
	return object{
		"account_keys": g.texts(1+g.IntN(4), base58...), "program_keys": g.texts(g.IntN(3), base58...), "recent_blockhash": g.key(), "address_table_lookups": g.lookups(),
		"instructions": g.list(3, func() any {
			i := object{"program_key": g.key(), "instruction_data_hex": hexed(pick(g, "02000000", "02000000002f6859", "")), "address_table_lookups": g.lookups(),
				"accounts": g.list(3, func() any { return object{"account_key": g.key(), "signer": g.flag(), "writable": g.flag()} })}
			if g.chance(50) {
				i["parsed_instruction_data"] = object{"instruction_name": text(pick(g, "route", "swap")), "discriminator": hexed("e517cb977ae3ad2a"),
					"named_accounts": table{"authority": g.key()}, "program_call_args": g.args(0)}
			}
			return i
		}),
		"transfers": g.list(2, func() any { return object{"from": g.key(), "to": g.key(), "amount": g.amount()} }),
		"authorities": g.rare(func() any {
			return object{"account": g.key(), "type": text(pick(g, "OWNER_PROGRAM", "NONCE")), "authority": g.key()}
		}),
		"spl_transfers": g.list(2, func() any {
			return object{"from": g.key(), "to": g.key(), "amount": g.amount(), "owner": g.key(), "signers": g.texts(g.IntN(2), base58...), "token_mint": pick(g, g.key(), text(""))}
		}),
		"spl_approvals": g.rare(func() any {
			return object{"from": g.key(), "delegate": g.key(), "amount": g.amount(), "owner": g.key(), "signers": g.texts(g.IntN(2), base58...), "token_mint": pick(g, g.key(), text(""))}
		}),
		"spl_authorities": g.rare(func() any {
			return object{"account": g.key(), "type": text(pick(g, "ACCOUNT_OWNER", "MINT_TOKENS")), "authority": pick(g, g.key(), text("")), "owner": g.key(), "signers": g.texts(g.IntN(2), base58...)}
		}),
		"spl_closes": g.rare(func() any {
			return object{"account": g.key(), "to": g.key(), "owner": g.key(), "signers": g.texts(g.IntN(2), base58...)}
		}),
		"spl_burns": g.rare(func() any {
			return object{"from": g.key(), "amount": g.amount(), "owner": g.key(), "signers": g.texts(g.IntN(2), base58...), "token_mint": g.key()}
		}),
		"spl_others": g.rare(func() any {
			return object{"program_key": g.key(), "instruction_data_hex": hexed(pick(g, "07", "1b07", ""))}
		}),
	}
}

func (g *generator) bitcoinTx() any {
	return object{"version": text("2"), "fee": g.amount(), "locktime": object{"amount": g.amount(), "type": text(pick(g, "Blocks", "Seconds"))},
		"inputs": g.list(2, func() any { return object{"tx_id": hexed(g.hex(64)), "vout": g.small(), "sequence": g.amount()} }),
		"outputs": g.list(3, func() any {
			return object{"value": g.amount(), "script_pubkey": hexed("0014" + g.hex(8)), "address": text(pick(g, "bc1qs690yh8mlz3gu8m7rsawm44smhu92me76mtd36", "")),
				"address_type": text(pick(g, "P2WPKH", "P2TR"))}
		})}
}

func (g *generator) permission() any {
	return object{"type": text("Owner"), "id": g.small(), "permission_name": text("owner"), "threshold": g.small(), "parent_id": g.small(), "operations": text("7f"),
		"keys": g.list(2, func() any { return object{"address": text(pick(g, trons...)), "weight": g.small()} })}
}

func (g *generator) tronTx() any {
	c := object{"type": text("TransferContract"), "permission_id": g.small(), "owner_address": text(pick(g, trons...))}
	switch g.IntN(4) {
	case 0:
		c["to_address"], c["amount"] = text(pick(g, trons...)), g.amount()
	case 1:
		c["type"], c["contract_address"], c["call_value"], c["data"] = text("TriggerSmartContract"), text(pick(g, trons...)), g.amount(), hexed("a9059cbb")
		c["call_token_value"], c["token_id"] = g.small(), g.small()
	case 2:
		c["type"], c["receiver_address"], c["lock"], c["lock_period"] = text("DelegateResourceContract"), text(pick(g, trons...)), g.flag(), g.small()
		c["balance"], c["resource"] = g.amount(), text("ENERGY")
	case 3:
		c["type"], c["owner"], c["actives"] = text("AccountPermissionUpdateContract"), g.permission(), []any{g.permission()}
	}
	return object{"ref_block_bytes": hexed("5be7"), "ref_block_hash": hexed("a1b2c3d4e5f60718"), "expiration": g.amount(), "timestamp": g.amount(), "data": text(""), "fee_limit": g.amount(),
		"contract": []any{c}}
}

func (g *generator) tempoTx() any {
	tx := object{"from": g.address(), "fee_token": g.address(), "calls": g.list(2, func() any {
		return object{"to": pick(g, g.address(), text("")), "input": hexed("0xa9059cbb"), "function_signature": hexed(pick(g, "0xa9059cbb", ""))}
	})}
	for _, k := range []string{"chain_id", "nonce", "gas_limit", "max_fee_per_gas", "max_priority_fee_per_gas", "valid_before", "valid_after"} {
		tx[k] = g.amount()
	}
	return tx
}

func (g *generator) eip712() any {
	return object{"primary_type": text(pick(g, "Permit", "Order")), "message": g.args(0),
		"domain": object{"name": text("Permit2"), "version": text("1"), "chain_id": g.amount(), "verifying_contract": g.address()}}
}

func (g *generator) derivation() any {
	return object{"type": text(pick(g, "signing_leaf", "static_deposit", "identity")), "signing_leaf": object{"leaf_id": text(pick(g, "leaf-1", ""))},
		"static_deposit": object{"index": g.small()}}
}

func (g *generator) recipients() any {
	return g.list(2, func() any { return object{"operator_id": text("op"), "encryption_public_key": hexed("02aa")} })
}

// target puts a wallet account or a private key under the facts.
func (g *generator) target(facts map[string]any) map[string]any {
	if g.chance(70) {
		facts["wallet"], facts["wallet_account"] = g.wallet(), g.account()
	} else {
		facts["private_key"] = g.privateKey()
	}
	return facts
}

// templates make requests of one kind each, without who asks and when.
var templates = []func(g *generator) policytest.Request{
	func(g *generator) policytest.Request { return g.transaction("ETHEREUM", "eth.tx", g.ethTx()) },
	func(g *generator) policytest.Request { return g.transaction("ETHEREUM", "eth.tx", g.ethTx()) },
	func(g *generator) policytest.Request { return g.transaction("SOLANA", "solana.tx", g.solanaTx()) },
	func(g *generator) policytest.Request { return g.transaction("SOLANA", "solana.tx", g.solanaTx()) },
	func(g *generator) policytest.Request { return g.transaction("BITCOIN", "bitcoin.tx", g.bitcoinTx()) },
	func(g *generator) policytest.Request { return g.transaction("TRON", "tron.tx", g.tronTx()) },
	func(g *generator) policytest.Request { return g.transaction("TEMPO", "tempo.tx", g.tempoTx()) },
	func(g *generator) policytest.Request { return g.payload("EIP712", "eth.eip_712", g.eip712()) },
	func(g *generator) policytest.Request { return g.payload("EIP712", "eth.eip_712", g.eip712()) },
	func(g *generator) policytest.Request {
		return g.payload("EIP7702_AUTHORIZATION", "eth.eip_7702_authorization", object{"address": g.address(), "chain_id": g.small(), "nonce": g.amount()})
	},
	func(g *generator) policytest.Request { return g.payload("HEXADECIMAL", "", nil) },
	func(g *generator) policytest.Request {
		return ask("ETH_SEND_TRANSACTION", "", "PRIVATE_KEY", "SIGN", object{}, g.target(map[string]any{"eth.tx": g.ethTx()}))
	},
	func(g *generator) policytest.Request {
		return ask("EXPORT_WALLET_ACCOUNT", "", "WALLET", "EXPORT", object{"target_public_key": text("04beef")}, map[string]any{"wallet": g.wallet(), "wallet_account": g.account()})
	},
	func(g *generator) policytest.Request {
		return ask("EXPORT_PRIVATE_KEY", "", "PRIVATE_KEY", "EXPORT", object{"target_public_key": text("04beef")}, map[string]any{"private_key": g.privateKey()})
	},
	func(g *generator) policytest.Request {
		return ask("DELETE_WALLETS", "", "WALLET", "DELETE", object{}, map[string]any{"wallets": g.list(3, g.wallet)})
	},
	func(g *generator) policytest.Request {
		return ask("DELETE_USERS", "", "USER", "DELETE", object{"user_ids": g.texts(g.IntN(3), walletIDs...)}, nil)
	},
	(*generator).createKeys, (*generator).createKeys, (*generator).createKeys,
	func(g *generator) policytest.Request {
		r := ask("DELETE_API_KEYS", "", "CREDENTIAL", "DELETE", object{"user_id": text(pick(g, walletIDs...)), "api_key_ids": g.texts(1, walletIDs...)}, nil)
		r.Self = g.chance(70)
		return r
	},
	func(g *generator) policytest.Request {
		r := ask("STAMP_LOGIN", "", "AUTH", "CREATE", object{"session_profile_id": text("")}, nil)
		r.Self = g.chance(80)
		return r
	},
	func(g *generator) policytest.Request {
		return ask("CREATE_WALLET", "", "WALLET", "CREATE", nil, nil)
	},
	func(g *generator) policytest.Request {
		return ask("UPDATE_WALLET", "", "WALLET", "UPDATE", object{"wallet_id": text(pick(g, walletIDs...))}, nil)
	},
	func(g *generator) policytest.Request {
		return ask("CREATE_POLICY", "_V3", "POLICY", "CREATE", object{}, nil)
	},
	func(g *generator) policytest.Request {
		return ask("INIT_OTP_AUTH", "_V3", "AUTH", "CREATE", object{"otp_length": num(int64(6 + g.IntN(4)))}, nil)
	},
	func(g *generator) policytest.Request {
		return ask("UPDATE_WEBHOOK_ENDPOINT", "", "WEBHOOK_ENDPOINT", "UPDATE", object{"endpoint_id": text(pick(g, walletIDs...))}, nil)
	},
	func(g *generator) policytest.Request {
		r := ask("INIT_IMPORT_WALLET", "", "WALLET", "IMPORT", object{}, nil)
		r.Foreign = g.chance(30)
		return r
	},
	func(g *generator) policytest.Request {
		r := ask("UPDATE_ROOT_QUORUM", "", "", "", object{}, nil)
		r.RootQuorum = true
		return r
	},
	func(g *generator) policytest.Request {
		return ask("EXPORT_SECRET", "", "SECRET", "EXPORT", object{}, map[string]any{"secret": object{"static_properties": table{"env": text("prod"), "team": text("")}}})
	},
	func(g *generator) policytest.Request {
		return ask("SPARK_SIGN_FROST", "", "PRIVATE_KEY", "SIGN", object{"sign_with": text("sp1"), "signatures": g.list(3, func() any {
			return object{"derivation": g.derivation(), "message": hexed("aa"), "verifying_key": hexed("02"), "adaptor_public_key": hexed(pick(g, "", "02aa")),
				"operator_commitments": g.list(2, func() any { return object{"id": hexed("1"), "hiding": hexed("02"), "binding": hexed("03")} })}
		})}, nil)
	},
	func(g *generator) policytest.Request {
		return ask("SPARK_PREPARE_TRANSFER", "", "PRIVATE_KEY", "SIGN", object{"sign_with": text("sp1"), "transfer": object{"transfer_id": hexed("t"), "threshold": g.small(),
			"operator_recipients": g.recipients(), "receiver_public_key": hexed(pick(g, "03aa", "03bb")),
			"leaves": g.list(2, func() any {
				return object{"leaf_id": text("leaf-1"), "old_leaf_derivation": g.derivation(), "new_leaf_derivation": g.derivation()}
			})}}, nil)
	},
	func(g *generator) policytest.Request {
		return ask("SPARK_CLAIM_TRANSFER", "", "PRIVATE_KEY", "SIGN", object{"sign_with": text("sp1"), "claim": object{"transfer_id": hexed("t"), "threshold": g.small(),
			"operator_recipients": g.recipients(), "sender_identity_public_key": hexed("02aa"),
			"leaves": g.list(2, func() any {
				return object{"leaf_id": text("leaf-1"), "ciphertext": hexed("aa"), "sender_signature": hexed("bb")}
			})}}, nil)
	},
}

func (g *generator) createKeys() policytest.Request {
	r := ask("CREATE_API_KEYS", "_V2", "CREDENTIAL", "CREATE", object{"user_id": text(pick(g, walletIDs...))}, nil)
	r.Self = g.chance(70)
	return r
}

func ask(kind, version, resource, action string, params any, facts map[string]any) policytest.Request {
	return policytest.Request{Type: "ACTIVITY_TYPE_" + kind + version, Kind: kind, Resource: resource, Action: action, Params: params, Facts: facts}
}

func (g *generator) transaction(chain, root string, tx any) policytest.Request {
	return ask("SIGN_TRANSACTION", "_V2", "PRIVATE_KEY", "SIGN", object{"type": text("TRANSACTION_TYPE_" + chain)}, g.target(map[string]any{root: tx}))
}

func (g *generator) payload(encoding, root string, v any) policytest.Request {
	facts := g.target(map[string]any{})
	if root != "" {
		facts[root] = v
	}
	return ask("SIGN_RAW_PAYLOAD", pick(g, "_V2", "S"), "PRIVATE_KEY", "SIGN",
		object{"hash_function": text(pick(g, "HASH_FUNCTION_NO_OP", "HASH_FUNCTION_KECCAK256")), "encoding": text("PAYLOAD_ENCODING_" + encoding)}, facts)
}

// A scenario is an organization with its policies, as they are written, and
// requests that were made of it. Their scopes stand beside them.
type scenario struct {
	org      policytest.Organization
	policies []source
	requests []policytest.Request
	scopes   []string
}

func (g *generator) scenario() (s scenario) {
	s.org = g.organization()
	template := pick(g, templates...)
	now := g.now()
	for i := range 3 {
		if i == 2 && g.chance(50) {
			template = pick(g, templates...)
		}
		r := template(g)
		if g.chance(5) { // something that should be there is not
			for _, root := range sorted(r.Facts) {
				if g.chance(50) {
					delete(r.Facts, root)
				}
			}
		}
		if g.chance(50) {
			now = now.Add(time.Duration(g.IntN(3*24*60)-24*60) * time.Minute)
		}
		r.Now = now
		g.votes(s.org, &r)
		s.requests = append(s.requests, r)
		scope := ""
		if g.chance(8) {
			scope = g.condition(r)
		}
		s.scopes = append(s.scopes, scope)
	}
	for range pick(g, 1, 2, 3+g.IntN(10), 3+g.IntN(10), 3+g.IntN(10)) {
		s.policies = append(s.policies, g.policy(s.org, pick(g, s.requests...)))
	}
	return s
}

func (g *generator) organization() (o policytest.Organization) {
	for i := range pick(g, 1, 2, 3, 4, 5, 6, 5, 6) {
		u := policytest.User{ID: g.uuid(), Name: names[i]}
		if g.chance(80) {
			u.Email = names[i] + "@example.com"
		}
		for _, tag := range allTags {
			if g.chance(40) {
				u.Tags = append(u.Tags, tag)
			}
		}
		for range pick(g, 0, 1, 1, 1, 1, 2, 2, 3) {
			u.Credentials = append(u.Credentials, g.credential(u.ID))
		}
		o.Users = append(o.Users, u)
	}
	slices.SortFunc(o.Users, func(a, b policytest.User) int { return strings.Compare(a.ID, b.ID) })
	for _, i := range g.Perm(len(o.Users))[:1+g.IntN(min(3, len(o.Users)))] {
		o.Root = append(o.Root, o.Users[i].ID)
	}
	o.Threshold = max(1, len(o.Root)+pick(g, -1, 0, 0, 0, 1))
	return o
}

func (g *generator) credential(user string) policytest.Credential {
	c := policytest.Credential{ID: g.uuid(), User: user, Type: pick(g, credTypes...), PublicKey: "02" + g.hex(12)}
	if c.Type == "CREDENTIAL_TYPE_WEBAUTHN_AUTHENTICATOR" {
		c.CredentialID = g.hex(8)
	}
	return c
}

const lapsed = 10 // percent

func (g *generator) votes(o policytest.Organization, r *policytest.Request) {
	order := g.Perm(len(o.Users))
	if i := slices.IndexFunc(order, func(u int) bool { return !slices.Contains(o.Root, o.Users[u].ID) }); i > 0 && g.chance(70) {
		order[0], order[i] = order[i], order[0] // mostly somebody else than root asks
	}
	for n, i := range order {
		u := o.Users[i]
		switch {
		case n == 0 || n < 3 && g.chance(15):
			v := policytest.Vote{User: u.ID}
			for _, c := range u.Credentials {
				if len(v.Credentials) == 0 || g.chance(20) {
					v.Credentials = append(v.Credentials, c)
				}
			}
			if len(v.Credentials) == 0 { // revoked since
				v.Credentials = append(v.Credentials, g.credential(u.ID))
			}
			r.Votes = append(r.Votes, v)
		case g.chance(8):
			r.Rejected = append(r.Rejected, u.ID)
		}
	}
	if len(r.Votes) > 1 && g.chance(lapsed) { // the initiator's approval has lapsed
		r.Initiator = r.Votes[0].User
		r.Votes = r.Votes[1:]
	}
	// A root-quorum activity whose quorum cannot come waits by the page, which
	// speaks of no exception, and is denied by the engine: it is not asked for here.
	possible := 0
	for _, u := range o.Users {
		voted := slices.ContainsFunc(r.Votes, func(v policytest.Vote) bool { return v.User == u.ID })
		if slices.Contains(o.Root, u.ID) && (voted || len(u.Credentials) > 0 && !slices.Contains(r.Rejected, u.ID)) {
			possible++
		}
	}
	if possible < o.Threshold {
		r.RootQuorum = false
	}
}

// now is a time, mostly near a change of some zone's clocks.
func (g *generator) now() time.Time {
	t := time.Date(2000+g.IntN(37), 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(g.IntN(365*24*60)) * time.Minute)
	if g.chance(60) {
		if _, end := t.In(pick(g, g.zones...)).ZoneBounds(); !end.IsZero() {
			t = end.Add(time.Duration(g.IntN(3*24*60)-24*60) * time.Minute)
		}
	}
	if g.chance(30) {
		t = t.Add(time.Duration(g.IntN(60000)) * time.Millisecond)
	}
	return t.UTC()
}

func (g *generator) policy(o policytest.Organization, r policytest.Request) (s source) {
	s.Deny = g.chance(30)
	if g.chance(80) {
		s.Condition = g.condition(r)
	}
	switch {
	case s.Deny && g.chance(50):
	case !s.Deny && g.chance(55) && len(o.Users) > len(r.Votes):
		s.Consensus = g.waiting(o, r)
	case g.chance(65):
		s.Consensus = g.consensus(o, r)
	}
	if g.chance(20) {
		s.Time = g.time(r.Now)
	}
	for _, clause := range []*string{&s.Condition, &s.Consensus, &s.Time} {
		if *clause != "" && g.chance(3) {
			*clause = g.spoil(*clause)
		}
	}
	return s
}

// condition is an expression about what r is, mostly true of it.
func (g *generator) condition(r policytest.Request) string {
	var parts []string
	paths := g.paths(r)
	for range pick(g, 1, 1, 1, 2, 2, 3) {
		p := pick(g, paths...)
		if g.chance(50) {
			p = pick(g, g.activity(r)...)
		}
		want := g.chance(96)
		if g.chance(3) { // of another kind of request, which is an error here, or not
			p, want = pick(g, g.paths(pick(g, templates...)(g))...), g.chance(50)
		}
		parts = append(parts, g.atom(p, want, 0))
	}
	if g.chance(8) {
		parts[0] = g.wildCondition(r)
	}
	return g.join(parts)
}

// join makes one expression of several that are each mostly true.
func (g *generator) join(parts []string) string {
	out := parts[0]
	for _, p := range parts[1:] {
		switch n := g.IntN(20); {
		case n < 13:
			out = out + g.space("&&") + p
		case n < 16:
			out = out + g.space("||") + p
		case n < 18:
			out = "(" + out + g.space("||") + p + ")"
		case n < 19:
			out = "!(" + out + g.space("&&") + p + ")"
		default:
			out = "(" + p + ") == (" + out + ")"
		}
	}
	if g.chance(5) {
		out = "!!(" + out + ")"
	}
	return out
}

// space puts space around an operator, or none.
func (g *generator) space(op string) string {
	switch g.IntN(8) {
	case 0:
		return op
	case 1:
		return "\n\t" + op + "  "
	}
	return " " + op + " "
}

// path is an expression and the value it has.
type path struct {
	expr    string
	value   any
	dynamic bool // typed by data alone
}

func (g *generator) activity(r policytest.Request) []path {
	kind := r.Kind
	if r.RootQuorum {
		kind = ""
	}
	return []path{{expr: "activity.type", value: text(r.Type)}, {expr: "activity.kind", value: text(kind)}, {expr: "activity.resource", value: text(r.Resource)},
		{expr: "activity.action", value: text(r.Action)}}
}

// paths are expressions that can be written about a request.
func (g *generator) paths(r policytest.Request) []path {
	out := g.activity(r)
	if p, ok := r.Params.(object); ok && len(p) > 0 {
		out = append(out, g.below(path{expr: "activity.params", value: r.Params}, 0)...)
	}
	for _, root := range sorted(r.Facts) {
		out = append(out, g.below(path{expr: root, value: r.Facts[root]}, 0)...)
	}
	return out
}

// below are p, if something can be asked of it, and what is in it.
func (g *generator) below(p path, depth int) (out []path) {
	switch v := p.value.(type) {
	case object:
		for _, name := range sorted(v) {
			in := path{expr: p.expr + "." + name, value: v[name]}
			in.dynamic = name == "chain_id" && strings.HasSuffix(p.expr, "authorization") || name == "nonce" && strings.HasSuffix(p.expr, "authorization")
			out = append(out, g.below(in, depth+1)...)
			if name == "named_accounts" {
				out = append(out, g.below(path{expr: p.expr + ".named_account", value: v[name]}, depth+1)...)
			}
		}
		return out
	case table:
		dynamic := p.dynamic || strings.HasSuffix(p.expr, "_args") || strings.HasSuffix(p.expr, "message")
		for _, name := range sorted(v) {
			out = append(out, g.below(path{p.expr + "['" + name + "']", v[name], dynamic}, depth+1)...)
		}
		if g.chance(20) {
			out = append(out, path{p.expr + "['missing']", nil, dynamic})
		}
		return out
	case []any:
		for i, item := range v {
			out = append(out, g.below(path{fmt.Sprintf("%s[%d]", p.expr, i), item, p.dynamic}, depth+1)...)
		}
		if g.chance(10) {
			out = append(out, path{fmt.Sprintf("%s[%d]", p.expr, len(v)), nil, true})
		}
	}
	return append(out, p)
}

var variables = []string{"x", "item", "_t", "user2", "i"}

// atom is an expression about p that is true, or false, if nothing goes wrong.
func (g *generator) atom(p path, want bool, depth int) string {
	if g.chance(6) {
		return "!(" + g.atom(p, !want, depth) + ")"
	}
	switch v := p.value.(type) {
	case bool:
		return g.boolAtom(p.expr, v, want)
	case *big.Int:
		return g.intAtom(p, v, want)
	case policytest.Text:
		return g.textAtom(p, v, want)
	case []any:
		return g.listAtom(p, v, want, depth)
	case object:
		if paths := g.below(p, 0); len(paths) > 0 {
			return g.atom(pick(g, paths...), want, depth+1)
		}
	case table:
		if paths := g.below(p, 0); len(paths) > 0 {
			return g.atom(pick(g, paths...), want, depth+1)
		}
	}
	if p.value == nil { // missing, whatever it would be
		return p.expr + pick(g, " == ''", " != 'a'", " in ['a', 'b']")
	}
	return pick(g, "true", "1 < 2")
}

func (g *generator) boolAtom(expr string, v, want bool) string {
	switch g.IntN(5) {
	case 0:
		return fmt.Sprint(expr, g.space("=="), v == want)
	case 1:
		return fmt.Sprint(expr, g.space("!="), v != want)
	case 2:
		return fmt.Sprint(expr, " in [", v == want, "]")
	}
	if v == want {
		return expr
	}
	return "!" + expr
}

// literal writes a number, held to what can be written.
func literal(n *big.Int) string {
	if least := new(big.Int).Neg(new(big.Int).Lsh(big.NewInt(1), 126)); n.Cmp(least) < 0 {
		n = least
	}
	if most := new(big.Int).Sub(new(big.Int).Lsh(big.NewInt(1), 256), big.NewInt(1)); n.Cmp(most) > 0 {
		n = most
	}
	return n.String()
}

func plus(n *big.Int, k int64) *big.Int { return new(big.Int).Add(n, big.NewInt(k)) }

func (g *generator) intAtom(p path, n *big.Int, want bool) string {
	k := int64(g.IntN(3))
	if p.dynamic && g.chance(30) { // numbers as text
		switch g.IntN(10) {
		case 0:
			return p.expr + pick(g, " == 'abc'", " == '07'", " == ' 7'", " == '-0'", " == '+1'", " == ''", " == true", " == activity.type")
		case 1:
			return p.expr + " in ['" + literal(n) + "', '" + literal(plus(n, 1)) + "']"
		case 2:
			return "['" + literal(n) + "'].contains(" + p.expr + ")"
		}
		if want {
			return pick(g, p.expr+" == '"+literal(n)+"'", "'"+literal(n)+"' == "+p.expr, p.expr+" != '"+literal(plus(n, 1))+"'")
		}
		return pick(g, p.expr+" == '"+literal(plus(n, 1))+"'", p.expr+" != '"+literal(n)+"'")
	}
	switch g.IntN(9) {
	case 0:
		return p.expr + " in [" + literal(plus(n, 1)) + ", " + literal(plus(n, btoi(!want)*7)) + "]"
	case 1:
		return "[" + literal(plus(n, btoi(!want))) + g.space(",") + "3,].contains(" + p.expr + ")"
	case 2:
		if want {
			return literal(plus(n, k)) + g.space(">=") + p.expr
		}
		return literal(plus(n, k)) + g.space("<") + p.expr
	}
	if want {
		return p.expr + pick(g, g.space("==")+literal(n), g.space("<=")+literal(plus(n, k)), g.space(">=")+literal(plus(n, -k)), g.space("!=")+literal(plus(n, k+1)),
			g.space("<")+literal(plus(n, k+1)), g.space(">")+literal(plus(n, -k-1)))
	}
	return p.expr + pick(g, g.space("!=")+literal(n), g.space("<")+literal(plus(n, -k)), g.space(">")+literal(plus(n, k)), g.space("==")+literal(plus(n, k+1)))
}

func btoi(b bool) int64 {
	if b {
		return 1
	}
	return 0
}

// quoted writes text as a literal, hexadecimal text in any case.
func (g *generator) quoted(t policytest.Text, s string) string {
	if t.Hex && g.chance(40) {
		s = strings.ToUpper(s)
	}
	return "'" + s + "'"
}

func (g *generator) textAtom(p path, t policytest.Text, want bool) string {
	chars := []rune(t.Value)
	eq, other := g.space("=="), "'other'"
	if !want {
		eq = g.space("!=")
	}
	if p.dynamic && g.chance(3) {
		return pick(g, "activity.kind"+eq+p.expr, "["+p.expr+", 'a'].contains('a')", "'a' in ["+p.expr+", 1]", "['a', "+p.expr+"][1]"+eq+p.expr, p.expr+"["+p.expr+"]"+eq+"'a'")
	}
	if p.dynamic && g.chance(6) {
		return p.expr + pick(g, " == 1", " == true", ".count() == 1", "['key'] == 1", ".contains('a')", " > 1")
	}
	if g.chance(3) && strings.ContainsFunc(t.Value, func(r rune) bool { return r > 'f' && r != 'x' }) { // of another case, which only hexadecimal text does not mind
		return p.expr + eq + "'" + strings.ToUpper(t.Value) + "'"
	}
	switch n := g.IntN(14); {
	case n < 4:
		return p.expr + eq + g.quoted(t, t.Value)
	case n == 4:
		return g.quoted(t, t.Value) + eq + p.expr
	case n == 5 && want:
		return p.expr + g.space("!=") + other
	case n == 6 && want:
		return p.expr + " in [" + other + g.space(",") + g.quoted(t, t.Value) + "]"
	case n == 7 && want:
		return "[" + g.quoted(t, t.Value) + ", " + other + "].contains(" + p.expr + ")"
	case n == 8:
		return p.expr + eq + p.expr
	case n < 11 && len(chars) > 0:
		a := g.IntN(len(chars))
		b := a + g.IntN(len(chars)-a+1)
		return fmt.Sprintf("%s[%d..%d]%s%s", p.expr, a, b, eq, g.quoted(t, string(chars[a:b])))
	case n == 11 && len(chars) > 0:
		a := g.IntN(len(chars))
		return fmt.Sprintf("%s[%d]%s%s", p.expr, a, eq, g.quoted(t, string(chars[a])))
	case n == 12 && g.chance(30):
		return fmt.Sprintf("%s[%d..%d]%s''", p.expr, g.IntN(3), len(chars)+g.IntN(2), pick(g, "!=", "=="))
	}
	return p.expr + eq + g.quoted(t, t.Value)
}

func (g *generator) listAtom(p path, l []any, want bool, depth int) string {
	length := path{expr: p.expr + pick(g, ".count()", ".count()", ".count"), value: big.NewInt(int64(len(l)))}
	if g.chance(35) || len(l) == 0 && g.chance(50) || depth > 2 {
		return g.intAtom(length, length.value.(*big.Int), want)
	}
	v := pick(g, variables...)
	if g.chance(80) { // or hides the one outside
		v += strings.Repeat("_", depth)
	}
	if len(l) == 0 {
		if want {
			return p.expr + ".all(" + v + ", " + pick(g, "true", "false", "1 == 2") + ")"
		}
		return p.expr + ".any(" + v + ", " + pick(g, "true", "1 == 1") + ")"
	}
	item := pick(g, l...)
	in := func(want bool) string { return g.atom(path{v, item, p.dynamic}, want, depth+1) }
	switch g.IntN(9) {
	case 0, 1:
		return p.expr + ".any(" + v + g.space(",") + in(want) + ")"
	case 2:
		return p.expr + ".all(" + v + ", " + in(want) + ")"
	case 3:
		return p.expr + ".filter(" + v + ", " + in(true) + ").count()" + g.space(pick(g, ">=", "==", "<=")) + fmt.Sprint(1+g.IntN(2))
	case 4:
		return p.expr + ".filter(" + v + ", " + in(true) + ").any(" + v + ", " + in(want) + ")"
	case 5:
		a := g.IntN(len(l) + 1)
		b := a + g.IntN(len(l)+1-a)
		return g.intAtom(path{expr: fmt.Sprintf("%s[%d..%d].count()", p.expr, a, b)}, big.NewInt(int64(b-a)), want)
	case 6:
		i := g.IntN(len(l))
		return g.atom(path{fmt.Sprintf("%s[%d]", p.expr, i), l[i], p.dynamic}, want, depth+1)
	case 7:
		switch x := item.(type) {
		case policytest.Text:
			return pick(g, p.expr+".contains("+g.quoted(x, x.Value)+")", g.quoted(x, x.Value)+" in "+p.expr)
		case *big.Int:
			return pick(g, p.expr+".contains("+literal(x)+")", literal(x)+" in "+p.expr)
		case bool:
			return fmt.Sprint(p.expr, ".contains(", x, ")")
		}
	}
	return p.expr + ".any(" + v + ", " + in(want) + ")"
}

// consensus is an expression about who votes.
func (g *generator) consensus(o policytest.Organization, r policytest.Request) string {
	var parts []string
	for range pick(g, 1, 1, 1, 2, 2, 3) {
		parts = append(parts, g.agreement(o, r))
	}
	if g.chance(8) {
		parts[0] = g.wildConsensus(o)
	}
	return g.join(parts)
}

// waiting is a consensus that who asks counts towards and that needs another one.
func (g *generator) waiting(o policytest.Organization, r policytest.Request) string {
	silent := slices.DeleteFunc(slices.Clone(o.Users), func(u policytest.User) bool {
		return slices.ContainsFunc(r.Votes, func(v policytest.Vote) bool { return v.User == u.ID })
	})
	u, first := pick(g, silent...), r.Votes[0].User
	other := pick(g, "approvers.any(u, u.id == '"+u.ID+"')", "credentials.any(c, c.user_id == '"+u.ID+"')", "approvers.any(x, x.alias == '"+u.Name+"')",
		fmt.Sprintf("approvers.count()%s%d", g.space(">="), len(r.Votes)+1), fmt.Sprintf("approvers.filter(x, x.alias != '').count() > %d", len(r.Votes)), g.agreement(o, r))
	own := pick(g, "approvers.any(u, u.id == '"+first+"')", "credentials.any(c, c.user_id == '"+first+"')", "approvers.filter(x, x.id in ['"+first+"']).count() == 1",
		fmt.Sprintf("approvers.count() >= %d", len(r.Votes)+1), g.agreement(o, r))
	if g.chance(25) {
		return other
	}
	if g.chance(15) {
		return g.join([]string{own, other, g.agreement(o, r)})
	}
	return own + g.space("&&") + other
}

func (g *generator) agreement(o policytest.Organization, r policytest.Request) string {
	u, c := pick(g, o.Users...), pick(g, credTypes...)
	if g.chance(40) && len(r.Votes) > 0 {
		u = o.Users[slices.IndexFunc(o.Users, func(u policytest.User) bool { return u.ID == r.Votes[0].User })]
	}
	tag, n := pick(g, allTags...), 1+g.IntN(3)
	op := pick(g, ">=", ">=", ">=", "==", ">", "<=", "!=", "<")
	who := pick(g, "x.id == '"+u.ID+"'", "x.id == '"+strings.ToUpper(u.ID)+"'", "x.tags.contains('"+strings.ToUpper(tag)+"')", "'"+tag+"' in x.tags", "x.email == '"+pick(g, u.Email, strings.ToUpper(u.Email))+"'", "x.alias == '"+u.Name+"'", "x.email != ''",
		"x.id in ['"+u.ID+"', '"+pick(g, o.Users...).ID+"']", "x.tags.count() > 1", "x.tags.any(t, t == '"+tag+"')", "x.alias[0] == 'a'")
	with := pick(g, "y.type == '"+c+"'", "y.type == '"+c+"'", "y.user_id == '"+pick(g, u.ID, strings.ToUpper(u.ID))+"'", "y.credential_id != ''", "y.type != '"+c+"'", "y.type[0..23] == 'CREDENTIAL_TYPE_API_KEY'")
	if len(u.Credentials) > 0 && g.chance(20) {
		with = pick(g, "y.public_key == '"+u.Credentials[0].PublicKey+"'", "y.id == '"+u.Credentials[0].ID+"'", "y.credential_id == '"+u.Credentials[0].CredentialID+"'")
	}
	switch g.IntN(15) {
	case 0, 1:
		return "approvers.any(x, " + who + ")"
	case 2, 3:
		return fmt.Sprintf("approvers.count()%s%d", g.space(op), n)
	case 4, 5:
		return fmt.Sprintf("approvers.filter(x, %s).count()%s%d", who, g.space(op), n)
	case 6:
		return "approvers.all(x, " + who + ")"
	case 7:
		return "credentials.any(y, " + with + ")"
	case 8:
		return fmt.Sprintf("credentials.filter(y, %s).count %s %d", with, op, n)
	case 9:
		return "approvers.all(x, credentials.any(y, y.user_id == x.id && " + with + "))"
	case 10:
		return "approvers.any(x, " + who + " && approvers.any(z, z.id != x.id))"
	case 11:
		return fmt.Sprintf("approvers[%d].%s", g.IntN(2), pick(g, "alias == '"+u.Name+"'", "tags.contains('"+tag+"')", "id == '"+u.ID+"'"))
	case 12:
		return "!approvers.any(x, " + who + ")"
	case 13:
		return fmt.Sprintf("credentials.all(y, %s)", with)
	}
	return fmt.Sprintf("approvers[0..%d].any(x, %s)", n, who)
}

// time is an expression about the time near now.
func (g *generator) time(now time.Time) string {
	var parts []string
	for range pick(g, 1, 1, 1, 2) {
		if g.chance(3) {
			parts = append(parts, "[true]["+pick(g, "0", "1")+"]")
		} else if g.chance(35) {
			t := now.Add(time.Duration(g.IntN(5)-2) * pick(g, time.Hour, time.Minute, time.Second, time.Millisecond, 0))
			layout := pick(g, "2006-01-02T15:04:05", "2006-01-02T15:04:05", "2006-01-02T15:04:05.000")
			stamp := "Timestamp('" + t.Format(layout) + pick(g, "Z", "Z", "z", "+00:00", "-00:00") + "')"
			op := g.space(pick(g, ">=", "<=", "<", ">", "==", "!="))
			parts = append(parts, pick(g, "time.now"+op+stamp, stamp+op+"time.now"))
		} else {
			parts = append(parts, pick(g, "", "", "", "!")+g.cron(now))
		}
	}
	return g.join(parts)
}

// cron is a CronSpan with a window that opens near now.
func (g *generator) cron(now time.Time) string {
	minutes := pick(g, 1, 2, 30, 60, 90, 8*60, 24*60, 24*60+1, 36*60, g.IntN(600)+1, 7*24*60)
	zone := pick(g, g.zones...)
	from := now.Add(-time.Duration(g.IntN(minutes*3/2+2)) * time.Minute).In(zone)
	span := func(n, least, most int) string {
		switch g.IntN(8) {
		case 0:
			return fmt.Sprintf("%d-%d", max(least, n-g.IntN(5)), min(most, n+g.IntN(5)))
		case 1:
			return fmt.Sprintf("%d,%d", n, least+g.IntN(most-least+1))
		case 2:
			return fmt.Sprintf("%d-%d,%d", least, max(least, n-1), n)
		case 3:
			return fmt.Sprint(least + g.IntN(most-least+1))
		}
		return fmt.Sprint(n)
	}
	day, month, weekday := "*", "*", "*"
	if g.chance(25) {
		day = span(from.Day(), 1, 31)
	}
	if g.chance(10) {
		month = span(int(from.Month()), 1, 12)
	}
	if g.chance(30) {
		weekday = span(int(from.Weekday()), 0, 6)
	}
	minute, hour := span(from.Minute(), 0, 59), span(from.Hour(), 0, 23)
	if g.chance(5) {
		minute = "*"
	}
	if g.chance(8) {
		hour = "*"
	}
	duration := ""
	for _, unit := range []struct {
		letter  string
		minutes int
	}{{"d", 24 * 60}, {"h", 60}, {"m", 1}} {
		if n := minutes / unit.minutes; n > 0 && (unit.minutes == 1 || g.chance(80)) {
			duration += fmt.Sprint(n, unit.letter)
			minutes -= n * unit.minutes
		}
	}
	return fmt.Sprintf("CronSpan('%s %s %s %s %s',%s'%s', '%s')", minute, hour, day, month, weekday, pick(g, "", " ", "\n"), duration, zone)
}

// spoil makes an expression that is mostly refused.
func (g *generator) spoil(s string) string {
	switch g.IntN(6) {
	case 0: // one character less
		i := g.IntN(len(s))
		return s[:i] + s[i+1:]
	case 1: // a piece twice
		i := g.IntN(len(s))
		j := i + g.IntN(min(12, len(s)-i)) + 1
		return s[:j] + s[i:]
	case 2: // another character
		i := g.IntN(len(s))
		return s[:i] + pick(g, "'", "\"", "(", ")", "[", "]", "!", "&", "|", ".", ",", "=", "<", ">", "-", "+", "0", "a", " ", "#", "in", "..") + s[i+1:]
	case 3:
		return strings.Replace(s, pick(g, "==", "'", "true", "count", "id", "type", "&&", "(", ".any", "approvers", "activity"),
			pick(g, "<", "!=", ">=", "", "1", "'a'", "path", "kind", "||", "in", ".all", "time", "wallet", "credentials", "&& !", "== -1 == "), 1)
	case 4:
		return s + pick(g, " && eth.tx.value", " && activity.kind", " && 1 == '1'", " || wallet.path == ''", " && approvers.count() > 0", " && time.now == 1", " && eth.tx.to < '0x'", " && 1 < 2 < 3",
			" && true == 1", " && [1, 'a'].contains(1)", " && 'a' in 'abc'", " && eth.tx.value == 'a'", " && solana.tx.transfers == []", " && eth.tx.data.contains('a')", " && wallets.count(1) == 1",
			" && wallets.all(w) == true", " && wallets.any(wallet, true)", " && wallets.any(true, true)", " && activity.params.nothing == 1", " && eth.tx.contract_call_args.to == ''",
			" && eth.tx.contract_call_args[0] == ''", " && eth.eip_712.message.count() == 1", " && -eth.tx.value < 0", " && !eth.tx.value", " && eth.tx.value in [1..2]", " && unknown == 1",
			" && wallets.all", " && activity == activity", " && wallet in wallets", " && 'a'[0] == 'a'[0..1]", " && ('a' == 'a')", " && [] == []", " && 1 in []", " && [].count() == 0",
			" && CronSpan('0 0 * * *', '1h', 'Etc/UTC')", " && eth.tx.chain_id[0] == 1", " && 'a'['a'] == 'a'", " && eth.eip_7702_authorization.chain_id.count() == 1", " && secret.static_properties['a'] == 1",
			" && wallets[true].id == ''", " && credentials[0].kind == ''", " && approvers[0].name == ''", " && true && ", " && 0x10 == 16", " && wallets.filter(w, w.exported) == wallets")
	}
	return pick(g, "", "(", "!", "((", "!!(") + s + pick(g, ")", "", " && ", ";", " || true", "\n", ".count()", "[0]", " == true")
}
