package wallet_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// makeKeys makes private keys and answers their ids.
func makeKeys(w *world, ks ...object) (ids []string) {
	w.TB.Helper()
	for _, k := range w.Run("CREATE_PRIVATE_KEYS_V2", object{"privateKeys": ks})["privateKeys"].([]any) {
		ids = append(ids, k.(object)["privateKeyId"].(string))
	}
	return ids
}

func privateKeyOf(w *world, id string) *org.PrivateKey {
	w.TB.Helper()
	k, err := w.Tx().PrivateKey(activitytest.MustID(id))
	w.Must(err)
	return k
}

func TestDisablePrivateKey(t *testing.T) {
	w := activitytest.New(t)
	ids := makeKeys(w, activitytest.PrivateKey("a", "SECP256K1", "ETHEREUM"), activitytest.PrivateKey("b", "ED25519"))
	address := privateKeyOf(w, ids[0]).Addresses[0].Address
	w.Sign(ids[0], "00")
	w.Sign(address, "00") // its key is in the cache now
	w.Now += 1000
	if r := w.Run("DISABLE_PRIVATE_KEY", object{"privateKeyId": ids[0]}); r["privateKeyId"] != ids[0] {
		t.Error(r)
	}
	if k := privateKeyOf(w, ids[0]); !k.Disabled || k.UpdatedMs != activitytest.Start+1000 {
		t.Errorf("%+v", k)
	}
	for _, with := range []string{ids[0], address} {
		w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(with, "00"), 3, "private key is disabled: "+ids[0])
		in := activitytest.Without(activitytest.Signing(with, ""), "payload")
		in["payloads"] = []any{"00"}
		w.Refuse("SIGN_RAW_PAYLOADS", in, 3, "private key is disabled: "+ids[0])
	}
	before := w.State.Bytes()
	w.Run("DISABLE_PRIVATE_KEY", object{"privateKeyId": ids[0]})
	if w.State.Bytes() != before {
		t.Error("disabling again changes something")
	}
	other := w.NewID().String()
	w.Refuse("DISABLE_PRIVATE_KEY", object{"privateKeyId": other}, 5, "private key not found: "+other)
	w.Refuse("DISABLE_PRIVATE_KEY", object{"privateKeyId": "x"}, 3, "privateKeyId")
	w.Refuse("DELETE_PRIVATE_KEYS", object{"privateKeyIds": []any{ids[0]}}, 3, "has not been exported")
	w.Run("DELETE_PRIVATE_KEYS", object{"privateKeyIds": []any{ids[0]}, "deleteWithoutExport": true})
}

func TestDeletePrivateKeys(t *testing.T) {
	w := activitytest.New(t)
	ids := makeKeys(w, activitytest.PrivateKey("a", "SECP256K1", "ETHEREUM", "COMPRESSED"), activitytest.PrivateKey("b", "ED25519"), activitytest.PrivateKey("c", "P256"))
	addresses := privateKeyOf(w, ids[0]).Addresses
	w.Sign(ids[0], "00")
	del := func(without any, ids ...any) object {
		return object{"privateKeyIds": ids, "deleteWithoutExport": without}
	}
	for _, without := range []any{nil, false} {
		w.Refuse("DELETE_PRIVATE_KEYS", del(without, ids[0]), 3, "wallet account has not been exported")
	}
	other := w.NewID().String()
	w.Refuse("DELETE_PRIVATE_KEYS", del(true, ids[0], other), 5, "private key not found: "+other)
	w.Refuse("DELETE_PRIVATE_KEYS", del(true, ids[0], ids[0]), 3, "named twice")
	w.Refuse("DELETE_PRIVATE_KEYS", del(true), 3, "privateKeyIds")
	if got := activitytest.List(w.Run("DELETE_PRIVATE_KEYS", del(true, ids[0], ids[1])), "privateKeyIds"); len(got) != 2 || got[0] != ids[0] {
		t.Error(got)
	}
	for _, a := range addresses {
		w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(a.Address, "00"), 5, "not found")
		if _, ok, _ := w.Tx().ByAddress(chain.MatchKey(a.Address)); ok {
			t.Errorf("%s is still found", a.Address)
		}
	}
	w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(ids[0], "00"), 5, "private key not found")
	if o := w.Organization(); o.PrivateKeys != 1 {
		t.Errorf("%+v", o)
	}
	makeKeys(w, activitytest.PrivateKey("a", "SECP256K1")) // the name is free again
	w.Export()
	w.Run("DELETE_PRIVATE_KEYS", del(nil, ids[2]))
}

// What a condition comes to.
const holds, not, fails = 1, 0, -1

// checkPolicy holds what a condition comes to, when the root user asks for an activity,
// against what it should.
func checkPolicy(w *world, typ string, params object, condition string, want int) {
	w.TB.Helper()
	v, err := kinds.Live.Lookup(activity.OpOf("ACTIVITY_TYPE_"+typ), "ACTIVITY_TYPE_"+typ)
	w.Must(err)
	in, err := v.Decode(activitytest.JSON(params))
	w.Must(err)
	q, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, false)
	w.Must(err)
	p, err := policy.Compile(policy.ClauseCondition, condition)
	w.Must(err)
	yes, err := p.Holds(&q)
	got := not
	if err != nil {
		got = fails
	} else if yes {
		got = holds
	}
	if got != want {
		w.TB.Errorf("%s: %s: %d (%v), want %d", typ, condition, got, err, want)
	}
}

func TestWhatPoliciesRead(t *testing.T) {
	w := activitytest.New(t)
	made := w.Run("CREATE_WALLET", activitytest.Wallet("Treasury", activitytest.EthAccount(7), activitytest.Account("ED25519", "m/44'/501'/3'/1'", "SOLANA"), activitytest.Account("SECP256K1", "m", "COMPRESSED"),
		activitytest.Account("ED25519", "m/44'/501/3/2'", "SOLANA")))
	one, addresses := made["walletId"].(string), activitytest.List(made, "addresses")
	two := w.Run("CREATE_WALLET", activitytest.Wallet("Hot"))["walletId"].(string)
	rec, _ := w.Tx().Wallet(activitytest.MustID(two))
	marked := *rec
	marked.Exported, marked.Imported = true, true
	tx := w.Tx()
	w.Must(tx.PutWallet(&marked))
	w.Keep(tx)
	tag := w.Run("CREATE_PRIVATE_KEY_TAG", object{"privateKeyTagName": "t", "privateKeyIds": []any{}})["privateKeyTagId"].(string)
	tagged := activitytest.PrivateKey("Cold", "SECP256K1", "ETHEREUM")
	tagged["privateKeyTags"] = []any{tag}
	key := makeKeys(w, tagged, activitytest.PrivateKey("Other", "P256"))
	nobody := w.NewID().String()
	a1, _ := w.Tx().Account(activitytest.MustID(one), 1)
	a2, _ := w.Tx().Account(activitytest.MustID(one), 2)

	batch := activitytest.Without(activitytest.Signing(addresses[0], ""), "payload")
	batch["payloads"] = []any{"00"}
	v1 := activitytest.Without(activitytest.Signing("", "00"), "signWith")
	v1["privateKeyId"] = key[0]
	del := func(list string, ids ...any) object { return object{list: ids} }
	const transfer = "02f10107843b9aca008506fc23ac008252089435cdf80606c5e1effe6cb81d969f03f0c04decc989022b1c8c1227a0000080c0"
	keccak := func(typ string, payloads ...string) object {
		o := object{"signWith": addresses[0], "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_KECCAK256"}
		if typ == "SIGN_RAW_PAYLOADS" {
			o["payloads"] = payloads
		} else {
			o["payload"] = payloads[0]
		}
		return o
	}
	for _, c := range []struct {
		typ       string
		params    object
		condition string
		want      int
	}{
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[0], "00"), "wallet.id == '" + one + "' && wallet.label == 'Treasury' && !wallet.imported && !wallet.exported", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[0], "00"), "wallet.id == '" + two + "'", not},
		{"SIGN_RAW_PAYLOADS", batch, "wallet.label == 'Treasury'", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[0], "00"), "wallet_account.address == '" + addresses[0] + "'", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[0], "00"), "wallet_account.address == '0x" + strings.ToUpper(addresses[0][2:]) + "'", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[1], "00"), "wallet_account.address == '" + addresses[1] + "'", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[1], "00"), "wallet_account.address == '" + strings.ToUpper(addresses[1]) + "'", not},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[2], "00"), "wallet_account.address == '" + strings.ToUpper(addresses[2]) + "'", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[2], "00"), "wallet_account.address == '0x" + addresses[2] + "'", not},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[0], "00"), "wallet_account.path_indexes.count() == 5 && wallet_account.path_indexes[2] == 7 && wallet_account.path_indexes[1] == 60", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[0], "00"), "wallet_account.path_hardened[2] && !wallet_account.path_hardened[3]", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[1], "00"), "wallet_account.path_hardened.all(h, h) && wallet_account.path_indexes[3] == 1", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[3], "00"), "wallet_account.path_hardened.count() == 4 && wallet_account.path_hardened.all(h, h) && wallet_account.path_indexes[2] == 3", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[2], "00"), "wallet_account.path_indexes.count() == 0", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[0], "00"), "private_key.label == 'Cold'", fails},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(addresses[0], "00"), "wallets.count() == 1", fails},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(key[0], "00"), "private_key.id == '" + key[0] + "' && private_key.label == 'Cold' && !private_key.imported && !private_key.exported", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(privateKeyOf(w, key[0]).Addresses[0].Address, "00"), "private_key.tags.contains('" + tag + "')", holds},
		{"SIGN_RAW_PAYLOAD", v1, "private_key.tags.count() == 1", holds},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(key[1], "00"), "private_key.tags.contains('" + tag + "')", not},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(key[0], "00"), "wallet.label == 'Treasury'", fails},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(nobody, "00"), "private_key.label == 'Cold'", fails},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing("0x00", "00"), "wallet.label == 'Cold'", fails},

		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(key[0], "00"), "activity.params.hash_function == 'HASH_FUNCTION_SHA256' && activity.params.encoding == 'PAYLOAD_ENCODING_HEXADECIMAL'", holds},
		{"SIGN_RAW_PAYLOAD", v1, "activity.params.hash_function == 'HASH_FUNCTION_SHA256'", holds},
		{"SIGN_RAW_PAYLOADS", batch, "activity.params.hash_function == 'HASH_FUNCTION_NO_OP'", not},
		{"SIGN_RAW_PAYLOADS", batch, "activity.params.encoding == 'PAYLOAD_ENCODING_HEXADECIMAL'", holds},
		{"SIGN_RAW_PAYLOADS", batch, "activity.params.wallet_id == 'x'", fails},
		{"SIGN_RAW_PAYLOAD_V2", keccak("SIGN_RAW_PAYLOAD_V2", transfer), "activity.params.payload_kind == 'TRANSACTION'", holds},
		{"SIGN_RAW_PAYLOAD_V2", keccak("SIGN_RAW_PAYLOAD_V2", "68656c6c6f"), "activity.params.payload_kind == 'TEXT'", holds},
		{"SIGN_RAW_PAYLOADS", keccak("SIGN_RAW_PAYLOADS", "68656c6c6f", transfer, "68656c6c6f"), "activity.params.payload_kind == 'TRANSACTION'", holds},
		{"SIGN_RAW_PAYLOADS", keccak("SIGN_RAW_PAYLOADS", "68656c6c6f", strings.Repeat("11", 32)), "activity.params.payload_kind in ['TEXT', 'MESSAGE']", not},
		{"UPDATE_WALLET", object{"walletId": one}, "activity.params.wallet_id == '" + one + "'", holds},
		{"UPDATE_WALLET", object{"walletId": one}, "wallet.label == 'Treasury'", fails},
		{"CREATE_WALLET", activitytest.Wallet("x"), "activity.params.hash_function == 'x'", fails},

		{"DELETE_WALLETS", del("walletIds", one, two), "wallets.count() == 2 && wallets[0].label == 'Treasury' && wallets[1].exported && wallets[1].imported", holds},
		{"DELETE_WALLETS", del("walletIds", two, one), "wallets.count() == 2 && wallets[0].label == 'Treasury' && wallets[1].exported && wallets[1].imported", holds}, // by their ids
		{"DELETE_WALLETS", del("walletIds", two), "wallets.all(w, w.exported)", holds},
		{"DELETE_WALLETS", del("walletIds", two, one), "wallets.all(w, w.exported)", not},
		{"DELETE_WALLETS", del("walletIds", two, nobody), "wallets.all(w, w.exported)", fails},
		{"DELETE_WALLETS", del("walletIds", two), "wallet.exported", fails},
		{"DELETE_WALLET_ACCOUNTS", del("walletAccountIds", a2.ID().String()), "wallet.label == 'Treasury' && wallet_account.path_indexes[1] == 501 && wallets.count() == 1", holds},
		{"DELETE_WALLET_ACCOUNTS", del("walletAccountIds", a1.ID().String(), a2.ID().String()), "wallets.count() == 1 && wallets.any(w, w.id == '" + one + "')", holds},
		{"DELETE_WALLET_ACCOUNTS", del("walletAccountIds", a1.ID().String(), a2.ID().String()), "wallet_account.path_indexes[1] == 501", not},
		{"DELETE_WALLET_ACCOUNTS", del("walletAccountIds", a1.ID().String(), a2.ID().String()), "wallet_account.path_indexes.count() > 3 && wallet.label == 'Treasury'", holds},
		{"DELETE_WALLET_ACCOUNTS", del("walletAccountIds", a1.ID().String(), nobody), "wallets.count() == 1", fails},
		{"DELETE_PRIVATE_KEYS", del("privateKeyIds", key[0]), "private_key.label == 'Cold'", holds},
		{"DELETE_PRIVATE_KEYS", del("privateKeyIds", key[0], key[1]), "private_key.label == 'Cold'", not},
		{"DELETE_PRIVATE_KEYS", del("privateKeyIds", key[0], key[1]), "private_key.label in ['Cold', 'Other']", holds},
		{"DELETE_PRIVATE_KEYS", del("privateKeyIds", key[0], nobody), "private_key.label == 'Cold'", fails},
		{"DELETE_PRIVATE_KEYS", del("privateKeyIds", nobody), "private_key.label == 'Cold'", fails},
		{"DISABLE_PRIVATE_KEY", object{"privateKeyId": key[0]}, "private_key.label == 'Cold'", holds},
		{"DISABLE_PRIVATE_KEY", object{"privateKeyId": nobody}, "private_key.label == 'Cold'", fails},

		{"UPDATE_ORGANIZATION_NAME", object{"organizationName": "x"}, "activity.kind == '' && activity.resource == '' && activity.action == ''", holds},
		{"CREATE_ORGANIZATION_V2", activitytest.Sample("CreateOrganizationIntentV2"), "activity.kind == ''", holds},
		{"UPDATE_ALLOWED_ORIGINS", object{"allowedOrigins": []any{"https://example.org"}}, "activity.resource == '' && activity.action == ''", holds},
	} {
		checkPolicy(w, c.typ, c.params, c.condition, c.want)
	}
}
