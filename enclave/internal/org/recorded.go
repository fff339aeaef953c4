package org

import (
	"fmt"

	"github.com/fxamacker/cbor/v2"
)

// TakeMembers returns a record with some members, given by their CBOR numbers, copied from another record. Either both
// records must have a member or neither.
func TakeMembers(record, from []byte, members []uint64) ([]byte, error) {
	var a, b map[uint64]cbor.RawMessage
	if err := decoding.Unmarshal(record, &a); err != nil {
		return nil, err
	}
	if err := decoding.Unmarshal(from, &b); err != nil {
		return nil, err
	}
	for _, m := range members {
		if (a[m] == nil) != (b[m] == nil) {
			return nil, fmt.Errorf("member %d of a record is there in one of two", m)
		}
		if a[m] != nil {
			a[m] = b[m]
		}
	}
	return encoding.Marshal(a)
}

// OmitNotBefore removes User.NotBeforeMs from computed writes of users' records if the recorded ones have none, since they may be
// of a release that did not write it.
func OmitNotBefore(computed, recorded []Write) error {
	for i := range min(len(computed), len(recorded)) {
		a, b := &computed[i], &recorded[i]
		if len(a.Key) == 0 || Collection(a.Key[0]) != collectionUsers || string(a.Key) != string(b.Key) || a.Value == nil || b.Value == nil {
			continue
		}
		u, err := decode[User](&record{bytes: a.Value})
		if err != nil {
			return err
		}
		was, err := decode[User](&record{bytes: b.Value})
		if err != nil {
			return err
		}
		if u.NotBeforeMs == 0 || was.NotBeforeMs != 0 {
			continue
		}
		u.NotBeforeMs = 0
		if a.Value, err = encoding.Marshal(u); err != nil {
			return err
		}
	}
	return nil
}

// BootOf returns the boot in a written import target, passcode or Verification. ok is false for other
// writes.
func (w Write) BootOf() (boot ID, ok bool, err error) {
	if len(w.Key) == 0 || w.Value == nil {
		return boot, false, nil
	}
	switch Collection(w.Key[0]) {
	case collectionTargets:
		g, err := decode[Target](&record{bytes: w.Value})
		if err != nil {
			return boot, true, err
		}
		return g.Boot, true, nil
	case collectionPasscodes:
		p, err := decode[Passcode](&record{bytes: w.Value})
		if err != nil {
			return boot, true, err
		}
		return p.Boot, true, nil
	case collectionVerifications:
		v, err := decode[Verification](&record{bytes: w.Value})
		if err != nil {
			return boot, true, err
		}
		return v.Boot, true, nil
	}
	return boot, false, nil
}
