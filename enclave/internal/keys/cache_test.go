package keys_test

import (
	"bytes"
	"crypto/rand"
	"errors"
	"runtime"
	"sync"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
)

func maker(t testing.TB, c chain.Curve, made *[]*keys.PrivateKey) func() (*keys.PrivateKey, error) {
	return func() (*keys.PrivateKey, error) {
		k, err := keys.GeneratePrivateKey(rand.Reader, c)
		if err != nil {
			t.Error(err)
		}
		*made = append(*made, k)
		return k, err
	}
}

func nothing(*keys.PrivateKey) error { return nil }

func wiped(k *keys.PrivateKey) bool { _, err := k.PrivateSecret(); return err != nil }

func TestCacheBounds(t *testing.T) {
	var made []*keys.PrivateKey
	c := keys.NewCache[int](3, 1<<20)
	derive := maker(t, chain.Ed25519, &made)
	for _, id := range []int{1, 2, 3, 1, 4, 1, 5} { // 2 goes for 4, 3 for 5
		if err := c.With(id, derive, nothing); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []bool{false, true, true, false, false} {
		if wiped(made[i]) != want {
			t.Errorf("key %d wiped: %v", i+1, !want)
		}
	}
	d := c.Stats()
	if d.Keys != 3 || d.Hits != 2 || d.Misses != 5 || d.Evictions != 2 {
		t.Errorf("%+v", d)
	}
	one := d.Bytes / 3
	c.Purge()
	if d := c.Stats(); d.Keys != 0 || d.Bytes != 0 {
		t.Errorf("purged: %+v", d)
	}
	for i, k := range made {
		if !wiped(k) {
			t.Errorf("purged key %d is whole", i)
		}
	}
	made = nil
	byBytes := keys.NewCache[int](100, 2*one+one/2)
	for id := range 5 {
		byBytes.With(id, maker(t, chain.Ed25519, &made), nothing)
	}
	if d := byBytes.Stats(); d.Keys != 2 || d.Bytes > 2*one+one/2 {
		t.Errorf("by bytes: %+v", d)
	}
}

func TestCacheOfNothing(t *testing.T) {
	for _, c := range []*keys.Cache[string]{keys.NewCache[string](0, 1<<20), keys.NewCache[string](9, 0)} {
		var made []*keys.PrivateKey
		for range 2 {
			err := c.With("a", maker(t, chain.Secp256k1, &made), func(k *keys.PrivateKey) error {
				if wiped(k) {
					t.Error("a key in use is wiped")
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		if len(made) != 2 || !wiped(made[0]) || !wiped(made[1]) || c.Stats().Keys != 0 {
			t.Errorf("%d made, %+v", len(made), c.Stats())
		}
	}
}

func TestCacheKeepsKeysInUse(t *testing.T) {
	var made []*keys.PrivateKey
	c := keys.NewCache[int](1, 1<<20)
	derive := maker(t, chain.Secp256k1, &made)
	err := c.With(1, derive, func(k *keys.PrivateKey) error {
		c.With(2, derive, nothing) // evicts 1
		c.Purge()
		if wiped(k) || !wiped(made[1]) {
			t.Error("a key in use was wiped, or another was not")
		}
		return c.With(1, derive, func(other *keys.PrivateKey) error {
			if other == k {
				t.Error("an evicted key came back")
			}
			return nil
		})
	})
	if err != nil || !wiped(made[0]) || wiped(made[2]) {
		t.Errorf("after use: %v", err)
	}
	if n := c.Drop(func(id int) bool { return id == 7 }); n != 0 || wiped(made[2]) {
		t.Error("another account's key was dropped")
	}
	if n := c.Drop(func(id int) bool { return id == 1 }); n != 1 || !wiped(made[2]) {
		t.Error("the account's key was not dropped")
	}
}

func TestCacheErrors(t *testing.T) {
	c := keys.NewCache[int](4, 1<<20)
	fail := errors.New("fail")
	if err := c.With(1, func() (*keys.PrivateKey, error) { return nil, fail }, func(*keys.PrivateKey) error { panic("used") }); err != fail {
		t.Error(err)
	}
	if c.Stats().Keys != 0 {
		t.Error("a failure was kept")
	}
	var made []*keys.PrivateKey
	if err := c.With(1, maker(t, chain.P256, &made), func(*keys.PrivateKey) error { return fail }); err != fail || c.Stats().Keys != 1 {
		t.Error(err)
	}
	func() {
		defer func() { recover() }()
		c.With(1, nil, func(*keys.PrivateKey) error { panic("in use") })
	}()
	c.Purge()
	if !wiped(made[0]) {
		t.Error("a panic kept the key in use")
	}
}

// TestCacheConcurrent signs through a cache too small for its accounts while
// keys are evicted and purged: every signature must be the account's.
func TestCacheConcurrent(t *testing.T) {
	c := keys.NewCache[byte](3, 1<<20)
	message := bytes.Repeat([]byte{4}, 32)
	want := map[byte]keys.Signature{}
	open := func(id byte) (*keys.PrivateKey, error) {
		return keys.PrivateKeyFromSecret(chain.Secp256k1, mustSecret(t, bytes.Repeat([]byte{id}, 32)))
	}
	for id := byte(1); id <= 8; id++ {
		k, err := open(id)
		if err != nil {
			t.Fatal(err)
		}
		want[id], _ = keys.SignBare(k, message)
	}
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 150 {
				id := byte((i*7+g)%8) + 1
				err := c.With(id, func() (*keys.PrivateKey, error) { return open(id) }, func(k *keys.PrivateKey) error {
					s, err := keys.SignBare(k, message)
					if err == nil && s != want[id] {
						t.Errorf("account %d got another's signature", id)
					}
					return err
				})
				if err != nil {
					t.Error(err)
				}
				if i%50 == 49 {
					c.Purge()
				}
			}
		})
	}
	wg.Wait()
	if d := c.Stats(); d.Keys > 3 || d.Hits+d.Misses != 8*150 {
		t.Errorf("%+v", d)
	}
}

// TestFootprint holds the reckoned size of a key against what the heap grows by.
func TestFootprint(t *testing.T) {
	const n = 2000
	for _, curve := range []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519} {
		warm, err := keys.GeneratePrivateKey(rand.Reader, curve) // the libraries' tables
		if err != nil {
			t.Fatal(err)
		}
		c := keys.NewCache[int](n, 1<<30)
		heap := func() uint64 {
			var m runtime.MemStats
			for range 3 {
				runtime.GC()
			}
			runtime.ReadMemStats(&m)
			return m.HeapAlloc
		}
		message := make([]byte, 32)
		keys.SignBare(warm, message)
		before := heap()
		for id := range n {
			c.With(id, func() (*keys.PrivateKey, error) { return keys.GeneratePrivateKey(rand.Reader, curve) },
				func(k *keys.PrivateKey) error { _, err := keys.SignBare(k, message); return err })
		}
		grown := int(heap()-before) / n
		reckoned := c.Stats().Bytes / n
		t.Logf("%v: %d bytes measured, %d reckoned", curve, grown, reckoned)
		if grown > reckoned || reckoned > 3*grown {
			t.Errorf("%v: %d bytes measured, %d reckoned", curve, grown, reckoned)
		}
		runtime.KeepAlive(c)
	}
}
