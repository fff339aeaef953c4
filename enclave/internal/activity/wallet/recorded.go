package wallet

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"slices"
	"strings"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/chain/spark"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
)

// A replay of a history has no secrets. The checks in this file compare recorded results with public keys.

// CheckKeys verifies the accounts and private keys that a change stores: each address is that of its public key,
// and the look-up keys of each are its own.
func CheckKeys(tx *org.Tx) error {
	again := org.Begin(tx.ID, org.NewState(), tx.NowMs) // the records of the same keys
	err := tx.EachChangedKey(func(a *org.Account) error {
		if err := checkAddress(a.Curve, a.PublicKey, a.Format, a.Address); err != nil {
			return err
		}
		return again.PutAccount(a, chain.MatchKey(a.Address))
	}, func(k *org.PrivateKey) error {
		for _, a := range k.Addresses {
			if err := checkAddress(k.Curve, k.PublicKey, a.Format, a.Address); err != nil {
				return err
			}
		}
		return again.PutPrivateKey(k, MatchesOf(k))
	})
	if err != nil || !again.Changed() {
		return err
	}
	want, err := again.Writes()
	if err != nil {
		return err
	}
	got, err := tx.Writes()
	if err != nil {
		return err
	}
	about := map[byte]bool{} // collections
	for _, w := range want {
		about[w.Key[0]] = true
		if !slices.ContainsFunc(got, func(g org.Write) bool { return bytes.Equal(g.Key, w.Key) && bytes.Equal(g.Value, w.Value) }) {
			return errors.New("a key that is not found by its address or path")
		}
	}
	for _, g := range got {
		if g.Value != nil && about[g.Key[0]] && !slices.ContainsFunc(want, func(w org.Write) bool { return bytes.Equal(g.Key, w.Key) }) {
			return errors.New("a record that finds another key, or none")
		}
	}
	return nil
}

func checkAddress(curveName, publicHex, formatName, address string) error {
	public, err := publicKey(curveName, publicHex)
	if err != nil {
		return err
	}
	format, err := chain.ParseFormat(formatName)
	if err != nil {
		return err
	}
	if want, err := addresses.Address(format, public); err != nil || want != address {
		return errors.Join(fmt.Errorf("address %s is not that of its public key", address), err)
	}
	return nil
}

func publicKey(curveName, publicHex string) (p chain.PublicKey, err error) {
	curve, err := chain.ParseCurve(curveName)
	if err != nil {
		return p, err
	}
	b, err := hex.DecodeString(publicHex)
	if err != nil {
		return p, err
	}
	return chain.NewPublicKey(curve, b)
}

// parse parses a recorded signature, in the encoding of AppendJSON.
func (r *Signature) parse() (s chain.Signature, err error) {
	var v [1]byte
	for _, m := range []struct {
		text string
		into []byte
	}{{r.R, s.R[:]}, {r.S, s.S[:]}, {r.V, v[:]}} {
		b, err := hex.DecodeString(m.text)
		if err != nil || len(b) != len(m.into) || hex.EncodeToString(b) != m.text {
			return s, errors.New("a signature that is not written as the interface does")
		}
		copy(m.into, b)
	}
	s.V = v[0]
	return s, nil
}

// verifyPayload verifies the recorded result of SIGN_RAW_PAYLOAD.
func verifyPayload(tx *org.Tx, in *SignRawPayload, r *Signature, _ []org.Send) error {
	return verifyPayloads(tx, in.SignWith, []payload{in.decoded}, []Signature{*r})
}

// verifyEachPayload verifies the recorded result of SIGN_RAW_PAYLOADS.
func verifyEachPayload(tx *org.Tx, in *SignRawPayloads, r *Signatures, _ []org.Send) error {
	return verifyPayloads(tx, in.SignWith, in.decoded, r.Signatures)
}

func verifyPayloads(tx *org.Tx, signWith string, payloads []payload, made []Signature) error {
	s, err := findSigningKey(tx, signWith)
	if err != nil {
		return err
	}
	by, err := s.chainKey()
	if err != nil {
		return err
	}
	if len(made) != len(payloads) {
		return errors.New("another number of signatures than of payloads")
	}
	for i := range payloads {
		d, err := payloads[i].digest(s.curve, s.format)
		if err != nil {
			return err
		}
		sig, err := made[i].parse()
		if err != nil {
			return err
		}
		if !keys.Verify(by.Public, d, &sig) {
			return fmt.Errorf("signature %d does not verify under the key of %s", i, signWith)
		}
	}
	return nil
}

// verifyTransaction verifies the recorded result of SIGN_TRANSACTION: the requested transaction, assembled
// with signatures that verify, and nothing else.
func verifyTransaction(tx *org.Tx, in *SignTransaction, r *SignedTransaction, _ []org.Send) error {
	signed, err := hex.DecodeString(r.SignedTransaction)
	if err != nil || hex.EncodeToString(signed) != r.SignedTransaction {
		return errors.New("a transaction that is not written as the interface does")
	}
	s, err := findSigningKey(tx, in.SignWith)
	if err != nil {
		return err
	}
	read, err := readTransaction(s, in.Type, in.decoded, in.read)
	if err != nil {
		return err
	}
	return verifySigned(read, signed)
}

func verifySigned(t *transaction, signed []byte) error {
	digests := t.Digests()
	made := make([]chain.Signature, len(digests))
	for i, d := range digests {
		sig, ok := signatureIn(signed, t.by.Public, d)
		if !ok {
			return errors.New("a transaction without a signature that verifies")
		}
		made[i] = sig
	}
	again, err := t.Assemble(made)
	if err != nil {
		return err
	}
	if !bytes.Equal(again, signed) {
		return errors.New("another transaction was signed than asked for")
	}
	return nil
}

// signatureIn finds a signature of a digest in a signed transaction: 64 bytes, or two numbers in RLP or DER.
func signatureIn(signed []byte, public chain.PublicKey, d chain.Digest) (s chain.Signature, ok bool) {
	try := func(r, t []byte) bool {
		var sig chain.Signature
		copy(sig.R[32-len(r):], r)
		copy(sig.S[32-len(t):], t)
		for v := range byte(2) {
			if sig.V = v; keys.Verify(public, d, &sig) {
				s, ok = sig, true
				return true
			}
		}
		return false
	}
	for i := range signed {
		if i+64 <= len(signed) && try(signed[i:i+32], signed[i+32:i+64]) {
			return s, ok
		}
		if r, rest, is := numberAt(signed[i:]); is {
			if t, _, is := numberAt(rest); is && try(r, t) {
				return s, ok
			}
		}
	}
	return s, ok
}

// numberAt parses a number of up to 32 bytes, in RLP or as an integer of DER.
func numberAt(b []byte) (n, rest []byte, ok bool) {
	size, head := 0, 1
	switch {
	case len(b) == 0:
		return nil, nil, false
	case b[0] > 0x80 && b[0] <= 0x80+32:
		size = int(b[0] - 0x80)
	case b[0] == 2 && len(b) > 1 && b[1] <= 33:
		size, head = int(b[1]), 2
	default:
		return nil, nil, false
	}
	if len(b) < head+size {
		return nil, nil, false
	}
	n = b[head : head+size]
	if len(n) == 33 && n[0] == 0 {
		n = n[1:]
	}
	return n, b[head+size:], len(n) > 0 && len(n) <= 32
}

// verifyWallet compares the recorded addresses of a new wallet with its accounts.
func verifyWallet(tx *org.Tx, _ *CreateWallet, r *WalletResult, _ []org.Send) error {
	return verifyAddresses(tx, r.Addresses)
}

// verifyAccounts compares the recorded addresses of new accounts with the accounts.
func verifyAccounts(tx *org.Tx, in *CreateWalletAccounts, r *Addresses, _ []org.Send) error {
	if in.Persist != nil && !*in.Persist {
		return nil // no public key is stored to compare with
	}
	return verifyAddresses(tx, r.Addresses)
}

// verifyPrivateKeys compares the recorded addresses of new private keys with the keys.
func verifyPrivateKeys(tx *org.Tx, _ *CreatePrivateKeys, r *PrivateKeys, _ []org.Send) error {
	var all []string
	for _, k := range r.PrivateKeys {
		for _, a := range k.Addresses {
			all = append(all, a.Address)
		}
	}
	return verifyAddresses(tx, all)
}

// verifyAddresses requires the recorded addresses to be those of the keys that a change stores, in their order.
func verifyAddresses(tx *org.Tx, recorded []string) error {
	var made []string
	err := tx.EachChangedKey(func(a *org.Account) error {
		made = append(made, a.Address)
		return nil
	}, func(k *org.PrivateKey) error {
		for _, a := range k.Addresses {
			made = append(made, a.Address)
		}
		return nil
	})
	if err == nil && !slices.Equal(made, recorded) {
		err = errors.New("the result has other addresses than the records")
	}
	return err
}

// RecoveryIn returns the time of the recovery that a recorded refusal names as the reason why a window counts as used
// up, 0 for any other refusal.
func RecoveryIn(refusal string) uint64 {
	_, rest, found := strings.Cut(refusal, recoveredAt)
	if !found || len(rest) < len(timeFormat) {
		return 0
	}
	at, err := time.Parse(timeFormat, rest[:len(timeFormat)])
	if err != nil || at.UnixMilli() <= 0 {
		return 0
	}
	return uint64(at.UnixMilli())
}

// sentOf returns the one transaction that an activity has sent.
func sentOf(sends []org.Send) (x *org.Transaction, err error) {
	for i := range sends {
		if sends[i].Kind != org.SendTransaction {
			continue
		}
		if x != nil {
			return nil, errors.New("more than one transaction is sent")
		}
		if x, err = org.DecodeTransaction(sends[i].Content); err != nil {
			return nil, err
		}
	}
	if x == nil {
		return nil, errors.New("no transaction is sent")
	}
	return x, nil
}

// ethTerms are the fees of a signed transaction of type 2.
type ethTerms struct {
	gas         uint64
	feeCap, tip *big.Int
}

func termsOf(made *eth.Signed) (t ethTerms, err error) {
	read, err := readers["TRANSACTION_TYPE_ETHEREUM"].chain.Read(made.Unsigned, chain.SigningKey{Public: made.Key})
	if err != nil {
		return t, err
	}
	facts, err := read.Facts(func(string) (chain.Description, error) { return nil, nil })
	if err != nil {
		return t, err
	}
	t.gas, _ = facts["gas"].(uint64)
	t.feeCap, _ = facts["max_fee_per_gas"].(*big.Int)
	t.tip, _ = facts["max_priority_fee_per_gas"].(*big.Int)
	if t.feeCap == nil || t.tip == nil {
		return t, errors.New("a transaction of another type was signed")
	}
	return t, nil
}

// KnownOf reconstructs the chain state that the host must have reported for an activity to have sent its transaction. Without a
// send it is empty.
func KnownOf(tx *org.Tx, sends []org.Send) *activity.ChainState {
	k := &activity.ChainState{ReadMs: tx.NowMs, Recorded: true}
	x, err := sentOf(sends)
	if err != nil {
		return k
	}
	if made, err := eth.ReadSigned(x.Signed); err == nil && len(x.From) == 20 {
		k.Pending = made.Nonce
		if t, err := termsOf(made); err == nil {
			k.Executions, _ = eth.ExecutionNonce(made.Data)
			k.Tip, k.BaseFee, k.Gas = t.tip.Uint64(), new(big.Int).Rsh(new(big.Int).Sub(t.feeCap, t.tip), 1).Uint64(), gasBefore(t.gas)
		}
		return k
	}
	if hash, err := sol.Blockhash(x.Signed); err == nil {
		k.Blockhash = hash
	}
	return k
}

// gasBefore returns an estimate from which price computes gas, by adding a fifth.
func gasBefore(gas uint64) uint64 {
	if gas == 21_000 {
		return gas
	}
	before := gas / 6 * 5
	for before+before/5 < gas {
		before++
	}
	return before
}

// verifyEthSend compares the transaction sent with the request: signed with the key of from, and with the fees that the
// request gives. Of a sponsored one it verifies the account's part, not the payer.
func verifyEthSend(_ *org.Tx, in *EthSendTransaction, _ *SendStatusID, sends []org.Send) error {
	x, err := sentOf(sends)
	if err != nil {
		return err
	}
	made, err := eth.ReadSigned(x.Signed)
	if err != nil {
		return err
	}
	sponsored := activity.IsOn(in.Sponsor)
	if x.Chain != string(in.CAIP2) || !sponsored && made.From != in.sender.Address || !bytes.Equal(x.From, made.From[:]) || x.Nonce != made.Nonce || x.Name != "0x"+hex.EncodeToString(made.Hash[:]) {
		return errors.New("what was sent is of another sender, chain or number than it says")
	}
	t, err := termsOf(made)
	if err != nil {
		return err
	}
	if in.nonce != nil && *in.nonce != made.Nonce || in.gas != nil && *in.gas != t.gas || in.feeCap != nil && in.feeCap.Cmp(t.feeCap) != 0 {
		return errors.New("what was sent has other terms than asked for")
	}
	var want []byte
	if !in.delegated() {
		want = eth.Unsigned1559(in.sender.Chain, made.Nonce, t.tip, t.feeCap, t.gas, &in.calls[0].To, in.calls[0].Value, in.calls[0].Data)
	} else if want, err = in.expect(made, t); err != nil {
		return err
	}
	if !bytes.Equal(made.Unsigned, want) {
		return errors.New("another transaction was sent than asked for")
	}
	var execution uint64
	if len(x.Account) > 0 { // sends of earlier versions have none
		execution, _ = eth.ExecutionNonce(made.Data)
		if !in.delegated() || in.undelegates || !bytes.Equal(x.Account, in.sender.Address[:]) {
			return errors.New("what was sent is of other executions than it says")
		}
	}
	if x.Execution != execution {
		return errors.New("what was sent is of other executions than it says")
	}
	return nil
}

// expect builds the unsigned transaction that must have been signed for an execution by the delegate's code, with the
// account's recorded signatures in it.
func (in *EthSendTransaction) expect(made *eth.Signed, t ethTerms) (unsigned []byte, err error) {
	to, data := in.sender.Address, []byte(nil)
	if activity.IsOn(in.Sponsor) {
		to = eth.Station
	}
	if !in.undelegates {
		e, ok := eth.ReadExecution(made.Data, in.sender.Address, in.sender.Chain, in.calls, to == eth.Station)
		if !ok || in.stationNonce != nil && *in.stationNonce != e.Nonce || in.deadline != nil && *in.deadline != uint64(e.Deadline) {
			return nil, errors.New("what was sent makes other calls than asked for, or the account has not signed them")
		}
		data = made.Data
	}
	d, ok := eth.ReadDelegation(made.Unsigned)
	if !ok && !in.undelegates {
		return eth.Unsigned1559(in.sender.Chain, made.Nonce, t.tip, t.feeCap, t.gas, &to, new(big.Int), data), nil
	}
	if !ok || d.By != in.sender.Address || d.To != in.contract() || to != eth.Station && d.Nonce != made.Nonce+1 {
		return nil, errors.New("what was sent has the account take on other code than it should")
	}
	return eth.UnsignedSetCode(in.sender.Chain, made.Nonce, t.tip, t.feeCap, t.gas, to, data, d.Encoded), nil
}

// verifyUndelegate is verifyEthSend for a transaction that removes an account's delegation.
func verifyUndelegate(tx *org.Tx, in *EthUndelegate7702, r *SendStatusID, sends []org.Send) error {
	return verifyEthSend(tx, &in.send, r, sends)
}

// verifyRawSend compares the transaction sent with the signed transaction in the request.
func verifyRawSend(_ *org.Tx, in *EthSendRawTransaction, r *TransactionHash, sends []org.Send) error {
	x, err := sentOf(sends)
	if err != nil {
		return err
	}
	if hash := "0x" + hex.EncodeToString(in.signed.Hash[:]); x.Chain != string(in.CAIP2) || !bytes.Equal(x.Signed, in.decoded) || x.Name != hash || r.TransactionHash != hash {
		return errors.New("another transaction was sent than asked for")
	}
	return nil
}

// expectSponsored builds a sponsored transaction from the one asked for and what its sponsor has added to it in the one sent, with
// the sponsor's signature.
func expectSponsored(unsigned, sent []byte) ([]byte, error) {
	s, err := sol.ReadSponsorable(unsigned)
	if err != nil {
		return nil, err
	}
	by, err := s.SponsorshipOf(sent)
	if err != nil {
		return nil, err
	}
	tx, _, err := s.Sponsor(by)
	if err != nil {
		return nil, err
	}
	payer, err := chain.NewPublicKey(chain.Ed25519, by.Payer[:])
	if err != nil {
		return nil, err
	}
	t, err := sol.Chain{}.Read(tx, chain.SigningKey{Public: payer})
	if err != nil {
		return nil, err
	}
	sig, ok := signatureIn(sent, payer, t.Digests()[0])
	if !ok {
		return nil, errors.New("what was sent lacks the sponsor's signature")
	}
	return t.Assemble([]chain.Signature{sig})
}

// verifySolSend compares the transaction sent with the request, with a blockhash where that had none, and verifies the
// signatures of all signers. Of a sponsored one it does not verify who pays.
func verifySolSend(tx *org.Tx, in *SolSendTransaction, _ *SendStatusID, sends []org.Send) error {
	x, err := sentOf(sends)
	if err != nil {
		return err
	}
	signed := in.decoded
	if in.fills {
		hash, err := sol.Blockhash(x.Signed)
		if err != nil {
			return err
		}
		if signed, err = sol.WithBlockhash(in.decoded, sol.BlockhashText(hash)); err != nil {
			return err
		}
	}
	if activity.IsOn(in.Sponsor) {
		if signed, err = expectSponsored(signed, x.Signed); err != nil {
			return err
		}
	}
	all, err := in.signers(tx)
	if err != nil {
		return err
	}
	for _, s := range all {
		t, err := readTransaction(s, "TRANSACTION_TYPE_SOLANA", signed, nil)
		if err != nil {
			return err
		}
		made := make([]chain.Signature, 0, 1)
		for _, d := range t.Digests() {
			sig, ok := signatureIn(x.Signed, t.by.Public, d)
			if !ok {
				return errors.New("what was sent lacks a signature")
			}
			made = append(made, sig)
		}
		if signed, err = t.Assemble(made); err != nil {
			return err
		}
	}
	name, err := sol.Signature(signed)
	if err == nil && (x.Chain != in.CAIP2.CAIP2() || x.Name != name || !bytes.Equal(x.Signed, signed)) {
		err = errors.New("another transaction was sent than asked for")
	}
	return err
}

// verifySparkShares verifies recorded shares. The public keys of leaves and deposits are not stored: all shares of one key must
// verify under one public key, which is the account's own where the account's key signed.
func verifySparkShares(tx *org.Tx, in *SparkSignFrost, r *SparkShares, _ []org.Send) error {
	s, account, err := findSparkAccount(tx, in.SignWith)
	if err != nil {
		return err
	}
	by, err := s.chainKey()
	if err != nil {
		return err
	}
	if len(r.Signatures) != len(in.Signatures) {
		return errors.New("another number of shares than of signatures")
	}
	known := map[string]chain.PublicKey{account.Identity(): by.Public}
	for i, m := range r.Signatures {
		share, err := sparkBytes("signatureShare", m.SignatureShare, 32)
		if err != nil {
			return err
		}
		made := spark.Share{Share: [32]byte(share)}
		if made.Hiding, err = sparkPoint("hiding", m.Hiding); err != nil {
			return err
		}
		if made.Binding, err = sparkPoint("binding", m.Binding); err != nil {
			return err
		}
		key, err := in.Signatures[i].signing.User(&made)
		if err != nil {
			return err
		}
		path := in.Signatures[i].Derivation.path(account)
		if before, ok := known[path]; ok && before != key {
			return fmt.Errorf("share %d is of another key", i)
		}
		known[path] = key
	}
	return nil
}

// verifySparkTransfer verifies the sender's signature over the recorded packages. Only their operators can decrypt the packages.
func verifySparkTransfer(tx *org.Tx, in *SparkPrepareTransfer, r *SparkTransferPackages, _ []org.Send) error {
	s, _, err := findSparkAccount(tx, in.SignWith)
	if err != nil {
		return err
	}
	by, err := s.chainKey()
	if err != nil {
		return err
	}
	packages, err := r.verify(&in.Transfer.SparkOperators)
	if err != nil {
		return err
	}
	der, err := hex.DecodeString(r.TransferUserSignature)
	if err != nil {
		return err
	}
	if !spark.VerifyPackages(by.Public, in.Transfer.id, packages, der) {
		return errors.New("the packages are not signed by the account")
	}
	ids := make([]string, len(in.Transfer.Leaves))
	for i := range ids {
		ids[i] = in.Transfer.Leaves[i].NewLeafDerivation.SigningLeaf.LeafID
	}
	return verifyLeafKeys(ids, r.NewLeafPublicKeys)
}

func verifySparkClaim(tx *org.Tx, in *SparkClaimTransfer, r *SparkClaimPackages, _ []org.Send) error {
	if _, _, err := findSparkAccount(tx, in.SignWith); err != nil {
		return err
	}
	if _, err := r.verify(&in.Claim.SparkOperators); err != nil {
		return err
	}
	ids := make([]string, len(in.Claim.Leaves))
	for i := range ids {
		ids[i] = in.Claim.Leaves[i].LeafID
	}
	return verifyLeafKeys(ids, r.NewLeafPublicKeys)
}

func verifySparkPreimage(tx *org.Tx, in *SparkPrepareLightningReceive, r *SparkPreimagePackages, _ []org.Send) error {
	if _, _, err := findSparkAccount(tx, in.SignWith); err != nil {
		return err
	}
	if _, err := r.verify(&in.LightningReceive); err != nil {
		return err
	}
	_, err := sparkBytes("paymentHash", r.PaymentHash, 32)
	return err
}

// verify requires a package for each requested operator, in their order.
func (r *SparkPackages) verify(asked *SparkOperators) ([]spark.Entry, error) {
	if len(r.OperatorPackages) != len(asked.OperatorRecipients) {
		return nil, errors.New("another number of packages than of operators")
	}
	out := make([]spark.Entry, len(r.OperatorPackages))
	for i, p := range r.OperatorPackages {
		b, err := hex.DecodeString(p.EncryptedPackage)
		if err != nil || p.OperatorID != asked.OperatorRecipients[i].OperatorID {
			return nil, fmt.Errorf("package %d is of another operator, or none", i)
		}
		out[i] = spark.Entry{Operator: p.OperatorID, Value: b}
	}
	return out, nil
}

func verifyLeafKeys(ids []string, made []SparkLeafPublicKey) error {
	if len(made) != len(ids) {
		return errors.New("another number of keys than of leaves")
	}
	for i, k := range made {
		if k.LeafID != ids[i] {
			return fmt.Errorf("key %d is of another leaf", i)
		}
		if _, err := sparkPoint("publicKey", k.PublicKey); err != nil {
			return err
		}
	}
	return nil
}
