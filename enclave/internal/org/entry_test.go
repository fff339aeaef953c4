package org_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"cloister/enclave/internal/org"
)

func id(b byte) (id org.ID) {
	for i := range id {
		id[i] = b + byte(i)
	}
	return id
}

func sampleEntry() *org.Entry {
	return &org.Entry{
		Activity: id(1), Type: "ACTIVITY_TYPE_CREATE_WALLET", Status: org.StatusCompleted, Body: []byte(`{"type":"…"}`),
		Fingerprint: sha256.Sum256([]byte("body")), StampedMs: 1700000000001, CreatedMs: 1700000000002, TimeMs: 1700000000003,
		Votes:   []org.Vote{{ID: id(2), User: id(3), UserName: "Ann", Rejected: true, Message: []byte("m"), PublicKey: "02ab", Signature: "30", Scheme: "S", CreatedMs: 4}},
		Outcome: "OUTCOME_ALLOW", Result: []byte(`{"r":1}`), Proofs: []org.Proof{{Key: []byte{1}, Payload: []byte{2}, Signature: []byte{3}}},
		Failure: []byte("{}"), Refused: 403,
		Writes:         []org.Write{{Key: []byte("A"), Value: []byte{1}}, {Key: []byte("B")}, {Key: []byte("C"), Value: []byte{}}},
		Sends:          []org.Send{{Kind: 1, DueMs: 2, Content: []byte("c")}},
		LowWatermarkMs: 1699996379999, Other: id(9), OtherSeq: 7, Prior: 8, Boot: 5, Initiator: id(12),
		Evaluations: []org.Evaluation{{ID: id(10), Vote: id(4), TimeMs: 3, Outcome: "OUTCOME_DENY_IMPLICIT", Policies: []org.PolicyOutcome{{Policy: id(11),
			Outcome: "OUTCOME_DENY_IMPLICIT", Clause: "condition", Position: 4, Values: []string{"a", "1"}}}}},
	}
}

func sampleVerdicts() org.Evaluation {
	one, two := id(11), id(12)
	return org.Evaluation{ID: id(10), Vote: id(4), TimeMs: 3, Outcome: "OUTCOME_DENY_IMPLICIT", Asked: append(one[:], two[:]...), Verdicts: []byte{0x20, 0x25},
		Reasons: []org.Reason{{At: 1, Position: 4, Values: []string{"a", "1"}}}}
}

// encode writes an entry in the first format, as releases before the second did.
func encode(t testing.TB, e *org.Entry) []byte {
	mode, err := cbor.CoreDetEncOptions().EncMode()
	if err != nil {
		t.Fatal(err)
	}
	b, err := mode.Marshal(e)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// The first format is in ledgers, and nothing of it may change.
func TestEntryEncodingIsFixed(t *testing.T) {
	for name, c := range map[string]struct {
		e    *org.Entry
		want string
	}{
		"full":     {sampleEntry(), "aebd9068a6df67fd11f064bcac5ebf037f22e110ff9485ffa7bc8ae753761ca4"},
		"verdicts": {&org.Entry{Evaluations: []org.Evaluation{sampleVerdicts()}}, "eb1443392631c7b6f5e22a6364f8812c3411656df7056eb6c2bdfa83b01ebed8"},
		"empty":    {&org.Entry{}, "2791cab5b3e652881cfba9382b21e4b7e34e71fef7f4bda6ea9467db9dc184e2"},
	} {
		b := encode(t, c.e)
		if h := sha256.Sum256(b); hex.EncodeToString(h[:]) != c.want {
			t.Errorf("%s: hash %x of\n%x", name, h, b)
		}
	}
}

func TestEntryRoundTrip(t *testing.T) {
	e := sampleEntry()
	v := reflect.ValueOf(*e)
	for i := range v.NumField() {
		if v.Type().Field(i).Tag.Get("cbor") != "-" && v.Field(i).IsZero() {
			t.Fatalf("the sample leaves %s empty", v.Type().Field(i).Name)
		}
	}
	e.Evaluations = append(e.Evaluations, sampleVerdicts())
	got, err := org.DecodeEntry(encode(t, e))
	if err != nil || !reflect.DeepEqual(got, e) {
		t.Fatalf("got %+v, %v", got, err)
	}
	if got.Writes[1].Value != nil || got.Writes[2].Value == nil {
		t.Fatal("a deletion and an empty record are mixed up")
	}
}

func TestDecodeEntryRefuses(t *testing.T) {
	good := encode(t, &org.Entry{Status: org.StatusCompleted, Writes: []org.Write{{Key: []byte("k"), Value: []byte("v")}}})
	if _, err := org.DecodeEntry(good); err != nil {
		t.Fatal(err)
	}
	refuse := func(what string, b []byte) {
		t.Helper()
		if e, err := org.DecodeEntry(b); err == nil || e != nil {
			t.Errorf("%s: decodes", what)
		}
	}
	full := encode(t, sampleEntry())
	for n := range full {
		refuse(fmt.Sprint("cut to ", n), full[:n])
	}
	refuse("a byte behind", append(bytes.Clone(good), 0))
	replace := func(what, from, to string) {
		t.Helper()
		f, _ := hex.DecodeString(strings.ReplaceAll(from, " ", ""))
		g, err := hex.DecodeString(strings.ReplaceAll(to, " ", ""))
		if err != nil || bytes.Count(good, f) != 1 {
			t.Fatalf("%s: %d places, %v", what, bytes.Count(good, f), err)
		}
		refuse(what, bytes.Replace(good, f, g, 1))
	}
	activity := "01 50" + strings.Repeat("00", 16) + "03"
	replace("an id of 15 bytes", activity, "01 4f"+strings.Repeat("00", 15)+"03")
	replace("an id of 17 bytes", activity, "01 51"+strings.Repeat("00", 17)+"03")
	replace("no id", activity, "01 40 03")
	replace("an id that is nothing", activity, "01 f6 03")
	replace("an id that is text", activity, "01 70"+strings.Repeat("61", 16)+"03")
	replace("an id with a long length", activity, "01 58 10"+strings.Repeat("00", 16)+"03")
	print := "05 58 20" + strings.Repeat("00", 32) + "07"
	replace("a hash of 31 bytes", print, "05 58 1f"+strings.Repeat("00", 31)+"07")
	replace("a hash of 33 bytes", print, "05 58 21"+strings.Repeat("00", 33)+"07")
	replace("a status too large", "03 03 05 58", "03 19 0100 05 58")
	replace("a negative status", "03 03 05 58", "03 20 05 58")
	replace("a key twice", "03 03 05 58", "03 03 03 03 05 58")
	replace("an unknown key", "03 03 05 58", "18 63 03 05 58")
	replace("a key of text", "03 03 05 58", "61 33 03 05 58")
	replace("an unknown key in a write", "a2 01 41 6b 02 41 76", "a3 01 41 6b 02 41 76 03 00")
	replace("writes that are bytes", "81 a2 01 41 6b 02 41 76", "41 00")
	replace("a tag", "0f 81 a2", "0f c1 81 a2")
	replace("an array without an end", "0f 81 a2 01 41 6b 02 41 76", "0f 9f a2 01 41 6b 02 41 76 ff")
	replace("a huge array", "0f 81 a2", "0f 9a ffffffff a2")
	refuse("nothing", nil)
	refuse("an array", []byte{0x80})
	refuse("deep nesting", append(bytes.Repeat([]byte{0x81}, 1000), 0))
}

func FuzzDecodeEntry(f *testing.F) {
	f.Add(encode(f, sampleEntry()))
	f.Add(encode(f, &org.Entry{}))
	f.Add([]byte{0xa0})
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := org.DecodeEntry(b)
		if err != nil {
			return
		}
		again := encode(t, e)
		back, err := org.DecodeEntry(again)
		if err != nil || !bytes.Equal(encode(t, back), again) {
			t.Fatalf("not stable: %x, %v", again, err)
		}
	})
}

func TestStatus(t *testing.T) {
	texts := map[org.Status]string{1: "CREATED", 2: "PENDING", 3: "COMPLETED", 4: "FAILED", 5: "CONSENSUS_NEEDED", 6: "REJECTED", 7: "AUTHENTICATORS_NEEDED"}
	for i := range 256 {
		s, want := org.Status(i), ""
		if x, ok := texts[s]; ok {
			want = "ACTIVITY_STATUS_" + x
			if org.ParseStatus(want) != s {
				t.Errorf("%s is read as %d", want, org.ParseStatus(want))
			}
		}
		if s.String() != want {
			t.Errorf("status %d is %q", i, s)
		}
		if s.Terminal() != (s == 3 || s == 4 || s == 6) {
			t.Errorf("status %d: terminal %v", i, s.Terminal())
		}
	}
	for _, bad := range []string{"", "COMPLETED", "ACTIVITY_STATUS_", "ACTIVITY_STATUS_COMPLETE", "activity_status_completed", "ACTIVITY_STATUS_COMPLETED "} {
		if s := org.ParseStatus(bad); s != 0 {
			t.Errorf("%q is status %d", bad, s)
		}
	}
}

func TestParseID(t *testing.T) {
	const text = "0123abcd-4567-4abc-8def-00ff11ee22dd"
	x, err := org.ParseID(text)
	if err != nil || x.String() != text || hex.EncodeToString(x[:]) != strings.ReplaceAll(text, "-", "") {
		t.Fatalf("%s, %v", x, err)
	}
	if y, err := org.ParseID(strings.ToUpper(text)); err != nil || y != x {
		t.Fatalf("upper case: %v", err)
	}
	bad := []string{"", " ", text + " ", " " + text, text + "0", "{" + text + "}", "urn:uuid:" + text, strings.ReplaceAll(text, "-", ""),
		strings.ReplaceAll(text, "-", "_"), strings.Replace(text, "a", "g", 1), strings.Replace(text, "a", "é", 1), strings.Replace(text, "a", "\x00", 1),
		"0123abcd4-567-4abc-8def-00ff11ee22dd", "0123abc-d4567-4abc-8def-00ff11ee22dd", "--------------------" + text[20:], strings.Repeat("-", 36),
		"+123abcd-4567-4abc-8def-00ff11ee22dd", "0123abcd-4567-4abc-8def-00ff11ee22d\n"}
	for n := range text {
		bad = append(bad, text[:n], text[:n]+"-"+text[n+1:]+"-")
	}
	for _, s := range bad {
		if x, err := org.ParseID(s); err == nil || !x.Zero() {
			t.Errorf("%q is %s", s, x)
		} else if s != "" && strings.Contains(err.Error(), s) && len(s) > 3 {
			t.Errorf("the error repeats %q", s)
		}
	}
}

func FuzzParseID(f *testing.F) {
	f.Add("0123abcd-4567-4abc-8def-00ff11ee22dd")
	f.Add("")
	f.Fuzz(func(t *testing.T, s string) {
		x, err := org.ParseID(s)
		if (err == nil) != (err == nil && strings.EqualFold(x.String(), s)) {
			t.Fatalf("%q is %s", s, x)
		}
	})
}

func TestNewID(t *testing.T) {
	x, err := org.NewID(bytes.NewReader(bytes.Repeat([]byte{0xff}, 16)))
	if err != nil || x.String() != "ffffffff-ffff-4fff-bfff-ffffffffffff" {
		t.Fatalf("%s, %v", x, err)
	}
	x, err = org.NewID(bytes.NewReader(make([]byte, 16)))
	if err != nil || x.String() != "00000000-0000-4000-8000-000000000000" {
		t.Fatalf("%s, %v", x, err)
	}
	if _, err := org.NewID(bytes.NewReader(make([]byte, 15))); err == nil {
		t.Fatal("an id of 15 bytes of randomness")
	}
}
