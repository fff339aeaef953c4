package attestation_test

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
)

const (
	logsOf   = "log.example/00112233445566778899aabbccddeeff/0"
	activity = "22222222-2222-4222-8222-222222222222"
)

func logKeyClaim(t testing.TB) *attestation.LogKey {
	return &attestation.LogKey{Origin: logsOf + "/1", Key: tlogKey(t, logsOf+"/1", tlog.TypeLog, 99).String()}
}

func TestLogKeysRefused(t *testing.T) {
	good := logKeyClaim(t)
	for name, c := range map[string]attestation.LogKey{
		"nothing":        {},
		"no origin":      {"", good.Key},
		"another origin": {strings.TrimSuffix(good.Origin, "1") + "2", good.Key},
		"no key":         {good.Origin, ""},
		"a witness's":    {good.Origin, tlogKey(t, good.Origin, tlog.TypeCosignature, 99).String()},
		"a bit":          {good.Origin, flip(good.Key, len(good.Origin)+3)},
	} {
		_, err := attestation.EncodePayload(time.UnixMilli(1767225600123), &c)
		refused(t, err, name)
	}
}

// A logged is an enclave whose log has an entry.
type logged struct {
	*maker
	*tlogtest.World
	text   string
	logKey attestation.AppProof
	proof  attestation.AppProof // that came of the entry
}

// newLogged is an enclave of a generation, under a manifest that names the log's witnesses.
func newLogged(t testing.TB, generation int, mode tlog.Mode, adopt *tlog.Adopt) *logged {
	l := &logged{maker: newMaker(t), World: tlogtest.New(fmt.Sprintf("%s/%d", logsOf, generation), 3, 4)}
	for i, s := range l.Witnesses {
		s.Seconds = uint64(l.now.Unix()) + uint64(10*i)
	}
	m := witnessed(t)
	m.Log.Policy = l.Policy()
	l.setManifest(m)
	if adopt != nil {
		l.Append(tlog.Leaf{Adopt: adopt})
	}
	l.Grow(5)
	claim := signatureClaim("body")
	claim.Freshness = &attestation.ClaimFreshness{Mode: attestation.FreshWitnessed, BootNumber: "4", SeedSource: attestation.SeedDevelopmentFile}
	l.proof = l.appProof(claim)
	organization := [16]byte{0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x41, 0x11, 0x81, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11, 0x11}
	seq := l.Record(tlog.Facts{Organization: organization, Activity: [16]byte{0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x42, 0x22, 0x82, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22, 0x22},
		Type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", Status: "ACTIVITY_STATUS_COMPLETED", Fingerprint: sha256.Sum256([]byte("body")),
		TimeMs: uint64(l.now.UnixMilli()), Boot: 4, Mode: mode, Proofs: [][32]byte{sha256.Sum256([]byte(l.proof.ProofPayload))}})
	l.Grow(12)
	var err error
	l.text, err = l.Prove(organization, seq).Text()
	must(t, err)
	l.logKey = l.appProof(&attestation.LogKey{Origin: l.Log.Name(), Key: l.Log.String()})
	return l
}

func (l *logged) boot(change func(*attestation.Policy)) *attestation.Boot {
	p := l.policy()
	if change != nil {
		change(&p)
	}
	boot, err := attestation.VerifyBootProof(l.bootProof(nil), p)
	must(l.t, err)
	return boot
}

func TestLogProof(t *testing.T) {
	recovered := &tlog.Adopt{How: tlog.HowRecovered, Origin: logsOf + "/1", Size: 40, Witnessed: 43}
	one, none := *recovered, *recovered
	one.Witnessed, none.Witnessed = 41, 40
	for name, c := range map[string]struct {
		generation int
		mode       tlog.Mode
		adopt      *tlog.Adopt
		known      uint32
		says       string
		lost       uint64
		recovered  bool
	}{
		"strict":             {1, tlog.ModeStrict, nil, 0, "strict; first generation; ", 0, false},
		"bounded":            {1, tlog.ModeBounded, nil, 1, "bounded; first generation; ", 0, false},
		"before witnesses":   {1, tlog.ModeNone, nil, 1, "none; first generation; ", 0, false},
		"moved":              {2, tlog.ModeStrict, &tlog.Adopt{How: tlog.HowMoved, Origin: logsOf + "/1", Size: 40}, 2, "strict; generation 2, moved: goes on from 40 batches of " + logsOf + "/1; ", 0, false},
		"recovered":          {2, tlog.ModeStrict, recovered, 1, "strict; generation 2, recovered, 3 batches lost: goes on from 40 batches of " + logsOf + "/1; ", 3, true},
		"recovered, bounded": {2, tlog.ModeBounded, &one, 0, "bounded; generation 2, recovered, 1 batch lost: ", 1, true},
		"recovered whole":    {2, tlog.ModeStrict, &none, 2, "strict; generation 2, recovered, 0 batches lost: ", 0, true},
		"long ago":           {9, tlog.ModeStrict, recovered, 3, "recovered, 3 batches lost: goes on from 40 batches of " + logsOf + "/1; 5 generation(s) since the one known not shown; ", 3, true},
	} {
		l := newLogged(t, c.generation, c.mode, c.adopt)
		got, err := attestation.VerifyLogProof(l.text, l.logKey, l.boot(func(p *attestation.Policy) {
			p.KnownGenerations = map[string]uint32{logsOf: c.known, "log.example": 99}
			p.Now, p.MaxCheckpointAge = l.now.Add(time.Hour), time.Hour
		}))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		said := got.String()
		place := fmt.Sprintf("leaf %d of 12 in %s/%d; cosigned by 3 of 4 witnesses (w1.example at 2026-05-01T12:00:00Z, w2.example at 2026-05-01T12:00:10Z, w3.example at 2026-05-01T12:00:20Z)",
			got.Index, logsOf, c.generation)
		if !strings.Contains(said, c.says) || !strings.HasSuffix(said, place) || strings.Contains(said, "valid") {
			t.Errorf("%s: %q", name, said)
		}
		if lost, recovered := got.Lost(); lost != c.lost || recovered != c.recovered {
			t.Errorf("%s: %d lost, %v", name, lost, recovered)
		}
		// What a recovery left behind is not passed over by whoever does not know of it.
		unknown := map[string]bool{"recovered": true, "recovered, bounded": true, "long ago": true}[name]
		if err := got.CheckHistory(); (err != nil) != unknown {
			t.Errorf("%s: what became of the log: %v", name, err)
		}
		if !got.Time.Equal(l.now) || !strings.HasPrefix(got.Wait(), c.mode.String()+": ") || got.Boot == nil {
			t.Errorf("%s: %v, %s", name, got.Time, got.Wait())
		}
		if !got.States(l.proof) || got.States(l.logKey) {
			t.Errorf("%s: not the app proofs that came of it", name)
		}
	}
}

// No byte of a proof, nor of the app proof beside it, can be changed.
func TestEveryByteOfALogProofCounts(t *testing.T) {
	l := newLogged(t, 2, tlog.ModeBounded, &tlog.Adopt{How: tlog.HowMoved, Origin: logsOf + "/1", Size: 40})
	boot := l.boot(nil)
	for i := range l.text {
		if _, err := attestation.VerifyLogProof(flip(l.text, i), l.logKey, boot); err == nil {
			t.Errorf("byte %d changed", i)
		}
	}
	for i := range l.logKey.ProofPayload {
		key := l.logKey
		key.ProofPayload = flip(key.ProofPayload, i)
		if _, err := attestation.VerifyLogProof(l.text, key, boot); err == nil {
			t.Errorf("byte %d of the log's key changed", i)
		}
	}
}

func TestLogProofsRefused(t *testing.T) {
	l := newLogged(t, 2, tlog.ModeStrict, &tlog.Adopt{How: tlog.HowMoved, Origin: logsOf + "/1", Size: 40})
	verify := func(change func(*attestation.Policy)) error {
		_, err := attestation.VerifyLogProof(l.text, l.logKey, l.boot(change))
		return err
	}
	must(t, verify(nil))
	later := l.now.Add(time.Hour)
	for name, change := range map[string]func(*attestation.Policy){
		"an older generation": func(p *attestation.Policy) { p.KnownGenerations = map[string]uint32{logsOf: 3} },
		"an old checkpoint":   func(p *attestation.Policy) { p.Now, p.MaxCheckpointAge = later, time.Hour-time.Second },
		"an age and no time":  func(p *attestation.Policy) { p.MaxCheckpointAge = time.Hour },
	} {
		refused(t, verify(change), name)
	}
	boot := l.boot(nil)
	another := newLogged(t, 2, tlog.ModeStrict, &tlog.Adopt{How: tlog.HowMoved, Origin: logsOf + "/1", Size: 40})
	first := newLogged(t, 1, tlog.ModeStrict, nil)
	named := func(change func(*attestation.Manifest)) *attestation.Boot {
		m := witnessed(t)
		m.Log.Policy = l.Policy()
		change(m)
		l.setManifest(m)
		return l.boot(func(p *attestation.Policy) {})
	}
	cases := []struct {
		name   string
		text   string
		logKey attestation.AppProof
		boot   *attestation.Boot
	}{
		{"a statement of something else", l.text, l.proof, boot},
		{"another boot's statement", l.text, another.logKey, boot},
		{"another log's key", l.text, l.appProof(logKeyClaim(t)), boot},
		{"another log's proof", first.text, l.logKey, boot},
		{"no proof", "", l.logKey, boot},
		{"a boot that was not verified", l.text, l.logKey, &attestation.Boot{}},
	}
	for name, change := range map[string]func(*attestation.Manifest){
		"a manifest without witnesses": func(m *attestation.Manifest) { m.Log, m.Freshness.Mode = nil, attestation.FreshSinceBoot },
		"with other witnesses":         func(m *attestation.Manifest) { m.Log.Policy = policyOf(t, 3, 4) },
		"with more in the quorum": func(m *attestation.Manifest) {
			m.Log.Policy = strings.Replace(m.Log.Policy, "group all 3", "group all 4", 1)
		},
		"with another name": func(m *attestation.Manifest) { m.Log.Name = "logs.example" },
	} {
		boot := named(change)
		cases = append(cases, struct {
			name   string
			text   string
			logKey attestation.AppProof
			boot   *attestation.Boot
		}{name, l.text, l.logKey, boot})
	}
	for _, c := range cases {
		_, err := attestation.VerifyLogProof(c.text, c.logKey, c.boot)
		refused(t, err, c.name)
	}
	read, err := tlog.ParseLoggedProof(l.text)
	must(t, err)
	for name, seconds := range map[string]int64{"cosigned tomorrow": l.now.Add(24 * time.Hour).Unix(), "cosigned at no time": 1 << 60} {
		for _, s := range l.Witnesses {
			s.Seconds = uint64(seconds)
		}
		read.Checkpoint = l.Cosign(12)
		text, err := read.Text()
		must(t, err)
		_, err = attestation.VerifyLogProof(text, l.logKey, boot.At(l.now))
		refused(t, err, name)
	}
}

// A true proof of another entry than the caller's.
func TestExpectationOfALogProof(t *testing.T) {
	l := newLogged(t, 1, tlog.ModeStrict, nil)
	got, err := attestation.VerifyLogProof(l.text, l.logKey, l.boot(nil))
	must(t, err)
	good := attestation.Expectation{OrganizationID: "11111111-1111-4111-8111-111111111111", ActivityID: activity, Fingerprint: attestation.Fingerprint([]byte("body")),
		NotBefore: l.now, BootNumber: "4"}
	must(t, good.CheckLogged(got))
	must(t, attestation.Expectation{}.CheckLogged(got))
	for name, change := range map[string]func(*attestation.Expectation){
		"another organization": func(e *attestation.Expectation) { e.OrganizationID = activity },
		"another activity":     func(e *attestation.Expectation) { e.ActivityID = e.OrganizationID },
		"another request":      func(e *attestation.Expectation) { e.Fingerprint = attestation.Fingerprint([]byte("my body")) },
		"another boot":         func(e *attestation.Expectation) { e.BootNumber = "5" },
		"an older one":         func(e *attestation.Expectation) { e.NotBefore = l.now.Add(time.Millisecond) },
		"a type":               func(e *attestation.Expectation) { e.Type = attestation.TypeSignature },
		"an outcome":           func(e *attestation.Expectation) { e.Outcome = "OUTCOME_ALLOW" },
		"digests":              func(e *attestation.Expectation) { e.Digests = []string{hexOf(5, 32)} },
	} {
		e := good
		change(&e)
		refused(t, e.CheckLogged(got), name)
	}
	refused(t, good.CheckLogged(nil), "no proof")
	refused(t, good.CheckLogged(&attestation.LoggedEntry{}), "one that was not verified")
}

func TestReplyWithALogProof(t *testing.T) {
	l := newLogged(t, 1, tlog.ModeStrict, nil)
	reply, err := json.Marshal(attestation.LogProof{LogProof: l.text, LogKey: l.logKey})
	must(t, err)
	r, err := attestation.ParseReply(reply)
	must(t, err)
	if r.LogProof == nil || r.LogProof.LogProof != l.text || r.LogProof.LogKey != l.logKey || len(r.AppProofs)+len(r.BootProofs) > 0 {
		t.Errorf("%+v", r)
	}
	key, err := json.Marshal(l.logKey)
	must(t, err)
	for _, bad := range []string{`{"logProof":"x"}`, `{"logKey":` + string(key) + `}`, `{"logProof":1,"logKey":` + string(key) + `}`, `{"logProof":"x","logKey":1}`,
		`{"logProof":"x","logKey":{"more":1}}`, `{"logProof":null,"logKey":` + string(key) + `}`} {
		_, err := attestation.ParseReply([]byte(bad))
		refused(t, err, bad)
	}
}

// beside is a reply with a log proof beside what it tells.
func (l *logged) beside(told string) []byte {
	proof, err := json.Marshal(attestation.LogProof{LogProof: l.text, LogKey: l.logKey})
	must(l.t, err)
	return []byte(strings.TrimSuffix(told, "}") + "," + string(proof[1:]))
}

// A log proof that stands in the reply to a submit is about what that tells, or refused: the host could have taken it from
// any other reply.
func TestReplyAndItsLogProof(t *testing.T) {
	l := newLogged(t, 1, tlog.ModeStrict, nil)
	app, err := json.Marshal(l.proof)
	must(t, err)
	other, err := json.Marshal(l.appProof(signatureClaim("another body")))
	must(t, err)
	entry, err := attestation.VerifyLogProof(l.text, l.logKey, l.boot(nil))
	must(t, err)
	fingerprint := attestation.Fingerprint([]byte("body"))
	told := map[string]string{"id": activity, "organizationId": "11111111-1111-4111-8111-111111111111", "fingerprint": fingerprint,
		"type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", "status": "ACTIVITY_STATUS_COMPLETED"}
	reply := func(member, value string, proofs ...string) string {
		a := maps.Clone(told)
		if a[member] = value; value == "" {
			delete(a, member)
		}
		raw, err := json.Marshal(a)
		must(t, err)
		return `{"activity":` + strings.TrimSuffix(string(raw), "}") + `,"appProofs":[` + strings.Join(proofs, ",") + `]}}`
	}
	check := func(text string) error {
		t.Helper()
		r, err := attestation.ParseReply(l.beside(text))
		must(t, err)
		return r.CheckLogged(entry)
	}
	must(t, check(reply("result", "x")))
	must(t, check(reply("result", "x", string(app))))
	for name, c := range map[string][2]string{
		"another activity": {"id", "11111111-1111-4111-8111-111111111111"}, "another organization": {"organizationId", activity}, "another request": {"fingerprint", attestation.Fingerprint(nil)},
		"another type": {"type", "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD"}, "an earlier step": {"status", "ACTIVITY_STATUS_CONSENSUS_NEEDED"},
		"no activity's id": {"id", ""}, "no fingerprint": {"fingerprint", ""}, "no status": {"status", ""},
	} {
		refused(t, check(reply(c[0], c[1])), name)
	}
	refused(t, check(reply("", "", string(other))), "an app proof of another")
	refused(t, check(reply("", "", string(app), string(other))), "an app proof of another beside its own")
	refused(t, check(`{"activity":{}}`), "an activity without names")

	refusal := func(details string) string { return `{"code":7,"message":"no","details":[` + details + `]}` }
	kept := func(id, fingerprint string) string {
		return `{"@type":"type.googleapis.com/cloister.v1.RefusedActivity","activityId":"` + id + `","fingerprint":"` + fingerprint + `"}`
	}
	refused(t, check(refusal(kept(activity, fingerprint))), "a refusal, and the proof of an activity that is completed")
	refused(t, check(refusal("")), "a refusal that names no activity")
	entry.Facts.Status = "ACTIVITY_STATUS_FAILED" // as if it were
	must(t, check(refusal(`{"@type":"type.googleapis.com/errors.v1.TurnkeyErrorDetail"},`+kept(activity, fingerprint))))
	refused(t, check(refusal(kept(activity, attestation.Fingerprint(nil)))), "a refusal of another request")
	refused(t, check(refusal(kept("11111111-1111-4111-8111-111111111111", fingerprint))), "a refusal of another activity")

	for _, bad := range []string{refusal(kept(activity, fingerprint) + "," + kept(activity, fingerprint)), `{"code":7,"details":{}}`, `{"code":7,"details":[1]}`,
		`{"activity":{"status":1}}`, `{"activity":{"type":[]}}`} {
		_, err := attestation.ParseReply(l.beside(bad))
		refused(t, err, bad)
	}
	alone, err := attestation.ParseReply(l.beside(`{"note":1}`))
	must(t, err)
	must(t, alone.CheckLogged(entry))
	refused(t, alone.CheckLogged(nil), "no proof")
	refused(t, alone.CheckLogged(&attestation.LoggedEntry{}), "one that was not verified")
}
