package attestation_test

import (
	"strings"
	"testing"

	"cloister/attestation"
)

// recovering is a manifest that has a range of witnessed's go on from a backup.
func recovering(t testing.TB) *attestation.Manifest {
	m := witnessed(t)
	m.Predecessor = hexOf(1, 32)
	m.Recover = []attestation.RecoveredLog{
		{Range: 0, Origin: "log.example/00112233445566778899aabbccddeeff/0/1", Size: 40, Root: hexOf(2, 32), Witnessed: 43, Generation: 2},
		{Range: 3, Origin: "log.example/00112233445566778899aabbccddeeff/3/4", Size: 1, Root: hexOf(3, 32), Witnessed: 1, Generation: 5},
	}
	return m
}

func TestRecover(t *testing.T) {
	for name, change := range map[string]func(*attestation.Manifest){
		"two ranges":      func(*attestation.Manifest) {},
		"open":            func(m *attestation.Manifest) { m.SigningAfterRecovery = attestation.SigningOpen },
		"other witnesses": func(m *attestation.Manifest) { m.Log.Generation = 2 },
		"nobody approves": func(m *attestation.Manifest) { m.Operators, m.Predecessor = attestation.Operators{}, "" },
	} {
		m := recovering(t)
		change(m)
		raw, err := m.Encode()
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		back, err := attestation.ParseManifest(raw)
		if err != nil || len(back.Recover) != 2 || back.Recover[1] != m.Recover[1] {
			t.Errorf("%s: reads back as %+v, %v", name, back, err)
		}
	}
	r := &recovering(t).Recover[0]
	if root := r.Root256(); r.Lost() != 3 || root[0] != 2 || !strings.Contains(r.String(), "from 40 batches") || !strings.HasSuffix(r.String(), ": 3 that witnesses have seen are lost") {
		t.Errorf("%s, root %x", r, root)
	}
}

func TestRecoverRefused(t *testing.T) {
	first := func(change func(*attestation.RecoveredLog)) func(*attestation.Manifest) {
		return func(m *attestation.Manifest) { change(&m.Recover[0]) }
	}
	for why, change := range map[string]func(*attestation.Manifest){
		"no witnesses":             func(m *attestation.Manifest) { m.Log, m.Freshness.Mode = nil, attestation.FreshSinceBoot },
		"nobody to approve it":     func(m *attestation.Manifest) { m.Predecessor = "" },
		"another order":            func(m *attestation.Manifest) { m.Recover[0], m.Recover[1] = m.Recover[1], m.Recover[0] },
		"a range twice":            func(m *attestation.Manifest) { m.Recover[1] = m.Recover[0] },
		"for later witnesses":      func(m *attestation.Manifest) { m.Log.Generation = 3 },
		"signing as it pleases":    func(m *attestation.Manifest) { m.SigningAfterRecovery = "frozen" },
		"signing without recovery": func(m *attestation.Manifest) { m.Recover, m.SigningAfterRecovery = nil, attestation.SigningOpen },
		"no such range": first(func(r *attestation.RecoveredLog) {
			r.Range, r.Origin = 64, strings.Replace(r.Origin, "/0/1", "/64/1", 1)
		}),
		"the first generation": first(func(r *attestation.RecoveredLog) {
			r.Generation, r.Origin = 1, strings.Replace(r.Origin, "/0/1", "/0/0", 1)
		}),
		"a late generation":            first(func(r *attestation.RecoveredLog) { r.Generation = 1<<20 + 1 }),
		"a log of another range":       first(func(r *attestation.RecoveredLog) { r.Origin = strings.Replace(r.Origin, "/0/1", "/1/1", 1) }),
		"a log of another generation":  first(func(r *attestation.RecoveredLog) { r.Origin = strings.Replace(r.Origin, "/0/1", "/0/2", 1) }),
		"no origin":                    first(func(r *attestation.RecoveredLog) { r.Origin = "" }),
		"an origin with a blank":       first(func(r *attestation.RecoveredLog) { r.Origin = "log example/0/1" }),
		"an empty log":                 first(func(r *attestation.RecoveredLog) { r.Size = 0 }),
		"more than was witnessed":      first(func(r *attestation.RecoveredLog) { r.Witnessed = 39 }),
		"more than a reader can count": first(func(r *attestation.RecoveredLog) { r.Witnessed = 1 << 53 }),
		"a short root":                 first(func(r *attestation.RecoveredLog) { r.Root = r.Root[2:] }),
		"a root in capitals":           first(func(r *attestation.RecoveredLog) { r.Root = strings.Repeat("AB", 32) }),
	} {
		m := recovering(t)
		change(m)
		_, err := m.Encode()
		refused(t, err, why)
	}
	raw, err := witnessed(t).Encode()
	must(t, err)
	_, err = attestation.ParseManifest([]byte(strings.TrimSuffix(string(raw), "}") + `,"recover":[]}`))
	refused(t, err, "an empty list")
}

func TestDrill(t *testing.T) {
	drill := func(change func(*attestation.Manifest)) error {
		m := testManifest(t)
		m.Drill, m.Predecessor = true, hexOf(1, 32)
		change(m)
		_, err := m.Encode()
		return err
	}
	must(t, drill(func(*attestation.Manifest) {}))
	must(t, drill(func(m *attestation.Manifest) { m.Operators, m.Predecessor = attestation.Operators{}, "" }))
	for why, change := range map[string]func(*attestation.Manifest){
		"witnesses":            func(m *attestation.Manifest) { m.Log, m.Freshness.Mode = witnessed(t).Log, attestation.FreshWitnessed },
		"nobody to approve it": func(m *attestation.Manifest) { m.Predecessor = "" },
		"a log adopted":        func(m *attestation.Manifest) { m.AdoptLog = true },
		"a new root secret":    func(m *attestation.Manifest) { m.RotateRootSecret = true },
		"a new storage key":    func(m *attestation.Manifest) { m.RotateStorageKey, m.MinKeyringEpoch = true, 2 },
	} {
		refused(t, drill(change), why)
	}
}
