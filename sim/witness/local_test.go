package witness_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/shared/porttest"
	"cloister/sim/witness"
	"cloister/sim/witness/witnesstest"
)

func locals(t *testing.T, o witness.LocalsOptions) witness.Locals {
	t.Helper()
	o.Name, o.Rand, o.Now = "local-", rand.Reader, time.Now
	all, err := witness.StartLocals(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(all.Stop)
	return all
}

// cosign asks one over HTTP for its first cosignature of a log, and gives the line.
func cosign(ctx context.Context, w *witness.Local, l *witnesstest.Log, size uint64) (string, error) {
	r, err := http.NewRequestWithContext(ctx, "POST", w.URL+"/add-checkpoint", bytes.NewReader(append([]byte("old 0\n\n"), l.Checkpoint(size)...)))
	if err != nil {
		return "", err
	}
	r.Close = true // what another one answered at this address is no longer there
	a, err := http.DefaultClient.Do(r)
	if err != nil {
		return "", err
	}
	defer a.Body.Close()
	b, err := io.ReadAll(a.Body)
	if err == nil && a.StatusCode != 200 {
		err = fmt.Errorf("%d %s", a.StatusCode, b)
	}
	return string(b), err
}

// Four of them make quorums of three; over a start each is who it was, where it was, and remembers.
func TestLocals(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	dir := t.TempDir()
	var addresses []string
	for range 4 {
		addresses = append(addresses, porttest.Address(t))
	}
	all := locals(t, witness.LocalsOptions{Count: 4, Dir: dir, Addresses: addresses})
	text := all.Policy(3)
	p, err := tlog.ParsePolicy(text)
	if err != nil || p.Quorum() != 3 || !p.Tolerates(1) || p.Tolerates(2) {
		t.Fatalf("%v\n%s", err, text)
	}
	if _, err := cosign(t.Context(), all[0], l, 5); err == nil || !strings.HasPrefix(err.Error(), "404") {
		t.Fatalf("a log that nobody told of: %v", err)
	}
	if err := all.Add(l.Key); err != nil {
		t.Fatal(err)
	}
	cosigned := l.Checkpoint(5)
	for i, w := range all[:3] {
		line, err := cosign(t.Context(), w, l, 5)
		if err != nil {
			t.Fatal(err)
		}
		cosigned = append(cosigned, line...)
		if _, _, err := p.VerifyExactly(l.Key, cosigned); (err == nil) != (i == 2) {
			t.Errorf("%d of 4: %v", i+1, err)
		}
	}

	all.Stop()
	again := locals(t, witness.LocalsOptions{Count: 4, Dir: dir, Addresses: addresses})
	if again.Policy(3) != text {
		t.Errorf("over a start they became\n%s", again.Policy(3))
	}
	if err := again.Add(l.Key); err != nil {
		t.Fatal(err)
	}
	for i, w := range again {
		if _, err := cosign(t.Context(), w, l, 4); (err == nil) != (i == 3) || err != nil && err.Error() != "409 5\n" {
			t.Errorf("witness %d forgot: %v", i+1, err)
		}
	}
}

// An address that others have is given up for another, by the one that wanted it.
func TestLocalsGiveWay(t *testing.T) {
	others, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer others.Close()
	all := locals(t, witness.LocalsOptions{Count: 2, Addresses: []string{others.Addr().String()}})
	if all[0].URL == "http://"+others.Addr().String() || all[0].URL == all[1].URL {
		t.Errorf("%s, %s", all[0].URL, all[1].URL)
	}
}

func TestLocalsAway(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: rounds of witnesses that are slow in real time")
	}
	l := witnesstest.NewLog(origin).Grow(9)
	w := locals(t, witness.LocalsOptions{Count: 1})[0]
	if err := w.Add(l.Key); err != nil {
		t.Fatal(err)
	}
	if _, err := cosign(t.Context(), w, l, 5); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second time changes nothing
		w.Stop()
	}
	if _, err := cosign(t.Context(), w, l, 5); err == nil {
		t.Error("it answers while it is away")
	}
	for range 2 {
		if err := w.Start(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := cosign(t.Context(), w, l, 4); err == nil || err.Error() != "409 5\n" {
		t.Errorf("it forgot while it was away: %v", err)
	}

	if err := w.Forget(); err != nil {
		t.Fatal(err)
	}
	const delay = 200 * time.Millisecond
	w.Delay(delay)
	short, cancel := context.WithTimeout(t.Context(), delay/4)
	defer cancel()
	if _, err := cosign(short, w, l, 5); err == nil {
		t.Error("it answered before its time")
	}
	began := time.Now()
	if _, err := cosign(t.Context(), w, l, 4); err != nil || time.Since(began) < delay { // what nobody waited for was not signed
		t.Errorf("after %v: %v", time.Since(began), err)
	}
	w.Delay(0)
	if _, err := cosign(t.Context(), w, l, 4); err == nil || err.Error() != "409 4\n" {
		t.Error(err)
	}
}

// A log that starts beside its witness asks before somebody has told of it.
func TestLocalsPatience(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	w := locals(t, witness.LocalsOptions{Count: 1})[0]
	came := make(chan error)
	for range 3 {
		go func() {
			_, err := cosign(t.Context(), w, l, 5)
			came <- err
		}()
	}
	time.Sleep(20 * time.Millisecond)
	for _, k := range []*tlog.Key{witnesstest.NewLog("another.example").Key, l.Key} {
		if err := w.Add(k); err != nil {
			t.Fatal(err)
		}
	}
	signed := 0
	for range 3 {
		if err := <-came; err == nil {
			signed++
		} else if err.Error() != "409 5\n" {
			t.Error(err)
		}
	}
	if signed != 1 {
		t.Errorf("%d signed", signed)
	}
}

func TestLocalsRefused(t *testing.T) {
	damaged := t.TempDir()
	if err := os.MkdirAll(filepath.Join(damaged, "2"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(damaged, "2", "key"), []byte("no key\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, o := range map[string]witness.LocalsOptions{
		"an address of another machine": {Name: "local-", Count: 1, Addresses: []string{"192.0.2.1:0"}},
		"all addresses":                 {Name: "local-", Count: 1, Addresses: []string{"0.0.0.0:0"}},
		"a name":                        {Name: "local-", Count: 1, Addresses: []string{"localhost:0"}},
		"a damaged key":                 {Name: "local-", Count: 2, Dir: damaged},
		"a name with a blank":           {Name: "local ", Count: 1},
	} {
		o.Rand, o.Now = rand.Reader, time.Now
		if all, err := witness.StartLocals(o); err == nil {
			all.Stop()
			t.Errorf("%s was taken", name)
		} else {
			t.Logf("%s: %v", name, err)
		}
	}
}
