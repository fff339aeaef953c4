// Package tvctest makes apps for tests: operators, a quorum key in shares, manifests with their approvals.
package tvctest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"strconv"
	"testing"

	"cloister/shared/tvc"
)

// An App has three operators, two of whom approve, and two of whose shares make its quorum key.
type App struct {
	Operators []*tvc.Keys
	Shares    [][]byte
	Quorum    *tvc.Keys
	Manifest  tvc.Manifest
}

// New is an app that runs a program in an image with these registers, under a root in DER.
func New(t testing.TB, program []byte, registers [3][48]byte, root []byte) *App {
	t.Helper()
	a := &App{}
	var members []tvc.Member
	for i := range 3 {
		keys := draw(t)
		a.Operators = append(a.Operators, keys)
		members = append(members, tvc.Member{Alias: "operator " + strconv.Itoa(i+1), PubKey: keys.Hex()})
	}
	for a.Quorum == nil {
		seed, slope := make([]byte, tvc.SeedSize), make([]byte, tvc.SeedSize)
		_, _ = rand.Read(seed)
		_, _ = rand.Read(slope)
		a.Quorum, _ = tvc.NewKeys(seed)
		a.Shares = nil
		for x := range byte(3) {
			share := []byte{x + 1}
			for i := range seed {
				share = append(share, seed[i]^times(slope[i], x+1))
			}
			a.Shares = append(a.Shares, share)
		}
	}
	sum := sha256.Sum256(program)
	set := tvc.Set{Members: members, Threshold: 2}
	a.Manifest = tvc.Manifest{
		Version: tvc.Version, ManifestSet: set, ShareSet: set,
		Namespace: tvc.Namespace{Name: "prod/tvc/example", Nonce: 1, QuorumKey: a.Quorum.Hex()},
		Pivot:     tvc.Pivot{Hash: hex.EncodeToString(sum[:]), Restart: tvc.RestartNever, BridgeConfig: []tvc.Bridge{{Host: "127.0.0.1", Port: 3000, Type: tvc.BridgeServer}}},
		Enclave: tvc.Enclave{AWSRootCertificate: hex.EncodeToString(root), PCR0: hex.EncodeToString(registers[0][:]), PCR1: hex.EncodeToString(registers[1][:]),
			PCR2: hex.EncodeToString(registers[2][:]), PCR3: hex.EncodeToString(make([]byte, 48)), QOSCommit: "test"},
	}
	return a
}

func draw(t testing.TB) *tvc.Keys {
	keys, err := tvc.DrawKeys(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// times multiplies in the field of AES, bit by bit.
func times(a, b byte) (p byte) {
	for ; b != 0; b >>= 1 {
		if b&1 == 1 {
			p ^= a
		}
		high := a & 0x80
		if a <<= 1; high != 0 {
			a ^= 0x1b
		}
	}
	return p
}

// Hash is that of the manifest.
func (a *App) Hash(t testing.TB) [32]byte {
	t.Helper()
	raw, err := a.Manifest.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return tvc.Hash(raw)
}

// Envelope is the manifest with the approvals of its first operators.
func (a *App) Envelope(t testing.TB, approvals int) *tvc.Envelope {
	t.Helper()
	e := &tvc.Envelope{Manifest: a.Manifest}
	hash := a.Hash(t)
	for i := range approvals {
		e.ManifestSetApprovals = append(e.ManifestSetApprovals, a.Approve(t, i, hash))
	}
	return e
}

// Approve is an operator's approval of a manifest.
func (a *App) Approve(t testing.TB, operator int, hash [32]byte) tvc.Approval {
	t.Helper()
	signature, err := tvc.Approve(a.Operators[operator].Signing, hash)
	if err != nil {
		t.Fatal(err)
	}
	return tvc.NewApproval(a.Manifest.ManifestSet.Members[operator], signature)
}

// Encode is the canonical form of an envelope, of a run or a share.
func Encode(t testing.TB, document interface{ Encode() ([]byte, error) }) []byte {
	t.Helper()
	raw, err := document.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}
