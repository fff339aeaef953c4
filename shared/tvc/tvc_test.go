package tvc_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/shared/tvc"
)

// vectors were computed by Node's cryptography; see testdata/vectors.mjs.
type vectors struct {
	QuorumSeed, QuorumKey, Manifest, ManifestHash, Envelope, BoxSeed, Box string
	Approvals, Shares                                                     []string
}

func readVectors(t testing.TB) (v vectors) {
	t.Helper()
	raw, err := os.ReadFile("testdata/vectors.json")
	if err == nil {
		err = json.Unmarshal(raw, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func unhex(t testing.TB, text string) []byte {
	t.Helper()
	raw, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestVectors(t *testing.T) {
	v := readVectors(t)
	m, err := tvc.ParseManifest([]byte(v.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	hash := tvc.Hash([]byte(v.Manifest))
	if hex.EncodeToString(hash[:]) != v.ManifestHash || m.Namespace.Nonce != 1790000000 || m.Pivot.BridgeConfig[1].Port != 3001 {
		t.Errorf("hash %x, manifest %+v", hash, m)
	}
	e, err := tvc.ParseEnvelope([]byte(v.Envelope))
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.Check(); err != nil || got != hash {
		t.Errorf("approvals: %v", err)
	}
	keys, err := tvc.NewKeys(unhex(t, v.QuorumSeed))
	if err != nil || keys.Hex() != v.QuorumKey || keys.Hex() != m.Namespace.QuorumKey {
		t.Errorf("quorum key: %v", err)
	}
	holder, err := tvc.NewKeys(unhex(t, v.BoxSeed))
	if err != nil {
		t.Fatal(err)
	}
	if plain, err := tvc.Open(holder.Encryption, unhex(t, v.Box)); err != nil || hex.EncodeToString(plain) != v.Shares[0] || len(plain) != tvc.ShareSize {
		t.Errorf("box: %x, %v", plain, err)
	}
}

// A manifest has one spelling; what says something else, or the same otherwise, is refused.
func TestManifestsRefused(t *testing.T) {
	v := readVectors(t)
	m, err := tvc.ParseManifest([]byte(v.Manifest))
	if err != nil {
		t.Fatal(err)
	}
	last := m.ManifestSet.Members[2]
	for name, c := range map[string][2]string{
		"version 1":                 {`"version":"v2"`, `"version":"v1"`},
		"no version":                {`,"version":"v2"`, ``},
		"an integer as a number":    {`"nonce":"1790000000"`, `"nonce":1790000000`},
		"an integer with a zero":    {`"nonce":"1790000000"`, `"nonce":"01790000000"`},
		"an integer beyond 32 bits": {`"nonce":"1790000000"`, `"nonce":"4294967296"`},
		"a negative one":            {`"nonce":"1790000000"`, `"nonce":"-1"`},
		"another order":             {`"debugMode":false,"hash"`, `"hash":false,"debugMode"`},
		"a blank":                   {`{"enclave"`, `{ "enclave"`},
		"bytes behind it":           {`"version":"v2"}`, `"version":"v2"}{}`},
		"a member twice":            {`"version":"v2"`, `"version":"v2","version":"v2"`},
		"a member in capitals":      {`"version"`, `"Version"`},
		"an unknown member":         {`"version":"v2"`, `"patchSet":{},"version":"v2"`},
		"an environment":            {`,"hash"`, `,"env":{"A":"b"},"hash"`},
		"resolvers":                 {`{"enclave"`, `{"dns":{"resolvers":["1.1.1.1"]},"enclave"`},
		"null for a list":           {`"args":["--limit","10 € & <more>","\"quoted\" \\"]`, `"args":null`},
		"an escape too many":        {`€`, `\u20ac`},
		"an argument with a line":   {`--limit`, `--li\nmit`},
		"one that turns around":     {`--limit`, "--li\u202emit"},
		"invalid UTF-8":             {`--limit`, "--li\xffmit"},
		"another restart policy":    {`"Always"`, `"always"`},
		"a bridge outward":          {`"port":"3000","type":"server"`, `"port":"3000","type":"client"`},
		"a bridge without a host":   {`"host":"0.0.0.0",`, ``},
		"a bridge of another host":  {`"host":"0.0.0.0"`, `"host":"10.0.0.1"`},
		"port 0":                    {`"port":"3000"`, `"port":"0"`},
		"one port twice":            {`"port":"3001"`, `"port":"3000"`},
		"a short hash":              {m.Pivot.Hash, m.Pivot.Hash[2:]},
		"a hash in capitals":        {m.Pivot.Hash, strings.ToUpper(m.Pivot.Hash)},
		"a short register":          {m.Enclave.PCR0, m.Enclave.PCR0[2:]},
		"no root":                   {m.Enclave.AWSRootCertificate, ""},
		"a threshold of 0":          {`],"threshold":"2"},"namespace"`, `],"threshold":"0"},"namespace"`},
		"one above the number":      {`],"threshold":"2"},"namespace"`, `],"threshold":"4"},"namespace"`},
		"shares in one hand":        {`],"threshold":"2"},"version"`, `],"threshold":"1"},"version"`},
		"one alias twice":           {`"alias":"Bea"`, `"alias":"Ada"`},
		"one key twice":             {last.PubKey, m.ManifestSet.Members[0].PubKey},
		"one half of a key twice":   {last.PubKey, m.ManifestSet.Members[0].PubKey[:130] + last.PubKey[130:]},
		"a key off the curve":       {last.PubKey, last.PubKey[:258] + "00"},
		"half a quorum key":         {m.Namespace.QuorumKey, m.Namespace.QuorumKey[:130]},
	} {
		altered := strings.Replace(v.Manifest, c[0], c[1], 1)
		if altered == v.Manifest {
			t.Fatalf("%s: nothing was altered", name)
		}
		if _, err := tvc.ParseManifest([]byte(altered)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	for name, raw := range map[string]string{"nothing": "", "null": "null", "a list": "[]", "too much": strings.Repeat(" ", tvc.MaxManifest) + v.Manifest} {
		if _, err := tvc.ParseManifest([]byte(raw)); err == nil {
			t.Errorf("%s was taken", name)
		}
	}
	long := *m
	long.Pivot.Args = slices.Repeat([]string{strings.Repeat("a", tvc.MaxArgument)}, 20)
	if _, err := long.Encode(); err == nil {
		t.Error("a manifest was written that cannot be read")
	}
}

func TestApprovalsRefused(t *testing.T) {
	v := readVectors(t)
	e, err := tvc.ParseEnvelope([]byte(v.Envelope))
	if err != nil {
		t.Fatal(err)
	}
	hash, approvals, members := tvc.Hash([]byte(v.Manifest)), e.ManifestSetApprovals, e.Manifest.ManifestSet.Members
	unrelated, err := tvc.DrawKeys(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	signature, err := tvc.Approve(unrelated.Signing, hash)
	if err != nil {
		t.Fatal(err)
	}
	twin := approvals[0]
	twin.Signature = otherS(t, twin.Signature)
	if err := e.Manifest.ManifestSet.CheckApprovals(hash, []tvc.Approval{twin, approvals[1]}); err != nil {
		t.Errorf("the twin of a signature: %v", err)
	}
	renamed := approvals[1]
	renamed.Member.Alias = "Bea 2"
	for name, list := range map[string][]tvc.Approval{
		"none":                        nil,
		"one too few":                 approvals[:1],
		"one twice":                   {approvals[0], approvals[0]},
		"one and its twin":            {approvals[0], twin},
		"a stranger's":                {approvals[0], approvals[1], tvc.NewApproval(tvc.Member{Alias: "Dan", PubKey: unrelated.Hex()}, signature)},
		"a stranger's for a member":   {approvals[0], tvc.NewApproval(members[2], signature)},
		"one's for another":           {approvals[0], {Member: members[2], Signature: approvals[1].Signature}},
		"under another name":          {approvals[0], renamed},
		"cut":                         {approvals[0], {Member: members[1], Signature: approvals[1].Signature[2:]}},
		"nothing in it":               {approvals[0], {Member: members[1], Signature: strings.Repeat("00", 64)}},
		"more than there are members": slices.Repeat(approvals[:1], tvc.MaxMembers+1),
	} {
		if err := e.Manifest.ManifestSet.CheckApprovals(hash, list); err == nil {
			t.Errorf("%s was enough", name)
		}
	}
	if err := e.Manifest.ManifestSet.CheckApprovals(tvc.Hash([]byte("another")), approvals); err == nil {
		t.Error("approvals of another manifest were enough")
	}
	for name, c := range map[string][2]string{
		"a member less": {`,"shareSetApprovals":[]`, ``}, "null": {`"shareSetApprovals":[]`, `"shareSetApprovals":null`},
		"a short signature": {v.Approvals[0], v.Approvals[0][2:]}, "no alias": {`[{"member":{"alias":"Ada"`, `[{"member":{"alias":""`},
	} {
		if altered := strings.Replace(v.Envelope, c[0], c[1], 1); altered == v.Envelope {
			t.Fatalf("%s: nothing was altered", name)
		} else if _, err := tvc.ParseEnvelope([]byte(altered)); err == nil {
			t.Errorf("an envelope with %s was taken", name)
		}
	}
}

// otherS is the signature with n - s for s, which verifies as well.
func otherS(t testing.TB, text string) string {
	raw := unhex(t, text)
	order := unhex(t, "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551")
	borrow := 0
	for i := 31; i >= 0; i-- {
		d := int(order[i]) - int(raw[32+i]) - borrow
		borrow = 0
		if d < 0 {
			d, borrow = d+256, 1
		}
		raw[32+i] = byte(d)
	}
	return hex.EncodeToString(raw)
}

func TestBoxesRefused(t *testing.T) {
	keys, err := tvc.DrawKeys(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := tvc.DrawKeys(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	plain := bytes.Repeat([]byte{7}, tvc.ShareSize)
	box, err := tvc.Seal(rand.Reader, keys.Encryption.PublicKey(), plain)
	if err != nil || len(box) != tvc.ShareBoxSize {
		t.Fatalf("%d bytes: %v", len(box), err)
	}
	if got, err := tvc.Open(keys.Encryption, box); err != nil || !bytes.Equal(got, plain) {
		t.Fatalf("%x: %v", got, err)
	}
	if again, err := tvc.Seal(rand.Reader, keys.Encryption.PublicKey(), plain); err != nil || bytes.Equal(again, box) {
		t.Errorf("two boxes are alike: %v", err)
	}
	if _, err := tvc.Open(other.Encryption, box); !errors.Is(err, tvc.ErrBox) {
		t.Errorf("another key: %v", err)
	}
	for i := range box {
		altered := bytes.Clone(box)
		altered[i] ^= 1
		if _, err := tvc.Open(keys.Encryption, altered); !errors.Is(err, tvc.ErrBox) {
			t.Fatalf("byte %d altered: %v", i, err)
		}
	}
	for _, altered := range [][]byte{nil, box[:96], box[:len(box)-1], append(bytes.Clone(box), 0)} {
		if _, err := tvc.Open(keys.Encryption, altered); !errors.Is(err, tvc.ErrBox) {
			t.Errorf("%d bytes: %v", len(altered), err)
		}
	}
	if _, err := tvc.Seal(bytes.NewReader(nil), keys.Encryption.PublicKey(), plain); err == nil {
		t.Error("sealed without randomness")
	}
	if _, err := tvc.NewKeys(make([]byte, 31)); err == nil {
		t.Error("a short seed gave keys")
	}
}

func runOf(t testing.TB) tvc.Run {
	e, err := tvc.ParseEnvelope([]byte(readVectors(t).Envelope))
	if err != nil {
		t.Fatal(err)
	}
	return tvc.Run{AppID: "app", DeploymentID: "deployment", Live: true, Envelope: e, Image: "registry.test/cosigner@sha256:" + strings.Repeat("ab", 32), Path: "/cosigner",
		HealthCheckType: tvc.HealthHTTP, HealthCheckPort: 3000, PublicIngressPort: 3001, Replicas: 3}
}

func TestRuns(t *testing.T) {
	good := runOf(t)
	for name, c := range map[string]struct {
		alter func(*tvc.Run)
		ok    bool
	}{
		"as it should be":          {func(*tvc.Run) {}, true},
		"an end":                   {func(r *tvc.Run) { *r = tvc.Run{AppID: "app", DeploymentID: "deployment", Stop: true} }, true},
		"an end with more":         {func(r *tvc.Run) { r.Stop = true }, false},
		"no app":                   {func(r *tvc.Run) { r.AppID = "" }, false},
		"no manifest":              {func(r *tvc.Run) { r.Envelope = nil }, false},
		"one approval too few":     {func(r *tvc.Run) { r.Envelope.ManifestSetApprovals = r.Envelope.ManifestSetApprovals[:1] }, false},
		"an image by a tag":        {func(r *tvc.Run) { r.Image = "registry.test/cosigner:latest" }, false},
		"a path within something":  {func(r *tvc.Run) { r.Path = "cosigner" }, false},
		"no health check":          {func(r *tvc.Run) { r.HealthCheckType = "" }, false},
		"a port not in the bridge": {func(r *tvc.Run) { r.PublicIngressPort = 3002 }, false},
		"no replica":               {func(r *tvc.Run) { r.Replicas = 0 }, false},
		"too many":                 {func(r *tvc.Run) { r.Replicas = tvc.MaxReplicas + 1 }, false},
	} {
		r, e := good, *good.Envelope
		r.Envelope = &e
		c.alter(&r)
		raw, err := r.Encode()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if !c.ok {
			continue
		}
		again, err := tvc.ParseRun(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		} else if second, err := again.Encode(); err != nil || !bytes.Equal(raw, second) {
			t.Errorf("%s: came back otherwise: %v", name, err)
		}
	}
}

func TestPostedShares(t *testing.T) {
	v := readVectors(t)
	e, err := tvc.ParseEnvelope([]byte(v.Envelope))
	if err != nil {
		t.Fatal(err)
	}
	p := tvc.PostedShare{Approval: e.ManifestSetApprovals[0], Box: v.Box}
	raw, err := p.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tvc.ParsePostedShare(raw); err != nil || *got != p {
		t.Errorf("%+v: %v", got, err)
	}
	for _, altered := range []string{"", "{}", strings.Replace(string(raw), v.Box, v.Box[2:], 1), string(raw) + " ", strings.Replace(string(raw), `"box"`, `"Box"`, 1)} {
		if _, err := tvc.ParsePostedShare([]byte(altered)); err == nil {
			t.Errorf("%.40q was taken", altered)
		}
	}
}

// What a decoder takes it writes again, byte for byte.
func FuzzDocuments(f *testing.F) {
	v := readVectors(f)
	run := runOf(f)
	raw, err := run.Encode()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(v.Manifest))
	f.Add([]byte(v.Envelope))
	f.Add(raw)
	f.Fuzz(func(t *testing.T, raw []byte) {
		same := func(what string, again []byte, err error) {
			if err != nil || !bytes.Equal(raw, again) {
				t.Errorf("%s came back otherwise: %v", what, err)
			}
		}
		if m, err := tvc.ParseManifest(raw); err == nil {
			again, err := m.Encode()
			same("a manifest", again, err)
		}
		if e, err := tvc.ParseEnvelope(raw); err == nil {
			again, err := e.Encode()
			same("an envelope", again, err)
			_, _ = e.Check()
		}
		if r, err := tvc.ParseRun(raw); err == nil {
			again, err := r.Encode()
			same("a run", again, err)
		}
		if p, err := tvc.ParsePostedShare(raw); err == nil {
			again, err := p.Encode()
			same("a share", again, err)
		}
	})
}

// No box but that of its key opens.
func FuzzOpen(f *testing.F) {
	v := readVectors(f)
	box := unhex(f, v.Box)
	holder, err := tvc.NewKeys(unhex(f, v.BoxSeed))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(box)
	f.Add(box[:97])
	f.Fuzz(func(t *testing.T, raw []byte) {
		if _, err := tvc.Open(holder.Encryption, raw); err == nil && !bytes.Equal(raw, box) {
			t.Errorf("%x opened", raw)
		}
	})
}
