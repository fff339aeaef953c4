package wallet_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	wallets "cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// chainSays makes the world's host say this of every chain.
func chainSays(w *world, k activity.ChainState) *[]activity.ChainQuery {
	asked := new([]activity.ChainQuery)
	w.ChainState = func(need *activity.ChainQuery) (*activity.ChainState, error) {
		*asked = append(*asked, *need)
		said := k
		return &said, nil
	}
	return asked
}

// sentOf is what the last run sends.
func sentOf(w *world) *org.Transaction {
	w.TB.Helper()
	if len(w.Last.Sends) != 1 || w.Last.Sends[0].Kind != org.SendTransaction || w.Last.Sends[0].DueMs != w.Now {
		w.TB.Fatalf("sends %+v", w.Last.Sends)
	}
	t, err := org.DecodeTransaction(w.Last.Sends[0].Content)
	w.Must(err)
	return t
}

func ethAddress(w *world) string {
	return activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet(fmt.Sprint("w", w.Seq), activitytest.EthAccount(0))), "addresses")[0]
}

func ethSend(from string, more ...object) object {
	m := object{"from": from, "caip2": "eip155:11155111", "calls": []object{{"to": activitytest.SomeAddress, "value": "7"}}}
	for _, o := range more {
		for k, v := range o {
			m[k] = v
		}
	}
	return m
}

var someChain = activity.ChainState{Latest: 3, Pending: 5, BaseFee: 1e9, Tip: 1e8, Gas: 50_000}

func TestEthSendTransaction(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	account, err := wallets.EthAddress("from", from)
	w.Must(err)
	asked := chainSays(w, someChain)
	r := w.Run("ETH_SEND_TRANSACTION_V2", ethSend(from))
	if r["sendTransactionStatusId"] != w.Last.Activity.String() {
		t.Fatal(r)
	}
	need := (*asked)[0]
	if need.Chain != "eip155:11155111" || !need.Nonces || !need.Fees || !need.Gas || need.Blockhash || !bytes.Equal(need.From, account[:]) || need.Value.Int64() != 7 || need.Sends != nil {
		t.Fatalf("%+v", need)
	}
	x := sentOf(w)
	made, err := eth.ReadSigned(x.Signed)
	w.Must(err)
	if made.From != account || made.ChainID != 11155111 || made.Nonce != 5 || x.Nonce != 5 || x.Chain != "eip155:11155111" || x.Name != "0x"+hex.EncodeToString(made.Hash[:]) || !bytes.Equal(x.From, account[:]) {
		t.Fatalf("%+v %+v", x, made)
	}
	// Twice the base fee and the tip; a fifth more gas than estimated.
	to, _ := wallets.EthAddress("to", activitytest.SomeAddress)
	want := eth.Unsigned1559(11155111, 5, big.NewInt(1e8), big.NewInt(21e8), 60_000, &to, big.NewInt(7), nil)
	if !bytes.HasPrefix(x.Signed[4:], want[3:len(want)-1]) { // less type and length
		t.Fatalf("%x, want %x", x.Signed, want)
	}
	if life := w.Last.Sends[0].ExpiresMs - w.Now; life != 24*60*60*1000 {
		t.Errorf("it lives for %d ms", life)
	}
	if c := w.Last.Claims[0].Signature; c == nil || len(c.Digests) != 1 {
		t.Errorf("claim %+v", c)
	}

	// What the client says is taken, and nothing of it asked: how far the account is
	// tells which of its numbers can be forgotten.
	all := object{"nonce": "9", "gasLimit": "30000", "maxFeePerGas": "2000000000", "maxPriorityFeePerGas": "0", "deadline": "1", "gasStationNonce": "2", "sponsor": false}
	chainSays(w, activity.ChainState{})
	asked = chainSays(w, activity.ChainState{})
	w.Run("ETH_SEND_TRANSACTION_V2", ethSend(from, all))
	if need := (*asked)[0]; !need.Nonces || need.Fees || need.Gas {
		t.Errorf("asked for %+v", need)
	}
	want = eth.Unsigned1559(11155111, 9, new(big.Int), big.NewInt(2e9), 30_000, &to, big.NewInt(7), nil)
	if x = sentOf(w); !bytes.HasPrefix(x.Signed[4:], want[3:len(want)-1]) {
		t.Errorf("%x, want %x", x.Signed, want)
	}
	// The first version is the same with its call laid open.
	chainSays(w, someChain)
	v1 := object{"from": strings.ToLower(from), "caip2": "eip155:1", "to": activitytest.SomeAddress, "data": "0x0102", "value": ""}
	if r := w.Run("ETH_SEND_TRANSACTION", v1); r["sendTransactionStatusId"] != w.Last.Activity.String() {
		t.Fatal(r)
	}
	want = eth.Unsigned1559(1, 5, big.NewInt(1e8), big.NewInt(21e8), 60_000, &to, new(big.Int), []byte{1, 2})
	if x = sentOf(w); x.Chain != "eip155:1" || !bytes.HasPrefix(x.Signed[4:], want[3:len(want)-1]) {
		t.Errorf("%x, want %x", x.Signed, want)
	}
}

func TestEthSendIsRefused(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	ids := makeKeys(w, activitytest.PrivateKey("k", "SECP256K1", "ETHEREUM"), activitytest.PrivateKey("bare", "SECP256K1"))
	chainSays(w, someChain)
	call := func(m object) object { return object{"calls": []object{m}} }
	for _, c := range []struct {
		in   object
		code fault.Code
		says string
	}{
		{ethSend(from, object{"sponsor": true}), 9, "no gas usage configuration"},
		{ethSend(from, object{"sponsor": true, "nonce": "1"}), 3, "numbered here"},
		{ethSend(from, object{"calls": manyCalls(21)}), 3, "at most 20"},
		{ethSend(from, object{"calls": manyCalls(51)}), 3, "calls"},
		{ethSend(from, object{"calls": []object{{"to": activitytest.SomeAddress}, {"to": "0x12"}}}), 3, "must be an Ethereum address"},
		{ethSend(from, object{"calls": manyCalls(2), "gasStationNonce": "18446744073709551615"}), 3, "at most"},
		{ethSend(from, object{"calls": manyCalls(2), "gasStationNonce": "-1"}), 3, "decimal number"},
		{ethSend(from, object{"calls": manyCalls(2), "deadline": "1"}), 3, "in the next 24 hours"},
		{ethSend(from, object{"calls": manyCalls(2), "deadline": "9999999999"}), 3, "in the next 24 hours"},
		{ethSend(from, object{"calls": []object{}}), 3, "calls"},
		{ethSend(from, object{"caip2": "eip155:5"}), 3, "caip2"},
		{ethSend(ids[0]), 3, "must be an Ethereum address"},
		{ethSend("x"), 3, "must be an Ethereum address"},
		{ethSend(activitytest.SomeAddress), 5, "wallet account not found"},
		{ethSend(from, call(object{"to": ""})), 3, "to"},
		{ethSend(from, call(object{"to": "0x12"})), 3, "must be an Ethereum address"},
		{ethSend(from, call(object{"to": activitytest.SomeAddress, "value": "0x10"})), 3, "decimal number"},
		{ethSend(from, call(object{"to": activitytest.SomeAddress, "value": "-1"})), 3, "decimal number"},
		{ethSend(from, call(object{"to": activitytest.SomeAddress, "value": "1.5"})), 3, "decimal number"},
		{ethSend(from, call(object{"to": activitytest.SomeAddress, "value": strings.Repeat("9", 78)})), 3, "decimal number"},
		{ethSend(from, call(object{"to": activitytest.SomeAddress, "value": strings.Repeat("9", 100_000)})), 3, "decimal number"},
		{ethSend(from, call(object{"to": activitytest.SomeAddress, "data": "0102"})), 3, "hexadecimal with 0x"},
		{ethSend(from, call(object{"to": activitytest.SomeAddress, "data": "0x012"})), 3, "hexadecimal with 0x"},
		{ethSend(from, call(object{"to": activitytest.SomeAddress, "data": "0x" + strings.Repeat("00", 128<<10)})), 3, "at most"},
		{ethSend(from, object{"nonce": "18446744073709551615"}), 3, "at most"},
		{ethSend(from, object{"nonce": "18446744073709551616"}), 3, "below 2^64"},
		{ethSend(from, object{"gasLimit": "1e6"}), 3, "below 2^64"},
		{ethSend(from, object{"maxFeePerGas": "1", "maxPriorityFeePerGas": "2"}), 3, "must not be above maxFeePerGas"},
	} {
		w.Refuse("ETH_SEND_TRANSACTION_V2", c.in, c.code, c.says)
	}
	w.Run("DISABLE_PRIVATE_KEY", object{"privateKeyId": ids[0]})
	w.Refuse("ETH_SEND_TRANSACTION_V2", ethSend(privateKeyOf(w, ids[0]).Addresses[0].Address), 3, "disabled")

	// Nothing is signed of whose chain nothing is known.
	w.ChainState = nil
	if _, err := w.Try("ETH_SEND_TRANSACTION_V2", ethSend(from)); err == nil || fault.Of(err) != nil {
		t.Errorf("%v", err)
	}
}

// TestTheHostCannotBurn: what a lying node makes a transaction cost is bounded,
// and the client's own word is not.
func TestTheHostCannotBurn(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	for what, c := range map[string]struct {
		says activity.ChainState
		in   object
		want string // "" is taken
	}{
		"all it may":                  {activity.ChainState{BaseFee: 1e9, Tip: 1e9, Gas: 27_000_000}, nil, ""},
		"base fee":                    {activity.ChainState{BaseFee: math.MaxUint64, Tip: 1, Gas: 21_000}, nil, "give gasLimit and maxFeePerGas"},
		"tip":                         {activity.ChainState{BaseFee: 1, Tip: math.MaxUint64, Gas: 21_000}, nil, "give gasLimit and maxFeePerGas"},
		"both":                        {activity.ChainState{BaseFee: 1e9, Tip: 1e9, Gas: 28_000_000}, nil, "give gasLimit and maxFeePerGas"},
		"gas":                         {activity.ChainState{BaseFee: 1, Tip: 1, Gas: 50_000_001}, nil, "give gasLimit"},
		"all gas":                     {activity.ChainState{BaseFee: 1, Tip: 1, Gas: math.MaxUint64}, nil, "give gasLimit"},
		"gas at my price":             {activity.ChainState{Gas: math.MaxUint64}, object{"maxFeePerGas": "1", "maxPriorityFeePerGas": "1"}, "give gasLimit"},
		"gas at a high price of mine": {activity.ChainState{Gas: 27_000_000}, object{"maxFeePerGas": "4000000000", "maxPriorityFeePerGas": "1"}, "give gasLimit and maxFeePerGas"},
		"tip at my price":             {activity.ChainState{Tip: math.MaxUint64, Gas: 21_000}, object{"maxFeePerGas": "3"}, ""},
		"price of my gas":             {activity.ChainState{BaseFee: 1e10, Tip: 1}, object{"gasLimit": "5000001"}, "give gasLimit and maxFeePerGas"},
		"my word":                     {activity.ChainState{}, object{"gasLimit": "18446744073709551615", "maxFeePerGas": strings.Repeat("9", 70), "maxPriorityFeePerGas": "1"}, ""},
	} {
		chainSays(w, c.says)
		in := ethSend(from, c.in)
		if c.want == "" {
			w.Run("ETH_SEND_TRANSACTION_V2", in)
			continue
		}
		t.Run(what, func(t *testing.T) {
			w.TB = t
			w.Refuse("ETH_SEND_TRANSACTION_V2", in, fault.FailedPrecondition, c.want)
		})
		w.TB = t
	}
	// Where coins are cheap it may be more of them.
	chainSays(w, activity.ChainState{BaseFee: 1e12, Tip: 1, Gas: 21_000})
	w.Run("ETH_SEND_TRANSACTION_V2", ethSend(from, object{"caip2": "eip155:137", "gasLimit": "100000"}))
}

// nonceOf sends and answers the number given.
func nonceOf(w *world, in object) uint64 {
	w.TB.Helper()
	w.Run("ETH_SEND_TRANSACTION_V2", in)
	return sentOf(w).Nonce
}

func TestNonces(t *testing.T) {
	w := activitytest.New(t)
	from, other := ethAddress(w), ethAddress(w)
	k := someChain
	k.Standings = map[org.SendRef]activity.Standing{}
	asked := chainSays(w, k)
	refs := map[uint64]org.SendRef{} // of numbers, by the entries of the runs
	for want := uint64(5); want < 55; want++ {
		if got := nonceOf(w, ethSend(from)); got != want {
			t.Fatalf("nonce %d, want %d", got, want)
		}
		refs[want] = org.SendRef{Seq: w.Seq}
	}
	need := (*asked)[49]
	if len(need.Sends) != 49 || need.Sends[0] != refs[5] || need.Sends[48] != refs[53] {
		t.Fatalf("asked about %v", need.Sends)
	}
	// Another account, and the same on another chain, count for themselves.
	if got := nonceOf(w, ethSend(other)); got != 5 {
		t.Errorf("another account: nonce %d", got)
	}
	if got := nonceOf(w, ethSend(from, object{"caip2": "eip155:1"})); got != 5 {
		t.Errorf("another chain: nonce %d", got)
	}
	// What was refused gives its number on, lowest first; what is under way, in a block
	// or unknown is not.
	for nonce, state := range map[uint64]org.SendState{6: org.SendRefused, 8: org.SendExpired, 9: org.SendReplaced, 10: org.SendReverted, 11: org.SendIncluded, 12: org.SendUnknown, 13: org.SendAccepted} {
		k.Standings[refs[nonce]] = activity.Standing{State: state}
	}
	chainSays(w, k)
	for _, want := range []uint64{6, 8, 55, 56} {
		if got := nonceOf(w, ethSend(from)); got != want {
			t.Fatalf("nonce %d, want %d", got, want)
		}
	}
	// Nodes may know of transactions that are not ours.
	k.Pending = 60
	chainSays(w, k)
	if got := nonceOf(w, ethSend(from)); got != 60 {
		t.Errorf("nonce %d, want 60", got)
	}
	// A host that says less than it said before does not make a number go out twice.
	k.Pending, k.Latest = 0, 0
	chainSays(w, k)
	for _, want := range []uint64{0, 1, 2, 3, 4, 57} {
		if got := nonceOf(w, ethSend(from)); got != want {
			t.Fatalf("nonce %d, want %d", got, want)
		}
	}
	// Nor does one that says far too much spoil the account.
	k.Pending = 1 << 60
	chainSays(w, k)
	if got := nonceOf(w, ethSend(from)); got != 1<<60 {
		t.Errorf("nonce %d", got)
	}
	k.Pending = 0
	chainSays(w, k)
	if got := nonceOf(w, ethSend(from)); got != 58 {
		t.Errorf("nonce %d, want 58", got)
	}
	k.Pending = math.MaxUint64 - 1
	chainSays(w, k)
	if got := nonceOf(w, ethSend(from)); got != math.MaxUint64-1 {
		t.Errorf("nonce %d", got)
	}
	w.Refuse("ETH_SEND_TRANSACTION_V2", ethSend(from), 3, "none left")
}

// TestNonceByName: a client may name a number that is taken, to replace what has it.
func TestNonceByName(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	k := someChain
	k.Standings = map[org.SendRef]activity.Standing{}
	chainSays(w, k)
	var refs []org.SendRef
	for range 8 {
		if got := nonceOf(w, ethSend(from, object{"nonce": "7"})); got != 7 {
			t.Fatal(got)
		}
		refs = append(refs, org.SendRef{Seq: w.Seq})
	}
	w.Refuse("ETH_SEND_TRANSACTION_V2", ethSend(from, object{"nonce": "7"}), 8, "given to 8 transactions")
	for _, want := range []uint64{5, 6, 8} {
		if got := nonceOf(w, ethSend(from)); got != want {
			t.Fatalf("nonce %d, want %d", got, want)
		}
	}
	// The number is free once all that had it are gone.
	for i, ref := range refs {
		k.Standings[ref] = activity.Standing{State: org.SendRefused}
		chainSays(w, k)
		want := uint64(9 + i)
		if i == len(refs)-1 {
			want = 7
		}
		if got := nonceOf(w, ethSend(from)); got != want {
			t.Fatalf("%d gone: nonce %d, want %d", i+1, got, want)
		}
	}
}

// TestRefusedNumbersGoToTheNext: whatever a host says that the chain has for it, the number of a transaction that was refused goes to
// the next one, which pays a tenth more: who keeps the first can have only one of the two in a block.
func TestRefusedNumbersGoToTheNext(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	to, _ := wallets.EthAddress("to", activitytest.SomeAddress)
	k := someChain
	k.Standings = map[org.SendRef]activity.Standing{}
	var refs []org.SendRef
	sent := func(nonce uint64, tip, feeCap int64, more ...object) {
		t.Helper()
		chainSays(w, k)
		w.Run("ETH_SEND_TRANSACTION_V2", ethSend(from, more...))
		want := eth.Unsigned1559(11155111, nonce, big.NewInt(tip), big.NewInt(feeCap), 60_000, &to, big.NewInt(7), nil)
		if x := sentOf(w); x.Nonce != nonce || !bytes.HasPrefix(x.Signed[4:], want[3:len(want)-1]) {
			t.Fatalf("nonce %d: %x, want %x", x.Nonce, x.Signed, want)
		}
		refs = append(refs, org.SendRef{Seq: w.Seq})
	}
	say := func(state org.SendState, which ...int) {
		for _, i := range which {
			k.Standings[refs[i]] = activity.Standing{State: state}
		}
	}
	sent(5, 1e8, 21e8)
	sent(6, 1e8, 21e8)
	say(org.SendRefused, 0)
	k.Pending = 9
	sent(5, 110_000_001, 2_310_000_001)
	sent(9, 1e8, 21e8)
	// The second was refused too; what the client says of fees is taken.
	say(org.SendExpired, 2)
	sent(5, 3, 4, object{"maxFeePerGas": "4", "maxPriorityFeePerGas": "3"})
	say(org.SendRefused, 4)
	sent(5, 121_000_002, 2_541_000_002)
	// A tip of his own is under the least fee that is taken for the first.
	say(org.SendRefused, 5)
	sent(5, 9, 2_795_100_003, object{"maxPriorityFeePerGas": "9"})
	say(org.SendRefused, 6)
	chainSays(w, k)
	w.Refuse("ETH_SEND_TRANSACTION_V2", ethSend(from, object{"gasLimit": "40000000"}), 9, "give gasLimit and maxFeePerGas")

	// The chain has used the number, and none that has it is said to be in a block.
	k.Latest = 6
	for _, state := range []org.SendState{org.SendRefused, org.SendReplaced} {
		say(state, 6)
		chainSays(w, k)
		for range 2 {
			w.Refuse("ETH_SEND_TRANSACTION_V2", ethSend(from), 9, "nonce: number 5 of "+from+" is used on eip155:11155111")
		}
	}
	// One that has it is said to be there, or may be: that is enough.
	for _, state := range []org.SendState{org.SendIncluded, org.SendReverted, org.SendAccepted, org.SendWaiting, org.SendUnknown} {
		say(state, 4)
		v := kinds.Live["ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2"]
		in, err := v.Decode(activitytest.JSON(ethSend(from)))
		w.Must(err)
		_, err = v.ChainQuery(w.Tx(), in)
		w.Must(err)
		in.SetChainState(&k)
		if _, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, true); err != nil {
			t.Errorf("state %d: %v", state, err)
		}
	}
	say(org.SendRefused, 4)
	// Whoever numbers his own has looked, and nobody is asked again.
	sent(20, 1e8, 21e8, object{"nonce": "20"})
	sent(10, 1e8, 21e8)
}

// TestUsedUpNonces: a client may name numbers that its chain has used up, as many
// as it likes; nothing is remembered of them.
func TestUsedUpNonces(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	account, _ := wallets.EthAddress("from", from)
	k := someChain
	k.Latest, k.Pending = 1000, 1000
	chainSays(w, k)
	for i := range 20 {
		nonceOf(w, ethSend(from, object{"nonce": strconv.Itoa(i)}))
	}
	w.Must(w.Tx().EachNonce(org.Sender{Chain: 11155111, Address: account}, 0, func(nonce uint64, _ *org.NonceUse) bool {
		t.Errorf("nonce %d is remembered", nonce)
		return false
	}))
}

// TestNoncesAreForgotten: what is in a block is remembered for a while, since
// another request may have heard of the chain before that, and then no more.
func TestNoncesAreForgotten(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	account, _ := wallets.EthAddress("from", from)
	uses := func() (n int) {
		w.Must(w.Tx().EachNonce(org.Sender{Chain: 11155111, Address: account}, 0, func(uint64, *org.NonceUse) bool { n++; return true }))
		return n
	}
	k := someChain
	chainSays(w, k)
	for range 300 {
		nonceOf(w, ethSend(from))
	}
	k.Latest, k.Pending = 305, 305
	chainSays(w, k)
	for range 3 { // some at a time
		nonceOf(w, ethSend(from))
	}
	if got := uses(); got != 303 {
		t.Fatalf("%d uses", got)
	}
	// A request that had heard of the chain before still gets no number twice.
	stale := someChain
	chainSays(w, stale)
	if got := nonceOf(w, ethSend(from)); got != 308 {
		t.Fatalf("nonce %d", got)
	}
	w.Now += 10 * 60 * 1000
	k.Pending = 309
	chainSays(w, k)
	for range 3 {
		nonceOf(w, ethSend(from))
	}
	if got := uses(); got != 7 {
		t.Fatalf("%d uses", got)
	}
	// There is an end to what is under way; once it is in blocks it goes on, and what
	// was too much is forgotten in time.
	k.Latest, k.Pending = 1000, 1000
	chainSays(w, k)
	tx := w.Tx()
	for i := range uint64(4096) {
		w.Must(tx.PutNonce(org.Sender{Chain: 11155111, Address: account}, 1000+i, &org.NonceUse{Sends: []org.SendRef{{Seq: i}}}))
	}
	tx.Apply()
	w.Refuse("ETH_SEND_TRANSACTION_V2", ethSend(from), 8, "under way")
	w.Refuse("ETH_SEND_TRANSACTION_V2", ethSend(from, object{"nonce": "7"}), 8, "under way")
	k.Latest, k.Pending = 5096, 5096
	chainSays(w, k)
	for range 40 {
		nonceOf(w, ethSend(from))
	}
	w.Now += 10 * 60 * 1000
	for range 40 {
		nonceOf(w, ethSend(from))
	}
	if got := uses(); got > 200 {
		t.Fatalf("%d uses", got)
	}
}

// TestPoliciesSeeWhatIsSigned: the question is about the transaction as it will be
// signed, and of what is not known yet it says nothing.
func TestPoliciesSeeWhatIsSigned(t *testing.T) {
	w := activitytest.New(t)
	from := ethAddress(w)
	chainSays(w, someChain)
	v, err := kinds.Live.Lookup("eth_send_transaction", "ACTIVITY_TYPE_ETH_SEND_TRANSACTION_V2")
	w.Must(err)
	holds := func(in *activity.Intent, condition string) (bool, error) {
		t.Helper()
		p, err := policy.Compile(policy.ClauseCondition, condition)
		w.Must(err)
		q, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, false)
		w.Must(err)
		return p.Holds(&q)
	}
	in, err := v.Decode(activitytest.JSON(ethSend(from)))
	w.Must(err)
	known := []string{
		"eth.tx.to == '" + strings.ToLower(activitytest.SomeAddress) + "' && eth.tx.value == 7 && eth.tx.chain_id == 11155111 && eth.tx.type == 'TYPE_2' && eth.tx.data == '0x'",
		"eth.tx.from == '" + from + "' && wallet_account.address == '" + from + "'", "activity.kind == 'ACTIVITY_TYPE_ETH_SEND_TRANSACTION' || activity.resource == 'PRIVATE_KEY'",
	}
	filled := []string{"eth.tx.nonce == 5", "eth.tx.gas == 60000", "eth.tx.max_fee_per_gas == 2100000000 && eth.tx.gas_price == 2100000000", "eth.tx.max_priority_fee_per_gas == 100000000"}
	for _, c := range known {
		if yes, err := holds(in, c); err != nil || !yes {
			t.Errorf("%s: %t, %v", c, yes, err)
		}
	}
	for _, c := range filled {
		if yes, err := holds(in, c); err == nil {
			t.Errorf("%s: %t of what is not known", c, yes)
		}
	}
	k := someChain
	in.SetChainState(&k)
	for _, c := range append(known, filled...) {
		if yes, err := holds(in, c); err != nil || !yes {
			t.Errorf("%s: %t, %v", c, yes, err)
		}
	}
	// What cannot be is refused before anybody decides.
	k.Gas = math.MaxUint64
	if _, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, true); activitytest.Code(err) != fault.FailedPrecondition {
		t.Errorf("%v", err)
	}
}

func TestEthSendRawTransaction(t *testing.T) {
	w := activitytest.New(t)
	asked := chainSays(w, activity.ChainState{})
	const hash = "0x33469b22e9f636356c4160a87eb19df52b7412e8eac32a4a55ffe88ea8350788"
	for _, text := range []string{activitytest.SignedTransfer, "0x" + activitytest.SignedTransfer, "0x" + strings.ToUpper(activitytest.SignedTransfer)} {
		r := w.Run("ETH_SEND_RAW_TRANSACTION", object{"signedTransaction": text, "caip2": "eip155:1"})
		if x := sentOf(w); r["transactionHash"] != hash || x.Name != hash || x.Chain != "eip155:1" || x.Nonce != 9 || hex.EncodeToString(x.Signed) != activitytest.SignedTransfer || hex.EncodeToString(x.From) != "9d8a62f656a8d1615c1294fd71e9cfb3e4855a4f" {
			t.Fatalf("%v %+v", r, x)
		}
		if w.Last.Changed() { // a stranger's numbers are his own affair
			t.Fatal("something was written down")
		}
	}
	if need := (*asked)[0]; need.Chain != "eip155:1" || need.Nonces || need.Fees || need.Gas || need.From != nil {
		t.Errorf("%+v", need)
	}
	// What one of our accounts has signed takes its number.
	from := ethAddress(w)
	account, _ := wallets.EthAddress("from", from)
	to, _ := wallets.EthAddress("to", activitytest.SomeAddress)
	unsigned := eth.Unsigned1559(11155111, 5, big.NewInt(1), big.NewInt(2), 21_000, &to, big.NewInt(7), nil)
	signed := w.Run("SIGN_TRANSACTION_V2", object{"signWith": from, "unsignedTransaction": hex.EncodeToString(unsigned), "type": "TRANSACTION_TYPE_ETHEREUM"})["signedTransaction"]
	chainSays(w, someChain)
	w.Run("ETH_SEND_RAW_TRANSACTION", object{"signedTransaction": signed, "caip2": "eip155:11155111"})
	if x := sentOf(w); !bytes.Equal(x.From, account[:]) || x.Nonce != 5 {
		t.Fatalf("%+v", x)
	}
	if got := nonceOf(w, ethSend(from)); got != 6 {
		t.Errorf("nonce %d", got)
	}
	// Policies see it as any other, whoever has signed.
	v, err := kinds.Live.Lookup("eth_send_raw_transaction", "ACTIVITY_TYPE_ETH_SEND_RAW_TRANSACTION")
	w.Must(err)
	in, err := v.Decode(activitytest.JSON(object{"signedTransaction": activitytest.SignedTransfer, "caip2": "eip155:1"}))
	w.Must(err)
	for condition, want := range map[string]bool{
		"eth.tx.to == '0x3535353535353535353535353535353535353535' && eth.tx.value == 1000000000000000000 && eth.tx.nonce == 9 && eth.tx.chain_id == 1": true,
		"eth.tx.from == '0x9d8A62f656a8d1615C1294fd71e9CFb3E4855A4F' && activity.resource == 'PRIVATE_KEY' && activity.action == 'SIGN'":                true,
		"eth.tx.value < 5": false,
	} {
		p, err := policy.Compile(policy.ClauseCondition, condition)
		w.Must(err)
		q, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, false)
		w.Must(err)
		if yes, err := p.Holds(&q); yes != want || err != nil {
			t.Errorf("%s: %t, %v", condition, yes, err)
		}
	}
}

func TestEthSendRawIsRefused(t *testing.T) {
	w := activitytest.New(t)
	chainSays(w, someChain)
	for _, c := range []struct {
		signed, caip2 string
		code          fault.Code
		says          string
	}{
		{activitytest.SignedTransfer, "eip155:5", 3, "caip2"},
		{activitytest.SignedTransfer, "eip155:137", 3, "it is for chain eip155:1"},
		{activitytest.SignedTransfer + "00", "eip155:1", 3, "invalid transaction"},
		{activitytest.SignedTransfer[:len(activitytest.SignedTransfer)-2], "eip155:1", 3, "invalid transaction"},
		{legacy, "eip155:1", 3, "invalid transaction"},
		{transfer, "eip155:1", 3, "not been signed"},
		{"", "eip155:1", 3, "signedTransaction"},
		{"0x", "eip155:1", 3, "invalid transaction"},
		{"0x0", "eip155:1", 3, "not hexadecimal"},
		{"hello", "eip155:1", 3, "not hexadecimal"},
		{strings.Repeat("00", 256<<10+1), "eip155:1", 3, "over 262144 bytes"},
		{strings.Repeat("f8", 1000), "eip155:1", 3, "invalid transaction"},
	} {
		w.Refuse("ETH_SEND_RAW_TRANSACTION", object{"signedTransaction": c.signed, "caip2": c.caip2}, c.code, c.says)
	}
	w.ChainState = nil
	if _, err := w.Try("ETH_SEND_RAW_TRANSACTION", object{"signedTransaction": activitytest.SignedTransfer, "caip2": "eip155:1"}); err == nil || fault.Of(err) != nil {
		t.Errorf("%v", err)
	}
}

func solAddress(w *world) (address string, key []byte) {
	address = activitytest.List(w.Run("CREATE_WALLET", activitytest.Wallet(fmt.Sprint("w", w.Seq), activitytest.Account("ED25519", "m/44'/501'/0'", "SOLANA"))), "addresses")[0]
	a, err := sol.ParseAddress(address)
	w.Must(err)
	return address, a[:]
}

func TestSolSendTransaction(t *testing.T) {
	w := activitytest.New(t)
	one, oneKey := solAddress(w)
	two, twoKey := solAddress(w)
	hash := [32]byte{0: 1, 31: 2}
	asked := chainSays(w, activity.ChainState{Blockhash: hash})
	unrelated := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{3}, 32))
	unrelatedKey := []byte(unrelated.Public().(ed25519.PublicKey))
	signed := activitytest.SolanaOf(hash, oneKey, unrelatedKey)
	copy(signed[1+64:], ed25519.Sign(unrelated, signed[1+128:]))
	for what, c := range map[string]struct {
		in    object
		asks  bool
		hash  [32]byte
		first []byte
	}{
		"blockhash filled in": {object{"unsignedTransaction": hex.EncodeToString(activitytest.SolanaOf([32]byte{}, oneKey)), "signWiths": []string{one}}, true, hash, oneKey},
		"blockhash there":     {object{"unsignedTransaction": "0x" + hex.EncodeToString(activitytest.SolanaOf([32]byte{5}, oneKey)), "signWiths": []string{one}}, false, [32]byte{5}, oneKey},
		"blockhash given":     {object{"unsignedTransaction": hex.EncodeToString(activitytest.SolanaOf([32]byte{5}, oneKey)), "signWiths": []string{one}, "recentBlockhash": activitytest.SomeSolana}, false, solBytes(t, activitytest.SomeSolana), oneKey},
		"base64":              {object{"unsignedTransaction": base64.StdEncoding.EncodeToString(activitytest.SolanaOf([32]byte{5}, oneKey)), "signWiths": []string{one}}, false, [32]byte{5}, oneKey},
		"two of ours":         {object{"unsignedTransaction": hex.EncodeToString(activitytest.SolanaOf([32]byte{}, twoKey, oneKey)), "signWiths": []string{one, two}}, true, hash, twoKey},
		"another has signed":  {object{"unsignedTransaction": hex.EncodeToString(signed), "signWiths": []string{one}}, false, hash, oneKey},
	} {
		t.Run(what, func(t *testing.T) {
			w.TB = t
			*asked = nil
			c.in["caip2"] = "solana:devnet"
			r := w.Run("SOL_SEND_TRANSACTION_V2", c.in)
			if r["sendTransactionStatusId"] != w.Last.Activity.String() {
				t.Fatal(r)
			}
			if need := (*asked)[0]; need.Chain != "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1" || need.Blockhash != c.asks || need.Nonces || need.Fees || need.Gas {
				t.Errorf("%+v", need)
			}
			x := sentOf(w)
			name, err := sol.Signature(x.Signed)
			w.Must(err)
			if got, err := sol.Blockhash(x.Signed); err != nil || got != c.hash || name != x.Name || x.Chain != "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1" || x.From != nil {
				t.Errorf("%+v, blockhash %x, %v", x, got, err)
			}
			message := x.Signed[1+64*int(x.Signed[0]):]
			if !ed25519.Verify(c.first, message, x.Signed[1:65]) {
				t.Error("the first signature is wrong")
			}
			if life := w.Last.Sends[0].ExpiresMs - w.Now; life != 5*60*1000 {
				t.Errorf("it lives for %d ms", life)
			}
		})
	}
	w.TB = t
	v1 := object{"unsignedTransaction": base64.StdEncoding.EncodeToString(activitytest.SolanaOf([32]byte{}, oneKey)), "signWith": one, "caip2": "solana:mainnet"}
	w.Run("SOL_SEND_TRANSACTION", v1)
	if x := sentOf(w); x.Chain != "solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp" {
		t.Errorf("%+v", x)
	}
}

func solBytes(t *testing.T, text string) [32]byte {
	b, err := sol.ParseAddress(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestSolSendIsRefused(t *testing.T) {
	w := activitytest.New(t)
	one, oneKey := solAddress(w)
	two, twoKey := solAddress(w)
	ids := makeKeys(w, activitytest.PrivateKey("k", "ED25519", "SOLANA"))
	ether := ethAddress(w)
	chainSays(w, activity.ChainState{Blockhash: [32]byte{1}})
	signedByTwo := activitytest.SolanaOf([32]byte{}, oneKey, twoKey)
	signedByTwo[70] = 1
	in := func(tx []byte, more object, signers ...string) object {
		m := object{"unsignedTransaction": hex.EncodeToString(tx), "signWiths": signers, "caip2": "solana:devnet"}
		for k, v := range more {
			m[k] = v
		}
		return m
	}
	plain := activitytest.SolanaOf([32]byte{}, oneKey)
	many := make([]string, 17)
	for i := range many {
		many[i] = one
	}
	for _, c := range []struct {
		in   object
		code fault.Code
		says string
	}{
		{in(plain, object{"caip2": "solana:testnet"}, one), 3, "caip2"},
		{in(plain, nil), 3, "signWiths"},
		{in(plain, nil, many...), 3, "signWiths"},
		{in(plain, nil, one, one), 3, "twice"},
		{in(plain, nil, ids[0]), 3, "must be an address"},
		{in(plain, nil, activitytest.SomeSolana), 5, "not found"},
		{in(plain, nil, two), 3, "invalid transaction"},
		{in(plain, nil, ether), 3, "invalid transaction"},
		{in(append(plain, 0), nil, one), 3, "invalid transaction"},
		{in(plain[:100], nil, one), 3, "invalid transaction"},
		{in(nil, object{"unsignedTransaction": "not anything!"}, one), 3, "neither hexadecimal nor base64"},
		{in(nil, object{"unsignedTransaction": strings.Repeat("00", 1233) + "00"}, one), 3, "over 1232 bytes"},
		{in(plain, object{"recentBlockhash": "x"}, one), 3, "32 bytes in base58"},
		{in(plain, object{"recentBlockhash": strings.Repeat("1", 100)}, one), 3, "32 bytes in base58"},
		{in(activitytest.SolanaOf([32]byte{1}, oneKey, twoKey), nil, one), 3, "missing or wrong"},
		{in(signedByTwo, nil, one), 3, "has signed it with another recent blockhash"},
	} {
		w.Refuse("SOL_SEND_TRANSACTION_V2", c.in, c.code, c.says)
	}
	wrong := activitytest.SolanaOf([32]byte{1}, oneKey, twoKey)
	wrong[70] = 1
	w.Refuse("SOL_SEND_TRANSACTION_V2", in(wrong, nil, one), 3, "missing or wrong")
}

func TestPoliciesOnSolSend(t *testing.T) {
	w := activitytest.New(t)
	one, oneKey := solAddress(w)
	two, twoKey := solAddress(w)
	v, err := kinds.Live.Lookup("sol_send_transaction", "ACTIVITY_TYPE_SOL_SEND_TRANSACTION_V2")
	w.Must(err)
	ask := func(in *activity.Intent, condition string) (all bool, err error) {
		t.Helper()
		p, err := policy.Compile(policy.ClauseCondition, condition)
		w.Must(err)
		q, err := v.PolicyRequest(w.Tx(), in, w.NewID(), w.User, false)
		w.Must(err)
		all = true
		for _, each := range q.Each() {
			yes, err := p.Holds(&each)
			if err != nil {
				return false, err
			}
			all = all && yes
		}
		return all, nil
	}
	single, err := v.Decode(activitytest.JSON(object{"unsignedTransaction": hex.EncodeToString(activitytest.SolanaOf([32]byte{}, oneKey)), "signWiths": []string{one}, "caip2": "solana:devnet"}))
	w.Must(err)
	both, err := v.Decode(activitytest.JSON(object{"unsignedTransaction": hex.EncodeToString(activitytest.SolanaOf([32]byte{}, oneKey, twoKey)), "signWiths": []string{one, two}, "caip2": "solana:devnet"}))
	w.Must(err)
	for _, c := range []struct {
		in        *activity.Intent
		condition string
		want      bool
		fails     bool
	}{
		{single, "solana.tx.transfers.count() == 1 && solana.tx.transfers[0].amount == 5 && wallet_account.address == '" + one + "'", true, false},
		{single, "solana.tx.recent_blockhash == 'x'", false, true},
		{both, "solana.tx.transfers.count() == 2", true, false},
		{both, "wallet_account.address == '" + one + "'", false, false}, // each must be
		{both, "wallet_account.address in ['" + one + "', '" + two + "']", true, false},
		{both, "wallets.count() == 2", true, false},
	} {
		if yes, err := ask(c.in, c.condition); yes != c.want || (err != nil) != c.fails {
			t.Errorf("%s: %t, %v", c.condition, yes, err)
		}
	}
	single.SetChainState(&activity.ChainState{Blockhash: [32]byte{31: 1}})
	if yes, err := ask(single, "solana.tx.recent_blockhash == '11111111111111111111111111111112'"); !yes || err != nil {
		t.Errorf("%t, %v", yes, err)
	}
}

// BenchmarkEthSend is one transaction of an account that has sent n within the
// last minutes.
func BenchmarkEthSend(b *testing.B) {
	for _, n := range []uint64{0, 100, 4000} {
		b.Run(fmt.Sprintf("uses=%d", n), func(b *testing.B) {
			w := activitytest.New(b)
			from := ethAddress(w)
			account, _ := wallets.EthAddress("from", from)
			tx := w.Tx()
			for i := range n {
				w.Must(tx.PutNonce(org.Sender{Chain: 11155111, Address: account}, i, &org.NonceUse{Sends: []org.SendRef{{Seq: i}}, MinedMs: w.Now}))
			}
			tx.Apply()
			k := someChain
			k.Latest, k.Pending = n, n
			chainSays(w, k)
			before := w.State
			for b.Loop() {
				w.State = before
				w.Now = activitytest.Start
				if _, err := w.Try("ETH_SEND_TRANSACTION_V2", ethSend(from, object{"nonce": nil})); err != nil {
					b.Fatal(err)
				}
				tx := w.Tx()
				tx.DeleteNonce(org.Sender{Chain: 11155111, Address: account}, n)
				tx.Apply()
			}
		})
	}
}
