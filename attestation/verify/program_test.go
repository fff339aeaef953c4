package main

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/attestation/commitment"
	"cloister/shared/tvc"
	"cloister/shared/tvc/tvctest"
	"cloister/sim/nsm"
)

// An operator of customers' programs makes his key, approves a manifest and gives his share, from files.
func TestPrograms(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		name = filepath.Join(dir, name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	ask := func(answer string, args ...string) (out string, code int) {
		var stdout, stderr bytes.Buffer
		code = run(args, strings.NewReader(answer), &stdout, &stderr, os.ReadFile, time.Now)
		return stdout.String() + stderr.String(), code
	}
	must := func(args ...string) string {
		t.Helper()
		var stdout, stderr bytes.Buffer
		if code := run(args, strings.NewReader("yes\n"), &stdout, &stderr, os.ReadFile, time.Now); code != exitVerified {
			t.Fatalf("%q: exit %d: %s", args, code, stderr.String())
		}
		return stdout.String()
	}
	key := filepath.Join(dir, "key")
	var made struct{ PublicKey string }
	if err := json.Unmarshal([]byte(must("program-key", "-out", key)), &made); err != nil {
		t.Fatal(err)
	}
	if _, code := ask("", "program-key", "-out", key); code == exitVerified {
		t.Error("a key was overwritten")
	}
	root, err := nsm.NewRoot(rand.Reader, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	der, _ := pem.Decode([]byte(root.PEM()))
	image := [3][48]byte{{1}, {2}, {3}}
	a := tvctest.New(t, []byte("program"), image, der.Bytes)
	members := []tvc.Member{{Alias: "me", PubKey: made.PublicKey}, a.Manifest.ManifestSet.Members[1], a.Manifest.ManifestSet.Members[2]}
	a.Manifest.ManifestSet.Members, a.Manifest.ShareSet.Members = members, members
	manifest := file("manifest", string(tvctest.Encode(t, &a.Manifest)))
	hash := a.Hash(t)
	if out, code := ask("no\n", "program-approve", "-key", key, "-manifest", manifest); code == exitVerified || !strings.Contains(out, hex.EncodeToString(hash[:])) {
		t.Errorf("exit %d: %s", code, out)
	}
	var approved struct{ Signature string }
	if err := json.Unmarshal([]byte(must("program-approve", "-key", key, "-manifest", manifest)), &approved); err != nil {
		t.Fatal(err)
	}
	signature, err := hex.DecodeString(approved.Signature)
	if err != nil {
		t.Fatal(err)
	}
	if err := tvc.CheckApproval(made.PublicKey, hash, signature); err != nil {
		t.Error(err)
	}

	// An enclave that waits for shares, and this operator's own.
	device, err := nsm.New(nsm.Config{Root: root, Now: time.Now, Rand: rand.Reader, PCRs: image})
	if err != nil {
		t.Fatal(err)
	}
	setup, err := tvc.DrawKeys(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	extension := commitment.Setup(setup.Hex(), hash)
	if _, err := device.ExtendPCR(commitment.SetupPCR, extension[:]); err != nil {
		t.Fatal(err)
	}
	if err := device.LockPCRs(32); err != nil {
		t.Fatal(err)
	}
	document, err := device.Attest(setup.Public[:], hash[:], nil)
	if err != nil {
		t.Fatal(err)
	}
	envelope := &tvc.Envelope{Manifest: a.Manifest, ManifestSetApprovals: []tvc.Approval{tvc.NewApproval(members[0], signature), a.Approve(t, 1, hash)}}
	raw, err := json.Marshal(tvc.Attested{Document: document, Envelope: tvctest.Encode(t, envelope), PublicKey: setup.Hex()})
	if err != nil {
		t.Fatal(err)
	}
	pair, err := tvc.ParsePair(made.PublicKey)
	if err != nil {
		t.Fatal(err)
	}
	box, err := tvc.Seal(rand.Reader, pair.Encryption, a.Shares[0])
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"program-share", "-key", key, "-shares", file("box", hex.EncodeToString(box)+"\n"), "-setup", file("setup", string(raw)),
		"-manifest", manifest, "-simulator-root", file("root.pem", root.PEM())}
	posted, err := tvc.ParsePostedShare([]byte(strings.TrimSuffix(must(args...), "\n")))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := hex.DecodeString(posted.Box)
	if err != nil {
		t.Fatal(err)
	}
	if share, err := tvc.Open(setup.Encryption, sealed); err != nil || !bytes.Equal(share, a.Shares[0]) || posted.Approval.Member != members[0] {
		t.Errorf("%x: %v", share, err)
	}
	a.Manifest.Namespace.Nonce++
	other := file("other", string(tvctest.Encode(t, &a.Manifest)))
	a.Manifest.ShareSet.Members, a.Manifest.ManifestSet.Members = members[1:], members[1:]
	foreign := file("foreign", string(tvctest.Encode(t, &a.Manifest)))
	for name, refused := range map[string][]string{
		"another manifest than the enclave's": {args[0], args[1], args[2], args[3], args[4], args[5], args[6], "-manifest", other, args[9], args[10]},
		"the root of AWS":                     args[:9],
		"no share of this key":                {args[0], args[1], args[2], args[3], file("empty", "00"), args[5], args[6], args[7], args[8], args[9], args[10]},
		"a set without this operator":         {args[0], args[1], args[2], args[3], args[4], args[5], args[6], "-manifest", foreign, args[9], args[10]},
		"an approval for others":              {"program-approve", "-key", key, "-manifest", foreign},
		"a key that is none":                  {"program-approve", "-key", manifest, "-manifest", manifest},
	} {
		if out, code := ask("yes\n", refused...); code == exitVerified {
			t.Errorf("%s: %s", name, out)
		}
	}
}
