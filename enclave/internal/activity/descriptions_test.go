package activity_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// However many interfaces tenants upload and have read, what is kept of them is bounded, and those that are dropped are
// read again.
func TestDescriptionsAreBounded(t *testing.T) {
	w := newWorld(t)
	with := list(w.run("CREATE_WALLET", wallet("w", ethAccount(0))), "addresses")[0]
	padding := strings.Repeat(" ", 390_000)
	for i := range 15 {
		at := fmt.Sprintf("0x%040x", 0x1111+i)
		w.run("CREATE_SMART_CONTRACT_INTERFACE", object{"smartContractAddress": at, "smartContractInterface": padding + erc20,
			"type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": at, "notes": ""})
	}
	for range 2 {
		for i := range 15 {
			call := strings.Replace(transfer, tokenAt[2:], fmt.Sprintf("%040x", 0x1111+i), 1)
			if yes, err := w.asks("SIGN_TRANSACTION_V2", transaction(with, call), "eth.tx.function_name == 'transfer'"); err != nil || !yes {
				t.Fatalf("%d: %v, %v", i, yes, err)
			}
			if n := activity.DescribedBytes(); n > 4<<20 {
				t.Fatalf("%d bytes of interfaces are kept", n)
			}
		}
	}
}

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
	v, err := activity.Live.Lookup("sign_transaction", "ACTIVITY_TYPE_SIGN_TRANSACTION_V2")
	w.must(err)
	in, err := v.Decode(text(transaction(with, transfer)))
	w.must(err)
	if _, err := v.Question(w.tx(), in, org.ID{1}, w.user, false); code(err) != fault.FailedPrecondition {
		t.Errorf("%v", err)
	}
}
