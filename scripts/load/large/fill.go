package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"cloister/attestation/request"
)

type object = map[string]any

// Which sub-organizations have a wallet: making one costs 2,048 rounds of HMAC by BIP-39, which is the enclave's
// work and says nothing about size. The same ones have activities of their own.
const withWallet = 20

// sub is the nth sub-organization, from 0.
type sub struct {
	number              int
	id, wallet, address string // the last two of those that have a wallet
}

func (s *sub) name() string  { return fmt.Sprintf("sub-%d", s.number) }
func (s *sub) user() string  { return fmt.Sprintf("user-%d", s.number) }
func (s *sub) email() string { return fmt.Sprintf("user-%d@example.org", s.number) }

// key is the sub-organization's root key, made again when it is wanted.
func (s *sub) key() (*request.Key, error) {
	seed := sha256.Sum256(fmt.Appendf(nil, "large %d", s.number))
	return request.ParseKey(hex.EncodeToString(seed[:]) + ":ed25519")
}

func (b *bench) as(s *sub) (*request.API, error) {
	key, err := s.key()
	return &request.API{URL: b.root.URL, OrganizationID: s.id, Key: key, HTTP: b.root.HTTP}, err
}

// do submits an activity, again while it is not known to be stored, and gives its result.
func do(as *request.API, typ string, parameters, result any) error {
	body, err := as.Activity(typ, parameters)
	if err != nil {
		return err
	}
	for range 600 {
		status, raw, err := as.Post(context.Background(), "/public/v1/submit/"+request.Operation(typ), body)
		switch {
		case err != nil:
			return err
		case status == http.StatusServiceUnavailable:
			time.Sleep(100 * time.Millisecond)
			continue
		case status != http.StatusOK:
			return fmt.Errorf("%s: %s", typ, raw)
		}
		var r struct{ Activity request.Activity }
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		return r.Activity.Into(result)
	}
	return fmt.Errorf("%s: busy for a minute", typ)
}

// each runs do for the numbers from up to to, many at a time, until one fails.
func (b *bench) each(what string, from, to int, one func(n int) error) error {
	var next, done atomic.Int64
	next.Store(int64(from))
	var first error
	var once sync.Once
	var all sync.WaitGroup
	begun := time.Now()
	for range b.clients {
		all.Go(func() {
			for n := int(next.Add(1)) - 1; n < to && !b.late(); n = int(next.Add(1)) - 1 {
				if err := one(n); err != nil {
					once.Do(func() { first = fmt.Errorf("%s %d: %w", what, n, err) })
					next.Add(int64(to))
					return
				}
				if d := done.Add(1); d%20_000 == 0 {
					fmt.Fprintf(os.Stderr, "%s %s: %d, %.0f/s\n", time.Now().Format(time.TimeOnly), what, int(d)+from, float64(d)/time.Since(begun).Seconds())
				}
			}
		})
	}
	all.Wait()
	return first
}

func ethereum(n int) object {
	return object{"curve": "CURVE_SECP256K1", "pathFormat": "PATH_FORMAT_BIP32", "path": fmt.Sprintf("m/44'/60'/0'/0/%d", n), "addressFormat": "ADDRESS_FORMAT_ETHEREUM"}
}

// growWallet derives accounts until the large wallet has so many.
func (b *bench) growWallet(to int) error {
	if b.wallet == "" {
		var made struct{ WalletID string }
		if err := do(b.root, "ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": fmt.Sprintf("Large %d", time.Now().Unix()), "accounts": []any{}}, &made); err != nil {
			return err
		}
		b.wallet = made.WalletID
	}
	for len(b.accounts) < to {
		list := make([]any, min(100, to-len(b.accounts)))
		for i := range list {
			list[i] = ethereum(len(b.accounts) + i)
		}
		var made struct{ Addresses []string }
		if err := do(b.root, "ACTIVITY_TYPE_CREATE_WALLET_ACCOUNTS", object{"walletId": b.wallet, "accounts": list}, &made); err != nil {
			return err
		}
		b.accounts = append(b.accounts, made.Addresses...)
		b.activities.Add(1)
	}
	return nil
}

func (b *bench) makeSub(n int) error {
	s := &sub{number: n}
	key, err := s.key()
	if err != nil {
		return err
	}
	in := object{"subOrganizationName": s.name(), "rootQuorumThreshold": 1,
		"rootUsers": []any{object{"userName": s.user(), "userEmail": s.email(), "authenticators": []any{}, "oauthProviders": []any{},
			"apiKeys": []any{object{"apiKeyName": "Key", "publicKey": key.Public(), "curveType": key.Curve()}}}}}
	if n%withWallet == 0 {
		in["wallet"] = object{"walletName": "First", "accounts": []any{ethereum(0)}}
	}
	var made struct {
		SubOrganizationID string
		Wallet            struct {
			WalletID  string
			Addresses []string
		}
	}
	if err := do(b.root, "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", in, &made); err != nil {
		return err
	}
	s.id = made.SubOrganizationID
	if n%withWallet == 0 {
		if len(made.Wallet.Addresses) != 1 {
			return errors.New("no wallet")
		}
		s.wallet, s.address = made.Wallet.WalletID, made.Wallet.Addresses[0]
	}
	b.activities.Add(1)
	return b.keep(s)
}

// grow makes sub-organizations until there are so many.
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
		as, err := b.as(s)
		if err != nil {
			return err
		}
		for i := range renames {
			if i%20 == 0 {
				err = b.sign(as, s.address)
			} else {
				err = b.rename(as, s, n*renames+i)
			}
			if err != nil {
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

func (b *bench) rename(as *request.API, s *sub, n int) error {
	var made struct{ WalletID string }
	return do(as, "ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": s.wallet, "walletName": fmt.Sprintf("Wallet %d", n)}, &made)
}

func (b *bench) sign(as *request.API, address string) error {
	payload := sha256.Sum256(fmt.Append(nil, b.payload.Add(1), time.Now().UnixNano()))
	var made struct {
		Value string `json:"r"`
	}
	err := do(as, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", object{"signWith": address, "payload": hex.EncodeToString(payload[:]),
		"encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NO_OP"}, &made)
	if err == nil && made.Value == "" {
		err = errors.New("no signature")
	}
	return err
}

// keep notes a sub-organization, in a file too, so that a run goes on where the last one ended.
func (b *bench) keep(s *sub) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.subs[s.number] = s
	_, err := fmt.Fprintln(b.made, s.number, s.id, s.wallet, s.address)
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
		s := &sub{}
		if _, err := fmt.Sscan(lines.Text(), &s.number, &s.id); err != nil {
			return err
		}
		if f := strings.Fields(lines.Text()); len(f) == 4 {
			s.wallet, s.address = f[2], f[3]
		}
		known[s.number] = s
	}
	for n := 0; known[n] != nil; n++ {
		b.subs = append(b.subs, known[n])
	}
	b.activities.Add(int64(len(b.subs)))
	return lines.Err()
}
