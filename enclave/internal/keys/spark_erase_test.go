// The race detector's shadow memory is too large to look through.

//go:build !race

package keys_test

import (
	"crypto/rand"
	"io"
	chacha "math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/spark"
	"cloister/enclave/internal/keys"
)

// The nonces of a share give the key away as the key itself does: none may stay behind.
//
// Each share is made on a stack of its own that stands still until the search is over: on one stack, each would write over
// what the one before has left. A whole share writes over its own traces too, so that the search finds hardly any of them in
// any build. Of one that stops behind its first nonce it finds every nonce if erase.Do is missing, and so it does of nonces
// made outside of it, which show that the search finds.
func TestNoNonceStaysInMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc/self/mem")
	}
	vectors := readSparkVectors(t)
	signing := vectors.signing(t, 4)
	var mask [32]byte
	rand.Read(mask[:])
	wanted := make(map[string][][32]byte)
	searched := make(chan bool)
	var made, gone sync.WaitGroup
	for name, run := range map[string]func(*keys.PrivateKey, io.Reader, *spark.Signing) error{
		"shares": func(k *keys.PrivateKey, rand io.Reader, s *spark.Signing) error {
			_, err := k.Frost(rand, s)
			return err
		},
		"shares that stop": func(k *keys.PrivateKey, rand io.Reader, s *spark.Signing) error {
			if _, err := k.Frost(io.LimitReader(rand, 32), s); err != io.EOF {
				t.Errorf("a share with half of its randomness: %v", err)
			}
			return nil
		},
		"outside of erase.Do": func(k *keys.PrivateKey, rand io.Reader, s *spark.Signing) error {
			return deep(100, func() error { return k.BareNonces(rand, s) })
		},
	} {
		for i := range 40 {
			k, err := keys.GeneratePrivateKey(rand.Reader, chain.Secp256k1)
			if err != nil {
				t.Fatal(err)
			}
			nonces := k.MaskedNonces(chacha.NewChaCha8([32]byte{byte(i)}), signing, mask)
			wanted[name] = append(wanted[name], nonces[:]...)
			made.Add(1)
			gone.Go(func() {
				var wide [20 << 10]byte // so that the collector does not move the stack to a smaller one
				wide[i] = 1
				err := run(k, chacha.NewChaCha8([32]byte{byte(i)}), signing)
				made.Done()
				<-searched
				if err != nil || wide[i] != 1 {
					t.Error(err)
				}
			})
		}
	}
	made.Wait()
	collect(t)
	found := scan(t, wanted, mask)
	close(searched)
	gone.Wait()
	t.Logf("erasing build: %v; found of 80 nonces each: %v", keys.Erasing, found)
	if found["outside of erase.Do"] == 0 {
		t.Error("the search finds nothing")
	}
	delete(found, "outside of erase.Do")
	if keys.Erasing && len(found) > 0 {
		t.Errorf("left in memory: %v", found)
	}
}

// deep calls f so far down the stack that what is called afterwards does not write over what f leaves.
func deep(frames int, f func() error) error {
	if frames == 0 {
		return f()
	}
	return deep(frames-1, f)
}
