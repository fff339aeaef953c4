package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/sim/witness"
)

// The witnesses of a laptop. Three of four is the smallest quorum that one may miss and one may lie in.
const (
	witnessCount    = 4
	witnessQuorum   = 3
	witnessTolerate = 1
	// witnessName says in every cosignature whose witness it is.
	witnessName = "same-machine-"
	// logName begins the origin of a laptop's logs, also of those from before there were witnesses.
	logName = "cloister"
	// serveTime is what a start after a crash waits: as long as the lease on the store. Witnesses so near answer
	// in milliseconds.
	serveTime = 2 * time.Second
	// boundTime is by how much replies may run ahead in bounded mode: hundreds of rounds, so that a machine that is busy
	// is not taken for one whose witnesses are away.
	boundTime = 2 * time.Second
)

// Errors of a start under which no enclave would serve: what a manifest says of its logs may only become stricter.
var (
	errWeaker = errors.New("-log: the logs of this data directory promise more, and keep to it; leave the flag out, or name another -data-dir")
	errOthers = errors.New("these are not the witnesses that the manifest of this data directory names: put its folder witnesses back as it was, or name another -data-dir")
)

// startWitnesses starts the laptop's witnesses, and gives what the manifest is to say of them: none and nil with -log none.
// Without the flag, a new data directory gets witnesses in bounded mode, and an older one keeps what its manifest says: a
// deployment gets witnesses when its operator asks for them.
func (o *options) startWitnesses() (witness.Locals, *attestation.LogTerms, error) {
	before, booted, err := o.dir().LogTerms()
	if err != nil {
		return nil, nil, err
	}
	name := o.log
	switch {
	case name == "" && before != nil:
		name = before.Mode
	case name == "" && booted:
		name = tlog.ModeNone.String()
	case name == "":
		name = tlog.ModeBounded.String()
	}
	mode, err := tlog.ParseMode(name)
	if err != nil {
		return nil, nil, fmt.Errorf("-log: %w", err)
	}
	if mode == tlog.ModeNone {
		if before != nil {
			err = errWeaker
		}
		return nil, nil, err
	}
	all, err := witness.StartLocals(witness.LocalsOptions{Name: witnessName, Count: witnessCount, Dir: filepath.Join(o.dataDir, "witnesses"),
		Addresses: addressesOf(before), Rand: rand.Reader, Now: time.Now})
	if err != nil {
		return nil, nil, fmt.Errorf("witnesses: %w", err)
	}
	for _, w := range all {
		w.Delay(o.witnessDelay)
	}
	terms := &attestation.LogTerms{Name: logName, Policy: all.Policy(witnessQuorum), Tolerates: witnessTolerate, Mode: name, ServeMs: uint64(serveTime.Milliseconds())}
	if mode == tlog.ModeBounded {
		terms.BoundMs = uint64(boundTime.Milliseconds())
	}
	if before != nil {
		if terms.ServeMs = before.ServeMs; terms.Hash() != before.Hash() {
			err = errOthers
		} else if !before.Continues(terms) {
			err = errWeaker
		}
	}
	if err != nil {
		all.Stop()
		return nil, nil, err
	}
	return all, terms, nil
}

// addressesOf are where the witnesses were, so that they are there again if nobody else is: the manifest stays the same.
func addressesOf(l *attestation.LogTerms) (addresses []string) {
	if l == nil {
		return nil
	}
	p, err := tlog.ParsePolicy(l.Policy)
	if err != nil {
		return nil
	}
	_, urls := p.Witnesses()
	for _, s := range urls {
		u, err := url.Parse(s)
		if err != nil {
			return nil
		}
		addresses = append(addresses, u.Host)
	}
	return addresses
}
