// The race detector's shadow memory is too large to look through.

//go:build !race

package keys_test

import (
	"bufio"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"
	"unsafe"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/secret"
)

// TestNothingStaysInMemory derives, signs, wipes and looks through the whole
// memory of the process for the keys, in both byte orders. With runtime/secret
// none may be left; the plain build, which the log shows as the control, keeps
// traces. A planted key proves that the search finds.
func TestNothingStaysInMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc/self/mem")
	}
	const n = 150
	var mask [32]byte
	rand.Read(mask[:])
	entropy, err := keys.GenerateMnemonic(rand.Reader, 24)
	if err != nil {
		t.Fatal(err)
	}
	w, err := keys.OpenWallet(entropy, secret.Secret{})
	if err != nil {
		t.Fatal(err)
	}
	wanted := make(map[string][][32]byte) // masked
	message := make([]byte, 32)
	for i := range n {
		for _, c := range []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519} {
			p, err := keys.ParsePath(fmt.Sprintf("m/44'/60'/0'/0/%d", i))
			if err != nil {
				t.Fatal(err)
			}
			k, err := w.Derive(c, p)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				if _, err := keys.SignBare(k, message); err != nil {
					t.Fatal(err)
				}
			}
			wanted[c.String()] = append(wanted[c.String()], k.Masked(mask))
			k.Wipe()
		}
	}
	planted := make([]byte, 32)
	rand.Read(planted)
	var maskedPlant [32]byte
	for i := range planted {
		maskedPlant[i] = planted[i] ^ mask[i]
	}
	wanted["planted"] = [][32]byte{maskedPlant}
	w.Wipe()
	entropy.Wipe()
	w = nil
	collect(t)
	found := scan(t, wanted, mask)
	t.Logf("erasing build: %v; keys found of %d each: %v", keys.Erasing, n, found)
	if found["planted"] != 1 {
		t.Error("the planted key was not found")
	}
	delete(found, "planted")
	if keys.Erasing && len(found) > 0 {
		t.Errorf("keys are left in memory: %v", found)
	}
	runtime.KeepAlive(planted)
}

// collect collects the keys that are gone, then what the libraries tied to them. Each time it waits for the cleanups,
// which run in goroutines of their own and free what the next collection takes.
func collect(t *testing.T) {
	t.Helper()
	counts := []metrics.Sample{{Name: "/gc/cleanups/queued:cleanups"}, {Name: "/gc/cleanups/executed:cleanups"},
		{Name: "/gc/finalizers/queued:finalizers"}, {Name: "/gc/finalizers/executed:finalizers"}}
	for range 4 {
		runtime.GC()
		for start := time.Now(); ; time.Sleep(time.Millisecond) {
			metrics.Read(counts)
			n := func(i int) uint64 { return counts[i].Value.Uint64() }
			if n(0) == n(1) && n(2) == n(3) {
				break
			}
			if time.Since(start) > time.Minute {
				t.Fatalf("%d of %d cleanups and %d of %d finalizers have run", n(1), n(0), n(3), n(2))
			}
		}
	}
}

// scan counts, by name, the wanted keys that writable memory holds.
func scan(t *testing.T, wanted map[string][][32]byte, mask [32]byte) map[string]int {
	t.Helper()
	type needle struct {
		name     string
		key      *[32]byte
		reversed bool
	}
	byStart := make(map[uint64][]needle) // the first 8 bytes as they lie in memory, masked
	for name, list := range wanted {
		for i := range list {
			byStart[start(&list[i], mask, false)] = append(byStart[start(&list[i], mask, false)], needle{name, &list[i], false})
			byStart[start(&list[i], mask, true)] = append(byStart[start(&list[i], mask, true)], needle{name, &list[i], true})
		}
	}
	var first [1 << 16]bool
	for s := range byStart {
		first[uint16(s)] = true
	}
	m := binary.LittleEndian.Uint64(mask[:])
	hits := make(map[string]map[*[32]byte]bool)
	eachRegion(t, func(b []byte) {
		for i := 0; i+32 <= len(b); i++ {
			if !first[binary.LittleEndian.Uint16(b[i:])^uint16(m)] {
				continue
			}
			for _, x := range byStart[binary.LittleEndian.Uint64(b[i:])^m] {
				if equalMasked(b[i:i+32], x.key, mask, x.reversed) {
					if hits[x.name] == nil {
						hits[x.name] = make(map[*[32]byte]bool)
					}
					hits[x.name][x.key] = true
				}
			}
		}
	})
	found := make(map[string]int)
	for name, h := range hits {
		found[name] = len(h)
	}
	return found
}

// start is the first 8 bytes of the key in memory order, masked by the first 8
// bytes of the mask.
func start(k *[32]byte, mask [32]byte, reversed bool) (v uint64) {
	for i := range 8 {
		j := i
		if reversed {
			j = 31 - i
		}
		v |= uint64(k[j]^mask[j]^mask[i]) << (8 * i)
	}
	return v
}

func equalMasked(b []byte, k *[32]byte, mask [32]byte, reversed bool) bool {
	for i := range b {
		j := i
		if reversed {
			j = 31 - i
		}
		if b[i] != k[j]^mask[j] {
			return false
		}
	}
	return true
}

// eachRegion gives the writable memory of this process in overlapping pieces,
// but for the buffer into which it is read.
func eachRegion(t *testing.T, f func([]byte)) {
	t.Helper()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Fatal(err)
	}
	mem, err := os.Open("/proc/self/mem")
	if err != nil {
		t.Skip("no access to /proc/self/mem")
	}
	defer mem.Close()
	buf := make([]byte, 1<<20)
	own := uint64(uintptr(unsafe.Pointer(&buf[0])))
	lines := bufio.NewScanner(strings.NewReader(string(maps)))
	for lines.Scan() {
		var lo, hi uint64
		var perm string
		if _, err := fmt.Sscanf(lines.Text(), "%x-%x %s", &lo, &hi, &perm); err != nil || !strings.HasPrefix(perm, "rw") {
			continue
		}
		for at := lo; at < hi; at += uint64(len(buf)) - 64 {
			n, _ := mem.ReadAt(buf[:min(uint64(len(buf)), hi-at)], int64(at))
			// What overlaps the buffer itself is cut out.
			from, to := max(at, own), min(at+uint64(n), own+uint64(len(buf)))
			if from >= to {
				f(buf[:n])
			} else {
				f(buf[:from-at])
				f(slices.Clip(buf[to-at : n]))
			}
		}
	}
}
