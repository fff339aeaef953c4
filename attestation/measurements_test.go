package attestation_test

import (
	"strings"
	"testing"

	"cloister/attestation"
)

func TestParseMeasurements(t *testing.T) {
	for text, want := range map[string]map[int]string{
		`{"0":"aa","8":"bb"}`: {0: "aa", 8: "bb"},
		`{"Measurements":{"HashAlgorithm":"Sha384 { ... }","PCR0":"aa","PCR31":"bb"}}`:       {0: "aa", 31: "bb"},
		`{"EifVersion":4,"Measurements":{"HashAlgorithm":"x","PCR0":"aa"},"IsSigned":false}`: {0: "aa"},
	} {
		got, err := attestation.ParseMeasurements([]byte(text))
		if err != nil || len(got) != len(want) {
			t.Errorf("%s: %v, %v", text, got, err)
		}
		for i, hex := range want {
			if got[i] != hex {
				t.Errorf("%s: PCR%d is %q", text, i, got[i])
			}
		}
	}
	// A register that is not read is one that is not compared.
	for text, says := range map[string]string{
		``: "0 bytes", `{}`: "there are none", `[]`: "not a JSON object", `null`: "there are none", `{"0":"aa"}x`: "follow",
		`{"0":"aa","PCR1":"bb"}`: `"PCR1"`, `{"0":"aa","01":"bb"}`: `"01"`, `{"0":"aa","32":"bb"}`: `"32"`, `{"0":"aa","-1":"bb"}`: `"-1"`,
		`{"0":"aa","pcrs":"bb"}`: `"pcrs"`, `{"0":"aa","0":"bb"}`: "twice", `{"0":"aa","1":null}`: "register 1", `{"0":1}`: "register 0",
		`{"Measurements":{}}`: "there are none", `{"Measurements":{"HashAlgorithm":"x"}}`: "there are none", `{"Measurements":[]}`: "nitro-cli",
		`{"Measurements":null}`: "there are none", `{"measurements":{"PCR0":"aa"}}`: `"measurements"`,
		`{"Measurements":{"PCR0":"aa","pcr1":"bb"}}`: `"pcr1"`, `{"Measurements":{"PCR0":"aa","1":"bb"}}`: `"1"`, `{"Measurements":{"PCR0":"aa","PCR 1":"bb"}}`: `"PCR 1"`,
		`{"Measurements":{"PCR0":"aa","PCR1":null}}`: "register 1",
	} {
		if got, err := attestation.ParseMeasurements([]byte(text)); err == nil || !strings.Contains(err.Error(), says) || got != nil {
			t.Errorf("%s: %v, %v, want %q", text, got, err, says)
		}
	}
}

func FuzzParseMeasurements(f *testing.F) {
	f.Add([]byte(`{"0":"aa"}`))
	f.Add([]byte(`{"Measurements":{"HashAlgorithm":"x","PCR0":"aa"}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		got, err := attestation.ParseMeasurements(raw)
		if (err == nil) == (len(got) == 0) {
			t.Fatalf("%v, %v", got, err)
		}
		for i := range got {
			if i < 0 || i > 31 {
				t.Fatalf("PCR %d", i)
			}
		}
	})
}

func TestCheckJSON(t *testing.T) {
	for text, ok := range map[string]bool{
		`{"a":[1,null,"x"],"A":{}}`: true, `"x"`: true, `{"a":1,"a":1}`: false, `{"b":{"a":1,"\u0061":2}}`: false, `{} {}`: false, `{}x`: false, ``: false, `{"a":"\ud800"}`: false,
		"{\"a\":\"\xff\"}": false, strings.Repeat("[", 17) + strings.Repeat("]", 17): false, `"` + strings.Repeat("x", 100) + `"`: false,
	} {
		if err := attestation.CheckJSON([]byte(text), 100); (err == nil) != ok {
			t.Errorf("%q: %v", text, err)
		}
	}
}
