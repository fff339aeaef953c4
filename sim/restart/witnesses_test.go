package restart_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/host/cosign"
	"cloister/host/link"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/witness"
)

// Of four witnesses three make a quorum, though one of them lies.
const (
	witnessCount  = 4
	witnessQuorum = 3
	witnessLiars  = 1
)

// witnessRound is how long a host waits for witnesses.
const witnessRound = 400 * time.Millisecond

// A seat is one witness's place in the policy: its name and key.
type seat struct {
	name string
	key  ed25519.PrivateKey
}

func (s *seat) url() string { return "http://" + s.name + ".example" }

func (s *seat) public() *tlog.Key {
	return must(tlog.NewKey(s.name, tlog.TypeCosignature, s.key.Public().(ed25519.PublicKey)))
}

// line is what the witness of a seat signs for a text.
func (s *seat) line(text string) string {
	seconds := uint64(time.Now().Unix())
	raw := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, s.public().KeyHash()), seconds)
	raw = append(raw, ed25519.Sign(s.key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text))...)
	return "— " + s.name + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
}

func newSeats(prefix string) (all []*seat) {
	for i := range witnessCount {
		name := fmt.Sprint(prefix, i+1)
		seed := sha256.Sum256([]byte("witness " + name))
		all = append(all, &seat{name, ed25519.NewKeyFromSeed(seed[:])})
	}
	return all
}

func policyOf(all []*seat) string {
	var b strings.Builder
	names := ""
	for _, s := range all {
		fmt.Fprintf(&b, "witness %s %s %s\n", s.name, s.public(), s.url())
		names += " " + s.name
	}
	return fmt.Sprintf("%sgroup all %d%s\nquorum all\n", b.String(), witnessQuorum, names)
}

// termsOf is what a manifest says of them.
func termsOf(all []*seat, mode tlog.Mode, serve time.Duration) *attestation.LogTerms {
	t := &attestation.LogTerms{Name: "restart.example", Policy: policyOf(all), Tolerates: witnessLiars, Mode: mode.String(), ServeMs: uint64(serve.Milliseconds())}
	if mode == tlog.ModeBounded {
		t.BoundMs = uint64(serve.Milliseconds())
	}
	return t
}

// witnesses sit on the seats, in memory.
type witnesses struct {
	seats  []*seat
	sit    []*witness.Witness
	record *recorder // nil: none

	mu   sync.Mutex
	logs []*tlog.Key
}

func newWitnesses(seats []*seat) *witnesses {
	w := &witnesses{seats: seats}
	for _, s := range seats {
		w.sit = append(w.sit, must(witness.New(witness.Options{Name: s.name, Key: s.key, Now: time.Now})))
	}
	return w
}

func (w *witnesses) know(log *tlog.Key) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !slices.ContainsFunc(w.logs, func(k *tlog.Key) bool { return k.String() == log.String() }) {
		w.logs = append(w.logs, log)
	}
	for _, s := range w.sit {
		if err := s.Add(log); err != nil {
			return err
		}
	}
	return nil
}

// at is the witness of a host, or nil.
func (w *witnesses) at(host string) *witness.Witness {
	w.mu.Lock()
	defer w.mu.Unlock()
	if i := slices.IndexFunc(w.seats, func(s *seat) bool { return s.name+".example" == host }); i >= 0 {
		return w.sit[i]
	}
	return nil
}

// reach is the network between one host and the witnesses.
type reach struct {
	to      *witnesses
	network *network

	mu   sync.Mutex
	away map[string]bool // by name
}

// only leaves those reachable that are named, by place.
func (r *reach) only(there ...int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.away = map[string]bool{}
	for i, s := range r.to.seats {
		r.away[s.name] = !slices.Contains(there, i)
	}
}

func (r *reach) all() { r.only(0, 1, 2, 3) }

// RoundTrip is a request that never leaves the process.
func (r *reach) RoundTrip(ask *http.Request) (*http.Response, error) {
	r.network.takes(ask.Context(), toWitness)
	to := r.to.at(ask.URL.Host)
	r.mu.Lock()
	away := to == nil || r.away[strings.TrimSuffix(ask.URL.Host, ".example")]
	r.mu.Unlock()
	if away {
		return nil, errors.New("not reachable")
	}
	answer := httptest.NewRecorder()
	body := ""
	if ask.Body != nil {
		body = string(must(io.ReadAll(ask.Body)))
	}
	r.to.record.witness(to, body, func() bool {
		asked := ask.Clone(context.WithoutCancel(ask.Context())) // or nobody knew whether it has signed
		asked.Body = io.NopCloser(strings.NewReader(body))
		to.Handler().ServeHTTP(answer, asked)
		return answer.Code == http.StatusOK
	})
	r.network.takes(ask.Context(), toWitness)
	if err := ask.Context().Err(); err != nil {
		return nil, err
	}
	return answer.Result(), nil
}

// askAgain is how long a host waits before it asks a witness again that did not sign: several times before a right to serve runs out.
func askAgain(ctx context.Context, d time.Duration) { wait(ctx, min(d, 100*time.Millisecond)) }

// A bringer is who brings checkpoints to witnesses for one enclave: as a host does, but for what it is told.
type bringer struct {
	*reach
	cosigner *cosign.Cosigner
	store    *liar

	mu sync.Mutex
	// hold keeps back what witnesses have signed, to be brought when it ends.
	hold    bool
	kept    map[string][]string // by checkpoint
	brought map[wire.Range]int  // how often lines of a quorum
	keeping map[wire.Range]int  // and how often they were kept back
	// ask and answer are what it changes in question and answer; nil: nothing.
	ask    func(wire.Witness) wire.Witness
	answer func(wire.Witness, []string) []string
	signed map[wire.Range][]string // checkpoints with a quorum, in order
}

func (b *bringer) tell(f func(b *bringer)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	f(b)
}

// ProveLogged is link.Witnesses, too.
func (b *bringer) ProveLogged(ctx context.Context, ask wire.ProveLogged) (wire.Logged, error) {
	return b.cosigner.ProveLogged(ctx, ask)
}

// Witness is link.Witnesses.
func (b *bringer) Witness(ctx context.Context, ask wire.Witness) (got wire.Cosigned, err error) {
	var kept []string
	var change func(wire.Witness) wire.Witness
	b.tell(func(b *bringer) { kept, change = b.kept[string(ask.Checkpoint)], b.ask })
	asked := ask
	if change != nil {
		asked = change(ask)
	}
	if got.Lines = kept; len(kept) < witnessQuorum {
		got, err = b.cosigner.Witness(ctx, asked)
	}
	b.tell(func(b *bringer) {
		if b.answer != nil && err == nil {
			got.Lines = b.answer(ask, got.Lines)
		}
		if len(got.Lines) >= witnessQuorum && b.ask == nil && b.answer == nil {
			b.kept[string(ask.Checkpoint)] = got.Lines
			if all := b.signed[ask.Range]; len(all) == 0 || all[len(all)-1] != string(ask.Checkpoint) {
				b.signed[ask.Range] = append(all, string(ask.Checkpoint))
			}
		}
		switch {
		case b.hold && len(got.Lines) >= witnessQuorum:
			b.keeping[ask.Range]++
			got.Lines = nil
		case b.hold:
			got.Lines = nil
		case len(got.Lines) >= witnessQuorum:
			b.brought[ask.Range]++
		}
	})
	b.to.record.brings(b.store, ask, got.Lines)
	return got, err
}

// held waits until the witnesses have signed a checkpoint that is kept back.
func (b *bringer) held(of wire.Range) bool {
	return soonSo(func() (so bool) {
		b.tell(func(b *bringer) { so = b.keeping[of] > 0 })
		return so
	})
}

// heldAgain waits until they have signed one that is kept back, and that was made after the call.
func (b *bringer) heldAgain(of wire.Range) bool {
	before := 0
	b.tell(func(b *bringer) { before = b.keeping[of] })
	return soonSo(func() (so bool) {
		b.tell(func(b *bringer) { so = b.keeping[of] > before+1 }) // the first one may have been under way
		return so
	})
}

// soonSo waits for something that must come.
func soonSo(so func() bool) bool {
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(2 * time.Millisecond) {
		if so() {
			return true
		}
	}
	return false
}

// A witnessedHistory is that of a deployment with witnesses. The last of its shots is what they have signed.
type witnessedHistory struct {
	*history
	seats  []*seat
	mode   tlog.Mode
	serve  time.Duration
	logs   []*tlog.Key
	heads  map[wire.Range]string // the newest checkpoints
	leaves recordedLeaves
	ended  time.Time
}

// newWitnessed makes the history of a seed, in a time of its own.
func newWitnessed(t *testing.T, seed uint64, mode tlog.Mode) *witnessedHistory {
	seats := newSeats("w")
	h := &witnessedHistory{seats: seats, mode: mode, serve: shortServe, heads: map[wire.Range]string{}, history: &history{seed: seed, ranges: 2, root: new(rootSecret), pages: &pages{byHash: map[wire.Hash][]byte{}},
		dir: &laptop.Dir{Path: must(os.MkdirTemp(scratch, "witnessed-")), APIURL: "http://127.0.0.1:0", AuthProxyURL: "http://127.0.0.1:0", Ranges: 2, Log: termsOf(seats, mode, shortServe)}}}
	r := rand.New(rand.NewPCG(seed, 3))
	virtually(t, func() {
		own := h.within(r)
		own.unfold(r)
		h.orgs, h.shots, h.logs, h.ended = own.orgs, own.shots, own.logs, time.Now().Add(time.Second)
	})
	for _, s := range h.shots {
		copyStore(s.file, s.file+".read")
		s.read = must(sqlite.Open(context.Background(), s.file+".read"))
	}
	h.leaves = recordedLeaves{}
	for of := range wire.Range(h.ranges) {
		for _, b := range h.newest().behind(of, nil) {
			h.leaves.add(b)
		}
	}
	return h
}

// within is the history for those who go on with it in a bubble, where the time begins anew, with a network of its own.
func (h *witnessedHistory) within(r *rand.Rand) *witnessedHistory {
	own, dir := *h, *h.dir
	own.history = &history{seed: h.seed, ranges: h.ranges, dir: &dir, root: h.root, pages: h.pages, times: new(client.Times), network: newNetwork(r), orgs: h.orgs, shots: h.shots}
	dir.Dial = own.network.dial
	time.Sleep(time.Until(h.ended))
	return &own
}

// unfold is what happens: a few organizations in two ranges, over several boots, and a copy of the store after every step.
func (h *witnessedHistory) unfold(r *rand.Rand) {
	file := filepath.Join(must(os.MkdirTemp(scratch, "stores-")), "cloister.db")
	sit := newWitnesses(h.seats)
	tags := map[*account]int{}
	rounds := 3 + r.IntN(2)
	for round := range rounds {
		e := h.start(file, sit, limits(r))
		ctx, done := context.WithTimeout(context.Background(), patience)
		if round == 0 {
			ran := make(chan error, 1)
			go func() { ran <- h.dir.FollowLogs(ctx, e.address, sit.know) }()
			must(h.dir.Boot(ctx, e.address, 5))
			if err := <-ran; err != nil {
				panic(err)
			}
			for _, o := range must(h.dir.Organizations()) {
				a := h.account(o.OrganizationID, o.RootAPIKey, nil)
				h.orgs, tags[a] = append(h.orgs, a), 0
			}
		} else if err := h.dir.Join(ctx, e.address); err != nil {
			panic(fmt.Sprint("an honest boot: ", err))
		}
		done()
		for i, n := range r.Perm(len(h.orgs)) {
			if i > 0 && r.IntN(3) == 0 {
				continue
			}
			a := h.orgs[n]
			if got := e.tag(a, tags[a]+1); !got.served() {
				panic(fmt.Sprint("writing history: ", got))
			}
			tags[a]++
			if r.IntN(2) == 0 {
				h.shots = append(h.shots, h.take(e.enclave, file, tags))
			}
		}
		h.shots = append(h.shots, h.take(e.enclave, file, tags)) // misses what the next one does
		last := h.orgs[r.IntN(len(h.orgs))]
		if got := e.tag(last, tags[last]+1); !got.served() {
			panic(fmt.Sprint("writing history: ", got))
		}
		tags[last]++
		e.end()
		for of, all := range e.bringer.signed {
			h.heads[of] = all[len(all)-1]
		}
		if round == rounds-1 {
			h.shots = append(h.shots, h.take(e.enclave, file, tags))
		}
	}
	h.logs = sit.logs
}

// take copies the store of an enclave.
func (h *witnessedHistory) take(e *enclave, file string, tags map[*account]int) *shot {
	s := &shot{file: filepath.Join(filepath.Dir(file), fmt.Sprintf("shot-%d.db", len(h.shots))), tags: maps.Clone(tags)}
	e.store.gate.Lock()
	copyStore(file, s.file)
	e.store.gate.Unlock()
	fold(s.file)
	return s
}

// witnesses are new ones that have signed what the history's have.
func (h *witnessedHistory) witnesses() *witnesses {
	w := newWitnesses(h.seats)
	for _, k := range h.logs {
		if err := w.know(k); err != nil {
			panic(err)
		}
	}
	for _, head := range h.heads {
		for _, s := range w.sit {
			answer := httptest.NewRecorder()
			s.Handler().ServeHTTP(answer, httptest.NewRequest("POST", "/add-checkpoint", strings.NewReader("old 0\n\n"+head)))
			if answer.Code != http.StatusOK {
				panic(fmt.Sprint("a witness as it was: ", answer.Body))
			}
		}
	}
	return w
}

// A witnessedEnclave is one with its own host, which brings checkpoints of its own store to the witnesses.
type witnessedEnclave struct {
	*enclave
	bringer *bringer
	file    string
	end     func()
}

func (h *witnessedHistory) start(file string, w *witnesses, l core.Limits) *witnessedEnclave {
	e := &witnessedEnclave{file: file, bringer: &bringer{reach: &reach{to: w, network: h.network}, kept: map[string][]string{}, brought: map[wire.Range]int{}, keeping: map[wire.Range]int{}, signed: map[wire.Range][]string{}}}
	e.enclave = must(h.openWitnessed(file, l, func(s *liar) link.Witnesses {
		s.record, e.bringer.store = w.record, s
		e.bringer.cosigner = must(cosign.New(cosign.Options{Store: s, Checkpoints: s, Transport: e.bringer, Timeout: witnessRound, Log: slog.New(slog.DiscardHandler), Now: time.Now, Pause: askAgain}))
		return e.bringer
	}))
	e.end = sync.OnceFunc(func() { e.stop(); e.bringer.cosigner.Close() })
	return e
}

// briefly is the same enclave, asked by who does not wait for long.
func (e *witnessedEnclave) briefly(d time.Duration) *enclave {
	brief := *e.enclave
	brief.within = d
	return &brief
}

// sizeOf is the size that a checkpoint names.
func sizeOf(checkpoint []byte) []byte { return bytes.Split(checkpoint, []byte("\n"))[1] }
