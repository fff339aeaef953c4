package wallet

import (
	"encoding/hex"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/decoded"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// knowSigner completes what is known for a payload that a key signs: the key, how calls of contracts are read, and the
// interfaces of those that it may call. ok is false where there is no such key, which Run refuses.
func knowSigner(tx *org.Tx, signWith string, speaks InterfaceType, known *show.Known) (ok bool, err error) {
	s, err := lookUpSigningKey(tx, signWith)
	if s == nil || err != nil {
		return false, err
	}
	if known.Signer, err = s.chainKey(); err != nil {
		return false, err
	}
	known.Calls, known.BuiltIn = eth.ShowCall, decoded.Names()
	if speaks == "" {
		return true, nil
	}
	known.Interface = func(address string) (show.Interface, error) { return uploadedInterface(tx, speaks, address) }
	return true, nil
}

// uploadedInterface is the interface that approvers' calls are explained by, with the record that it is from.
func uploadedInterface(tx *org.Tx, typ InterfaceType, address string) (found show.Interface, err error) {
	k, err := findInterface(tx, describers[typ], typ, address)
	if k == nil || err != nil {
		return found, err
	}
	source := show.Source{From: show.FromOrganization, Record: k.id.String(), Contract: k.address, SHA256: hex.EncodeToString(k.hash[:])}
	if !k.madeBy.Zero() {
		source.MadeBy = k.madeBy.String()
	}
	return show.Interface{Description: k.description, Source: source}, nil
}

// NoSigner is the kind of documents about what a key is to sign that does not exist, which Run refuses.
const NoSigner = "UNKNOWN_SIGNER"

// showNoSigner shows a payload whose signer does not exist.
func showNoSigner(v *show.View, signWith string, payload string) (kind string, err error) {
	o := v.Part()
	o.Text("signWith", signWith)
	o.Unreadable(show.DoesNotDecode, []byte(payload))
	return NoSigner, nil
}

func (in *SignTransaction) show(tx *org.Tx, v *show.View, known *show.Known) (kind string, err error) {
	ok, err := knowSigner(tx, in.SignWith, readers[in.Type].speaks, known)
	if err != nil {
		return "", err
	}
	if !ok {
		return showNoSigner(v, in.SignWith, in.UnsignedTransaction)
	}
	return decoded.Transaction(v, string(in.Type), in.decoded)
}

func showPayloads(tx *org.Tx, v *show.View, known *show.Known, signWith string, e PayloadEncoding, h HashFunction, payloads ...string) (kind string, err error) {
	ok, err := knowSigner(tx, signWith, "", known)
	if err != nil {
		return "", err
	}
	if !ok {
		return showNoSigner(v, signWith, payloads[0])
	}
	speaks := interfaceEthereum
	if known.Signer.Public.Curve() == chain.Ed25519 {
		speaks = interfaceSolana
	}
	known.Interface = func(address string) (show.Interface, error) { return uploadedInterface(tx, speaks, address) }
	if len(payloads) > 1 {
		v.Title("Sign several payloads")
	}
	kinds := map[string]bool{}
	for _, p := range payloads {
		if kind, err = decoded.Payload(v, string(e), string(h), p); err != nil {
			return "", err
		}
		kinds[kind] = true
	}
	if len(kinds) > 1 {
		kind = "PAYLOADS"
	}
	return kind, nil
}

func (in *EthSendTransaction) show(tx *org.Tx, v *show.View, known *show.Known) (kind string, err error) {
	ok, err := knowSigner(tx, in.From, interfaceEthereum, known)
	if err != nil {
		return "", err
	}
	if !ok {
		return showNoSigner(v, in.From, "")
	}
	s := eth.Send{
		ChainID: in.sender.Chain, From: in.sender.Address, Calls: in.calls, Nonce: in.nonce, Gas: in.gas, FeeCap: in.feeCap,
		MostGas: maxGas, MostFee: mostFees(in.sender.Chain), Delegated: in.delegated(), Sponsored: activity.IsOn(in.Sponsor), Undelegates: in.undelegates,
	}
	return s.Kind(), s.Show(v, v.Part())
}

func (in *EthSendRawTransaction) show(tx *org.Tx, v *show.View, known *show.Known) (kind string, err error) {
	known.BuiltIn = decoded.Names()
	known.Signer = chain.SigningKey{Public: in.signed.Key, Format: chain.Ethereum, Address: eth.AddressText(in.signed.From)}
	known.Interface = func(address string) (show.Interface, error) { return uploadedInterface(tx, interfaceEthereum, address) }
	return decoded.Transaction(v, "TRANSACTION_TYPE_ETHEREUM", in.signed.Unsigned)
}

func (in *SolSendTransaction) show(tx *org.Tx, v *show.View, known *show.Known) (kind string, err error) {
	ok, err := knowSigner(tx, in.SignWiths[0], interfaceSolana, known)
	if err != nil {
		return "", err
	}
	if !ok {
		return showNoSigner(v, in.SignWiths[0], in.UnsignedTransaction)
	}
	if open := (sol.Open{Blockhash: in.fills, Sponsor: activity.IsOn(in.Sponsor)}); open != (sol.Open{}) {
		return sol.ShowOpen(v, in.decoded, open)
	}
	return decoded.Transaction(v, "TRANSACTION_TYPE_SOLANA", in.decoded)
}

// explainTarget shows whom an export is for.
func (t *ExportTarget) explain(o *show.Object) {
	child := o.Object("targetPublicKey")
	child.Plain("value", t.TargetPublicKey)
	child.Plain("source", show.FromRequester)
	o.Warn(show.KeyLeaves)
}

// explainWallet shows a wallet of the organization.
func explainWallet(o *show.Object, w *org.Wallet) {
	o.Plain("id", w.ID.String())
	activity.ExplainName(o, w.Name)
	o.Uint("accounts", w.Accounts)
	o.Bool("exported", w.Exported)
}

// explainPrivateKey shows a private key of the organization.
func explainPrivateKey(o *show.Object, k *org.PrivateKey) {
	o.Plain("id", k.ID.String())
	activity.ExplainName(o, k.Name)
	addresses := o.List("addresses")
	for _, a := range k.Addresses {
		addresses.Plain(a.Address)
	}
	o.Bool("exported", k.Exported)
}

// explain shows what there is under an id: nothing that is not there, which Run refuses.
func explain[T any](o *show.Object, find func(org.ID) (*T, error), text string, set func(*show.Object, *T)) error {
	_, err := activity.ExplainFound(o, text, find, set)
	return err
}

func (in *ExportWallet) explain(tx *org.Tx, o *show.Object) error {
	in.ExportTarget.explain(o)
	return explain(o.Object("wallet"), tx.Wallet, in.WalletID, explainWallet)
}

func (in *ExportWalletAccount) explain(tx *org.Tx, o *show.Object) error {
	in.ExportTarget.explain(o)
	o.Text("account", in.Address)
	_, w, err := accountOf(tx, in.Address)
	if w == nil {
		return internalOnly(err)
	}
	explainWallet(o.Object("wallet"), w)
	return nil
}

func (in *ExportPrivateKey) explain(tx *org.Tx, o *show.Object) error {
	in.ExportTarget.explain(o)
	return explain(o.Object("privateKey"), tx.PrivateKey, in.PrivateKeyID, explainPrivateKey)
}

// explainImport shows who brings a key in, under what name.
func explainImport(tx *org.Tx, o *show.Object, user, name, bundle string) error {
	if _, _, err := activity.ExplainUser(tx, o, "user", user); err != nil {
		return err
	}
	activity.ExplainWord(o, "name", name)
	o.Object("bundle").Unreadable(show.Encrypted, []byte(bundle))
	o.Warn(show.KeyEnters)
	return nil
}

func (in *DeleteWallets) explain(tx *org.Tx, o *show.Object) error {
	o.Warn(show.KeyDeleted)
	list := o.List("wallets")
	for _, id := range in.WalletIDs {
		if err := explain(list.Object(), tx.Wallet, id, explainWallet); err != nil {
			return err
		}
	}
	return nil
}

func (in *DeletePrivateKeys) explain(tx *org.Tx, o *show.Object) error {
	o.Warn(show.KeyDeleted)
	list := o.List("privateKeys")
	for _, id := range in.PrivateKeyIDs {
		if err := explain(list.Object(), tx.PrivateKey, id, explainPrivateKey); err != nil {
			return err
		}
	}
	return nil
}

// explainAccounts shows the accounts that are deleted, each with its wallet.
func (in *DeleteWalletAccounts) explain(tx *org.Tx, o *show.Object) error {
	o.Warn(show.KeyDeleted)
	list := o.List("accounts")
	for _, id := range in.WalletAccountIDs {
		entry := list.Object()
		a, w, err := findAccount(tx, id)
		if err := internalOnly(err); err != nil {
			return err
		}
		if a == nil || w == nil {
			continue
		}
		entry.Plain("address", a.Address)
		entry.Text("path", a.Path)
		explainWallet(entry.Object("wallet"), w)
	}
	return nil
}

// internalOnly leaves out a refusal, which Run will say.
func internalOnly(err error) error {
	if fault.Of(err) != nil {
		return nil
	}
	return err
}

// explainDeletedInterface shows by what calls are not explained any more.
func explainDeletedInterface(tx *org.Tx, in *InterfaceID, o *show.Object) error {
	o.Warn(show.InterfaceChanged)
	return explain(o.Object("interface"), tx.Interface, in.SmartContractInterfaceID, func(o *show.Object, i *org.Interface) {
		o.Text("label", i.Label)
		o.Text("address", i.Address)
	})
}
