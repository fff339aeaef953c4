package tvc

import (
	"errors"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
	"cloister/shared/tvc"
)

var createOperatorKind = activity.Kind[CreateOperator, OperatorResult]{
	Name: "CREATE_TVC_OPERATOR", Resource: "TVC_OPERATOR", Action: "CREATE", Run: createOperator, Verify: verifyOperator,
	Explain: func(tx *org.Tx, in *CreateOperator, o *show.Object) error { return in.explain(tx, o) },
	Keys: func(_ *org.Tx, in *CreateOperator) ([]policy.Key, error) {
		if id, err := org.ParseID(activity.TextOf(in.WalletID)); err == nil {
			return []policy.Key{{Owner: id}}, nil
		}
		return nil, nil
	},
}

// CreateOperator creates an operator whose keys are accounts of a wallet, a new or an existing one. He approves by
// sign_raw_payload, subject to the organization's policies.
type CreateOperator struct {
	WalletName   *string `json:"walletName" rule:"omitempty,label_length,label"`
	WalletID     *string `json:"walletId" rule:"omitempty,uuid"`
	Path         string  `json:"path" rule:"required"`
	OperatorName string  `json:"operatorName" rule:"required"`
}

// Check refuses an intent that is invalid whatever the organization's records are.
func (in *CreateOperator) Check() error {
	if (activity.TextOf(in.WalletName) != "") == (activity.TextOf(in.WalletID) != "") {
		return fault.Field("walletId", "exactly one of walletName and walletId must be set")
	}
	if err := checkName("operatorName", in.OperatorName); err != nil {
		return err
	}
	return (&wallet.CreateWallet{Accounts: in.accounts()}).CheckAt("")
}

// accounts are the accounts of the operator's two keys.
func (in *CreateOperator) accounts() []wallet.WalletAccountParams {
	account := func(last string) wallet.WalletAccountParams {
		return wallet.WalletAccountParams{Curve: "CURVE_P256", PathFormat: "PATH_FORMAT_BIP32", Path: in.Path + last, AddressFormat: "ADDRESS_FORMAT_UNCOMPRESSED"}
	}
	return []wallet.WalletAccountParams{account(encryptionStep), account(signingStep)}
}

// The last segments of the paths of an operator's keys.
const (
	encryptionStep = "/0"
	signingStep    = "/1"
)

// OperatorResult is the result of creating an operator.
type OperatorResult struct {
	WalletID         string `json:"walletId"`
	OperatorID       string `json:"operatorId"`
	EncryptPublicKey string `json:"encryptPublicKey"`
	SignPublicKey    string `json:"signPublicKey"`
}

func createOperator(tx *activity.Tx, in *CreateOperator) (*OperatorResult, error) {
	if err := activity.CheckTopLevel(tx, "operators"); err != nil {
		return nil, err
	}
	made, err := in.derive(tx)
	if err != nil {
		return nil, err
	}
	id, err := org.ParseID(made.WalletID)
	if err != nil {
		return nil, err
	}
	pair := made.Addresses[0] + made.Addresses[1] // in this format an address is the public key
	if _, err := tvc.ParsePair(pair); err != nil {
		return nil, err
	}
	o, err := addOperator(tx, &org.TVCOperator{Name: in.OperatorName, PublicKey: pair, Wallet: id, Path: in.Path})
	if err != nil {
		return nil, err
	}
	return &OperatorResult{made.WalletID, o.ID.String(), made.Addresses[0], made.Addresses[1]}, nil
}

func (in *CreateOperator) derive(tx *activity.Tx) (*wallet.WalletResult, error) {
	if name := activity.TextOf(in.WalletName); name != "" {
		if err := activity.Wallets.Add(tx, 1); err != nil {
			return nil, err
		}
		return wallet.AddWallet(tx, "", &wallet.CreateWallet{WalletName: name, Accounts: in.accounts()})
	}
	addresses, err := wallet.AddAccounts(tx, &wallet.CreateWalletAccounts{WalletID: *in.WalletID, Accounts: in.accounts()})
	return &wallet.WalletResult{WalletID: *in.WalletID, Addresses: addresses}, err
}

// verifyOperator compares the recorded keys with the accounts. The wallet's own check compares those with their addresses.
func verifyOperator(tx *org.Tx, in *CreateOperator, r *OperatorResult, _ []org.Send) error {
	walletID, err := org.ParseID(r.WalletID)
	if err != nil {
		return err
	}
	id, err := org.ParseID(r.OperatorID)
	if err != nil {
		return err
	}
	o, err := tx.TVCOperator(id)
	if err != nil {
		return err
	}
	if o == nil || o.PublicKey != r.EncryptPublicKey+r.SignPublicKey || o.Wallet != walletID || o.Path != in.Path {
		return errors.New("an operator of other keys than the result's")
	}
	for i, p := range in.accounts() {
		no, err := tx.AccountAt(walletID, p.Path, string(p.Curve), string(p.AddressFormat))
		if err != nil {
			return err
		}
		a, err := tx.Account(walletID, no)
		if err != nil {
			return err
		}
		if a == nil || a.Address != []string{r.EncryptPublicKey, r.SignPublicKey}[i] {
			return errors.New("an operator whose keys are no accounts of the wallet")
		}
	}
	return nil
}
