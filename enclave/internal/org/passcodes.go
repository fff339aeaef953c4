package org

import (
	"cmp"
	"encoding/binary"
	"io"
)

// An organization with many log-ins has many short-lived passcodes and verification tokens,
// so both are in large collections. Their ids begin with the time of creation: the oldest are
// first, and sweeping begins there.

// A Passcode is a code that was sent to a contact.
type Passcode struct {
	ID        ID     `cbor:"1,keyasint"`
	Type      string `cbor:"2,keyasint"` // OTP_TYPE_…
	Contact   string `cbor:"3,keyasint"`
	Code      string `cbor:"4,keyasint"`
	CreatedMs uint64 `cbor:"5,keyasint"`
	ExpiresMs uint64 `cbor:"6,keyasint"`
	// Boot is the boot that made it: a later boot has no reliable count of its tries.
	Boot ID `cbor:"7,keyasint"`
	// Target, if attempts are encrypted, is the private key, sealed once more under the passcode's id.
	Target []byte `cbor:"8,keyasint,omitempty"`
	Tries  uint8  `cbor:"9,keyasint,omitempty"` // wrong attempts
	// Over is set once the code was used or newer codes of its contact have replaced it.
	Over bool `cbor:"10,keyasint,omitempty"`
	// Legacy is set if the code yields a credential and not a verification token.
	Legacy bool `cbor:"11,keyasint,omitempty"`
	// Counted are the hashes by which sends are limited: of its contact, and of the sender's other identifiers of users.
	Counted []Hash `cbor:"12,keyasint,omitempty"`
	// Profile, if not zero, is the session profile that bounds the log-in, that of the session that had the code sent.
	Profile ID `cbor:"13,keyasint,omitzero"`
}

// Limits of passcodes.
const (
	PasscodeTries    = 3          // wrong ones that end a code
	PasscodeActive   = 3          // of one contact; one more ends the oldest
	PasscodeSends    = 3          // in PasscodeWindowMs, of each hash in Counted
	PasscodeWindowMs = 180 * 1000 // three minutes
)

// Live reports whether the code can still be tried at nowMs in this boot.
func (p *Passcode) Live(boot ID, nowMs uint64) bool {
	return p.Boot == boot && !p.Over && p.Tries < PasscodeTries && nowMs < p.ExpiresMs
}

// swept reports whether the record can be deleted.
func (p *Passcode) swept(nowMs uint64) bool {
	return nowMs >= p.ExpiresMs && nowMs >= p.CreatedMs+PasscodeWindowMs
}

// sweepAtOnce is the number of old records that one change examines.
const sweepAtOnce = 8

// NewTimedID draws a UUID of version 7 (RFC 9562), which begins with a time: later ones sort after.
func NewTimedID(rand io.Reader, nowMs uint64) (id ID, err error) {
	copy(id[:6], bigEndian(nowMs)[2:])
	return drawUUID(rand, id, 6, 7)
}

// Ms is the time in an id that NewTimedID has drawn.
func (id ID) Ms() uint64 { return binary.BigEndian.Uint64(id[:]) >> 16 }

// Passcode returns the passcode with this id, or nil.
func (t *Tx) Passcode(id ID) (*Passcode, error) { return find[Passcode](t, collectionPasscodes, id) }

// PutPasscode stores p and counts it.
func (t *Tx) PutPasscode(p *Passcode) error {
	for _, h := range p.Counted {
		if err := put(t, key(collectionPasscodeCounts, string(h[:]), raw(p.ID)), &none{}); err != nil {
			return err
		}
	}
	return put(t, key(collectionPasscodes, raw(p.ID)), p)
}

// PasscodesBy returns the passcodes that count against h, oldest first.
func (t *Tx) PasscodesBy(h Hash) (ps []*Passcode, err error) {
	prefix := key(collectionPasscodeCounts, string(h[:]))
	var bad error
	err = t.scan(keysWithPrefix(prefix), func(k string, _ *record) bool {
		var p *Passcode
		if p, bad = t.Passcode(ID([]byte(k[len(prefix):]))); p != nil {
			ps = append(ps, p)
		}
		return bad == nil
	})
	return ps, cmp.Or(err, bad)
}

// SweepPasscodes deletes some of the oldest passcodes that are no longer needed.
func (t *Tx) SweepPasscodes() error {
	old, err := oldest(t, collectionPasscodes, func(p *Passcode) bool { return p.swept(t.NowMs) })
	for _, p := range old {
		for _, h := range p.Counted {
			t.del(key(collectionPasscodeCounts, string(h[:]), raw(p.ID)))
		}
		t.del(key(collectionPasscodes, raw(p.ID)))
	}
	return err
}

// A Verification records the uses of a verification token; the token itself has its other data.
type Verification struct {
	ID        ID     `cbor:"1,keyasint"`
	ExpiresMs uint64 `cbor:"2,keyasint"`
	// Boot is the boot that issued it: a later boot has no reliable record of its uses.
	Boot ID    `cbor:"3,keyasint"`
	Used Usage `cbor:"4,keyasint,omitempty"`
	// Profile, if not zero, is the session profile that bounds log-ins and votes by the token, that of the session that got it.
	Profile ID `cbor:"5,keyasint"`
}

// Usage is a set of purposes. A verification token serves each once.
type Usage uint8

// The purposes of a verification token.
const (
	UsedSignup  Usage = 1 << iota // to make a sub-organization
	UsedLogin                     // to start a session
	UsedContact                   // to verify a user's contact
)

// Verification returns the record of the token with this id, or nil.
func (t *Tx) Verification(id ID) (*Verification, error) {
	return find[Verification](t, collectionVerifications, id)
}

// PutVerification stores v.
func (t *Tx) PutVerification(v *Verification) error {
	return put(t, key(collectionVerifications, raw(v.ID)), v)
}

// SweepVerifications deletes some of the oldest records of expired tokens.
func (t *Tx) SweepVerifications() error {
	old, err := oldest(t, collectionVerifications, func(v *Verification) bool { return t.NowMs >= v.ExpiresMs })
	for _, v := range old {
		t.del(key(collectionVerifications, raw(v.ID)))
	}
	return err
}

// oldest returns those of the first sweepAtOnce records of a collection that mayGo accepts.
func oldest[T any](t *Tx, c Collection, mayGo func(*T) bool) (old []*T, err error) {
	n := 0
	err = each(t, c, func(rec *T) bool {
		if n++; mayGo(rec) {
			old = append(old, rec)
		}
		return n < sweepAtOnce
	})
	return old, err
}
