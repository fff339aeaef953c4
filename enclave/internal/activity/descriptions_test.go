package activity_test

import (
	"testing"

	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// An interface of old that today's rules refuse is no silence for the policies that read by it.
func TestInterfaceThatIsReadNoMore(t *testing.T) {
	w := newWorld(t)
	with := list(w.run("CREATE_WALLET", wallet("w", ethAccount(0))), "addresses")[0]
	made := w.run("CREATE_SMART_CONTRACT_INTERFACE", object{"smartContractAddress": tokenAt, "smartContractInterface": erc20,
		"type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": "token", "notes": ""})
	tx := w.tx()
	i, err := tx.Interface(mustID(made["smartContractInterfaceId"]))
	w.must(err)
	spoilt := *i
	w.must(tx.PutInterface(&spoilt, "[{}]"))
	w.keep(tx)
	v, err := kinds.Live.Lookup("sign_transaction", "ACTIVITY_TYPE_SIGN_TRANSACTION_V2")
	w.must(err)
	in, err := v.Decode(text(transaction(with, transfer)))
	w.must(err)
	if _, err := v.Question(w.tx(), in, org.ID{1}, w.user, false); code(err) != fault.FailedPrecondition {
		t.Errorf("%v", err)
	}
}
