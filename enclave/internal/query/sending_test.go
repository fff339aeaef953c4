package query_test

import (
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
)

// outside is what a world's host says of chains.
type outside struct {
	known    activity.ChainKnown
	standing activity.Standing
	fails    error
	asked    []activity.ChainNeed
	sends    []org.SendRef
}

func (w *world) Known(need *activity.ChainNeed) (*activity.ChainKnown, error) {
	w.outside.asked = append(w.outside.asked, *need)
	k := w.outside.known
	return &k, w.outside.fails
}

func (w *world) Standing(ref org.SendRef) (activity.Standing, error) {
	w.outside.sends = append(w.outside.sends, ref)
	return w.outside.standing, w.outside.fails
}

// ReadChain and Account are never asked here: sim/sending reads chains.
func (w *world) ReadChain(*query.ChainQuestion) (*query.ChainReading, error) {
	return nil, w.outside.fails
}

func (w *world) MailEvents(string) ([]org.MailEvent, error) { return w.mailed, w.outside.fails }

func (w *world) Account(string) (*org.Account, error) { return nil, nil }

const someAddress = "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA96045"

func TestNonces(t *testing.T) {
	w := newWorld(t)
	w.outside.known = activity.ChainKnown{Latest: 4, Pending: 7}
	ask := object{"address": someAddress, "caip2": "eip155:11155111", "nonce": true}
	if got := w.get("get_nonces", ask); got["nonce"] != "7" || len(got) != 1 {
		t.Fatal(got)
	}
	need := w.outside.asked[0]
	if need.Chain != "eip155:11155111" || !need.Nonces || need.Fees || need.Gas || hex.EncodeToString(need.From) != strings.ToLower(someAddress[2:]) {
		t.Fatalf("%+v", need)
	}
	w.outside.known.Pending = 1<<64 - 3
	if got := w.get("get_nonces", ask); got["nonce"] != "18446744073709551613" {
		t.Fatal(got)
	}
	// The delegate's nonce is another.
	w.outside.known.Executions, w.outside.asked = 12, nil
	ask["gasStationNonce"] = true
	if got := w.get("get_nonces", ask); got["nonce"] != "18446744073709551613" || got["gasStationNonce"] != "12" {
		t.Fatal(got)
	}
	if need := w.outside.asked[0]; len(w.outside.asked) != 1 || hex.EncodeToString(need.Account) != strings.ToLower(someAddress[2:]) {
		t.Fatalf("%+v", need)
	}
	if got := w.get("get_nonces", object{"address": someAddress, "caip2": "eip155:1", "gasStationNonce": true}); len(got) != 1 || got["gasStationNonce"] != "12" {
		t.Fatal(got)
	}
	delete(ask, "gasStationNonce")
	// What is not asked for is neither fetched nor answered.
	w.outside.asked = nil
	for _, ask := range []object{
		{"address": someAddress, "caip2": "eip155:1"},
		{"address": someAddress, "caip2": "eip155:1", "nonce": false, "gasStationNonce": false},
		{"address": strings.ToLower(someAddress), "caip2": "eip155:1", "nonce": nil},
	} {
		if got := w.get("get_nonces", ask); len(got) != 0 || w.outside.asked != nil {
			t.Fatal(got, w.outside.asked)
		}
	}
	for _, bad := range []struct {
		ask  object
		code fault.Code
		says string
	}{
		{object{"caip2": "eip155:1", "nonce": true}, fault.InvalidArgument, "address"},
		{object{"address": "d8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "caip2": "eip155:1", "nonce": true}, fault.InvalidArgument, "address"},
		{object{"address": "0xd8dA6BF26964aF9D7eEd9e03E53415D37aA9604", "caip2": "eip155:1"}, fault.InvalidArgument, "address"},
		{object{"address": "0xD8dA6BF26964aF9D7eEd9e03E53415D37aA96045", "caip2": "eip155:1"}, fault.InvalidArgument, "address"},
		{object{"address": someAddress, "nonce": true}, fault.InvalidArgument, "caip2"},
		{object{"address": someAddress, "caip2": "eip155:2", "nonce": true}, fault.InvalidArgument, "caip2"},
		{object{"address": someAddress, "caip2": "solana:mainnet", "nonce": true}, fault.InvalidArgument, "caip2"},
		{object{"address": someAddress, "caip2": "eip155:1", "nonce": "yes"}, fault.InvalidArgument, "nonce"},
	} {
		w.refused("get_nonces", bad.ask, bad.code, bad.says)
	}
	w.outside.fails = fault.WithCode(fault.DeadlineExceeded, "RPC_CALL_ERROR", "late")
	w.refused("get_nonces", ask, fault.DeadlineExceeded, "late")
}

// send puts an activity that sent something at seq.
func (w *world) send(n byte, sends ...org.Send) *org.Entry {
	e := &org.Entry{Activity: id('A', n), Type: "ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2", Status: org.StatusCompleted, Sends: sends, Seq: 40 + uint64(n)}
	w.entries = []*org.Entry{e}
	return e
}

func (w *world) transaction(chain, name string) org.Send {
	b, err := (&org.Transaction{Chain: chain, Name: name, Signed: []byte("signed")}).Encode()
	w.must(err)
	return org.Send{Kind: org.SendTransaction, Content: b}
}

func TestSendStatus(t *testing.T) {
	w := newWorld(t)
	e := w.send(1, w.transaction("eip155:1", "0xabc"))
	ask := object{"sendTransactionStatusId": e.Activity.String()}
	errorString, _ := hex.DecodeString("08c379a0" + strings.Repeat("0", 62) + "20" + strings.Repeat("0", 62) + "05" + "68656c6c6f" + strings.Repeat("0", 54))
	panicCode, _ := hex.DecodeString("4e487b71" + strings.Repeat("0", 62) + "11")
	for _, c := range []struct {
		standing activity.Standing
		want     object
	}{
		{activity.Standing{State: org.SendWaiting, Text: "node away"}, object{"txStatus": "INITIALIZED"}},
		{activity.Standing{State: org.SendAccepted}, object{"txStatus": "BROADCASTING"}},
		{activity.Standing{State: org.SendIncluded}, object{"txStatus": "INCLUDED"}},
		{activity.Standing{State: org.SendRefused, Text: "insufficient funds"}, object{"txStatus": "FAILED", "txError": "insufficient funds", "message": "insufficient funds"}},
		{activity.Standing{State: org.SendExpired}, object{"txStatus": "FAILED", "txError": "the transaction failed"}},
		{activity.Standing{State: org.SendReplaced, Text: "nonce too low"}, object{"txStatus": "FAILED", "txError": "nonce too low"}},
		{activity.Standing{State: org.SendReverted, Text: "execution reverted"}, object{"txStatus": "FAILED", "txError": "execution reverted", "type": "native", "native": "execution_reverted"}},
		{activity.Standing{State: org.SendReverted, Text: "x", Revert: errorString}, object{"txStatus": "FAILED", "type": "native", "native": "error_string", "says": "hello"}},
		{activity.Standing{State: org.SendReverted, Text: "x", Revert: panicCode}, object{"txStatus": "FAILED", "type": "native", "native": "panic", "code": "17"}},
		{activity.Standing{State: org.SendReverted, Text: "x", Revert: errorString[:70]}, object{"txStatus": "FAILED", "type": "unknown", "selector": "0x08c379a0"}},
		{activity.Standing{State: org.SendReverted, Text: "x", Revert: []byte{1}}, object{"txStatus": "FAILED", "type": "unknown", "selector": "0x01"}},
	} {
		w.outside.standing = c.standing
		got := w.get("get_send_transaction_status", ask)
		if hash := pathOf(got, "eth", "txHash"); hash != "0xabc" {
			t.Errorf("hash %v", hash)
		}
		entry := []string{"error", "revertChain", "0"}
		for member, want := range c.want {
			path := map[string][]string{
				"txStatus": {"txStatus"}, "txError": {"txError"}, "message": {"error", "message"}, "type": append(entry, "errorType"),
				"native": append(entry, "native", "nativeType"), "says": append(entry, "native", "message"), "code": append(entry, "native", "panicCode"),
				"selector": append(entry, "unknown", "selector"),
			}[member]
			if v := pathOf(got, path...); v != want {
				t.Errorf("%+v: %s is %v, want %v", c.standing, member, v, want)
			}
		}
	}
	if ref := w.outside.sends[0]; ref != (org.SendRef{Seq: 41}) {
		t.Fatalf("asked for %+v", ref)
	}
	w.outside.standing = activity.Standing{State: org.SendIncluded}
	w.send(1, w.transaction("solana:x", "5sig"))
	if got := w.get("get_send_transaction_status", ask); pathOf(got, "solana", "signature") != "5sig" || got["eth"] != nil {
		t.Fatal(got)
	}

	w.outside.standing = activity.Standing{}
	w.refused("get_send_transaction_status", ask, fault.Unavailable, "does not know")
	w.outside.fails = errors.New("away")
	if _, err := w.ask("get_send_transaction_status", ask); err == nil || fault.Of(err) != nil {
		t.Fatal(err)
	}
	w.outside.fails = nil
	w.send(1)
	w.refused("get_send_transaction_status", ask, fault.NotFound, "not found: "+e.Activity.String())
	w.refused("get_send_transaction_status", object{"sendTransactionStatusId": id('A', 9).String()}, fault.NotFound, "not found")
	w.refused("get_send_transaction_status", object{"sendTransactionStatusId": "x"}, fault.InvalidArgument, "must be a UUID")
	w.refused("get_send_transaction_status", object{}, fault.InvalidArgument, "sendTransactionStatusId")
}

// pathOf follows members and indexes.
func pathOf(v any, path ...string) any {
	for _, p := range path {
		switch x := v.(type) {
		case object:
			v = x[p]
		case []any:
			if p != "0" || len(x) == 0 {
				return nil
			}
			v = x[0]
		default:
			return nil
		}
	}
	return v
}
