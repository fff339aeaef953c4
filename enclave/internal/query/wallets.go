package query

import (
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var wallets = []*Query{
	stateQuery("get_wallet", getWallet),
	stateQuery("list_wallets", listWallets),
	stateQuery("get_wallet_account", getWalletAccount),
	stateQuery("list_wallet_accounts", listWalletAccounts),
}

type walletRequest struct {
	Head
	WalletID string `json:"walletId" rule:"required"`
}

// walletAccountRequest names an account by address, path or both.
type walletAccountRequest struct {
	Head
	WalletID string  `json:"walletId" rule:"required"`
	Address  *string `json:"address"`
	Path     *string `json:"path"`
}

type walletAccountsRequest struct {
	Head
	WalletID             *string     `json:"walletId"`
	IncludeWalletDetails *bool       `json:"includeWalletDetails"`
	PaginationOptions    *Pagination `json:"paginationOptions"`
	Address              *string     `json:"address"` // ours: only the account that has this address
}

func getWallet(v *View, in *walletRequest) ([]byte, error) {
	w, err := findNamed("wallet", "walletId", in.WalletID, v.Wallet)
	return one(`{"wallet":`, w, err, appendWallet)
}

func listWallets(v *View, _ *organizationRequest) ([]byte, error) {
	ws, err := walletsInOrder(v)
	return many(`{"wallets":`, ws, err, appendWallet)
}

func walletsInOrder(v *View) ([]*org.Wallet, error) {
	return inOrder(v.EachWallet, func(w *org.Wallet) created { return created{w.CreatedMs, w.ID} })
}

func appendWallet(dst []byte, w *org.Wallet) []byte {
	dst = ident(dst, `{"walletId":`, w.ID)
	dst = text(dst, `,"walletName":`, w.Name)
	dst = appendTimes(dst, w.CreatedMs, w.UpdatedMs)
	dst = flag(dst, `,"exported":`, w.Exported)
	if w.KeysOut {
		dst = flag(dst, `,"keysExported":`, true) // ours
	}
	return append(flag(dst, `,"imported":`, w.Imported), '}')
}

func getWalletAccount(v *View, in *walletAccountRequest) ([]byte, error) {
	w, err := findNamed("wallet", "walletId", in.WalletID, v.Wallet)
	if err != nil {
		return nil, err
	}
	address, path := activity.TextOf(in.Address), activity.TextOf(in.Path)
	var a *org.Account
	switch {
	case address != "":
		if a, err = accountWith(v, w, address); a != nil && path != "" && a.Path != path {
			a = nil
		}
	case path != "":
		a, err = accountAt(v, w, path)
	default:
		return nil, fault.New(fault.InvalidArgument, "invalid request body: address or path must be set")
	}
	if err == nil && a == nil {
		err = fault.New(fault.NotFound, "wallet account not found: in wallet %s", w.ID)
	}
	return one(`{"account":`, &row{account: a}, err, v.appendAccount)
}

// accountWith finds the account of w that has an address, nil if there is none.
func accountWith(v *View, w *org.Wallet, address string) (a *org.Account, err error) {
	match := chain.MatchKey(address)
	owner, ok, err := v.ByAddress(match)
	switch {
	case err != nil || !ok:
		return nil, err
	case owner.ID == w.ID:
		return v.Account(w.ID, owner.No)
	}
	// The address is also that of another wallet.
	err = v.EachAccount(w.ID, 0, func(b *org.Account) bool {
		if chain.MatchKey(b.Address) == match {
			a = b
		}
		return a == nil
	})
	return a, err
}

// accountAt finds the first account of w at a path, nil if there is none.
func accountAt(v *View, w *org.Wallet, path string) (*org.Account, error) {
	var first uint64
	for f := chain.Uncompressed; len(chain.CurvesFor(f)) > 0; f++ {
		for _, c := range chain.CurvesFor(f) {
			no, err := v.AccountAt(w.ID, path, c.String(), f.String())
			if err != nil {
				return nil, err
			}
			if no != 0 && (first == 0 || no < first) {
				first = no
			}
		}
	}
	if first == 0 {
		return nil, nil
	}
	return v.Account(w.ID, first)
}

// appendAccount writes a WalletAccount object, with its wallet unless that is nil.
func (v *View) appendAccount(dst []byte, r *row) []byte {
	a := r.account
	dst = ident(dst, `{"walletAccountId":`, a.ID())
	dst = ident(dst, `,"organizationId":`, v.ID)
	dst = ident(dst, `,"walletId":`, a.Wallet)
	dst = text(dst, `,"curve":`, a.Curve)
	dst = append(dst, `,"pathFormat":"PATH_FORMAT_BIP32"`...)
	dst = text(dst, `,"path":`, a.Path)
	dst = text(dst, `,"addressFormat":`, a.Format)
	dst = text(dst, `,"address":`, a.Address)
	dst = appendTimes(dst, a.CreatedMs, a.UpdatedMs)
	dst = text(dst, `,"publicKey":`, a.PublicKey)
	if r.wallet != nil {
		dst = appendWallet(append(dst, `,"walletDetails":`...), r.wallet)
	}
	if a.Name != "" {
		dst = text(dst, `,"name":`, a.Name)
	}
	return append(dst, '}')
}

type row struct {
	wallet  *org.Wallet
	account *org.Account
}

func listWalletAccounts(v *View, in *walletAccountsRequest) ([]byte, error) {
	ws, err := walletsOf(v, in.WalletID)
	if err != nil {
		return nil, err
	}
	b, err := in.PaginationOptions.bounds()
	if err != nil {
		return nil, err
	}
	var rows []row
	address := activity.TextOf(in.Address)
	switch {
	case address != "" && (b.before != nil || b.after != nil):
		err = fault.New(fault.InvalidArgument, "address and a cursor cannot be used together")
	case address != "":
		rows, err = accountsWith(v, ws, activity.TextOf(in.WalletID) != "", address)
	case b.before != nil:
		rows, err = accountsBefore(v, ws, *b.before, b.limit)
	case b.after != nil:
		rows, err = accountsAfter(v, ws, *b.after, b.limit)
	default:
		rows, err = accountsFrom(v, ws, 0, b.limit)
	}
	detailed := in.IncludeWalletDetails != nil && *in.IncludeWalletDetails
	return many(`{"accounts":`, rows, err, func(dst []byte, r row) []byte {
		if !detailed {
			r.wallet = nil
		}
		return v.appendAccount(dst, &r)
	})
}

// accountsWith returns the account with an address: of the only wallet, or of any. Of several accounts with one address, it finds
// the one that signs for the address.
func accountsWith(v *View, ws []*org.Wallet, only bool, address string) ([]row, error) {
	if !only {
		owner, ok, err := v.ByAddress(chain.MatchKey(address))
		i := slices.IndexFunc(ws, func(w *org.Wallet) bool { return w.ID == owner.ID })
		if err != nil || !ok || i < 0 {
			return nil, err
		}
		ws = ws[i : i+1]
	}
	a, err := accountWith(v, ws[0], address)
	if err != nil || a == nil {
		return nil, err
	}
	return []row{{ws[0], a}}, nil
}

func walletsOf(v *View, walletID *string) ([]*org.Wallet, error) {
	if activity.TextOf(walletID) == "" {
		return walletsInOrder(v)
	}
	w, err := findNamed("wallet", "walletId", *walletID, v.Wallet)
	return []*org.Wallet{w}, err
}

// findCursor finds the account that a cursor names: the index of its wallet in ws, and its
// number.
func findCursor(v *View, ws []*org.Wallet, name string, cursor org.ID) (i int, no uint64, err error) {
	w, no, err := v.WalletOfAccount(cursor)
	var a *org.Account
	if err == nil && w != nil {
		a, err = v.Account(w.ID, no)
		i = slices.IndexFunc(ws, func(x *org.Wallet) bool { return x.ID == w.ID })
	}
	if err == nil && (a == nil || i < 0) {
		err = unknownCursor(name)
	}
	return i, no, err
}

func accountsAfter(v *View, ws []*org.Wallet, cursor org.ID, limit int) ([]row, error) {
	i, no, err := findCursor(v, ws, "after", cursor)
	if err != nil {
		return nil, err
	}
	return accountsFrom(v, ws[i:], no+1, limit)
}

// accountsFrom returns the first accounts of wallets, beginning at a number of the first.
func accountsFrom(v *View, ws []*org.Wallet, from uint64, limit int) ([]row, error) {
	var rows []row
	for _, w := range ws {
		err := v.EachAccount(w.ID, from, func(a *org.Account) bool {
			rows = append(rows, row{w, a})
			return len(rows) < limit
		})
		if err != nil || len(rows) == limit {
			return rows, err
		}
		from = 0
	}
	return rows, nil
}

func accountsBefore(v *View, ws []*org.Wallet, cursor org.ID, limit int) ([]row, error) {
	i, end, err := findCursor(v, ws, "before", cursor)
	if err != nil {
		return nil, err
	}
	var rows []row
	for ; i >= 0 && len(rows) < limit; i-- {
		before, err := lastBefore(v, ws[i], end, limit-len(rows))
		if err != nil {
			return nil, err
		}
		rows = append(before, rows...)
		if i > 0 {
			end = ws[i-1].LastNo + 1
		}
	}
	return rows, nil
}

// lastBefore returns the last accounts of w with numbers below end. The numbers of deleted
// accounts are missing, so the interval that is read grows until it has enough.
func lastBefore(v *View, w *org.Wallet, end uint64, limit int) ([]row, error) {
	for stretch := uint64(limit); ; stretch *= 2 {
		from := end - min(end, stretch)
		var rows []row
		err := v.EachAccount(w.ID, from, func(a *org.Account) bool {
			if a.No < end {
				rows = append(rows, row{w, a})
			}
			return a.No < end
		})
		if err != nil {
			return nil, err
		}
		if len(rows) >= limit || from == 0 {
			return rows[max(0, len(rows)-limit):], nil
		}
	}
}
