package core_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/enclave/internal/org"
	"cloister/shared/pace"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// logProof is the header of who wants a logged proof.
var logProof = wire.Header{Name: wire.HeaderLogProof, Value: attestation.LogProofWait}

// A prover is a deployment with witnesses, and a client that wants logged proofs.
type prover struct {
	*rig.Rig
	*rig.Witnesses
	t *testing.T
}

func newProver(t *testing.T, mode tlog.Mode, o rig.Options) *prover {
	w := rig.StartWitnesses(t, rig.WitnessOptions{Mode: mode, Serve: attestation.MaxLogTime, Bound: map[tlog.Mode]time.Duration{tlog.ModeBounded: attestation.MaxLogTime}[mode]})
	o.Witnesses = w
	return &prover{rig.Start(t, o), w, t}
}

// call submits a stamped body with more headers. A wait of 0 is the usual one.
func (p *prover) call(op string, body []byte, key client.KeyPair, wait time.Duration, more ...wire.Header) *wire.Reply {
	p.t.Helper()
	q, err := p.Root().As("", "", key).Request(wire.EndpointSubmit, op, body)
	if err != nil {
		p.t.Fatal(err)
	}
	call := q.Call()
	call.Head, call.WithinMs = append(call.Head, more...), uint32(wait.Milliseconds())
	reply, err := p.Link.Call(p.t.Context(), call)
	if err != nil {
		p.t.Fatal(err)
	}
	return reply
}

func (p *prover) submit(op string, body []byte, key client.KeyPair, more ...wire.Header) *wire.Reply {
	p.t.Helper()
	return p.call(op, body, key, 0, more...)
}

func fields(reply *wire.Reply) client.Reply {
	return client.Reply{Status: int(reply.Status), Body: reply.Body}
}

func nameOf(reply *wire.Reply) string { return fields(reply).Text("turnkeyErrorCode") }

// wallet is the body of a new wallet.
func (p *prover) wallet(name string) []byte {
	return p.Root().Body("CREATE_WALLET", client.Wallet(name))
}

// shown is what the proof in a reply shows, which is what the reply tells.
func (p *prover) shown(reply *wire.Reply) *attestation.LoggedEntry {
	p.t.Helper()
	boots, err := attestation.ParseReply(p.Root().Query("get_latest_boot_proof", object{"appName": attestation.Application}).Body)
	if err != nil {
		p.t.Fatal(err)
	}
	boot, err := attestation.VerifyBootProof(boots.BootProofs[0], attestation.Policy{SimulatorRootPEM: p.Credentials.AttestationRootPEM, AllowUnpinned: true})
	if err != nil {
		p.t.Fatal(err)
	}
	r, err := attestation.ParseReply(reply.Body)
	if err != nil || r.LogProof == nil {
		p.t.Fatalf("%d %s: %v", reply.Status, reply.Body, err)
	}
	e, err := attestation.VerifyLogProof(r.LogProof.LogProof, r.LogProof.LogKey, boot)
	if err == nil {
		err = r.CheckLogged(e)
	}
	if err != nil {
		p.t.Fatalf("%s: %v", reply.Body, err)
	}
	return e
}

// proven submits a body that wants its proof, and then again with and without: one activity, and without the wish the same bytes but for the proof.
func (p *prover) proven(status uint16, op string, body []byte, key client.KeyPair) (*attestation.LoggedEntry, client.Reply) {
	p.t.Helper()
	first := p.submit(op, body, key, logProof)
	if first.Status != status {
		p.t.Fatalf("%s: %d %s", op, first.Status, first.Body)
	}
	e := p.shown(first)
	again := p.submit(op, body, key, logProof)
	if f := p.shown(again).Facts; again.Status != status || f.Seq != e.Facts.Seq {
		p.t.Errorf("%s: the same body again: %d, entry %d after %d", op, again.Status, f.Seq, e.Facts.Seq)
	}
	plain := p.submit(op, body, key)
	bare := string(plain.Body[:len(plain.Body)-1])
	if plain.Status != status || !strings.HasPrefix(string(again.Body), bare+`,"logProof":"`) || strings.Contains(bare, "logProof") {
		p.t.Errorf("%s: without the wish: %d %s", op, plain.Status, plain.Body)
	}
	return e, fields(first)
}

// Whatever a submit comes to, its proof is about that: an activity, one that waits, a vote and what it leads to, a refusal that is kept, a sub-organization.
func TestLogProofWithASubmit(t *testing.T) {
	for _, mode := range []tlog.Mode{tlog.ModeStrict, tlog.ModeBounded} {
		t.Run(mode.String(), func(t *testing.T) {
			p := newProver(t, mode, rig.Options{})
			root, user, second := p.Credentials.RootAPIKey, client.NewKey(), client.NewKey()
			home := p.Credentials.OrganizationID
			want := func(e *attestation.LoggedEntry, organization, typ, status string, body []byte) {
				t.Helper()
				f := e.Facts
				if attestation.UUID(f.Organization) != organization || f.Type != typ || f.Status != status || attestation.Fingerprint(body) != fmt.Sprintf("sha256:%x", f.Fingerprint) || f.Mode != mode {
					t.Errorf("%s in %s: %+v", typ, organization, f)
				}
			}
			const done, waits, failed = "ACTIVITY_STATUS_COMPLETED", "ACTIVITY_STATUS_CONSENSUS_NEEDED", "ACTIVITY_STATUS_FAILED"

			users := p.Root().Body("CREATE_USERS_V3", client.Users(client.NewUser("User", user), client.NewUser("Second", second)))
			e, m := p.proven(200, "create_users", users, root)
			want(e, home, "ACTIVITY_TYPE_CREATE_USERS_V3", done, users)
			ids, _ := client.Get(m.Result(), "userIds").([]any)

			refused := p.wallet("w")
			e, m = p.proven(403, "create_wallet", refused, user)
			want(e, home, "ACTIVITY_TYPE_CREATE_WALLET", failed, refused)
			if m.Get("activity") != nil || m.Get("code") != float64(7) {
				t.Errorf("%v", m)
			}

			sub := p.Root().Body("CREATE_SUB_ORGANIZATION_V7", client.SubOrganization("below", client.NewRootUser("below", user)))
			e, m = p.proven(200, "create_sub_organization", sub, root)
			want(e, home, "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", done, sub)
			below := client.Text(m.Result(), "subOrganizationId")
			own := p.Root().As(below, "", user).Body("CREATE_WALLET", client.Wallet("w"))
			e, _ = p.proven(200, "create_wallet", own, user)
			want(e, below, "ACTIVITY_TYPE_CREATE_WALLET", done, own)

			quorum := p.Root().Body("UPDATE_ROOT_QUORUM", object{"threshold": 2, "userIds": append(ids, p.Credentials.RootUserID)})
			e, _ = p.proven(200, "update_root_quorum", quorum, root)
			want(e, home, "ACTIVITY_TYPE_UPDATE_ROOT_QUORUM", done, quorum)
			for _, c := range []struct {
				op, typ, status string
			}{{"approve_activity", "APPROVE_ACTIVITY", done}, {"reject_activity", "REJECT_ACTIVITY", waits}} {
				wallet := p.wallet(c.op)
				begun := p.submit("create_wallet", wallet, root, logProof)
				e = p.shown(begun)
				want(e, home, "ACTIVITY_TYPE_CREATE_WALLET", waits, wallet)
				// A vote's proof is of the step that it led to, of the activity that the reply tells of.
				votes := object{"fingerprint": attestation.Fingerprint(wallet)}
				vote := p.Root().Body(c.typ, votes)
				after, _ := p.proven(200, c.op, vote, user)
				want(after, home, "ACTIVITY_TYPE_CREATE_WALLET", c.status, wallet)
				if after.Facts.Prior != e.Facts.Seq+1 {
					t.Errorf("%s: a step after %d, want %d", c.op, after.Facts.Prior, e.Facts.Seq+1)
				}
				if c.status == waits { // a vote that changes nothing shows what is there
					same := p.submit(c.op, p.Root().Body(c.typ, votes), user, logProof)
					if f := p.shown(same).Facts; same.Status != 200 || f.Seq != after.Facts.Seq {
						t.Errorf("a vote that changes nothing: %d, entry %d after %d", same.Status, f.Seq, after.Facts.Seq)
					}
				}
				// The body that began it shows what has become of it since.
				if f := p.shown(p.submit("create_wallet", wallet, root, logProof)).Facts; f.Seq != after.Facts.Seq {
					t.Errorf("%s: the body again shows entry %d, want %d", c.op, f.Seq, after.Facts.Seq)
				}
			}
			if n := p.Counters()["log_proofs_waited_for"]; n != 0 {
				t.Errorf("%d places are still taken", n)
			}
		})
	}
}

// Many at a time, in few batches: each has the proof of its own.
func TestLogProofsOfOneBatch(t *testing.T) {
	p := newProver(t, tlog.ModeBounded, rig.Options{})
	replies := make([]*wire.Reply, 20)
	bodies := make([][]byte, len(replies))
	var all sync.WaitGroup
	for i := range replies {
		bodies[i] = p.wallet(fmt.Sprint(i))
		all.Go(func() { replies[i] = p.submit("create_wallet", bodies[i], p.Credentials.RootAPIKey, logProof) })
	}
	all.Wait()
	leaves := map[uint64]bool{}
	for i, reply := range replies {
		e := p.shown(reply)
		leaves[e.Index] = true
		if got := fmt.Sprintf("sha256:%x", e.Facts.Fingerprint); got != attestation.Fingerprint(bodies[i]) {
			t.Errorf("reply %d has the proof of another request", i)
		}
	}
	t.Logf("%d replies, %d batches", len(replies), len(leaves))
}

// A signature is over the reply with its proof.
func TestLogProofInASignedReply(t *testing.T) {
	p := newProver(t, tlog.ModeBounded, rig.Options{})
	body := p.wallet("w")
	reply := p.submit("create_wallet", body, p.Credentials.RootAPIKey, logProof, wire.Header{Name: wire.HeaderSignReply, Value: "nonce"})
	p.shown(reply)
	if reply.Signed == nil {
		t.Fatalf("%d %s", reply.Status, reply.Body)
	}
	head, err := laptop.Stamp(p.Credentials.RootAPIKey, body)
	if err != nil {
		t.Fatal(err)
	}
	// ECDSA draws nothing here: the same key stamps the same body alike.
	credentials, err := attestation.HashCredentials(attestation.EndpointSubmit, func(name string) (values []string) {
		for _, h := range head {
			if strings.EqualFold(h.Name, name) {
				values = append(values, h.Value)
			}
		}
		return values
	})
	if err != nil {
		t.Fatal(err)
	}
	s := attestation.SignedReply{Deployment: reply.Signed.Deployment, LiveKey: fmt.Sprintf("%x", reply.Signed.LiveKey), Endpoint: attestation.EndpointSubmit, Operation: "create_wallet",
		Credentials: credentials, Request: attestation.Hash(body), Nonce: "nonce", Status: 200, Reply: attestation.Hash(reply.Body), TimeMs: reply.Signed.TimeMs}
	if err := attestation.VerifyReplySignature(s, reply.Signed.Signature); err != nil {
		t.Error(err)
	}
}

// What is no wish, and a wish where no proof can be, is refused, and nothing is decided.
func TestLogProofHeaderRefused(t *testing.T) {
	p := newProver(t, tlog.ModeBounded, rig.Options{AuthProxy: true})
	root := p.Credentials.RootAPIKey
	value := func(v string) wire.Header { return wire.Header{Name: "x-cloister-log-proof", Value: v} }
	before := p.tip()
	for name, head := range map[string][]wire.Header{
		"nothing": {value("")}, "another word": {value("yes")}, "in other letters": {value("Wait")}, "a space": {value("wait ")}, "twice": {logProof, value("wait")}, "and another": {logProof, value("")},
	} {
		reply := p.submit("create_wallet", p.wallet(name), root, head...)
		if reply.Status != 400 || !strings.Contains(string(reply.Body), wire.HeaderLogProof) {
			t.Errorf("%s: %d %s", name, reply.Status, reply.Body)
		}
	}
	for _, c := range []struct {
		endpoint wire.Endpoint
		op       string
		body     string
		more     []wire.Header
	}{
		{wire.EndpointQuery, "whoami", `{"organizationId":"` + p.Credentials.OrganizationID + `"}`, nil},
		{wire.EndpointProxy, "wallet_kit_config", `{}`, []wire.Header{{Name: "X-Auth-Proxy-Config-Id", Value: p.Credentials.AuthProxyConfigID}}},
		{wire.EndpointBoot, "status", ``, nil},
	} {
		call := wire.Call{Endpoint: c.endpoint, Op: c.op, Body: []byte(c.body), Head: c.more}
		if c.endpoint == wire.EndpointQuery {
			call.Head, _ = laptop.Stamp(root, call.Body)
		}
		plain, err := p.Link.Call(t.Context(), &call)
		if err != nil || plain.Status != 200 {
			t.Fatalf("%s: %+v, %v", c.op, plain, err)
		}
		call.Head = append(slices.Clone(call.Head), logProof)
		if reply, err := p.Link.Call(t.Context(), &call); err != nil || reply.Status != 400 {
			t.Errorf("%s: %+v, %v", c.op, reply, err)
		}
	}
	if after := p.tip(); after != before {
		t.Errorf("%d entries were decided", after-before)
	}
}

// tip is how many entries the ledger of the root organization has, whose end the log proof of none tells.
func (p *prover) tip() (n int) {
	p.t.Helper()
	for {
		got := p.Root().Query("get_log_proof", object{"seq": fmt.Sprint(n)})
		switch got.Status {
		case 200:
			n++
		case 404:
			return n
		default:
			p.t.Fatal(got)
		}
	}
}

// Without witnesses there is nothing to wait for: that is said before anything is decided.
func TestLogProofHeaderWithoutWitnesses(t *testing.T) {
	p := &prover{Rig: rig.Start(t, rig.Options{}), t: t}
	body := p.wallet("w")
	if reply := p.submit("create_wallet", body, p.Credentials.RootAPIKey, logProof); reply.Status != 400 || nameOf(reply) != "LOG_NOT_WITNESSED" {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	got := p.Root().Query("list_activities", nil)
	if all, ok := got.Get("activities").([]any); !ok || len(all) != 0 {
		t.Error(got)
	}
	if reply := p.submit("create_wallet", body, p.Credentials.RootAPIKey); reply.Status != 200 {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
}

// runsOut submits a body whose wait runs out behind the decision: on a slow machine not at the first try.
func (p *prover) runsOut(body []byte, name string) *wire.Reply {
	p.t.Helper()
	for wait := 250 * time.Millisecond; ; wait *= 2 {
		reply := p.call("create_wallet", body, p.Credentials.RootAPIKey, wait, logProof)
		if reply.Status == 503 && nameOf(reply) == name {
			return reply
		}
		if reply.Status != 503 || wait > time.Minute {
			p.t.Fatalf("%v: %d %s", wait, reply.Status, reply.Body)
		}
	}
}

// Where witnesses take longer than the caller, nobody is told of an activity whose proof he wanted as if he had it: it
// is decided, once, and the same body gets it with the proof when they are back, and at once without.
func TestLogProofLater(t *testing.T) {
	p := newProver(t, tlog.ModeBounded, rig.Options{})
	root := p.Credentials.RootAPIKey
	body := p.wallet("w")
	p.Locals[0].Stop()
	p.Locals[1].Stop()
	for range 2 {
		reply := p.runsOut(body, "LOG_PROOF_MISSING")
		if strings.Contains(string(reply.Body), `"logProof"`) {
			t.Fatalf("%s", reply.Body)
		}
	}
	plain := p.submit("create_wallet", body, root)
	if plain.Status != 200 {
		t.Fatalf("%d %s", plain.Status, plain.Body)
	}
	if err := p.Locals[0].Start(); err != nil {
		t.Fatal(err)
	}
	reply := p.submit("create_wallet", body, root, logProof)
	if e := p.shown(reply); attestation.UUID(e.Facts.Activity) != fields(plain).Text("activity", "id") {
		t.Errorf("%+v", e.Facts)
	}
	if n := p.Counters()["log_proofs_waited_for"]; n != 0 {
		t.Errorf("%d places are still taken", n)
	}
}

// In strict mode no reply tells of what has no quorum, and none says that it was decided.
func TestLogProofLaterInStrictMode(t *testing.T) {
	p := newProver(t, tlog.ModeStrict, rig.Options{})
	body := p.wallet("w")
	p.Locals[0].Stop()
	p.Locals[1].Stop()
	p.runsOut(body, "LOG_UNAVAILABLE")
	if err := p.Locals[0].Start(); err != nil {
		t.Fatal(err)
	}
	p.proven(200, "create_wallet", body, p.Credentials.RootAPIKey)
}

// A tenant that has its share of those that wait gets no more, before anything is decided, and others do.
func TestLogProofsAreShared(t *testing.T) {
	p := newProver(t, tlog.ModeBounded, rig.Options{})
	home, n := organization(t, p.Rig), int64(0)
	for p.Enclave.TakeProving(home, 1) {
		n++
	}
	if n != 113 {
		t.Errorf("one tenant has %d places", n)
	}
	body := p.wallet("w")
	before := p.tip()
	if reply := p.submit("create_wallet", body, p.Credentials.RootAPIKey, logProof); reply.Status != 429 || nameOf(reply) != "LOG_PROOFS_EXCEEDED" {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
	if after := p.tip(); after != before {
		t.Errorf("%d entries were decided", after-before)
	}
	if !p.Enclave.TakeProving(org.ID{1}, 1) {
		t.Error("another tenant has no place")
	}
	p.Enclave.TakeProving(home, -n)
	p.proven(200, "create_wallet", body, p.Credentials.RootAPIKey)
	if n := p.Counters()["log_proofs_waited_for"]; n != 1 {
		t.Errorf("%d places are taken, want the other tenant's", n)
	}
}

// A submit with its proof costs as much of the rates as one and a question for the proof.
func TestLogProofRate(t *testing.T) {
	p := newProver(t, tlog.ModeBounded, rig.Options{Rates: core.Rates{Key: pace.Rate{Count: 4, Per: 24 * time.Hour}}})
	left := func(more ...wire.Header) uint32 {
		reply := p.submit("create_wallet", p.wallet(fmt.Sprint(p.Root().Times.Next())), p.Credentials.RootAPIKey, more...)
		if reply.Status != 200 {
			t.Fatalf("%d %s", reply.Status, reply.Body)
		}
		return reply.Remaining
	}
	if got := []uint32{left(), left(logProof)}; !slices.Equal(got, []uint32{3, 1}) {
		t.Errorf("remaining %v", got)
	}
	body := p.wallet("w")
	if reply := p.submit("create_wallet", body, p.Credentials.RootAPIKey, logProof); reply.Status != 429 || nameOf(reply) != "RATE_LIMIT_EXCEEDED" {
		t.Errorf("%d %s", reply.Status, reply.Body)
	}
}
