package wallet_test

import (
	"runtime"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/chain/eth"
)

// typedList is typed data of a list of n lists with 1000 numbers each: n·1001 + 1 values.
func typedList(n int) string {
	list := "[" + strings.Repeat("1,", 999) + "1]"
	return `{"types":{"M":[{"name":"v","type":"uint8[][]"}]},"primaryType":"M","domain":{},"message":{"v":[` + strings.Repeat(list+",", n-1) + list + `]}}`
}

// The typed data of one request hold no more values in all than one document may.
func TestTypedDataOfOneRequest(t *testing.T) {
	w := activitytest.New(t)
	with := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	in := func(documents ...any) object {
		return object{"signWith": with, "encoding": "PAYLOAD_ENCODING_EIP712", "hashFunction": "HASH_FUNCTION_NO_OP", "payloads": documents}
	}
	w.Run("SIGN_RAW_PAYLOADS", in(typedList(24), typedList(24), typedMail(1)))
	for _, documents := range [][]any{
		{typedList(24), typedList(26)}, {typedList(48), typedMail(1), typedList(2)}, {typedList(10), typedList(10), typedList(10), typedList(10), typedList(10)},
	} {
		w.Refuse("SIGN_RAW_PAYLOADS", in(documents...), 3, "must hold at most 50000 values in all their typed data")
	}
	many := make([]any, 0, 10)
	for range 10 {
		many = append(many, typedList(49))
	}
	v, err := kinds.Live.Lookup("sign_raw_payloads", "ACTIVITY_TYPE_SIGN_RAW_PAYLOADS")
	w.Must(err)
	body := activitytest.JSON(in(many...))
	n := allocated(func() {
		if _, err := v.Decode(body); err == nil {
			t.Error("ten full documents are taken")
		}
	})
	// Two are read until it is too much; a value of a document takes up to half a kilobyte with what is thrown away.
	if most := uint64(2*eth.MaxTypedValues*512 + 2*len(body)); n > most {
		t.Errorf("%d bytes allocated for a body of %d, want at most %d", n, len(body), most)
	}
}

// What policies are shown of typed data takes a bounded amount of memory for each value.
func TestMemoryOfQuestions(t *testing.T) {
	w := activitytest.New(t)
	with := activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet("w", activitytest.EthAccount(0))), "addresses")[0]
	v, err := kinds.Live.Lookup("sign_raw_payload", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2")
	w.Must(err)
	in, err := v.Decode(activitytest.JSON(object{"signWith": with, "encoding": "PAYLOAD_ENCODING_EIP712", "hashFunction": "HASH_FUNCTION_NO_OP", "payload": typedList(40)}))
	w.Must(err)
	n := allocated(func() {
		if _, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, false); err != nil {
			t.Error(err)
		}
	})
	if most := uint64(40*1000*128 + 1<<20); n > most {
		t.Errorf("%d bytes allocated, want at most %d", n, most)
	}
}

// allocated is how many bytes f allocates in all, when it is not the first time.
func allocated(f func()) uint64 {
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}
