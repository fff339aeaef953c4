package wallet_test

import (
	"bytes"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	wallets "cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/org"
)

func manyCalls(n int) []object {
	calls := make([]object, n)
	for i := range calls {
		calls[i] = object{"to": activitytest.SomeAddress, "value": fmt.Sprint(i + 1), "data": fmt.Sprintf("0x%02x", i)}
	}
	return calls
}

// callsOf are what manyCalls asks for.
func callsOf(t *testing.T, n int) []eth.Call {
	to, err := eth.ParseAddress(activitytest.SomeAddress)
	if err != nil {
		t.Fatal(err)
	}
	calls := make([]eth.Call, n)
	for i := range calls {
		calls[i] = eth.Call{To: to, Value: big.NewInt(int64(i + 1)), Data: []byte{byte(i)}}
	}
	return calls
}

func accountOf(t *testing.T, address string) [20]byte {
	a, err := eth.ParseAddress(address)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// signedBy is what the last run sent, which who replays it must be able to hold.
func signedBy(t *testing.T, w *world, typ string, in object, result string) *eth.Signed {
	t.Helper()
	made, err := eth.ReadSigned(sentOf(w).Signed)
	w.Must(err)
	v := kinds.Live["ACTIVITY_TYPE_"+typ]
	asked, err := v.Decode(activitytest.JSON(in))
	w.Must(err)
	r := fmt.Appendf(nil, `{%q:{"sendTransactionStatusId":%q}}`, result, w.Last.Activity)
	if err := v.Verify(w.Tx(), asked, r, w.Last.Sends); err != nil {
		t.Errorf("%s: it cannot be verified: %v", typ, err)
	}
	// What is changed after the fact is found.
	for _, at := range []int{len(sentOf(w).Signed) / 2, len(sentOf(w).Signed) / 3} {
		x := sentOf(w)
		x.Signed[at] ^= 1
		content, err := x.Encode()
		w.Must(err)
		if v.Verify(w.Tx(), asked, r, []org.Send{{Kind: org.SendTransaction, Content: content}}) == nil {
			t.Errorf("%s: byte %d changed, and it verifies", typ, at)
		}
	}
	return made
}

func TestSeveralCalls(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	account := accountOf(t, from)
	known := someChain
	known.Executions, known.Transactions = 4, 99
	asked := chainSays(w, known)
	in := ethSend(from, object{"calls": manyCalls(3)})
	w.Run("ETH_SEND_TRANSACTION_V2", in)
	if need := (*asked)[0]; !bytes.Equal(need.From, account[:]) || !bytes.Equal(need.Account, account[:]) || need.Gas || !need.Fees || !need.Nonces {
		t.Errorf("asked for %+v", need)
	}
	made := signedBy(t, w, "ETH_SEND_TRANSACTION_V2", in, "ethSendTransactionResultV2")
	e, ok := eth.ReadExecution(made.Data, account, 11155111, callsOf(t, 3), false)
	if !ok || e.Nonce != 4 || uint64(e.Deadline) != (w.Now+15*60*1000)/1000 || made.Nonce != 5 || made.From != account || !bytes.Equal(made.To, account[:]) {
		t.Fatalf("%+v %+v", made, e)
	}
	if d, ok := eth.ReadDelegation(made.Unsigned); !ok || d.By != account || d.To != eth.Delegate || d.Nonce != 6 {
		t.Errorf("delegation %+v", d)
	}
	// Whoever carries out other calls has no signature for them.
	if _, ok := eth.ReadExecution(made.Data, account, 11155111, callsOf(t, 2), false); ok {
		t.Error("other calls are signed")
	}
	if _, ok := eth.ReadExecution(made.Data, account, 1, callsOf(t, 3), false); ok {
		t.Error("another chain is signed for")
	}

	// The next has another number, and the code by then.
	known.Delegate = eth.Delegate[:]
	chainSays(w, known)
	w.Run("ETH_SEND_TRANSACTION_V2", in)
	made = signedBy(t, w, "ETH_SEND_TRANSACTION_V2", in, "ethSendTransactionResultV2")
	if e, ok := eth.ReadExecution(made.Data, account, 11155111, callsOf(t, 3), false); !ok || e.Nonce != 5 || made.Nonce != 7 || made.Unsigned[0] != 2 {
		t.Errorf("%+v %+v", made, e)
	}
	// The client's own words hold.
	in = ethSend(from, object{"calls": manyCalls(2), "gasStationNonce": "77", "deadline": fmt.Sprint(w.Now/1000 + 60), "nonce": "40", "gasLimit": "300000", "maxFeePerGas": "2000000000", "maxPriorityFeePerGas": "0"})
	w.Run("ETH_SEND_TRANSACTION_V2", in)
	made = signedBy(t, w, "ETH_SEND_TRANSACTION_V2", in, "ethSendTransactionResultV2")
	if e, ok := eth.ReadExecution(made.Data, account, 11155111, callsOf(t, 2), false); !ok || e.Nonce != 77 || uint64(e.Deadline) != w.Now/1000+60 || made.Nonce != 40 {
		t.Errorf("%+v %+v", made, e)
	}
	if send := w.Last.Sends[0]; send.ExpiresMs > w.Now+61_000 {
		t.Errorf("it is sent until %d after its deadline", send.ExpiresMs)
	}
	// Who has taken on other code is told of it.
	known.Delegate = bytes.Repeat([]byte{7}, 20)
	chainSays(w, known)
	w.Refuse("ETH_SEND_TRANSACTION_V2", in, 9, "has delegated to 0x0707")
	// An expired number is free again.
	known.Delegate = eth.Delegate[:]
	chainSays(w, known)
	w.Now += 16 * 60 * 1000
	in = ethSend(from, object{"calls": manyCalls(3)})
	w.Run("ETH_SEND_TRANSACTION_V2", in)
	made = signedBy(t, w, "ETH_SEND_TRANSACTION_V2", in, "ethSendTransactionResultV2")
	if e, ok := eth.ReadExecution(made.Data, account, 11155111, callsOf(t, 3), false); !ok || e.Nonce != 4 {
		t.Errorf("%+v", e)
	}
}

func TestUndelegate(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	account := accountOf(t, from)
	chainSays(w, someChain)
	in := object{"from": from, "caip2": "eip155:1"}
	w.Run("ETH_UNDELEGATE_7702", in)
	made := signedBy(t, w, "ETH_UNDELEGATE_7702", in, "ethUndelegate7702Result")
	d, ok := eth.ReadDelegation(made.Unsigned)
	if !ok || d.By != account || d.To != [20]byte{} || d.Nonce != made.Nonce+1 || made.Nonce != 5 || len(made.Data) != 0 || !bytes.Equal(made.To, account[:]) {
		t.Errorf("%+v %+v", made, d)
	}
	for _, c := range []struct {
		in   object
		says string
	}{
		{object{"from": from, "caip2": "eip155:4217"}, "caip2"}, // Tempo
		{object{"from": from, "caip2": "eip155:5"}, "caip2"},
		{object{"from": "x", "caip2": "eip155:1"}, "Ethereum address"},
		{object{"from": from, "caip2": "eip155:1", "nonce": "x"}, "decimal number"},
		{object{"from": from, "caip2": "eip155:1", "deadline": "1"}, "deadline"},
		{object{"from": from, "caip2": "eip155:1", "calls": []object{}}, "calls"},
	} {
		w.Refuse("ETH_UNDELEGATE_7702", c.in, 3, c.says)
	}
	w.Refuse("ETH_UNDELEGATE_7702", object{"from": activitytest.SomeAddress, "caip2": "eip155:1"}, 5, "not found")
}

func limits(tree, each, minutes string, more ...object) object {
	m := object{"orgWindowLimitUsd": tree, "subOrgWindowLimitUsd": each, "windowDurationMinutes": minutes}
	for _, o := range more {
		for k, v := range o {
			m[k] = v
		}
	}
	return m
}

func TestGasUsageConfig(t *testing.T) {
	w := activitytest.New(t)
	id := w.Run("UPSERT_GAS_USAGE_CONFIG", limits("100", "0.000001", "60"))["gasUsageConfigId"]
	first, err := w.Tx().GasConfig()
	w.Must(err)
	if first.TreeLimit != 100_000_000 || first.EachLimit != 1 || first.WindowMinutes != 60 || !first.Enabled || first.ID.String() != id || len(first.PublicKey) != 130 {
		t.Fatalf("%+v", first)
	}
	w.Now += 5
	if again := w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000000000", "0", "43200", object{"enabled": false})); again["gasUsageConfigId"] != id {
		t.Fatal(again)
	}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("7", "0.5", "1"))
	second, err := w.Tx().GasConfig()
	w.Must(err)
	if second.Enabled || second.PublicKey != first.PublicKey || !bytes.Equal(second.Key, first.Key) || second.EachLimit != 500_000 || second.CreatedMs != first.CreatedMs || second.UpdatedMs == first.UpdatedMs {
		t.Fatalf("%+v", second)
	}
	for _, bad := range []struct {
		in   object
		says string
	}{
		{limits("", "1", "1"), ""},
		{limits("-1", "1", "1"), ""},
		{limits("+1", "1", "1"), ""},
		{limits("1e3", "1", "1"), ""},
		{limits("1.", "1", "1"), ""},
		{limits(".5", "1", "1"), ""},
		{limits("0.0000001", "1", "1"), ""},
		{limits("1", "1000000000.000001", "1"), ""},
		{limits("1", strings.Repeat("9", 40), "1"), ""},
		{limits("1", "1", "0"), "1 to 43200"},
		{limits("1", "1", "43201"), "1 to 43200"},
		{limits("1", "1", "1.5"), "1 to 43200"},
		{limits("1", "1", "18446744073709551617"), "1 to 43200"},
		{object{"orgWindowLimitUsd": "1", "subOrgWindowLimitUsd": "1"}, "windowDurationMinutes"},
	} {
		w.Refuse("UPSERT_GAS_USAGE_CONFIG", bad.in, 3, bad.says)
	}
	// Nothing signs with the sponsor's key, or exports it.
	w.Refuse("SIGN_RAW_PAYLOAD_V2", object{"signWith": id, "payload": "00", "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_SHA256"}, 5, "not found")
	w.Refuse("EXPORT_PRIVATE_KEY", object{"privateKeyId": id, "targetPublicKey": activitytest.SomeP256}, 5, "not found")
}

// price has a gas of 4·10^5 at 3 gwei cost three dollars.
const price = 2_500_000_000

func dear(from string, more ...object) object {
	return ethSend(from, append([]object{{"sponsor": true, "gasLimit": "400000", "maxFeePerGas": "3000000000", "maxPriorityFeePerGas": "0"}}, more...)...)
}

func stationIn(w *world) *wallets.Station {
	c, err := w.Tx().GasConfig()
	w.Must(err)
	s, err := wallets.GasStation(c)
	w.Must(err)
	return s
}

func sponsorIn(w *world) [20]byte {
	address, err := eth.ParseAddress(stationIn(w).Payer)
	w.Must(err)
	return address
}

func TestSponsoredTransactions(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	account := accountOf(t, from)
	known := someChain
	known.Latest, known.Pending, known.Transactions, known.Executions = 11, 20, 3, 2
	asked := chainSays(w, known)
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "0", "60"))
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from), 9, "gas.prices")
	w.Capabilities.GasPrices = map[string]uint64{"eip155:11155111": price}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "0", "60", object{"enabled": false}))
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from), 9, "not enabled")
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "0", "60", object{"enabled": true}))

	*asked = nil
	w.Run("ETH_SEND_TRANSACTION_V2", dear(from))
	sponsor := sponsorIn(w)
	if need := (*asked)[0]; !bytes.Equal(need.From, sponsor[:]) || !bytes.Equal(need.Account, account[:]) || len(need.Sends) != 0 {
		t.Errorf("asked for %+v", need)
	}
	one := []eth.Call{{To: accountOf(t, activitytest.SomeAddress), Value: big.NewInt(7)}}
	made := signedBy(t, w, "ETH_SEND_TRANSACTION_V2", dear(from), "ethSendTransactionResultV2")
	e, ok := eth.ReadExecution(made.Data, account, 11155111, one, true)
	if !ok || e.Nonce != 2 || made.From != sponsor || made.Nonce != 11 || !bytes.Equal(made.To, eth.Station[:]) {
		t.Fatalf("%+v %+v", made, e)
	}
	if d, ok := eth.ReadDelegation(made.Unsigned); !ok || d.By != account || d.To != eth.Delegate || d.Nonce != 3 {
		t.Errorf("delegation %+v", d)
	}
	// Three of three dollars fit into ten; the next waits until the first has left the window.
	for n := uint64(12); n <= 13; n++ {
		w.Now += 60_000
		w.Run("ETH_SEND_TRANSACTION_V2", dear(from))
		if made, err := eth.ReadSigned(sentOf(w).Signed); err != nil || made.Nonce != n {
			t.Errorf("%+v, %v, want number %d", made, err, n)
		}
	}
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from), 8, "orgWindowLimitUsd of 10 USD in 60 minutes would be passed: 9 are used, and the transaction can cost 3")
	w.Run("ETH_SEND_TRANSACTION_V2", dear(from, object{"gasLimit": "133333"})) // a third of it, which passes nothing
	w.Now += 58*60_000 - 1
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from), 8, "9.999998 are used")
	w.Now++
	w.Run("ETH_SEND_TRANSACTION_V2", dear(from))
	// A lower limit holds at once, and no limit sponsors nothing.
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("0", "0", "60"))
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from, object{"gasLimit": "21000", "maxFeePerGas": "1000000000"}), 8, "orgWindowLimitUsd of 0 USD")
	// What could cost more than can be counted is refused, not cut off.
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from, object{"gasLimit": "18446744073709551615", "maxFeePerGas": strings.Repeat("9", 60)}), 3, "more than any limit")
}

// TestNumbersThatCameToNothing: an execution that failed in its block, or that no node took, keeps none behind it waiting.
func TestNumbersThatCameToNothing(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	account := accountOf(t, from)
	w.Capabilities.GasPrices = map[string]uint64{"eip155:11155111": price}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60"))
	one := []eth.Call{{To: accountOf(t, activitytest.SomeAddress), Value: big.NewInt(7)}}
	known := someChain
	known.Delegate = eth.Delegate[:]
	sent := func(said activity.ChainState, execution, nonce uint64) {
		t.Helper()
		chainSays(w, said)
		w.Run("ETH_SEND_TRANSACTION_V2", dear(from))
		made := signedBy(t, w, "ETH_SEND_TRANSACTION_V2", dear(from), "ethSendTransactionResultV2")
		if e, ok := eth.ReadExecution(made.Data, account, 11155111, one, true); !ok || e.Nonce != execution || made.Nonce != nonce {
			t.Errorf("execution %d in transaction %d, want %d in %d", e.Nonce, made.Nonce, execution, nonce)
		}
	}
	known.Latest, known.Pending, known.Executions = 3, 3, 0
	sent(known, 0, 3)
	sent(known, 1, 4)
	sent(known, 2, 5)
	// An answer of before the chain counted two of them is no reason to take their numbers again.
	later := known
	later.Latest, later.Pending, later.Executions = 5, 6, 2
	sent(later, 3, 6)
	sent(known, 4, 7)
	// The third failed in its block, and so did those behind it.
	later.Latest, later.Pending = 8, 8
	sent(later, 2, 8)
	sent(later, 3, 9)
	// The node did not take the last two, nor says so: they wait for a minute.
	w.Now += 59_999
	sent(later, 4, 10)
	w.Now++
	sent(later, 2, 8)
	// Whoever pays himself does not know about a sponsor's.
	chainSays(w, later)
	in := ethSend(from, object{"calls": manyCalls(2)})
	w.Run("ETH_SEND_TRANSACTION_V2", in)
	made := signedBy(t, w, "ETH_SEND_TRANSACTION_V2", in, "ethSendTransactionResultV2")
	if e, ok := eth.ReadExecution(made.Data, account, 11155111, callsOf(t, 2), false); !ok || e.Nonce != 5 {
		t.Errorf("%+v", e)
	}
}

// TestRefusedExecutions: an execution takes the number of one that was refused, at once. Where the chain has counted that, it may
// have been carried out.
func TestRefusedExecutions(t *testing.T) {
	for _, sponsored := range []bool{false, true} {
		w := activitytest.New(t)
		from := ethAddress(w)
		account := accountOf(t, from)
		w.Capabilities.GasPrices = map[string]uint64{"eip155:11155111": price}
		w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60"))
		k := someChain
		k.Delegate, k.Executions, k.Standings = eth.Delegate[:], 4, map[org.SendRef]activity.Standing{}
		in := func(more ...object) object {
			if sponsored {
				return dear(from, append([]object{{"calls": manyCalls(2)}}, more...)...)
			}
			return ethSend(from, append([]object{{"calls": manyCalls(2)}}, more...)...)
		}
		sent := func(number uint64, more ...object) org.SendRef {
			t.Helper()
			asked := chainSays(w, k)
			w.Run("ETH_SEND_TRANSACTION_V2", in(more...))
			made := signedBy(t, w, "ETH_SEND_TRANSACTION_V2", in(more...), "ethSendTransactionResultV2")
			e, ok := eth.ReadExecution(made.Data, account, 11155111, callsOf(t, 2), sponsored)
			if x := sentOf(w); !ok || e.Nonce != number || x.Execution != number || !bytes.Equal(x.Account, account[:]) {
				t.Fatalf("sponsored %t: execution %d, %+v, want %d", sponsored, e.Nonce, x, number)
			}
			for ref := range k.Standings {
				if !slices.Contains((*asked)[0].Sends, ref) {
					t.Errorf("sponsored %t: asked about %v, not %v", sponsored, (*asked)[0].Sends, ref)
				}
			}
			return org.SendRef{Seq: w.Seq}
		}
		first := sent(4)
		k.Standings[first] = activity.Standing{State: org.SendRefused}
		second := sent(4)
		rivals, err := w.Tx().Rivals(org.Counter{Of: org.CountExecutions, Account: org.Sender{Chain: 11155111, Address: account}}, 4)
		if err != nil || !slices.Equal(rivals, []org.SendRef{first, second}) {
			t.Errorf("rivals %v, %v", rivals, err)
		}
		k.Executions = 5
		for _, state := range []org.SendState{org.SendRefused, org.SendExpired, org.SendReplaced, org.SendReverted} {
			k.Standings[second] = activity.Standing{State: state}
			chainSays(w, k)
			w.Refuse("ETH_SEND_TRANSACTION_V2", in(), 9, "gasStationNonce: number 4 of "+from+" is used")
		}
		// The first is said to have been carried out after all: that is why the second came to nothing.
		k.Standings[first] = activity.Standing{State: org.SendIncluded}
		sent(5)
		k.Standings[first] = activity.Standing{State: org.SendRefused}
		sent(6, object{"gasStationNonce": "6"})
		clear(k.Standings)
		sent(7)
	}
}

// TestDelegationTakesTwoNumbers: the authorization counts as a transaction of the account's.
func TestDelegationTakesTwoNumbers(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	chainSays(w, someChain)
	for _, want := range []uint64{5, 7} {
		w.Run("ETH_SEND_TRANSACTION_V2", ethSend(from, object{"calls": manyCalls(2)}))
		if made, err := eth.ReadSigned(sentOf(w).Signed); err != nil || made.Nonce != want {
			t.Errorf("%+v, %v, want %d", made, err, want)
		}
	}
	w.Run("ETH_SEND_TRANSACTION_V2", ethSend(from))
	if made, err := eth.ReadSigned(sentOf(w).Signed); err != nil || made.Nonce != 9 {
		t.Errorf("%+v, %v", made, err)
	}
}

// TestSponsorsDoNotWait: what no block takes would hold up the whole tree's transactions.
func TestSponsorsDoNotWait(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	chainSays(w, someChain)
	w.Capabilities.GasPrices = map[string]uint64{"eip155:11155111": price}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60"))
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from, object{"gasLimit": "50000001", "maxFeePerGas": "1000000000"}), 3, "at most 50000000")
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from, object{"maxFeePerGas": "999999999"}), 9, "maxFeePerGas")
	// A day of the client's is a quarter of an hour of the sponsor's.
	w.Run("ETH_SEND_TRANSACTION_V2", dear(from, object{"deadline": fmt.Sprint(w.Now/1000 + 86_000)}))
	w.Now += 15 * 60 * 1000
	chainSays(w, someChain)
	w.Run("ETH_SEND_TRANSACTION_V2", dear(from))
	if made, err := eth.ReadSigned(sentOf(w).Signed); err != nil || made.Nonce != 3 {
		t.Errorf("%+v, %v", made, err)
	}
}

// TestPoliciesSeeEachCall: the decision must hold for all calls, each of which looks like one of its own.
func TestPoliciesSeeEachCall(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	chainSays(w, someChain)
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "0", "60"))
	for _, sponsored := range []bool{false, true} {
		v := kinds.Live["ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2"]
		in, err := v.Decode(activitytest.JSON(ethSend(from, object{"calls": manyCalls(3), "sponsor": sponsored})))
		w.Must(err)
		w.Must(in.Payer().LookUpPayer(func() (*org.Tx, error) { return w.Tx(), nil }))
		said := activity.ChainState{Pending: 5, BaseFee: 1, Executions: 9}
		in.SetChainState(&said)
		q, err := v.PolicyRequest(w.Tx(), in, org.ID{1}, w.User, false)
		w.Must(err)
		if len(q.Payloads) != 3 || len(q.Keys) != map[bool]int{false: 1, true: 2}[sponsored] {
			t.Fatalf("%d payloads, %d keys", len(q.Payloads), len(q.Keys))
		}
		if _, whole := q.Facts["eth.tx"]; whole {
			t.Error("there is a transaction besides the calls")
		}
		if _, account := q.Facts["wallet_account"]; !account {
			t.Error("nobody knows whose account it is")
		}
	}
}

// TestSubOrganizationsAreSponsored: by the account of the organization above, within a limit of their own and the one of all.
func TestSubOrganizationsAreSponsored(t *testing.T) {
	w := activitytest.New(t)
	w.Capabilities.GasPrices = map[string]uint64{"eip155:11155111": price}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "6.5", "60"))
	sub := func(name string) (*world, string) {
		id := w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization(name, 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"]
		s := w.Sub(id)
		chainSays(s, someChain)
		return s, ethAddress(s)
	}
	one, first := sub("one")
	two, second := sub("two")
	one.Refuse("UPSERT_GAS_USAGE_CONFIG", limits("10", "6", "60"), 3, "live in the parent organization")
	for n := uint64(3); n < 5; n++ { // one account pays for all
		one.Run("ETH_SEND_TRANSACTION_V2", dear(first))
		made, err := eth.ReadSigned(sentOf(one).Signed)
		if err != nil || made.From != sponsorIn(w) || made.Nonce != n {
			t.Fatalf("%+v, %v", made, err)
		}
	}
	one.Refuse("ETH_SEND_TRANSACTION_V2", dear(first), 8, "subOrgWindowLimitUsd of 6.5 USD")
	two.Run("ETH_SEND_TRANSACTION_V2", dear(second))
	if made, err := eth.ReadSigned(sentOf(two).Signed); err != nil || made.Nonce != 5 {
		t.Fatalf("%+v, %v", made, err)
	}
	two.Refuse("ETH_SEND_TRANSACTION_V2", dear(second), 8, "orgWindowLimitUsd of 10 USD")
	for _, m := range []struct {
		of         org.ID
		tree, each uint64
	}{{one.ID, 9_000_000, 6_000_000}, {two.ID, 9_000_000, 3_000_000}, {w.ID, 9_000_000, 0}} {
		c, err := w.Tx().GasConfig()
		w.Must(err)
		tree, each, count, err := wallets.GasUsage(w.Tx(), c, m.of)
		if err != nil || tree != m.tree || each != m.each || count != 3 {
			t.Errorf("%d %d %d %v", tree, each, count, err)
		}
	}
}

// TestWindowsAreUsedUpAfterARecovery: what was spent in the lost time is not known, so nothing is sponsored until it would have left the
// window, in the whole tree.
func TestWindowsAreUsedUpAfterARecovery(t *testing.T) {
	w := activitytest.New(t)
	w.Capabilities.GasPrices = map[string]uint64{"eip155:11155111": price}
	chainSays(w, someChain)
	from := ethAddress(w)
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "10", "60"))
	w.Run("ETH_SEND_TRANSACTION_V2", dear(from))
	s := w.Sub(w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("sub", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"])
	below := ethAddress(s)
	const hour = 60 * 60 * 1000
	w.Now += hour / 2
	w.RecoveredMs, s.RecoveredMs = w.Now, w.Now
	at := func(ms uint64) {
		w.Now, s.Now = ms, ms
		chainSays(w, someChain)
		chainSays(s, someChain)
	}
	says := "orgWindowLimitUsd counts as used up until 2023-11-14T23:43:20.000Z: the store was recovered at 2023-11-14T22:43:20.000Z " +
		"without what was written last, so what sponsored transactions cost before is not known; stamp the request again then"
	for _, ms := range []uint64{w.RecoveredMs, w.RecoveredMs + hour/2, w.RecoveredMs + hour - 1} {
		at(ms)
		w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from), 8, says)
		s.Refuse("ETH_SEND_TRANSACTION_V2", dear(below), 8, says)
	}
	w.Run("ETH_SEND_TRANSACTION_V2", ethSend(from)) // which the organization pays for itself
	// A longer window stays used up for longer.
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "10", "120"))
	at(w.RecoveredMs + hour)
	w.Refuse("ETH_SEND_TRANSACTION_V2", dear(from), 8, "used up until 2023-11-15T00:43:20.000Z")
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "10", "60"))
	for range 2 {
		w.Run("ETH_SEND_TRANSACTION_V2", dear(from))
	}
	s.Run("ETH_SEND_TRANSACTION_V2", dear(below))
	s.Refuse("ETH_SEND_TRANSACTION_V2", dear(below), 8, "9 are used")

	// The key of a later configuration has signed nothing in the lost time.
	later := activitytest.New(t)
	later.Capabilities.GasPrices = w.Capabilities.GasPrices
	chainSays(later, someChain)
	from = ethAddress(later)
	later.RecoveredMs = later.Now
	later.Now++
	later.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "10", "60"))
	later.Run("ETH_SEND_TRANSACTION_V2", dear(from))
}

func TestRecoveryIn(t *testing.T) {
	const said = "orgWindowLimitUsd counts as used up until 2023-11-14T23:43:20.000Z: the store was recovered at 2023-11-14T22:43:20.001Z without"
	if ms := wallets.RecoveryIn(said); ms != 1_700_001_800_001 {
		t.Error(ms)
	}
	for _, text := range []string{"", "orgWindowLimitUsd of 10 USD", ": the store was recovered at ", ": the store was recovered at 2023-11-14T22:43:20Z without what", ": the store was recovered at 1969-11-14T22:43:20.001Z"} {
		if ms := wallets.RecoveryIn(text); ms != 0 {
			t.Errorf("%q: %d", text, ms)
		}
	}
}
