package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"cloister/attestation/request"
	"cloister/scripts/internal/deployment"
)

type (
	object = deployment.Object
	sub    = deployment.Sub
)

// Which sub-organizations have a wallet: making one costs 2,048 rounds of HMAC by BIP-39, which is the enclave's
// work and says nothing about size. The same ones have activities of their own.
const withWallet = 20

var errLate = errors.New("stopped by the clock")

// each runs one for the numbers from up to to, many at a time, until one fails or the clock stops it.
func (b *bench) each(what string, from, to int, one func(n int) error) error {
	err := deployment.Each(b.clients, what, from, to, func(n int) error {
		if b.late() {
			return errLate
		}
		return one(n)
	})
	if errors.Is(err, errLate) {
		return nil
	}
	return err
}

// growWallet derives accounts until the large wallet has so many.
func (b *bench) growWallet(to int) error {
	if b.wallet == "" {
		var made struct{ WalletID string }
		if err := deployment.Submit(b.root, "ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": fmt.Sprintf("Large %d", time.Now().Unix()), "accounts": []any{}}, &made); err != nil {
			return err
		}
		b.wallet = made.WalletID
	}
	for len(b.accounts) < to {
		list := make([]any, min(100, to-len(b.accounts)))
		for i := range list {
			list[i] = deployment.Ethereum(len(b.accounts) + i)
		}
		var made struct{ Addresses []string }
		if err := deployment.Submit(b.root, "ACTIVITY_TYPE_CREATE_WALLET_ACCOUNTS", object{"walletId": b.wallet, "accounts": list}, &made); err != nil {
			return err
		}
		b.accounts = append(b.accounts, made.Addresses...)
		b.activities.Add(1)
	}
	return nil
}

func (b *bench) makeSub(n int) error {
	s := deployment.NewSub(n)
	if err := s.Make(b.root, n%withWallet == 0); err != nil {
		return err
	}
	b.activities.Add(1)
	return b.keep(s)
}

func (b *bench) grow(to int) error {
	from := len(b.subs)
	b.subs = append(b.subs, make([]*sub, max(to-from, 0))...)
	err := b.each("sub-organizations", from, to, b.makeSub)
	for n := from; n < len(b.subs); n++ { // stopped by the clock
		if b.subs[n] == nil {
			b.subs = b.subs[:n]
		}
	}
	return err
}

const renames = 100 // activities of a sub-organization before the next one has its turn

// act adds activities until the deployment has so many: a third in one sub-organization, the others in all that have
// a wallet. Nineteen of twenty give the wallet another name, one signs.
func (b *bench) act(to int64) error {
	runs := int(to-b.activities.Load()+renames-1) / renames
	from := b.runs
	err := b.each("hundreds of activities", from, from+runs, func(n int) error {
		s := b.subs[0]
		if n%3 != 0 {
			s = b.subs[(n*withWallet)%(len(b.subs)/withWallet*withWallet)]
		}
		as := s.As(b.root)
		for i := range renames {
			if i%20 == 0 {
				if err := deployment.Sign(as, s.Address); err != nil {
					return err
				}
			} else if err := rename(as, s, n*renames+i); err != nil {
				return err
			}
			if b.activities.Add(1); b.late() {
				break
			}
		}
		return nil
	})
	b.runs += runs
	return err
}

func rename(as *request.API, s *sub, n int) error {
	var made struct{ WalletID string }
	return deployment.Submit(as, "ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": s.Wallet, "walletName": fmt.Sprintf("Wallet %d", n)}, &made)
}

// keep notes a sub-organization, in a file too, so that a run goes on where the last one ended.
func (b *bench) keep(s *sub) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s.Number] = s
	_, err := fmt.Fprintln(b.made, s.Number, s.ID, s.Wallet, s.Address)
	return err
}

func (b *bench) recall() error {
	f, err := os.OpenFile(filepath.Join(b.data, "made"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	b.made = f
	known := map[int]*sub{}
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var n int
		var id string
		if _, err := fmt.Sscan(lines.Text(), &n, &id); err != nil {
			return err
		}
		s := deployment.NewSub(n)
		s.ID = id
		if f := strings.Fields(lines.Text()); len(f) == 4 {
			s.Wallet, s.Address = f[2], f[3]
		}
		known[n] = s
	}
	for n := 0; known[n] != nil; n++ {
		b.subs = append(b.subs, known[n])
	}
	b.activities.Add(int64(len(b.subs)))
	return lines.Err()
}
