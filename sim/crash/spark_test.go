package crash_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/client"
)

// Two shares of FROST under one nonce give the user's key away. TestNoNonceTwice asks for shares whose host stops at
// nothing: it kills the enclave between decision and reply, sends a body again and twice at once, and puts back the store of
// before, so that all is decided once more, for the same message and for others with the same commitments.
func TestNoNonceTwice(t *testing.T) {
	w := newWorld(t, setting{programs: build(t, ""), lease: shortLease})
	c := w.newWorker("spark", w.root(requestTimeout), seed(t))
	a, err := c.submit("CREATE_WALLET", client.Wallet("Spark", client.Account("SECP256K1", "m/8797555'/0'/0'", "SPARK_MAINNET")))
	if err != nil || a == nil {
		t.Fatal(err)
	}
	wallet, err := a.made()
	if err != nil {
		t.Fatal(err)
	}
	address := wallet.Addresses[0]
	body := func(message int, adaptor string) *request {
		r, err := c.prepare("SPARK_SIGN_FROST", frostOf(address, message, adaptor))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	told := shares{}
	ask := func(r *request) *answer {
		t.Helper()
		var twins [2]*answer
		done := make(chan error, 2)
		for i := range twins {
			go func() {
				a, refused, err := c.again(r)
				if twins[i] = a; a == nil {
					err = fmt.Errorf("%s %v", refused, err)
				}
				done <- err
			}()
		}
		for range twins {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
		if !twins[0].same(twins[1]) {
			t.Error("one body, two answers")
		}
		if err := told.add(twins[0]); err != nil {
			t.Error(err)
		}
		return twins[0]
	}
	recovered := func() {
		t.Helper()
		if err := w.recover(); err != nil {
			t.Fatal(err)
		}
	}

	// Killed at each point of the way, then asked for again.
	var bodies []*request
	rounds := []victims{killEnclave, killEnclave | killHost}
	if testing.Short() {
		rounds = rounds[1:]
	}
	for n, victim := range rounds {
		for i, want := range []func(*frame) bool{isBatch, isStored, isReply(func(wire.Hash) bool { return true })} {
			r := body(10*n+i, "")
			bodies = append(bodies, r)
			trap := w.proxy.set(false, want)
			result := make(chan *answer, 1)
			go func() { a, _, _ := c.again(r); result <- a }()
			if err := wait(trap.hit); err != nil {
				t.Fatal(err)
			}
			w.kill(victim)
			trap.drop()
			recovered()
			first := <-result
			if first == nil {
				t.Fatal("not answered after all")
			}
			if !ask(r).same(first) {
				t.Error("the same body gets another answer")
			}
		}
	}

	// The store of before, with the enclave that decided killed: it does not know what it has signed.
	w.kill(killEnclave | killHost)
	before := storeOf(t, w)
	recovered()
	var after []*request
	for i := range 4 {
		after = append(after, body(100+i, adaptors[i%2]))
		ask(after[i])
	}
	w.kill(killEnclave | killHost)
	putBack(t, before)
	recovered()
	known := len(told)
	for i, r := range after {
		ask(r) // the same, decided once more
		other := *r
		other.body = frostBody(t, r.body, address, 200+i, adaptors[(i+1)%2]) // of the same time, another message and adaptor
		ask(&other)
	}
	if len(told) != known+2*2*len(after) {
		t.Errorf("%d nonces before the rollback and %d after it: what was forgotten was not decided again", known, len(told))
	}
	for _, r := range bodies { // what the store remembers gets the same answer
		ask(r)
	}
	if len(told) != known+2*2*len(after) {
		t.Error("what was stored was decided again")
	}
	for _, p := range w.problems.all() {
		t.Error(p)
	}
	t.Logf("counted: %d nonces in shares, none twice", len(told))
}

// again sends a body until it is answered, beside others who do the same.
func (c *worker) again(r *request) (*answer, string, error) {
	twin := &worker{Client: c.Client, w: c.w, name: c.name, rng: rand.New(rand.NewPCG(1, uint64(r.n)))}
	return twin.retryUntilAnswered(r.op, r.body)
}

// shares are commitments to nonces, with the share that each was told in.
type shares map[string]string

// add takes the share of an answer. A nonce that another share has is an error.
func (s shares) add(a *answer) error {
	var r struct {
		Made struct {
			Signatures []struct{ SignatureShare, Hiding, Binding string }
		} `json:"sparkSignFrostResult"`
	}
	if err := json.Unmarshal(a.Result, &r); err != nil || len(r.Made.Signatures) != 1 {
		return fmt.Errorf("answered %s: %v", a.Result, err)
	}
	m := r.Made.Signatures[0]
	for _, nonce := range []string{m.Hiding, m.Binding} {
		if before, ok := s[nonce]; ok && before != m.SignatureShare {
			return fmt.Errorf("two shares under nonce %s", nonce)
		}
		s[nonce] = m.SignatureShare
	}
	return nil
}

var adaptors = []string{"", "02f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9"}

func frostOf(address string, message int, adaptor string) map[string]any {
	const one, two = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"
	return map[string]any{"signWith": address, "signatures": []any{map[string]any{"derivation": map[string]any{"deposit": map[string]any{}}, "message": fmt.Sprintf("%064x", message),
		"verifyingKey": two, "adaptorPublicKey": adaptor, "operatorCommitments": []any{map[string]any{"id": fmt.Sprintf("%064x", 1), "hiding": one, "binding": two}}}}}
}

// frostBody is a body with other parameters, of the same time.
func frostBody(t *testing.T, old []byte, address string, message int, adaptor string) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(old, &m); err != nil {
		t.Fatal(err)
	}
	m["parameters"] = frostOf(address, message, adaptor)
	b, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// storeOf reads the store's files; those that are not there are nil.
func storeOf(t *testing.T, w *world) map[string][]byte {
	t.Helper()
	files := map[string][]byte{}
	name := strings.TrimPrefix(w.store, "sqlite:")
	for _, end := range []string{"", "-wal", "-shm"} {
		b, err := os.ReadFile(name + end)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		files[name+end] = b
	}
	return files
}

func putBack(t *testing.T, files map[string][]byte) {
	t.Helper()
	for name, b := range files {
		err := os.RemoveAll(name)
		if err == nil && b != nil {
			err = os.WriteFile(name, b, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
}

func TestNonceTwiceIsFound(t *testing.T) {
	of := func(share, hiding, binding string) *answer {
		return &answer{Result: json.RawMessage(fmt.Sprintf(`{"sparkSignFrostResult":{"signatures":[{"signatureShare":%q,"hiding":%q,"binding":%q}]}}`, share, hiding, binding))}
	}
	for _, second := range []*answer{of("2", "a", "c"), of("2", "c", "b"), of("2", "b", "c"), {Result: json.RawMessage(`{}`)}} {
		told := shares{}
		if err := told.add(of("1", "a", "b")); err != nil {
			t.Error(err)
		}
		if err := told.add(of("1", "a", "b")); err != nil {
			t.Errorf("the same once more: %v", err)
		}
		if told.add(second) == nil {
			t.Errorf("%s is taken", second.Result)
		}
	}
}
