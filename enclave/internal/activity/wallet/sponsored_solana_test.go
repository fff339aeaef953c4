package wallet_test

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"
	"slices"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	wallets "cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

const devnet = "solana:EtWTRABZaYq6iMfeYKouRu166VU2xqa1"

// solanaPrice has a signature cost a dollar: 5,000 lamports.
const solanaPrice = 200_000 * 1_000_000

func solSend(tx []byte, more object, signers ...string) object {
	in := object{"unsignedTransaction": hex.EncodeToString(tx), "signWiths": signers, "caip2": "solana:devnet", "sponsor": true}
	for k, v := range more {
		in[k] = v
	}
	return in
}

func solSponsorIn(w *world) [32]byte {
	account, err := sol.ParseAddress(stationIn(w).Solana)
	w.Must(err)
	return account
}

// createAccount has the signer make an account for tokens of 165 bytes, which signs too.
func createAccount(payer, account []byte) []byte {
	tx := append([]byte{2}, make([]byte, 128)...)
	tx = append(append(append(tx, 2, 0, 1, 3), payer...), account...)
	tx = append(tx, make([]byte, 64)...)
	tx = append(tx, 1, 2, 2, 0, 1, 52, 0, 0, 0, 0)
	tx = append(tx, 0xf0, 0x1d, 0x1f, 0, 0, 0, 0, 0, 165, 0, 0, 0, 0, 0, 0, 0) // 2,039,280 lamports
	return append(tx, make([]byte, 32)...)
}

func TestSponsoredSolana(t *testing.T) {
	w := activitytest.New(t)
	one, oneKey := solAddress(w)
	two, twoKey := solAddress(w)
	hash := [32]byte{0: 1, 31: 2}
	asked := chainSays(w, activity.ChainState{Blockhash: hash, Tip: 1_000_000})
	plain := activitytest.SolanaOf([32]byte{}, oneKey)
	w.Refuse("SOL_SEND_TRANSACTION_V2", solSend(plain, nil, one), 9, "no gas usage configuration")
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60"))
	w.Refuse("SOL_SEND_TRANSACTION_V2", solSend(plain, nil, one), 9, "gas.prices")
	w.Capabilities.GasPrices = map[string]uint64{devnet: solanaPrice}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60", object{"enabled": false}))
	w.Refuse("SOL_SEND_TRANSACTION_V2", solSend(plain, nil, one), 9, "not enabled")
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60", object{"enabled": true}))
	sponsor := solSponsorIn(w)

	sent := func(in object, signers int) (x *org.Transaction, of []sol.RequiredSigner) {
		t.Helper()
		w.Run("SOL_SEND_TRANSACTION_V2", in)
		x = sentOf(w)
		name, err := sol.Signature(x.Signed) // of all signers
		w.Must(err)
		of, err = sol.Signers(x.Signed)
		w.Must(err)
		if got, err := sol.Blockhash(x.Signed); err != nil || got != hash || name != x.Name || of[0].Address != sol.AddressText(sponsor) || len(of) != signers+1 {
			t.Fatalf("%+v, %x, %v", of, got, err)
		}
		return x, of
	}
	*asked = nil
	x, _ := sent(solSend(plain, nil, one), 1)
	if need := (*asked)[0]; !need.Blockhash || !need.Fees || need.Exist || len(need.Accounts) != 2 || string(need.Accounts[0]) != string(oneKey) {
		t.Errorf("asked for %+v", need)
	}
	message := x.Signed[1+2*64:]
	if !ed25519.Verify(oneKey, message, x.Signed[65:129]) {
		t.Error("the signer has not signed")
	}
	// Two signatures and 400,000 units at a lamport: of the payment, and of the instruction with the price.
	used := func(want string) {
		t.Helper()
		c, err := w.Tx().GasConfig()
		w.Must(err)
		tree, _, _, err := wallets.GasUsage(w.Tx(), c, w.ID)
		if got := wallets.FormatMicro(tree); err != nil || got != want {
			t.Errorf("used %s, %v, want %s", got, err, want)
		}
	}
	used("82")
	sent(solSend(activitytest.SolanaOf([32]byte{}, twoKey, oneKey), nil, one, two), 2)
	chainSays(w, activity.ChainState{Blockhash: hash})
	w.Now += 60 * 60 * 1000
	sent(solSend(plain, nil, one), 1)
	used("2")

	// Rent: only once it is turned on, and of what is not there.
	create := createAccount(oneKey, twoKey)
	transfers := func(x *org.Transaction) []sol.Transfer {
		all, err := sol.Transfers(x.Signed)
		w.Must(err)
		return slices.DeleteFunc(all, func(t sol.Transfer) bool { return t.From != sol.AddressText(sponsor) })
	}
	if x, _ := sent(solSend(create, nil, one, two), 2); len(transfers(x)) != 0 {
		t.Error("rent that nobody offered")
	}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60", object{"solanaConfig": object{"rentPrefundEnabled": true}}))
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60", object{"solanaConfig": object{}}))
	asked = chainSays(w, activity.ChainState{Blockhash: hash})
	w.Now += 60 * 60 * 1000
	x, _ = sent(solSend(create, nil, one, two), 2)
	if need := (*asked)[0]; !need.Exist || len(need.Accounts) != 2 {
		t.Errorf("asked for %+v", need)
	}
	if got := transfers(x); len(got) != 1 || got[0].To != one || got[0].Amount != 2_039_280 {
		t.Errorf("%+v", got)
	}
	used("410.856")
	chainSays(w, activity.ChainState{Blockhash: hash, Existing: 0b10})
	if x, _ := sent(solSend(create, nil, one, two), 2); len(transfers(x)) != 0 {
		t.Error("rent of what is there")
	}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60", object{"solanaConfig": object{"rentPrefundEnabled": false}}))
	if x, _ := sent(solSend(create, nil, one, two), 2); len(transfers(x)) != 0 {
		t.Error("rent that is turned off")
	}

	// The window is one for all chains, and what passes it changes nothing.
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("420", "0", "60"))
	w.Refuse("SOL_SEND_TRANSACTION_V2", solSend(plain, object{"caip2": "solana:mainnet"}, one), 9, "no price for solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp")
	w.Run("SOL_SEND_TRANSACTION_V2", solSend(plain, nil, one))
	w.Refuse("SOL_SEND_TRANSACTION_V2", solSend(plain, nil, one), 8, "orgWindowLimitUsd of 420 USD in 60 minutes would be passed: 418.856 are used, and the transaction can cost 2")
	used("418.856")
}

func TestSponsoredSolanaIsRefused(t *testing.T) {
	w := activitytest.New(t)
	one, oneKey := solAddress(w)
	two, twoKey := solAddress(w)
	w.Capabilities.GasPrices = map[string]uint64{devnet: solanaPrice}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000000000", "0", "60"))
	sponsor := solSponsorIn(w)
	chainSays(w, activity.ChainState{Blockhash: [32]byte{1}})
	both := activitytest.SolanaOf([32]byte{}, oneKey, twoKey)
	signed := activitytest.SolanaOf([32]byte{5}, oneKey, twoKey)
	signed[70] = 1
	nonce := append([]byte{1}, make([]byte, 64)...)
	nonce = append(append(nonce, 1, 0, 1, 3), oneKey...)
	nonce = append(append(nonce, twoKey...), make([]byte, 64)...)
	nonce = append(nonce, 1, 2, 3, 1, 0, 0, 4, 4, 0, 0, 0)
	dear := append([]byte{1}, make([]byte, 64)...)
	budget, _ := sol.ParseAddress("ComputeBudget111111111111111111111111111111")
	dear = append(append(dear, 1, 0, 1, 2), oneKey...)
	dear = append(append(dear, budget[:]...), make([]byte, 32)...)
	dear = append(dear, 1, 1, 0, 9, 3, 255, 255, 255, 255, 255, 255, 255, 255)
	for _, c := range []struct {
		in   object
		code fault.Code
		says string
	}{
		{solSend(both, nil, one), 3, "every required signer of a sponsored transaction: " + two + " is missing"},
		{solSend(signed, nil, one, two), 3, "has signed it without the sponsor"},
		{solSend(nonce, nil, one), 3, "durable nonce"},
		{solSend(activitytest.SolanaOf([32]byte{}, oneKey, sponsor[:]), nil, one, sol.AddressText(sponsor)), 5, "not found"},
		{solSend(createAccount(oneKey, sponsor[:]), nil, one), 3, "is missing"},
		{solSend(dear, nil, one), 3, "more than any limit"},
	} {
		w.Refuse("SOL_SEND_TRANSACTION_V2", c.in, c.code, c.says)
	}
	// An instruction that names the sponsor could spend what he has.
	takes := append([]byte{1}, make([]byte, 64)...)
	takes = append(append(takes, 1, 0, 1, 3), oneKey...)
	takes = append(append(takes, sponsor[:]...), make([]byte, 64)...)
	takes = append(takes, 1, 2, 2, 1, 0, 12, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0)
	w.Refuse("SOL_SEND_TRANSACTION_V2", solSend(takes, nil, one), 3, "is one of its own accounts")
	w.Refuse("SIGN_TRANSACTION_V2", object{"signWith": sol.AddressText(sponsor), "unsignedTransaction": hex.EncodeToString(takes), "type": "TRANSACTION_TYPE_SOLANA"}, 5, "not found")
	w.Refuse("SIGN_RAW_PAYLOAD_V2", activitytest.Signing(sol.AddressText(sponsor), "00"), 5, "not found")

	// A configuration of before has no account on Solana until it is sent again.
	tx := w.Tx()
	c, err := tx.GasConfig()
	w.Must(err)
	old := *c
	old.SolanaPublicKey, old.SolanaKey = "", nil
	w.Must(tx.PutGasConfig(&old))
	tx.Apply()
	plain := activitytest.SolanaOf([32]byte{}, oneKey)
	w.Refuse("SOL_SEND_TRANSACTION_V2", solSend(plain, nil, one), 9, "send upsert_gas_usage_config again")
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("1000", "0", "60"))
	w.Run("SOL_SEND_TRANSACTION_V2", solSend(plain, nil, one))
	if again := solSponsorIn(w); again == sponsor {
		t.Error("the same account again")
	}
}

// TestPoliciesOnSponsoredSolana: policies judge what the client has made, the sponsor's key is among those that the decision is for.
func TestPoliciesOnSponsoredSolana(t *testing.T) {
	w := activitytest.New(t)
	one, oneKey := solAddress(w)
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "0", "60"))
	v := kinds.Live["ACTIVITY_TYPE_SOL_SEND_TRANSACTION_V2"]
	in, err := v.Decode(activitytest.JSON(solSend(activitytest.SolanaOf([32]byte{}, oneKey), nil, one)))
	w.Must(err)
	w.Must(in.Payer().LookUpPayer(func() (*org.Tx, error) { return w.Tx(), nil }))
	in.SetChainState(&activity.ChainState{Blockhash: [32]byte{1}, Tip: 7})
	q, err := v.PolicyRequest(w.Tx(), in, org.ID{1}, w.User, false)
	w.Must(err)
	if len(q.Keys) != 2 {
		t.Errorf("%d keys", len(q.Keys))
	}
	if facts := fmt.Sprint(q.Facts["solana.tx"]); facts == "" || len(q.Payloads) != 0 {
		t.Errorf("%v", q.Facts)
	}
}

// TestSolanaPayers: each top-level organization has its own account, which pays for its tree.
func TestSolanaPayers(t *testing.T) {
	w := activitytest.New(t)
	w.Capabilities.GasPrices = map[string]uint64{devnet: solanaPrice}
	w.Run("UPSERT_GAS_USAGE_CONFIG", limits("10", "3", "60"))
	id := w.Run("CREATE_SUB_ORGANIZATION_V8", activitytest.SubOrganization("one", 1, activitytest.RootUser("Root", activitytest.APIKey("r", w.FreshKey()))))["subOrganizationId"]
	s := w.Sub(id)
	chainSays(s, activity.ChainState{Blockhash: [32]byte{1}})
	from, key := solAddress(s)
	s.Run("SOL_SEND_TRANSACTION_V2", solSend(activitytest.SolanaOf([32]byte{}, key), nil, from))
	of, err := sol.Signers(sentOf(s).Signed)
	if err != nil || of[0].Address != sol.AddressText(solSponsorIn(w)) {
		t.Errorf("%v, %v", of, err)
	}
	s.Refuse("SOL_SEND_TRANSACTION_V2", solSend(activitytest.SolanaOf([32]byte{}, key), nil, from), 8, "subOrgWindowLimitUsd of 3 USD")
}
