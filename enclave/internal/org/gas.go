package org

import "encoding/binary"

// GasConfig is the gas sponsoring of a top-level organization for itself and its sub-organizations: it pays from
// accounts of two keys that nothing else uses. Amounts are in millionths of a US dollar.
type GasConfig struct {
	ID            ID     `cbor:"1,keyasint"`
	TreeLimit     uint64 `cbor:"2,keyasint,omitempty"` // for all organizations together
	EachLimit     uint64 `cbor:"3,keyasint,omitempty"` // for each sub-organization
	WindowMinutes uint64 `cbor:"4,keyasint"`
	Enabled       bool   `cbor:"5,keyasint,omitempty"`
	PublicKey     string `cbor:"6,keyasint"` // the sponsor's, lower-case hex
	Key           []byte `cbor:"7,keyasint"` // sealed
	CreatedMs     uint64 `cbor:"8,keyasint"`
	UpdatedMs     uint64 `cbor:"9,keyasint"`
	// SolanaPublicKey and SolanaKey are like PublicKey and Key; empty in records of earlier versions.
	SolanaPublicKey string `cbor:"10,keyasint,omitempty"`
	SolanaKey       []byte `cbor:"11,keyasint,omitempty"`
	// RentPrefund: on Solana the sponsor gives signers what their new accounts must hold.
	RentPrefund bool `cbor:"12,keyasint,omitempty"`
}

// MaxWindowMinutes is the longest window.
const MaxWindowMinutes = 43_200

// GasConfig returns the configuration, or nil.
func (t *Tx) GasConfig() (*GasConfig, error) { return get[GasConfig](t, key(collectionGasConfig)) }

// PutGasConfig stores the configuration.
func (t *Tx) PutGasConfig(c *GasConfig) error { return put(t, key(collectionGasConfig), c) }

// GasSpend is the maximal cost of a sponsored transaction. It is a record of the organization that pays.
type GasSpend struct {
	Organization ID     `cbor:"1,keyasint"` // organization whose account sends it
	Micro        uint64 `cbor:"2,keyasint"`
}

// allGasSpends begins the keys of spends.
const allGasSpends = string(rune(collectionGasSpends))

// PutGasSpend stores what an activity spends now.
func (t *Tx) PutGasSpend(activity ID, s *GasSpend) error {
	return put(t, key(collectionGasSpends, bigEndian(t.NowMs), raw(activity)), s)
}

// EachGasSpend visits the spends of the last windowMs, oldest first.
func (t *Tx) EachGasSpend(windowMs uint64, visit func(*GasSpend)) error {
	var from uint64
	if t.NowMs >= windowMs {
		from = t.NowMs - windowMs + 1
	}
	prefix := key(collectionGasSpends)
	return list(t, keyRange{from: prefix + bigEndian(from), to: nextPrefix(prefix)}, func(_ string, s *GasSpend) bool {
		visit(s)
		return true
	})
}

// ForgetGasSpends deletes at most most of the spends from before the longest window.
func (t *Tx) ForgetGasSpends(most int) error {
	const longestMs = MaxWindowMinutes * 60 * 1000
	if t.NowMs < longestMs {
		return nil
	}
	prefix := key(collectionGasSpends)
	var old []string
	err := list(t, keyRange{from: prefix, to: prefix + bigEndian(t.NowMs-longestMs)}, func(k string, _ *GasSpend) bool {
		old = append(old, k)
		return len(old) < most
	})
	for _, k := range old {
		t.del(k)
	}
	return err
}

// A Counter identifies a number sequence of an account on an EVM chain.
type Counter struct {
	Of      CounterKind
	Account Sender
}

// A CounterKind is the kind of a Counter. Kinds are never renumbered.
type CounterKind uint8

// The kinds of counters.
const (
	CountExecutions CounterKind = 1 // executions of an account that delegates to the delegate's code
	CountSponsored  CounterKind = 2 // transactions of a sponsor
	CountNonces     CounterKind = 3 // an account's own transactions
)

// A Taken records which activity has a number of a Counter, and until when.
type Taken struct {
	UntilMs   uint64 `cbor:"1,keyasint"`
	TakenMs   uint64 `cbor:"2,keyasint"`
	Within    uint64 `cbor:"3,keyasint,omitempty"` // the nonce of the transaction that uses it
	Sponsored bool   `cbor:"4,keyasint,omitempty"` // it is a sponsor's transaction, otherwise the account's own
	// Send is the send of the execution that has the number; nil in records of earlier versions.
	Send *SendRef `cbor:"5,keyasint,omitempty"`
}

func (c Counter) key() string {
	return key(collectionCounts, string([]byte{byte(c.Of)}), bigEndian(c.Account.Chain), string(c.Account.Address[:]))
}

// FreeNumber is the lowest number, starting at from, that is not taken or whose Taken isFree accepts.
func (t *Tx) FreeNumber(c Counter, from uint64, isFree func(*Taken) bool) (uint64, error) {
	prefix := c.key()
	err := list(t, keyRange{from: prefix + bigEndian(from), to: nextPrefix(prefix)}, func(k string, u *Taken) bool {
		if number := binary.BigEndian.Uint64([]byte(k[len(prefix):])); number > from || u.UntilMs <= t.NowMs || isFree(u) {
			return false
		}
		from++
		return true
	})
	return from, err
}

// Taken returns the current or last Taken of a number, or nil.
func (t *Tx) Taken(c Counter, number uint64) (*Taken, error) {
	return get[Taken](t, c.key()+bigEndian(number))
}

// EachTaken visits the numbers that are taken now, ascending.
func (t *Tx) EachTaken(c Counter, visit func(number uint64, u *Taken) bool) error {
	prefix := c.key()
	return list(t, keyRange{from: prefix, to: nextPrefix(prefix)}, func(k string, u *Taken) bool {
		return u.UntilMs <= t.NowMs || visit(binary.BigEndian.Uint64([]byte(k[len(prefix):])), u)
	})
}

// ReleaseNumber deletes the Taken of a number.
func (t *Tx) ReleaseNumber(c Counter, number uint64) { t.del(c.key() + bigEndian(number)) }

// TakeNumber takes a number and deletes some that have expired. Numbers that the chain has counted are also kept until they
// expire: a request whose node has not seen the transaction yet must not take the number again.
func (t *Tx) TakeNumber(c Counter, number uint64, u *Taken) error {
	const most = 64
	u.TakenMs = t.NowMs
	prefix := c.key()
	var old []string
	err := list(t, keyRange{from: prefix, to: prefix + bigEndian(number)}, func(k string, u *Taken) bool {
		if u.UntilMs <= t.NowMs {
			old = append(old, k)
		}
		return len(old) < most
	})
	if err != nil {
		return err
	}
	for _, k := range old {
		t.del(k)
	}
	return put(t, prefix+bigEndian(number), u)
}
