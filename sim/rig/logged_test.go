package rig_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// jsonOf reads a reply as a client does.
func jsonOf[T any](t *testing.T, m object) (v T) {
	t.Helper()
	b, err := json.Marshal(m)
	if err == nil {
		err = json.Unmarshal(b, &v)
	}
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// bootOf is the verified boot of a rig.
func bootOf(t *testing.T, r *rig.Rig) *attestation.Boot {
	t.Helper()
	m := r.Root().Read("get_latest_boot_proof", object{"appName": attestation.Application})
	// Of a deployment that a manifest after the first governs, the operators are what its clients pin.
	b, err := attestation.VerifyBootProof(jsonOf[struct{ BootProof attestation.BootProof }](t, m).BootProof,
		attestation.Policy{SimulatorRootPEM: r.Credentials.AttestationRootPEM, AllowUnpinned: true})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// logged asks for a log proof and verifies it.
func logged(t *testing.T, r *rig.Rig, boot *attestation.Boot, ask object) (*attestation.LoggedEntry, string) {
	t.Helper()
	p := jsonOf[attestation.LogProof](t, r.Root().Read("get_log_proof", ask))
	e, err := attestation.VerifyLogProof(p.LogProof, p.LogKey, boot)
	if err != nil {
		t.Fatal(err)
	}
	return e, p.LogProof
}

// signer is the address of a new wallet.
func signer(t *testing.T, r *rig.Rig) string {
	t.Helper()
	return client.Text(r.Root().Do("CREATE_WALLET", client.Wallet("w", client.Ethereum)), "addresses", "0")
}

func payload(address, text string) object {
	return object{"signWith": address, "payload": text, "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_KECCAK256"}
}

const maxLogProof = 6 << 10 // with four witnesses and keys of Ed25519

// Each step of an activity is shown in the log, by the boot that decided it and by a later one, in both modes.
func TestLogProofs(t *testing.T) {
	if testing.Short() {
		t.Skip("left to make campaign: logged proofs after real rounds of witnesses")
	}
	for _, mode := range []tlog.Mode{tlog.ModeStrict, tlog.ModeBounded} {
		t.Run(mode.String(), func(t *testing.T) {
			dir := t.TempDir()
			w := rig.StartWitnesses(t, rig.WitnessOptions{Mode: mode, Serve: time.Second})
			r := rig.Start(t, rig.Options{Dir: dir, Witnesses: w})
			address := signer(t, r)
			root := r.Root()
			root.Proofs = true
			body := root.Body("SIGN_RAW_PAYLOAD_V2", payload(address, "hello"))
			got := submit(root, "SIGN_RAW_PAYLOAD_V2", body)
			if got.Status != 200 {
				t.Fatal(got)
			}
			id := got.Text("activity", "id")
			proofs := jsonOf[struct {
				Activity struct{ AppProofs []attestation.AppProof }
			}](t, got.JSON()).Activity.AppProofs
			for boot := range 2 {
				e, text := logged(t, r, bootOf(t, r), object{"activityId": id})
				f := e.Facts
				if f.Type != "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2" || f.Status != "ACTIVITY_STATUS_COMPLETED" || f.Fingerprint != sha256.Sum256(body) || f.Mode != mode || f.Boot != 1 ||
					len(f.Proofs) != len(proofs) || len(proofs) == 0 {
					t.Errorf("boot %d: %+v", boot, f)
				}
				for i := range f.Proofs {
					if f.Proofs[i] != sha256.Sum256([]byte(proofs[i].ProofPayload)) {
						t.Errorf("boot %d: app proof %d is another", boot, i)
					}
				}
				if len(e.Signed) != 3 || len(text) > maxLogProof {
					t.Errorf("boot %d: %d witnesses, %d bytes", boot, len(e.Signed), len(text))
				}
				one, _ := logged(t, r, bootOf(t, r), object{"activityId": id, "seq": strconv.FormatUint(f.Seq, 10)})
				if one.Facts.Seq != f.Seq {
					t.Errorf("step %d asked for, %d shown", f.Seq, one.Facts.Seq)
				}
				if alone, _ := logged(t, r, bootOf(t, r), object{"seq": strconv.FormatUint(f.Seq, 10)}); alone.Facts.Seq != f.Seq || alone.Entry != one.Entry {
					t.Errorf("by its number alone: %+v", alone.Facts)
				}
				if first, _ := logged(t, r, bootOf(t, r), object{"seq": "0"}); first.Facts.Activity != ([16]byte{}) {
					t.Errorf("the first entry is of an activity: %+v", first.Facts)
				}
				root := r.Root()
				wants(t, "behind the ledger's end", root.Query("get_log_proof", object{"seq": "1000000"}), 404, "")
				for _, seq := range []string{"0", "1000000"} {
					wants(t, "step "+seq+", which is none of the activity", root.Query("get_log_proof", object{"activityId": id, "seq": seq}), 404, "")
				}
				wants(t, "no activity", root.Query("get_log_proof", object{"activityId": root.Organization}), 404, "")
				if boot == 0 {
					r.Kill()
					r = rig.Start(t, rig.Options{Dir: dir, Witnesses: w})
				}
			}
		})
	}
}

// Without witnesses there is nothing to show, and it says so.
func TestLogProofWithoutWitnesses(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	made := root.Submit("CREATE_WALLET", client.Wallet("w"))
	got := root.Query("get_log_proof", object{"activityId": made.Text("activity", "id")})
	if got.Status != 400 || got.Text("details", "0", "turnkeyErrorCode") != "LOG_NOT_WITNESSED" {
		t.Error(got)
	}
}

// In a long log of a large ledger a proof stays small, wherever its entry stands.
func TestLogProofIsSmall(t *testing.T) {
	entries := 1000
	if testing.Short() {
		entries = 100
	}
	w := rig.StartWitnesses(t, rig.WitnessOptions{Mode: tlog.ModeBounded, Serve: 5 * time.Second})
	r := rig.Start(t, rig.Options{Witnesses: w})
	address, ids := signer(t, r), make([]string, entries)
	var all sync.WaitGroup
	next := make(chan int)
	for range 4 {
		all.Go(func() {
			for i := range next {
				got := r.Root().Submit("SIGN_RAW_PAYLOAD_V2", payload(address, fmt.Sprint(i)))
				if ids[i] = got.Text("activity", "id"); got.Status != 200 {
					t.Error(got)
				}
			}
		})
	}
	for i := range ids {
		next <- i
	}
	close(next)
	all.Wait()
	if t.Failed() {
		return
	}
	boot, largest, took := bootOf(t, r), 0, time.Duration(0)
	for i := 0; i < entries; i += 1 + entries/20 {
		began := time.Now()
		e, text := logged(t, r, boot, object{"activityId": ids[i]})
		largest, took = max(largest, len(text)), max(took, time.Since(began))
		if e.Facts.Seq == 0 {
			t.Errorf("%+v", e.Facts)
		}
	}
	if largest > maxLogProof {
		t.Errorf("a proof of %d bytes", largest)
	}
	t.Logf("%d entries, the largest proof has %d bytes, the slowest took %v with its verification", entries, largest, took)
}

// A forgetful store does what it is told where it is asked which batch an entry came in, and for the entry.
type forgetful struct {
	store.Store
	mu     sync.Mutex
	header func(ctx context.Context, organization wire.ID, seq uint64) ([]byte, error)
	find   func(*wire.Proven)
}

func (f *forgetful) set(header func(context.Context, wire.ID, uint64) ([]byte, error), find func(*wire.Proven)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.header, f.find = header, find
}

func (f *forgetful) HeaderOf(ctx context.Context, organization wire.ID, seq uint64) ([]byte, error) {
	f.mu.Lock()
	header := f.header
	f.mu.Unlock()
	if header != nil {
		return header(ctx, organization, seq)
	}
	return f.Store.HeaderOf(ctx, organization, seq)
}

func (f *forgetful) Find(ctx context.Context, ask wire.Find) (wire.Proven, error) {
	got, err := f.Store.Find(ctx, ask)
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.find != nil {
		f.find(&got)
	}
	return got, err
}

// A host that keeps a proof back, or shows another, cannot make a submit look undone: the caller is told that it is decided, and
// the same body gets it, and its proof from a host that is honest again.
func TestLogProofWithASubmitOfAHostThatLies(t *testing.T) {
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "cloister.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	lies := &forgetful{Store: s}
	r := rig.Start(t, rig.Options{Store: lies, Witnesses: rig.StartWitnesses(t, rig.WitnessOptions{Serve: attestation.MaxLogTime, Bound: attestation.MaxLogTime})})
	boot := bootOf(t, r)
	plain, withProof := r.Root(), r.Root()
	stamp := client.ByKey(plain.Key)
	withProof.Stamp = func(body []byte) ([]wire.Header, error) {
		head, err := stamp(body)
		return append(head, wire.Header{Name: wire.HeaderLogProof, Value: attestation.LogProofWait}), err
	}
	const typ = "CREATE_WALLET"
	// proven holds the proof of a reply against another one to the same body.
	proven := func(name string, reply, of client.Reply) {
		t.Helper()
		p, err := attestation.ParseReply(reply.Body)
		if err != nil || p.LogProof == nil {
			t.Fatalf("%s: %v, %v", name, reply, err)
		}
		e, err := attestation.VerifyLogProof(p.LogProof.LogProof, p.LogProof.LogKey, boot)
		if err == nil {
			err = p.CheckLogged(e)
		}
		if err != nil || attestation.UUID(e.Facts.Activity) != of.Text("activity", "id") {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, lie := range map[string]func(){
		"is away": func() {
			lies.set(func(context.Context, wire.ID, uint64) ([]byte, error) { return nil, errors.New("away") }, nil)
		},
		"shows another batch": func() {
			lies.set(func(ctx context.Context, id wire.ID, _ uint64) ([]byte, error) { return s.HeaderOf(ctx, id, 0) }, nil)
		},
		"keeps the entry back":  func() { lies.set(nil, func(p *wire.Proven) { p.Entries = nil }) },
		"shows an altered one":  func() { lies.set(nil, func(p *wire.Proven) { p.Entries[0].Sealed[len(p.Entries[0].Sealed)-1] ^= 1 }) },
		"shows it without path": func() { lies.set(nil, func(p *wire.Proven) { p.Entries[0].Proof = nil }) },
	} {
		body := plain.Body(typ, client.Wallet(name))
		lie()
		wants(t, name, submit(withProof, typ, body), 503, "LOG_PROOF_MISSING")
		wants(t, name+", again", submit(withProof, typ, body), 503, "")
		lies.set(nil, nil)
		got := submit(plain, typ, body)
		if got.Status != 200 {
			t.Fatalf("%s: %v", name, got)
		}
		proven(name, submit(withProof, typ, body), got)
	}
	// One that knows of no batch is answered by another, in which the log says again where the organization stands.
	lies.set(func(context.Context, wire.ID, uint64) ([]byte, error) { return nil, nil }, nil)
	reply := withProof.Submit(typ, client.Wallet("no batch"))
	proven("knows of no batch", reply, reply)
	if c := r.Counters(); c["alarm_log"] == 0 || c["alarm_inclusion"] == 0 || c["alarm_index"] == 0 {
		t.Errorf("what was a lie raised no alarm: %v", c)
	}
}
