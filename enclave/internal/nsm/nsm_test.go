package nsm_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"cloister/enclave/internal/nsm"
	simulated "cloister/sim/nsm"
)

var start = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

// module is a simulated module behind the protocol of the device, whose clock is
// set by hand and whose answers can be replaced.
type module struct {
	*simulated.Device
	tell   func() time.Time
	answer func(request, response []byte) (int, error) // nil: the module's own
}

func (m *module) exchange(request, response []byte) (int, error) {
	if m.answer != nil {
		return m.answer(request, response)
	}
	return m.Exchange(request, response)
}

func newModule(t testing.TB) *module {
	root, err := simulated.NewRoot(rand.Reader, start)
	if err != nil {
		t.Fatal(err)
	}
	m := &module{tell: func() time.Time { return start }}
	m.Device, err = simulated.New(simulated.Config{Root: root, Now: func() time.Time { return m.tell() }, Rand: rand.Reader})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func open(t testing.TB, m *module, mono func() time.Time) *nsm.Device {
	t.Helper()
	d, err := nsm.New(m.exchange, mono)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestTheProtocol(t *testing.T) {
	m := newModule(t)
	d := open(t, m, func() time.Time { return start })
	doc, err := d.Attest([]byte("key"), []byte("user"), []byte("nonce"))
	if err != nil || !bytes.HasPrefix(doc, []byte{0x84, 0x44, 0xa1, 0x01, 0x38, 0x22}) {
		t.Fatalf("document %.8x: %v", doc, err)
	}
	for _, field := range []string{"key", "user", "nonce"} {
		if !bytes.Contains(doc, []byte(field)) {
			t.Errorf("the document does not hold %q", field)
		}
	}
	want := sha512.Sum384(append(make([]byte, 48), "extension"...))
	if got, err := d.ExtendPCR(16, []byte("extension")); err != nil || !bytes.Equal(got, want[:]) {
		t.Errorf("extended to %x: %v", got, err)
	}
	if got, locked, err := d.DescribePCR(16); err != nil || locked || !bytes.Equal(got, want[:]) {
		t.Errorf("register %x, locked %t: %v", got, locked, err)
	}
	if err := d.LockPCRs(32); err != nil {
		t.Error(err)
	}
	if _, locked, err := d.DescribePCR(31); err != nil || !locked {
		t.Errorf("locked %t: %v", locked, err)
	}
	if _, err := d.ExtendPCR(16, []byte("again")); !errors.Is(err, nsm.ReadOnlyIndex) {
		t.Errorf("a locked register: %v", err)
	}
	if _, _, err := d.DescribePCR(32); !errors.Is(err, nsm.InvalidIndex) {
		t.Errorf("register 32: %v", err)
	}
	if _, err := d.Attest(nil, make([]byte, 513), nil); !errors.Is(err, nsm.InputTooLarge) {
		t.Errorf("user data of 513 bytes: %v", err)
	}
	if _, err := d.Attest(nil, make([]byte, 5000), nil); err == nil {
		t.Error("a request of more than 4 KiB was sent")
	}
	b := make([]byte, 600)
	if err := d.Random(b); err != nil || bytes.Equal(b[:256], b[256:512]) || bytes.Equal(b[512:], make([]byte, 88)) {
		t.Errorf("randomness %x: %v", b, err)
	}
}

func unhex(t testing.TB, s string) []byte {
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func marshal(t testing.TB, v any) []byte {
	b, err := cbor.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

type m = map[string]any

// ask runs the question whose answer a case is about.
func ask(d *nsm.Device, name string) (err error) {
	switch name {
	case "Attestation":
		_, err = d.Attest(nil, nil, nil)
	case "ExtendPCR":
		_, err = d.ExtendPCR(16, []byte{1})
	case "DescribePCR":
		_, _, err = d.DescribePCR(0)
	case "LockPCRs":
		err = d.LockPCRs(32)
	case "GetRandom":
		err = d.Random(make([]byte, 1))
	}
	return err
}

func TestMalformedAnswers(t *testing.T) {
	value := make([]byte, 48)
	for _, c := range []struct {
		ask, name string
		answer    []byte
		ok        bool
	}{
		{"GetRandom", "as it should be", marshal(t, m{"GetRandom": m{"random": []byte{1}}}), true},
		{"GetRandom", "256 bytes", marshal(t, m{"GetRandom": m{"random": make([]byte, 256)}}), true},
		{"GetRandom", "maps of open length", unhex(t, "bf 69 47657452616e646f6d bf 66 72616e646f6d 41 07 ff ff"), true},
		{"GetRandom", "257 bytes", marshal(t, m{"GetRandom": m{"random": make([]byte, 257)}}), false},
		{"GetRandom", "none", marshal(t, m{"GetRandom": m{"random": []byte{}}}), false},
		{"GetRandom", "null", marshal(t, m{"GetRandom": m{"random": nil}}), false},
		{"GetRandom", "no field", marshal(t, m{"GetRandom": m{}}), false},
		{"GetRandom", "fields are null", marshal(t, m{"GetRandom": nil}), false},
		{"GetRandom", "an array of numbers", marshal(t, m{"GetRandom": m{"random": []int{1, 2, 3}}}), false},
		{"GetRandom", "a text", marshal(t, m{"GetRandom": m{"random": "randomness"}}), false},
		{"GetRandom", "a number", marshal(t, m{"GetRandom": m{"random": 7}}), false},
		{"GetRandom", "another field besides", marshal(t, m{"GetRandom": m{"random": []byte{1}, "more": 1}}), false},
		{"GetRandom", "the field in capitals", marshal(t, m{"GetRandom": m{"RANDOM": []byte{1}}}), false},
		{"GetRandom", "the field twice", unhex(t, "a1 69 47657452616e646f6d a2 66 72616e646f6d 41 07 66 72616e646f6d 41 08"), false},
		{"GetRandom", "the answer twice", unhex(t, "a2 69 47657452616e646f6d a1 66 72616e646f6d 41 07 69 47657452616e646f6d a1 66 72616e646f6d 41 08"), false},
		{"GetRandom", "two answers", marshal(t, m{"GetRandom": m{"random": []byte{1}}, "LockPCR": m{}}), false},
		{"GetRandom", "bytes behind it", append(marshal(t, m{"GetRandom": m{"random": []byte{1}}}), 0), false},
		{"GetRandom", "a tag around it", append([]byte{0xc1}, marshal(t, m{"GetRandom": m{"random": []byte{1}}})...), false},
		{"GetRandom", "a tag inside", unhex(t, "a1 69 47657452616e646f6d a1 66 72616e646f6d c2 41 07"), false},
		{"GetRandom", "cut", marshal(t, m{"GetRandom": m{"random": make([]byte, 32)}})[:30], false},
		{"GetRandom", "another name", marshal(t, m{"Attestation": m{"random": []byte{1}}}), false},
		{"GetRandom", "the name alone", marshal(t, "GetRandom"), false},
		{"GetRandom", "nothing", nil, false},
		{"GetRandom", "an array", marshal(t, []any{"GetRandom"}), false},
		{"GetRandom", "an empty map", marshal(t, m{}), false},
		{"GetRandom", "a length beyond the answer", unhex(t, "a1 69 47657452616e646f6d a1 66 72616e646f6d 5b 7fffffffffffffff"), false},
		{"GetRandom", "deep nesting", append(bytes.Repeat([]byte{0x81}, 1000), 0), false},
		{"GetRandom", "a refusal", marshal(t, m{"Error": "InternalError"}), false},
		{"DescribePCR", "as it should be", marshal(t, m{"DescribePCR": m{"lock": true, "data": value}}), true},
		{"DescribePCR", "32 bytes", marshal(t, m{"DescribePCR": m{"lock": true, "data": value[:32]}}), false},
		{"DescribePCR", "64 bytes", marshal(t, m{"DescribePCR": m{"lock": true, "data": make([]byte, 64)}}), false},
		{"DescribePCR", "no lock", marshal(t, m{"DescribePCR": m{"data": value}}), false},
		{"DescribePCR", "lock is null", marshal(t, m{"DescribePCR": m{"lock": nil, "data": value}}), false},
		{"DescribePCR", "lock is a number", marshal(t, m{"DescribePCR": m{"lock": 1, "data": value}}), false},
		{"DescribePCR", "no value", marshal(t, m{"DescribePCR": m{"lock": true}}), false},
		{"ExtendPCR", "as it should be", marshal(t, m{"ExtendPCR": m{"data": value}}), true},
		{"ExtendPCR", "47 bytes", marshal(t, m{"ExtendPCR": m{"data": value[:47]}}), false},
		{"ExtendPCR", "no value", marshal(t, m{"ExtendPCR": m{}}), false},
		{"LockPCRs", "as it should be", marshal(t, "LockPCRs"), true},
		{"LockPCRs", "another name", marshal(t, "LockPCR"), false},
		{"LockPCRs", "fields", marshal(t, m{"LockPCRs": m{}}), false},
		{"LockPCRs", "bytes behind it", append(marshal(t, "LockPCRs"), 0), false},
		{"Attestation", "as it should be", marshal(t, m{"Attestation": m{"document": []byte{1}}}), true},
		{"Attestation", "empty", marshal(t, m{"Attestation": m{"document": []byte{}}}), false},
		{"Attestation", "a text", marshal(t, m{"Attestation": m{"document": "document"}}), false},
		{"Attestation", "no fields", marshal(t, "Attestation"), false},
	} {
		t.Run(c.ask+" "+c.name, func(t *testing.T) {
			m := newModule(t)
			d := open(t, m, func() time.Time { return start })
			m.answer = func(_, response []byte) (int, error) { return copy(response, c.answer), nil }
			if err := ask(d, c.ask); (err == nil) != c.ok {
				t.Errorf("answered %v", err)
			}
		})
	}
}

func TestRefusalsHaveNames(t *testing.T) {
	m := newModule(t)
	d := open(t, m, func() time.Time { return start })
	for _, c := range []struct {
		said any
		want error
	}{
		{"InvalidArgument", nsm.InvalidArgument}, {"InvalidIndex", nsm.InvalidIndex}, {"InvalidResponse", nsm.InvalidResponse},
		{"ReadOnlyIndex", nsm.ReadOnlyIndex}, {"InvalidOperation", nsm.InvalidOperation}, {"BufferTooSmall", nsm.BufferTooSmall},
		{"InputTooLarge", nsm.InputTooLarge}, {"InternalError", nsm.InternalError},
		{"a text of the module's own choice", nil}, {7, nil}, {nil, nil}, {[]byte("InternalError"), nil},
	} {
		said := marshal(t, map[string]any{"Error": c.said})
		m.answer = func(_, response []byte) (int, error) { return copy(response, said), nil }
		_, _, err := d.DescribePCR(0)
		var refused nsm.Error
		switch {
		case err == nil || strings.Contains(err.Error(), "choice"):
			t.Errorf("%v: %v", c.said, err)
		case c.want == nil && errors.As(err, &refused):
			t.Errorf("%v was taken for %q", c.said, refused)
		case c.want != nil && !errors.Is(err, c.want):
			t.Errorf("%v: %v", c.said, err)
		}
	}
}

func TestLengthsThatCannotBe(t *testing.T) {
	m := newModule(t)
	d := open(t, m, func() time.Time { return start })
	for _, n := range []int{-1, 0, 0x3001, 1 << 40} {
		m.answer = func([]byte, []byte) (int, error) { return n, nil }
		if _, _, err := d.DescribePCR(0); err == nil {
			t.Errorf("an answer of %d bytes was taken", n)
		}
	}
	m.answer = func([]byte, []byte) (int, error) { return 0, io.ErrUnexpectedEOF }
	if err := d.Random(make([]byte, 8)); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a device that fails: %v", err)
	}
}

// signed is a document with a payload, as far as the clock looks.
func signed(t testing.TB, payload []byte) []byte {
	return marshal(t, []any{[]byte{0xa1, 0x01, 0x38, 0x22}, m{}, payload, make([]byte, 96)})
}

func TestTimestamps(t *testing.T) {
	at := uint64(start.UnixMilli())
	for _, c := range []struct {
		name string
		doc  []byte
		ok   bool
	}{
		{"as it should be", signed(t, marshal(t, m{"timestamp": at})), true},
		{"a map of open length", signed(t, unhex(t, "bf 69 74696d657374616d70 1b 0000019de3b0a000 ff")), true},
		{"none", signed(t, marshal(t, m{"module_id": "i-1"})), false},
		{"zero", signed(t, marshal(t, m{"timestamp": 0})), false},
		{"seconds", signed(t, marshal(t, m{"timestamp": at / 1000})), false},
		{"microseconds", signed(t, marshal(t, m{"timestamp": at * 1000})), false},
		{"beyond a signed number", signed(t, marshal(t, m{"timestamp": uint64(1<<63 + 5)})), false},
		{"negative", signed(t, marshal(t, m{"timestamp": -5})), false},
		{"a float", signed(t, marshal(t, m{"timestamp": float64(at)})), false},
		{"a text", signed(t, marshal(t, m{"timestamp": "2026-05-01"})), false},
		{"null", signed(t, marshal(t, m{"timestamp": nil})), false},
		{"twice", signed(t, unhex(t, "a2 69 74696d657374616d70 1b 0000019de3b0a000 69 74696d657374616d70 1b 0000019de3b0a001")), false},
		{"bytes behind the payload", signed(t, append(marshal(t, m{"timestamp": at}), 0)), false},
		{"bytes behind the document", append(signed(t, marshal(t, m{"timestamp": at})), 0), false},
		{"a payload that is a map", marshal(t, []any{[]byte{}, m{}, m{"timestamp": at}, []byte{}}), false},
		{"a payload of numbers", marshal(t, []any{[]byte{}, m{}, []int{0xa0}, []byte{}}), false},
		{"three elements", marshal(t, []any{[]byte{}, m{}, marshal(t, m{"timestamp": at})}), false},
		{"a tag", append([]byte{0xd2}, signed(t, marshal(t, m{"timestamp": at}))...), false},
		{"nothing", nil, false},
		{"12 KiB and one", signed(t, marshal(t, m{"timestamp": at, "user_data": make([]byte, 0x3000)})), false},
	} {
		got, err := nsm.Timestamp(c.doc)
		if (err == nil) != c.ok || c.ok && got.Year() != 2026 {
			t.Errorf("%s: %v, %v", c.name, got, err)
		}
	}
	m := newModule(t)
	m.answer = func(_, response []byte) (int, error) {
		doc := signed(t, marshal(t, map[string]any{"timestamp": 0}))
		return copy(response, marshal(t, map[string]any{"Attestation": map[string]any{"document": doc}})), nil
	}
	if _, err := nsm.New(m.exchange, func() time.Time { return start }); err == nil {
		t.Error("a device was opened whose clock stands at 1970")
	}
}

// The clock is followed within its bounds: never back, slower while it is ahead,
// and the enclave ends when it cannot be.
func TestFollowing(t *testing.T) {
	for _, c := range []struct {
		name   string
		drift  time.Duration // of the module against the monotonic clock, in the first hour
		broken bool          // the module does not answer any more
		ends   bool
		at     func(now, module time.Duration) bool // behind the first reading, both from the start
	}{
		{"the same", 0, false, false, func(now, module time.Duration) bool { return now == module }},
		{"a module that is ahead is followed", 90 * time.Second, false, false, func(now, module time.Duration) bool { return now == module }},
		{"a module that is a day ahead too", 24 * time.Hour, false, false, func(now, module time.Duration) bool { return now == module }},
		{"one a second behind is made up for", -time.Second, false, false, func(now, module time.Duration) bool { return now == module }},
		{"one ten seconds behind takes its time", -10 * time.Second, false, false, func(now, module time.Duration) bool {
			return now-module > 2*time.Second && now-module < 4*time.Second // four hours make up for 7.2 s
		}},
		{"one a minute and more behind ends the enclave", -61 * time.Second, false, true, nil},
		{"one that is silent is waited for three hours", 0, true, true, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newModule(t)
				from := time.Now()
				told := func() time.Time {
					past := time.Since(from)
					if past >= 59*time.Minute {
						past += c.drift
					}
					return start.Add(past)
				}
				m.tell = told
				m.answer = func(request, response []byte) (int, error) {
					if c.broken && time.Since(from) > 0 {
						return 0, io.ErrClosedPipe
					}
					return m.Exchange(request, response)
				}
				d := open(t, m, time.Now)
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				ended := make(chan error, 1)
				go func() { ended <- d.KeepTime(ctx, time.After) }()
				last := d.Now()
				for range 5 * 60 { // minutes
					time.Sleep(time.Minute)
					if now := d.Now(); now.Before(last) {
						t.Fatalf("went back from %v to %v", last, now)
					} else {
						last = now
					}
				}
				select {
				case err := <-ended:
					if !c.ends {
						t.Fatalf("ended: %v", err)
					}
					return
				default:
				}
				if c.ends {
					t.Fatal("went on")
				}
				if now, module := last.Sub(start), told().Sub(start); !c.at(now, module) {
					t.Errorf("tells %v where the module tells %v", now, module)
				}
			})
		})
	}
}

// What a module answers is refused or within its bounds.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte{0xa1, 0x69, 'G', 'e', 't', 'R', 'a', 'n', 'd', 'o', 'm', 0xa1, 0x66, 'r', 'a', 'n', 'd', 'o', 'm', 0x41, 7})
	f.Add(marshal(f, m{"DescribePCR": m{"lock": true, "data": make([]byte, 48)}}))
	f.Add(marshal(f, m{"ExtendPCR": m{"data": make([]byte, 48)}}))
	f.Add(marshal(f, m{"Attestation": m{"document": []byte("document")}}))
	f.Add(marshal(f, m{"Error": "InvalidIndex"}))
	f.Add(marshal(f, "LockPCRs"))
	mod := newModule(f)
	d := open(f, mod, func() time.Time { return start })
	f.Fuzz(func(t *testing.T, said []byte) {
		mod.answer = func(_, response []byte) (int, error) { return copy(response, said), nil }
		if doc, err := d.Attest(nil, nil, nil); err == nil && (len(doc) == 0 || len(doc) > 0x3000) {
			t.Errorf("a document of %d bytes", len(doc))
		}
		if v, err := d.ExtendPCR(16, []byte{1}); err == nil && len(v) != 48 {
			t.Errorf("a register of %d bytes", len(v))
		}
		if v, _, err := d.DescribePCR(16); err == nil && len(v) != 48 {
			t.Errorf("a register of %d bytes", len(v))
		}
		_ = d.LockPCRs(32)
		_ = d.Random(make([]byte, 1))
	})
}

// Every document tells a time within bounds or none.
func FuzzTimestamp(f *testing.F) {
	mod := newModule(f)
	doc, err := mod.Attest([]byte("key"), nil, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(doc)
	f.Add(signed(f, marshal(f, m{"timestamp": start.UnixMilli()})))
	f.Fuzz(func(t *testing.T, doc []byte) {
		if at, err := nsm.Timestamp(doc); err == nil && (at.Year() < 2020 || at.Year() > 2200) {
			t.Errorf("told %v", at)
		}
	})
}
