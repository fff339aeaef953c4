package wallet_test

import (
	"encoding/hex"
	"strings"
	"testing"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	decred "github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
)

// The unsigned transaction of EIP-155's example, and one of EIP-1559 that calls transfer(0x2222…, 7) on a contract.
const (
	legacy   = "ec098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a764000080018080"
	tokenAt  = "0x1111111111111111111111111111111111111111"
	transfer = "02f8660180018203e882ea6094111111111111111111111111111111111111111180b844a9059cbb" +
		"0000000000000000000000002222222222222222222222222222222222222222" + "0000000000000000000000000000000000000000000000000000000000000007" + "c0"
	erc20 = `[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[{"name":"","type":"bool"}]}]`
)

func transaction(with, unsigned string) object {
	return object{"signWith": with, "unsignedTransaction": unsigned, "type": "TRANSACTION_TYPE_ETHEREUM"}
}

// legacySigner recovers who signed a legacy transaction for chain 1: r and s are its last 66 bytes, v stands before.
func legacySigner(t *testing.T, unsigned, signed string) string {
	t.Helper()
	b, err := hex.DecodeString(signed)
	if err != nil || len(b) < 68 {
		t.Fatalf("%s: %v", signed, err)
	}
	tail := b[len(b)-67:]
	if tail[1] != 0xa0 || tail[34] != 0xa0 || tail[0] != 37 && tail[0] != 38 {
		t.Fatalf("no v, r and s of 32 bytes at the end of %s", signed)
	}
	raw, _ := hex.DecodeString(unsigned)
	h := sha3.NewLegacyKeccak256()
	h.Write(raw)
	compact := append([]byte{27 + tail[0] - 37}, tail[2:34]...)
	key, _, err := decred.RecoverCompact(append(compact, tail[35:]...), h.Sum(nil))
	if err != nil {
		t.Fatal(err)
	}
	return hex.EncodeToString(key.SerializeCompressed())
}

func TestSignTransaction(t *testing.T) {
	w := activitytest.New(t)
	made := w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0), activitytest.EthAccount(1)))
	ids := makeKeys(w, activitytest.PrivateKey("k", "SECP256K1", "ETHEREUM"), activitytest.PrivateKey("bare", "SECP256K1"))
	of := map[string]string{}
	for _, address := range activitytest.List(made, "addresses") {
		owner, _, err := w.Tx().ByAddress(strings.ToLower(address))
		w.Must(err)
		a, err := w.Tx().Account(owner.ID, owner.No)
		w.Must(err)
		of[address], of[strings.ToLower(address)] = a.PublicKey, a.PublicKey
	}
	for _, id := range ids {
		raw, err := hex.DecodeString(privateKeyOf(w, id).PublicKey)
		w.Must(err)
		p, err := secp256k1.ParsePubKey(raw)
		w.Must(err)
		of[id] = hex.EncodeToString(p.SerializeCompressed())
	}
	of[privateKeyOf(w, ids[0]).Addresses[0].Address] = of[ids[0]]
	n := 0
	for with, public := range of {
		for _, prefix := range []string{"", "0x"} {
			signed := w.Run("SIGN_TRANSACTION_V2", transaction(with, prefix+legacy))["signedTransaction"].(string)
			if got := legacySigner(t, legacy, signed); got != public {
				t.Errorf("%s: signed by %s, want %s", with, got, public)
			}
			if c := w.Last.Claims[0].Signature; c == nil || c.PublicKey != public || len(c.Digests) != 1 || len(c.Digests[0]) != 64 {
				t.Errorf("%s: claim %+v", with, c)
			}
			n++
		}
	}
	signed := w.Run("SIGN_TRANSACTION", object{"privateKeyId": ids[1], "unsignedTransaction": legacy, "type": "TRANSACTION_TYPE_ETHEREUM"})
	if got := legacySigner(t, legacy, signed["signedTransaction"].(string)); got != of[ids[1]] {
		t.Errorf("version 1: signed by %s", got)
	}
	if n != 2*(2*2+3) {
		t.Errorf("%d signatures", n)
	}
}

func TestTransactionsAreRefused(t *testing.T) {
	w := activitytest.New(t)
	made := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0), activitytest.Account("ED25519", "m/44'/501'/0'", "SOLANA"), activitytest.Account("P256", "m/0'/0", "COMPRESSED"))), "addresses")
	ids := makeKeys(w, activitytest.PrivateKey("k", "SECP256K1", "ETHEREUM"))
	w.Run("DISABLE_PRIVATE_KEY", object{"privateKeyId": ids[0]})
	with := func(typ, address, unsigned string) object {
		m := transaction(address, unsigned)
		m["type"] = "TRANSACTION_TYPE_" + typ
		return m
	}
	for _, c := range []struct {
		in   object
		code fault.Code
		says string
	}{
		{with("ETHEREUM", w.NewID().String(), legacy), 5, "private key not found"},
		{with("ETHEREUM", tokenAt, legacy), 5, "wallet account not found"},
		{with("ETHEREUM", ids[0], legacy), 3, "private key is disabled"},
		{with("ETHEREUM", made[0], legacy+"00"), 3, "invalid transaction"},
		{with("ETHEREUM", made[0], legacy[:len(legacy)-2]), 3, "invalid transaction"},
		{with("ETHEREUM", made[0], "0x"), 3, "invalid transaction"},
		{with("ETHEREUM", made[0], "0x0"), 3, "not hexadecimal"},
		{with("ETHEREUM", made[0], "0x0x"+legacy), 3, "not hexadecimal"},
		{with("ETHEREUM", made[0], "zz"), 3, "not hexadecimal"},
		{with("ETHEREUM", made[0], strings.Repeat("00", 1<<20+1)), 3, "over 1048576 bytes"},
		{with("ETHEREUM", made[1], legacy), 3, "invalid transaction"},
		{with("ETHEREUM", made[2], legacy), 3, "invalid transaction"},
		{with("SOLANA", made[0], legacy), 3, "unsupported transaction"},
		{with("SOLANA", made[1], legacy), 3, "unsupported transaction"},
		{with("BITCOIN", made[0], legacy), 3, "invalid transaction"},
		{with("TRON", made[0], legacy), 3, "invalid transaction"},
		{with("TEMPO", made[0], legacy), 3, "unsupported transaction"},
		{with("DOGE", made[0], legacy), 3, "type"},
	} {
		w.Refuse("SIGN_TRANSACTION_V2", c.in, c.code, c.says)
	}
}

// What cannot be read is refused before anybody decides, with the machine code of the interface and the field.
func TestUnreadableIsRefusedBeforePolicies(t *testing.T) {
	w := activitytest.New(t)
	with := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	v, err := kinds.Live.Lookup("sign_transaction", "ACTIVITY_TYPE_SIGN_TRANSACTION_V2")
	w.Must(err)
	for unsigned, want := range map[string]string{legacy: "", legacy + "00": "INVALID_TRANSACTION", "05c0": "UNSUPPORTED_TRANSACTION_TYPE"} {
		in, err := v.Decode(activitytest.JSON(transaction(with, unsigned)))
		w.Must(err)
		for _, bare := range []bool{true, false} {
			_, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, bare)
			f := fault.Of(err)
			switch {
			case want == "" && err != nil:
				t.Errorf("bare %v: %v", bare, err)
			case want != "" && (f == nil || f.Code != fault.InvalidArgument || f.Name != want || len(f.Violations) != 1 || f.Violations[0].Field != "unsignedTransaction"):
				t.Errorf("%s, bare %v: %+v", unsigned, bare, f)
			}
		}
	}
	in, err := v.Decode(activitytest.JSON(transaction(tokenAt, legacy)))
	w.Must(err)
	if _, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, false); err != nil {
		t.Errorf("a signer that is not there is for the activity to miss: %v", err)
	}
}

func TestWhatPoliciesReadOfTransactions(t *testing.T) {
	w := activitytest.New(t)
	with := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("Hot", activitytest.EthAccount(7))), "addresses")[0]
	call := transaction(with, transfer)
	typed := object{"signWith": with, "encoding": "PAYLOAD_ENCODING_EIP712", "hashFunction": "HASH_FUNCTION_NO_OP", "payload": typedMail(7)}
	unsigned := object{"signWith": with, "encoding": "PAYLOAD_ENCODING_EIP712", "hashFunction": "HASH_FUNCTION_NO_OP",
		"payload": `{"types":{"EIP712Domain":[],"Mail":[{"name":"amount","type":"uint8"}]},"primaryType":"Mail","domain":{"verifyingContract":"` + tokenAt + `"},"message":{"limit":7,"amount":7}}`}
	const beyond = "170141183460469231731687303715884105728" // the int of policies
	wide := object{"signWith": with, "encoding": "PAYLOAD_ENCODING_EIP712", "hashFunction": "HASH_FUNCTION_NO_OP",
		"payload": `{"types":{"M":[{"name":"i","type":"int256"},{"name":"u","type":"uint256"},{"name":"all","type":"int256[]"}]},"primaryType":"M","domain":{},"message":{"i":` + beyond + `,"u":` + beyond + `,"all":[1,-1` + beyond + `]}}`}
	authorization := object{"signWith": with, "encoding": "PAYLOAD_ENCODING_EIP7702_AUTHORIZATION", "hashFunction": "HASH_FUNCTION_NO_OP",
		"payload": `{"address":"` + tokenAt + `","chainId":1,"nonce":3}`}
	batch := object{"signWith": with, "encoding": "PAYLOAD_ENCODING_EIP712", "hashFunction": "HASH_FUNCTION_NO_OP", "payloads": []any{typedMail(7), typedMail(8)}}
	for round, cases := range [][]struct {
		typ       string
		params    object
		condition string
		want      int
	}{{
		{"SIGN_TRANSACTION_V2", transaction(with, legacy), "eth.tx.to == '0x3535353535353535353535353535353535353535' && eth.tx.value == 1000000000000000000", holds},
		{"SIGN_TRANSACTION_V2", transaction(with, legacy), "eth.tx.type == 'LEGACY' && eth.tx.chain_id == 1 && eth.tx.nonce == 9", holds},
		{"SIGN_TRANSACTION_V2", transaction(with, legacy), "eth.tx.from == '" + strings.ToLower(with) + "' && eth.tx.data == '0x'", holds},
		{"SIGN_TRANSACTION_V2", transaction(with, legacy), "wallet.label == 'Hot' && wallet_account.path_indexes[2] == 7", holds},
		{"SIGN_TRANSACTION_V2", transaction(with, legacy), "activity.params.type == 'TRANSACTION_TYPE_ETHEREUM' && activity.kind == 'SIGN_TRANSACTION'", holds},
		{"SIGN_TRANSACTION_V2", transaction(with, legacy), "solana.tx.transfers.count() == 0", fails},
		{"SIGN_TRANSACTION_V2", call, "eth.tx.function_name == '' && eth.tx.function_signature == ''", holds},
		{"SIGN_TRANSACTION_V2", call, "eth.tx.contract_call_args['amount'] == 7", fails},
		{"SIGN_RAW_PAYLOAD_V2", typed, "eth.eip_712.primary_type == 'Mail' && eth.eip_712.domain.name == 'Post' && eth.eip_712.domain.chain_id == 1", holds},
		{"SIGN_RAW_PAYLOAD_V2", typed, "eth.eip_712.message['amount'] == 7 && wallet.label == 'Hot'", holds},
		{"SIGN_RAW_PAYLOAD_V2", typed, "eth.tx.value == 7", fails},
		{"SIGN_RAW_PAYLOAD_V2", wide, "eth.eip_712.message['u'] == 170141183460469231731687303715884105728", holds},
		{"SIGN_RAW_PAYLOAD_V2", wide, "eth.eip_712.message['i'] == 170141183460469231731687303715884105728", fails},
		{"SIGN_RAW_PAYLOAD_V2", wide, "eth.eip_712.message['i'] != 1 || true", fails},
		{"SIGN_RAW_PAYLOAD_V2", wide, "eth.eip_712.message['all'].count() == 2 && eth.eip_712.message['all'][0] == 1", holds},
		{"SIGN_RAW_PAYLOAD_V2", wide, "eth.eip_712.message['all'].any(x, x == 1)", fails},
		{"SIGN_RAW_PAYLOAD_V2", unsigned, "eth.eip_712.message['amount'] == 7", holds},
		{"SIGN_RAW_PAYLOAD_V2", unsigned, "eth.eip_712.message['limit'] == 7", fails},
		{"SIGN_RAW_PAYLOAD_V2", unsigned, "eth.eip_712.domain.verifying_contract == ''", holds},
		{"SIGN_RAW_PAYLOAD_V2", authorization, "eth.eip_7702_authorization.address == '" + tokenAt + "' && eth.eip_7702_authorization.chain_id == 1 && eth.eip_7702_authorization.nonce == 3", holds},
		{"SIGN_RAW_PAYLOADS", batch, "eth.eip_712.message['amount'] > 6", holds},
		{"SIGN_RAW_PAYLOADS", batch, "eth.eip_712.message['amount'] > 7", not},
		{"SIGN_RAW_PAYLOADS", batch, "eth.eip_712.message['amount'] < 8", not},
		{"SIGN_RAW_PAYLOAD_V2", activitytest.Signing(with, "00"), "eth.eip_712.primary_type == 'Mail'", fails},
	}, { // with an interface for the contract
		{"SIGN_TRANSACTION_V2", call, "eth.tx.function_name == 'transfer' && eth.tx.function_signature == '0xA9059CBB'", holds},
		{"SIGN_TRANSACTION_V2", call, "eth.tx.contract_call_args['amount'] == 7 && eth.tx.contract_call_args['to'] == '0x2222222222222222222222222222222222222222'", holds},
		{"SIGN_TRANSACTION_V2", call, "eth.tx.contract_call_args['amount'] > 7", not},
		{"SIGN_TRANSACTION_V2", call, "eth.tx.contract_call_args['other'] == 7", fails},
		{"SIGN_TRANSACTION_V2", transaction(with, legacy), "eth.tx.function_name == ''", holds},
	}} {
		for _, c := range cases {
			checkPolicy(w, c.typ, c.params, c.condition, c.want)
		}
		if round == 0 {
			w.Run("CREATE_SMART_CONTRACT_INTERFACE", object{"smartContractAddress": tokenAt, "smartContractInterface": erc20,
				"type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": "token", "notes": ""})
		}
	}
}

// typedMail is a document of EIP-712.
func typedMail(amount int) string {
	return string(activitytest.JSON(object{"domain": object{"name": "Post", "version": "1", "chainId": 1}, "primaryType": "Mail",
		"types":   object{"Mail": []any{object{"name": "to", "type": "address"}, object{"name": "amount", "type": "uint256"}}},
		"message": object{"to": tokenAt, "amount": amount}}))
}

func TestDocumentsAreRefused(t *testing.T) {
	w := activitytest.New(t)
	made := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0), activitytest.Account("ED25519", "m/44'/501'/0'", "SOLANA"), activitytest.Account("P256", "m/0'/0", "COMPRESSED"),
		activitytest.Account("SECP256K1", "m/86'/0'/0'/0/0", "BITCOIN_MAINNET_P2TR"))), "addresses")
	in := func(with, encoding, hash, payload string) object {
		return object{"signWith": with, "encoding": "PAYLOAD_ENCODING_" + encoding, "hashFunction": "HASH_FUNCTION_" + hash, "payload": payload}
	}
	for _, c := range []struct {
		in   object
		says string
	}{
		{in(made[0], "EIP712", "KECCAK256", typedMail(1)), "hash function"},
		{in(made[0], "EIP712", "NOT_APPLICABLE", typedMail(1)), "hash function"},
		{in(made[0], "EIP7702_AUTHORIZATION", "SHA256", `{"address":"`+tokenAt+`","chainId":1,"nonce":3}`), "hash function"},
		{in(made[1], "EIP712", "NO_OP", typedMail(1)), "signed by an Ethereum key"},
		{in(made[2], "EIP712", "NO_OP", typedMail(1)), "signed by an Ethereum key"},
		{in(made[3], "EIP712", "NO_OP", typedMail(1)), "signed by an Ethereum key"},
		{in(made[0], "EIP712", "NO_OP", strings.Replace(typedMail(1), "uint256", "uint999", 1)), "type"},
		{in(made[0], "EIP712", "NO_OP", strings.Replace(typedMail(1), `"amount":1`, `"amount":"one"`, 1)), "amount"},
		{in(made[0], "EIP712", "NO_OP", strings.Replace(typedMail(1), `"amount":1`, `"amount":-1`, 1)), "amount"},
		{in(made[0], "EIP712", "NO_OP", "00"), ""},
		{in(made[0], "EIP7702_AUTHORIZATION", "NO_OP", `{"address":"0x11","chainId":1,"nonce":3}`), "address"},
		{in(made[0], "EIP7702_AUTHORIZATION", "NO_OP", "{}"), ""},
	} {
		w.Refuse("SIGN_RAW_PAYLOAD_V2", c.in, 3, c.says)
	}
	batch := activitytest.Without(in(made[0], "EIP712", "NO_OP", ""), "payload")
	batch["payloads"] = []any{typedMail(1), "{}"}
	_, err := w.Try("SIGN_RAW_PAYLOADS", batch)
	if f := fault.Of(err); f == nil || len(f.Violations) != 1 || f.Violations[0].Field != "payloads.1" {
		t.Errorf("a broken document in a batch: %v", err)
	}
}
