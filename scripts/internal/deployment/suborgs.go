package deployment

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"

	"cloister/attestation/request"
)

// A Sub is the nth sub-organization, from 0.
type Sub struct {
	Number              int
	User                string
	ID, Wallet, Address string // the last two of those that have a wallet
}

// NewSub names one, which is still to be made.
func NewSub(n int) *Sub { return &Sub{Number: n, User: fmt.Sprintf("user-%d", n)} }

func (s *Sub) Name() string  { return fmt.Sprintf("sub-%d", s.Number) }
func (s *Sub) Email() string { return fmt.Sprintf("user-%d@example.org", s.Number) }

// Key is the root key, made again when it is wanted.
func (s *Sub) Key() *request.Key {
	seed := sha256.Sum256(fmt.Appendf(nil, "large %d", s.Number))
	key, err := request.ParseKey(hex.EncodeToString(seed[:]) + ":ed25519")
	if err != nil {
		panic(err) // any 32 bytes are a key
	}
	return key
}

// As is the interface as the sub-organization's key uses it.
func (s *Sub) As(root *request.API) *request.API {
	return &request.API{URL: root.URL, OrganizationID: s.ID, Key: s.Key(), HTTP: root.HTTP}
}

// Sign signs something with the account of its wallet.
func (s *Sub) Sign(root *request.API) error { return Sign(s.As(root), s.Address) }

// Make makes the sub-organization, with a wallet of one account or without.
func (s *Sub) Make(root *request.API, wallet bool) error {
	key := s.Key()
	in := Object{"subOrganizationName": s.Name(), "rootQuorumThreshold": 1,
		"rootUsers": []any{Object{"userName": s.User, "userEmail": s.Email(), "authenticators": []any{}, "oauthProviders": []any{},
			"apiKeys": []any{Object{"apiKeyName": "Key", "publicKey": key.Public(), "curveType": key.Curve()}}}}}
	if wallet {
		in["wallet"] = Object{"walletName": "First", "accounts": []any{Ethereum(0)}}
	}
	var made struct {
		SubOrganizationID string
		Wallet            struct {
			WalletID  string
			Addresses []string
		}
	}
	if err := Submit(root, "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", in, &made); err != nil {
		return err
	}
	s.ID, s.Wallet = made.SubOrganizationID, made.Wallet.WalletID
	if wallet {
		if len(made.Wallet.Addresses) != 1 {
			return errors.New("no wallet")
		}
		s.Address = made.Wallet.Addresses[0]
	}
	return nil
}

// Ethereum is the nth account of a wallet.
func Ethereum(n int) Object {
	return Object{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": fmt.Sprintf("m/44'/60'/0'/0/%d", n), "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}
}

// Search lists the sub-organizations that a filter finds, all of them without one, and wants the answer to be right.
func Search(root *request.API, kind, value string, page Object, right func(ids []string) bool) error {
	in := Object{"paginationOptions": page}
	if kind != "" {
		in["filterType"], in["filterValue"] = kind, value
	}
	var found struct{ OrganizationIDs []string }
	err := root.Query(context.Background(), "list_suborgs", in, &found)
	if err == nil && !right(found.OrganizationIDs) {
		err = fmt.Errorf("%s %q finds %v", kind, value, found.OrganizationIDs)
	}
	return err
}
