package query_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
)

// outside is what a world's host says of chains.
type outside struct {
	known    activity.ChainState
	standing activity.Standing
	rivals   []query.Rival
	shared   []sharedNumber // asked for
	fails    error
	asked    []activity.ChainQuery
	sends    []org.SendRef
}

func (w *world) Known(need *activity.ChainQuery) (*activity.ChainState, error) {
	w.outside.asked = append(w.outside.asked, *need)
	k := w.outside.known
	return &k, w.outside.fails
}

func (w *world) Standing(ref org.SendRef) (activity.Standing, error) {
	w.outside.sends = append(w.outside.sends, ref)
	return w.outside.standing, w.outside.fails
}

// A sharedNumber is what the rivals of a send have in common with it.
type sharedNumber struct {
	counter org.Counter
	number  uint64
}

func (w *world) Rivals(c org.Counter, number uint64) ([]query.Rival, error) {
	w.outside.shared = append(w.outside.shared, sharedNumber{c, number})
	return w.outside.rivals, w.outside.fails
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
	w.outside.known = activity.ChainState{Latest: 4, Pending: 7}
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
		{activity.Standing{State: org.SendReverted, Text: "execution reverted"}, object{"txStatus": "FAILED", "txError": "execution reverted; the host's node reports this, and nothing proves it: look it up before you pay again", "type": "native", "native": "execution_reverted"}},
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

// TestMissingSendsAreUnderWay: what the host calls refused, expired or replaced has failed when a block has another send of ours with
// its number, or when it says itself that no block can take it any more. Until then the error tells what excludes it.
func TestMissingSendsAreUnderWay(t *testing.T) {
	w := newWorld(t)
	account, sponsor := bytes.Repeat([]byte{1}, 20), bytes.Repeat([]byte{2}, 20)
	plain := org.Transaction{Chain: "eip155:1", Name: "0xabc", From: account, Nonce: 7}
	calls := org.Transaction{Chain: "eip155:10", Name: "0xabc", From: sponsor, Nonce: 70, Account: account, Execution: 3}
	solana := org.Transaction{Chain: "solana:x", Name: "5sig", Signed: solanaPayment(false)}
	durable := org.Transaction{Chain: "solana:x", Name: "5sig", Signed: solanaPayment(true)}
	stale := org.Transaction{Chain: "eip155:1", Name: "0xabc"} // nobody's number
	const under, failed = "BROADCASTING", "FAILED"
	rival := func(state org.SendState, name string) []query.Rival {
		return []query.Rival{{Transaction: &org.Transaction{Name: name}, Standing: activity.Standing{State: state}}}
	}
	in, reverted := rival(org.SendIncluded, "0xdef"), rival(org.SendReverted, "0xdef")
	for _, c := range []struct {
		x      org.Transaction
		state  org.SendState
		said   string
		late   bool // its time has passed
		rivals []query.Rival
		status string
		text   string
	}{
		{plain, org.SendRefused, "insufficient funds", false, nil, under, "insufficient funds; a signed transaction can get into a block all the same until another one has nonce 7: to pay again, give nonce 7"},
		{plain, org.SendRefused, "", false, nil, under, "a node refused it; "},
		{plain, org.SendExpired, "", true, nil, under, "no node took it in time; "},
		{plain, org.SendReplaced, "", false, nil, under, "another transaction has its nonce; "},
		{plain, org.SendReplaced, "nonce too low", true, rival(org.SendIncluded, "0xabc"), under, "nonce too low; "}, // the very same
		{plain, org.SendReplaced, "", false, append(rival(org.SendIncluded, "0xabc"), in...), failed, "another transaction has its nonce; another transaction with its number is in a block"},
		{plain, org.SendRefused, "", false, reverted, failed, "a node refused it; another"},
		{plain, org.SendAccepted, "", false, in, under, ""},
		{stale, org.SendRefused, "", false, in, under, "a node refused it; "},
		{calls, org.SendRefused, "no", false, nil, under, "no; its calls can be carried out all the same until 2033-05-18T03:33:20Z or until others have gasStationNonce 3: to pay again, give gasStationNonce 3"},
		{calls, org.SendRefused, "no", false, reverted, under, "no; its calls"}, // their number is not used up
		{calls, org.SendRefused, "no", false, in, failed, "no; another"},
		{calls, org.SendReplaced, "no", true, nil, failed, "no; no block can take it any more, but one may have taken it: look what has been paid before you pay again"},
		{solana, org.SendRefused, "no", false, nil, under, "no; a signed transaction can get into a block all the same until 2033-05-18T03:33:20Z: look what has been paid"},
		{solana, org.SendExpired, "no", true, nil, failed, "no; no block can take it any more, but one may have taken it: look what has been paid"},
		{durable, org.SendExpired, "no", true, nil, under, "no; a signed transaction can get into a block all the same until its durable nonce is advanced: look what has been paid"},
	} {
		content, err := c.x.Encode()
		w.must(err)
		const endMs = 2_000_000_000_000
		w.later = endMs - 1_000_000
		if !c.late {
			w.later--
		}
		e := w.send(1, org.Send{Kind: org.SendTransaction, Content: content, ExpiresMs: endMs})
		w.outside.standing, w.outside.rivals, w.outside.shared = activity.Standing{State: c.state, Text: c.said}, c.rivals, nil
		got := w.get("get_send_transaction_status", object{"sendTransactionStatusId": e.Activity.String()})
		text, _ := got["txError"].(string)
		if got["txStatus"] != c.status || !strings.HasPrefix(text, c.text) || (text == "") != (c.text == "") || pathOf(got, "error", "message") != got["txError"] || pathOf(got, "error", "revertChain") != nil {
			t.Errorf("%+v: %v", c, got)
		}
		var want []sharedNumber
		switch {
		case c.x.Account != nil:
			want = []sharedNumber{{org.Counter{Of: org.CountExecutions, Account: org.Sender{Chain: 10, Address: [20]byte(account)}}, 3}}
		case c.x.From != nil && c.state != org.SendAccepted:
			want = []sharedNumber{{org.Counter{Of: org.CountNonces, Account: org.Sender{Chain: 1, Address: [20]byte(account)}}, 7}}
		}
		if !slices.Equal(w.outside.shared, want) {
			t.Errorf("%+v: asked for %+v", c, w.outside.shared)
		}
	}
}

// solanaPayment is a transaction of one signer that begins with AdvanceNonceAccount if it is durable.
func solanaPayment(durable bool) []byte {
	tx := append([]byte{1}, make([]byte, 64)...)
	tx = append(tx, 1, 0, 1, 3)
	tx = append(tx, strings.Repeat("\x07", 32)+strings.Repeat("\x09", 32)+strings.Repeat("\x00", 32)...) // payer, another, the System program
	tx = append(tx, make([]byte, 32)...)                                                                 // blockhash
	if durable {
		return append(tx, 1, 2, 3, 1, 1, 0, 4, 4, 0, 0, 0)
	}
	return append(tx, 1, 2, 2, 0, 1, 12, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0)
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
