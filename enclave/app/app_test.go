package app_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/programs"
	"cloister/enclave/app"
	"cloister/shared/clocktest"
	"cloister/shared/program"
	"cloister/shared/tvc"
	"cloister/shared/tvc/tvctest"
	"cloister/sim/nsm"
)

// machine holds programs that are goroutines.
type machine struct {
	run  func(args []string, enclave *program.Enclave) error
	dial func(port uint16) (net.Conn, error)

	mu   sync.Mutex
	held int
}

func (m *machine) Hold(r io.Reader, size int64) (app.Program, error) {
	if _, err := io.CopyN(io.Discard, r, size); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held++
	return held{m}, nil
}

func (m *machine) Dial(port uint16) (net.Conn, error) {
	if m.dial == nil {
		return nil, errors.New("nobody listens")
	}
	return m.dial(port)
}

type held struct{ machine *machine }

func (h held) Drop() {
	h.machine.mu.Lock()
	defer h.machine.mu.Unlock()
	h.machine.held--
}

func (h held) Run(args []string, output io.Writer, answer func(io.ReadWriter)) error {
	ours, theirs := net.Pipe()
	defer ours.Close()
	go func() {
		answer(ours)
		_ = ours.Close()
	}()
	_, _ = io.WriteString(output, "started\n")
	return h.machine.run(args, program.New(theirs))
}

var (
	image   = [3][48]byte{{1}, {2}, {3}}
	theRoot = sync.OnceValue(func() *nsm.Root {
		root, err := nsm.NewRoot(rand.Reader, time.Now())
		if err != nil {
			panic(err)
		}
		return root
	})
	text = []byte("a program")
)

func rootDER() []byte {
	block, _ := pem.Decode([]byte(theRoot().PEM()))
	return block.Bytes
}

// rig is an enclave with its host's end of a connection.
type rig struct {
	*tvctest.App
	t       testing.TB
	machine *machine
	host    net.Conn
	listen  net.Listener
}

func newRig(t testing.TB, registers [3][48]byte) *rig {
	device, err := nsm.New(nsm.Config{Root: theRoot(), Now: time.Now, Rand: rand.Reader, PCRs: registers})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{App: tvctest.New(t, text, registers, rootDER()), t: t, listen: l}
	ended := make(chan struct{})
	t.Cleanup(func() { close(ended) })
	r.machine = &machine{run: func([]string, *program.Enclave) error { <-ended; return nil }}
	e := app.New(app.Config{Device: device, Rand: rand.Reader, After: time.After, Machine: r.machine, RootSHA256: sha256.Sum256(rootDER())})
	go func() { _ = e.Serve(t.Context(), r.listen) }()
	r.host = r.connect()
	return r
}

func (r *rig) connect() net.Conn {
	c, err := net.Dial("tcp", r.listen.Addr().String())
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { _ = c.Close() })
	return c
}

func (r *rig) ask(kind byte, body []byte) ([]byte, error) { return tvc.Ask(r.host, kind, body) }

func (r *rig) must(kind byte, body []byte) []byte {
	r.t.Helper()
	reply, err := r.ask(kind, body)
	if err != nil {
		r.t.Fatal(err)
	}
	return reply
}

func (r *rig) refuses(want string, kind byte, body []byte) {
	r.t.Helper()
	if _, err := r.ask(kind, body); err == nil || !strings.Contains(err.Error(), want) {
		r.t.Errorf("question %d: %v, want %q", kind, err, want)
	}
}

func (r *rig) give(program []byte) error {
	if err := tvc.WriteProgram(r.host, bytes.NewReader(program), int64(len(program))); err != nil {
		return err
	}
	_, err := tvc.ReadAnswer(r.host)
	return err
}

func (r *rig) status() (s tvc.Status) {
	r.t.Helper()
	if err := json.Unmarshal(r.must(tvc.AskStatus, nil), &s); err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) policy() programs.Policy {
	return programs.Policy{ManifestSHA256: r.Hash(r.t), SimulatorRootPEM: theRoot().PEM(), AllowDebug: r.Manifest.Pivot.DebugMode}
}

func (r *rig) attested(kind byte) tvc.Attested {
	r.t.Helper()
	a, err := tvc.ParseAttested(r.must(kind, nil))
	if err != nil {
		r.t.Fatal(err)
	}
	return a
}

// toShares takes the enclave to where it waits for shares, and verifies it.
func (r *rig) toShares() *programs.Setup {
	r.t.Helper()
	r.must(tvc.GiveManifest, tvctest.Encode(r.t, r.Envelope(r.t, 2)))
	if err := r.give(text); err != nil {
		r.t.Fatal(err)
	}
	s, err := programs.VerifySetup(r.attested(tvc.AskSetup), r.policy())
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

func (r *rig) share(s *programs.Setup, operator int, share []byte) []byte {
	r.t.Helper()
	p, err := s.Share(rand.Reader, r.Manifest.ShareSet.Members[operator], r.Operators[operator].Signing, share)
	if err != nil {
		r.t.Fatal(err)
	}
	return tvctest.Encode(r.t, p)
}

func (r *rig) toRunning() {
	r.t.Helper()
	s := r.toShares()
	r.must(tvc.GiveShare, r.share(s, 0, r.Shares[0]))
	r.must(tvc.GiveShare, r.share(s, 2, r.Shares[2]))
}

// From image to proof: what a client verifies offline of a program that runs.
func TestRuns(t *testing.T) {
	r := newRig(t, image)
	r.Manifest.Pivot.Args = []string{"-limit", "10"}
	type said struct {
		args      []string
		proof     *program.Proof
		signature []byte
		opened    []byte
		err       error
	}
	all := make(chan said, 1)
	box, err := tvc.Seal(rand.Reader, r.Quorum.Encryption.PublicKey(), []byte("for the app"))
	if err != nil {
		t.Fatal(err)
	}
	r.machine.run = func(args []string, enclave *program.Enclave) error {
		s := said{args: args}
		if s.proof, s.err = enclave.Prove(map[string]any{"type": "EXAMPLE"}); s.err == nil {
			if s.signature, s.err = enclave.Certify([]byte("message")); s.err == nil {
				s.opened, s.err = enclave.Unbox(box)
			}
		}
		all <- s
		return errors.New("exit status 7")
	}
	r.toRunning()
	s := <-all
	if s.err != nil || string(s.opened) != "for the app" || !slices.Equal(s.args, r.Manifest.Pivot.Args) {
		t.Fatalf("%+v", s)
	}
	clocktest.Until(t, "the program ends", func() bool { return r.status().State == tvc.StateEnded })
	if got := r.status(); got.Starts != 1 || got.Ended != "exit status 7" {
		t.Errorf("%+v", got)
	}
	proof, err := programs.BootProof(r.attested(tvc.AskProof), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	boot, err := programs.VerifyBoot(proof, r.policy())
	if err != nil {
		t.Fatal(err)
	}
	var claim struct{ Type, TimestampMs string }
	if at, err := boot.VerifyProof(attestation.AppProof(*s.proof), &claim); err != nil || claim.Type != "EXAMPLE" || time.Since(at) > time.Hour {
		t.Errorf("%v, %+v: %v", at, claim, err)
	}
	if err := programs.VerifyCertified(&boot.Manifest, []byte("message"), s.signature); err != nil {
		t.Error(err)
	}
	if programs.VerifyCertified(&boot.Manifest, []byte("another"), s.signature) == nil {
		t.Error("a signature of another message verifies")
	}
	altered := attestation.AppProof(*s.proof)
	altered.ProofPayload = strings.Replace(altered.ProofPayload, "EXAMPLE", "example", 1)
	if _, err := boot.VerifyProof(altered, &claim); err == nil {
		t.Error("an altered app proof verifies")
	}
	var other struct{ TimestampMs string }
	if _, err := boot.VerifyProof(attestation.AppProof(*s.proof), &other); err == nil {
		t.Error("an app proof that says more than is looked at verifies")
	}
	for name, alter := range map[string]func(p *programs.Policy, b *attestation.BootProof){
		"another manifest":       func(p *programs.Policy, _ *attestation.BootProof) { p.ManifestSHA256[0] ^= 1 },
		"the root of AWS":        func(p *programs.Policy, _ *attestation.BootProof) { p.SimulatorRootPEM = "" },
		"a setup document":       func(_ *programs.Policy, b *attestation.BootProof) { b.EphemeralPublicKeyHex = r.Quorum.Hex() },
		"an envelope of nobody":  func(_ *programs.Policy, b *attestation.BootProof) { b.QOSManifestEnvelopeB64 = "" },
		"another manifest in it": func(_ *programs.Policy, b *attestation.BootProof) { b.QOSManifestB64 = b.QOSManifestEnvelopeB64 },
		"a document that was made": func(_ *programs.Policy, b *attestation.BootProof) {
			b.AWSAttestationDocB64 = b.AWSAttestationDocB64[:len(b.AWSAttestationDocB64)-4]
		},
	} {
		p, b := r.policy(), proof
		alter(&p, &b)
		if _, err := programs.VerifyBoot(b, p); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
}

// What an enclave does not run.
func TestManifestsRefused(t *testing.T) {
	for name, c := range map[string]struct {
		want  string
		alter func(r *rig, e *tvc.Envelope)
	}{
		"one approval too few":              {"1 of 3 members, want 2", func(_ *rig, e *tvc.Envelope) { e.ManifestSetApprovals = e.ManifestSetApprovals[:1] }},
		"one approval twice":                {"two by one member", func(_ *rig, e *tvc.Envelope) { e.ManifestSetApprovals[1] = e.ManifestSetApprovals[0] }},
		"approvals of another deployment":   {"does not verify", func(r *rig, e *tvc.Envelope) { e.Manifest.Namespace.Nonce++ }},
		"a set that approved itself":        {"nobody of the set", func(r *rig, e *tvc.Envelope) { e.Manifest.ManifestSet.Members = r.unrelatedMembers() }},
		"another image":                     {"PCR1", func(r *rig, e *tvc.Envelope) { e.Manifest.Enclave.PCR1 = e.Manifest.Enclave.PCR0; r.approve(e) }},
		"another parent":                    {"PCR3", func(r *rig, e *tvc.Envelope) { e.Manifest.Enclave.PCR3 = e.Manifest.Enclave.PCR0; r.approve(e) }},
		"another root":                      {"awsRootCertificate", func(r *rig, e *tvc.Envelope) { e.Manifest.Enclave.AWSRootCertificate = "00"; r.approve(e) }},
		"share holders' approvals too soon": {"before they could", func(_ *rig, e *tvc.Envelope) { e.ShareSetApprovals = e.ManifestSetApprovals }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, image)
			e := r.Envelope(t, 2)
			c.alter(r, e)
			r.refuses(c.want, tvc.GiveManifest, tvctest.Encode(t, e))
			if s := r.status(); s.State != tvc.StateManifest || s.ManifestSHA256 != "" {
				t.Errorf("%+v", s)
			}
			r.must(tvc.GiveManifest, tvctest.Encode(t, r.Envelope(t, 2))) // nothing has changed
			r.refuses("moment", tvc.GiveManifest, tvctest.Encode(t, r.Envelope(t, 3)))
		})
	}
}

func (r *rig) approve(e *tvc.Envelope) {
	raw, err := e.Manifest.Encode()
	if err != nil {
		r.t.Fatal(err)
	}
	for i := range e.ManifestSetApprovals {
		e.ManifestSetApprovals[i] = r.Approve(r.t, i, tvc.Hash(raw))
	}
}

func (r *rig) unrelatedMembers() []tvc.Member {
	return tvctest.New(r.t, text, image, rootDER()).Manifest.ManifestSet.Members
}

// An image in debug mode, whose host reads along, runs what was approved for that and nothing else.
func TestDebugMode(t *testing.T) {
	r := newRig(t, [3][48]byte{})
	r.refuses("debug mode", tvc.GiveManifest, tvctest.Encode(t, r.Envelope(t, 2)))
	r.Manifest.Pivot.DebugMode = true
	r.toRunning()
	clocktest.Until(t, "the program starts", func() bool { return r.status().Starts > 0 })
	clocktest.Until(t, "it writes", func() bool { return len(r.must(tvc.AskOutput, nil)) > 0 })
	p := r.policy()
	p.AllowDebug = false
	proof, err := programs.BootProof(r.attested(tvc.AskProof), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := programs.VerifyBoot(proof, p); err == nil {
		t.Error("a program in debug mode was believed")
	}
}

func TestProgramsRefused(t *testing.T) {
	r := newRig(t, image)
	if err := r.give(text); err == nil {
		t.Error("a program was taken before its manifest")
	}
	r.host = r.connect()
	r.must(tvc.GiveManifest, tvctest.Encode(t, r.Envelope(t, 2)))
	if err := r.give([]byte("another program")); err == nil || !strings.Contains(err.Error(), "digest") {
		t.Errorf("another program: %v", err)
	}
	r.refuses("moment", tvc.AskSetup, nil)
	if r.machine.held != 0 {
		t.Error("the machine still holds it")
	}
	if err := r.give(text); err != nil {
		t.Fatal(err)
	}
	if err := r.give(text); err == nil {
		t.Error("a second program was taken")
	}
	r.host = r.connect()
	r.refuses("moment", tvc.GiveManifest, tvctest.Encode(t, r.Envelope(t, 2)))
	r.refuses("moment", tvc.AskProof, nil)
	r.refuses("moment", tvc.Connect, []byte{0x0b, 0xb8})
	r.host = r.connect()
	r.refuses("debug", tvc.AskOutput, nil)
	r.refuses("no such", 99, nil)
	if _, err := r.host.Write([]byte{tvc.GiveManifest, 0xff, 0xff, 0xff, 0xff}); err != nil {
		t.Fatal(err)
	}
	if _, err := tvc.ReadAnswer(r.host); err == nil {
		t.Error("a frame of four gigabytes was read")
	}
}

func TestSharesRefused(t *testing.T) {
	r := newRig(t, image)
	s := r.toShares()
	other := tvctest.New(t, text, image, rootDER())
	wrong := bytes.Clone(r.Shares[1])
	wrong[5] ^= 1
	unrelated, err := s.Share(rand.Reader, other.Manifest.ShareSet.Members[0], other.Operators[0].Signing, r.Shares[1])
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Share(rand.Reader, r.Manifest.ShareSet.Members[1], r.Operators[2].Signing, r.Shares[1])
	if err != nil {
		t.Fatal(err)
	}
	replayed, err := s.Share(rand.Reader, r.Manifest.ShareSet.Members[1], r.Operators[1].Signing, r.Shares[1])
	if err != nil {
		t.Fatal(err)
	}
	replayed.Approval = r.Approve(t, 1, [32]byte{1})
	toQuorum, err := tvc.Seal(rand.Reader, r.Quorum.Encryption.PublicKey(), r.Shares[1])
	if err != nil {
		t.Fatal(err)
	}
	r.must(tvc.GiveShare, r.share(s, 0, r.Shares[0]))
	refused := func(want string, body []byte) {
		t.Helper()
		r.refuses(want, tvc.GiveShare, body)
		if got := r.status(); got.State != tvc.StateShares || got.Shares != 1 {
			t.Errorf("%s: %+v", want, got)
		}
	}
	refused("has given", r.share(s, 0, r.Shares[1]))
	refused("nobody", tvctest.Encode(t, unrelated))
	refused("verify", tvctest.Encode(t, signed))
	refused("verify", tvctest.Encode(t, replayed))
	refused("box", tvctest.Encode(t, &tvc.PostedShare{Approval: r.Approve(t, 1, r.Hash(t)), Box: hex.EncodeToString(toQuorum)}))
	refused("place", r.share(s, 1, r.Shares[0]))
	refused("no share", r.share(s, 1, make([]byte, tvc.ShareSize)))
	refused("alias", []byte("{}}"))
	for _, share := range [][]byte{wrong, other.Shares[1]} { // an altered one; one of another key
		r.refuses("another key", tvc.GiveShare, r.share(s, 1, share))
		if got := r.status(); got.State != tvc.StateShares || got.Shares != 0 {
			t.Fatalf("%+v", got)
		}
		r.must(tvc.GiveShare, r.share(s, 0, r.Shares[0]))
	}
	r.must(tvc.GiveShare, r.share(s, 1, r.Shares[1]))
	r.refuses("moment", tvc.GiveShare, r.share(s, 2, r.Shares[2]))
	if got := r.status(); got.State != tvc.StateRunning {
		t.Errorf("%+v", got)
	}
}

// What a share holder does not give his share to.
func TestSetupsRefused(t *testing.T) {
	r := newRig(t, image)
	r.toShares()
	setup := r.attested(tvc.AskSetup)
	second := newRig(t, image)
	second.App = r.App
	second.toShares()
	other := second.attested(tvc.AskSetup)
	if bytes.Equal(setup.Document, other.Document) || setup.PublicKey == other.PublicKey {
		t.Error("two enclaves have one setup key")
	}
	r2 := newRig(t, image)
	r2.toRunning()
	live := r2.attested(tvc.AskProof)
	for name, c := range map[string]struct {
		a tvc.Attested
		p programs.Policy
	}{
		"another manifest than he approved": {setup, programs.Policy{ManifestSHA256: [32]byte{1}, SimulatorRootPEM: theRoot().PEM()}},
		"one that runs":                     {live, r2.policy()},
		"a simulator, where none is meant":  {setup, programs.Policy{ManifestSHA256: r.Hash(t)}},
		"an altered document":               {tvc.Attested{Document: setup.Document[1:], Envelope: setup.Envelope}, r.policy()},
		"an envelope without approvals":     {tvc.Attested{Document: setup.Document, Envelope: tvctest.Encode(t, r.Envelope(t, 1))}, r.policy()},
		"one of long ago":                   {setup, programs.Policy{ManifestSHA256: r.Hash(t), SimulatorRootPEM: theRoot().PEM(), Now: time.Now().Add(24 * time.Hour), MaxBootAge: time.Hour}},
	} {
		if _, err := programs.VerifySetup(c.a, c.p); err == nil {
			t.Errorf("%s: verified", name)
		}
	}
}

// A program gets no proof that lies about the time, and nothing it was not meant to ask.
func TestProgramsAsk(t *testing.T) {
	r := newRig(t, image)
	answers := make(chan error, 16)
	r.machine.run = func(_ []string, enclave *program.Enclave) error {
		for _, text := range []string{`{}`, `[]`, `no JSON`, `{"timestampMs":1}`, `{"timestampMs":"1"}`, `{"timestampMs":"1","TIMESTAMPMS":"` + now() + `"}`, `{"timestampMs":"-"}`} {
			_, err := enclave.Ask(tvc.Prove, []byte(text))
			answers <- err
		}
		_, err := enclave.Ask(tvc.GiveShare, nil)
		answers <- err
		_, err = enclave.Unbox([]byte("no box"))
		answers <- err
		_, err = enclave.Ask(tvc.Certify, make([]byte, 64<<10+1))
		answers <- err
		close(answers)
		return nil
	}
	r.toRunning()
	for err := range answers {
		if err == nil {
			t.Error("a program was answered")
		}
	}
}

func now() string { return strconv.FormatInt(time.Now().UnixMilli(), 10) }

// The host reaches the ports that the manifest bridges, byte for byte and both ways, and no other.
func TestBridge(t *testing.T) {
	r := newRig(t, image)
	r.machine.dial = func(port uint16) (net.Conn, error) {
		ours, theirs := net.Pipe()
		go func() {
			_, _ = io.Copy(theirs, theirs)
			_ = theirs.Close()
		}()
		return ours, nil
	}
	r.toRunning()
	r.refuses("bridges", tvc.Connect, []byte{0x0b, 0xb9})
	r.host = r.connect()
	r.refuses("bridges", tvc.Connect, []byte{0x0b})
	r.host = r.connect()
	r.must(tvc.Connect, []byte{0x0b, 0xb8})
	if _, err := r.host.Write([]byte("echo")); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 4)
	if _, err := io.ReadFull(r.host, got); err != nil || string(got) != "echo" {
		t.Errorf("%q: %v", got, err)
	}
	r.machine.dial = nil
	r.host = r.connect()
	r.refuses("listen", tvc.Connect, []byte{0x0b, 0xb8})
}

func TestRestarts(t *testing.T) {
	r := newRig(t, image)
	r.Manifest.Pivot.Restart = tvc.RestartAlways
	twice := make(chan struct{}, 8)
	r.machine.run = func([]string, *program.Enclave) error {
		twice <- struct{}{}
		return nil
	}
	r.toRunning()
	<-twice
	<-twice
	if s := r.status(); s.State != tvc.StateRunning || s.Starts < 2 {
		t.Errorf("%+v", s)
	}
}

// Whatever the host sends before a manifest was approved, nothing is taken.
func FuzzHost(f *testing.F) {
	r := newRig(f, image)
	f.Add(byte(tvc.GiveManifest), tvctest.Encode(f, r.Envelope(f, 1)))
	f.Add(byte(tvc.GiveShare), []byte("{}"))
	f.Add(byte(tvc.Connect), []byte{0x0b, 0xb8})
	f.Fuzz(func(t *testing.T, kind byte, body []byte) {
		if kind == tvc.AskStatus {
			return
		}
		c, err := net.Dial("tcp", r.listen.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		go func() { _ = tvc.WriteFrame(c, kind, body) }()
		if _, err := tvc.ReadAnswer(c); err == nil {
			t.Errorf("question %d was answered", kind)
		}
	})
}
