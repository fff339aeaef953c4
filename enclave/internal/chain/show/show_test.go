package show_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/big"
	"strings"
	"testing"

	"cloister/enclave/internal/chain/show"
)

// document finishes a view and holds it to what every document keeps.
func document(t testing.TB, v *show.View) (show.Document, map[string]any) {
	t.Helper()
	d := v.Document(show.Header{Kind: "TEST"})
	text := d.Text()
	if len(text) > show.MaxBytes {
		t.Fatalf("%d bytes", len(text))
	}
	for i, c := range text {
		if c < 0x20 || c > 0x7e {
			t.Fatalf("byte %d is %02x", i, c)
		}
	}
	var m map[string]any
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return d, m
}

func codes(m map[string]any) string {
	var all []string
	for _, w := range m["warnings"].([]any) {
		all = append(all, w.(map[string]any)["code"].(string))
	}
	return strings.Join(all, " ")
}

func TestTexts(t *testing.T) {
	for _, c := range []struct{ in, want, warnings string }{
		{"plain", "plain", ""},
		{`back\slash and "quotes"`, `back\\slash and "quotes"`, ""},
		{"Pay \u202e0001", `Pay \u{202E}0001`, "TEXT_BIDI"},
		{"a\u200bb", `a\u{200B}b`, "TEXT_HIDDEN"},
		{"tag\U000e0041", `tag\u{E0041}`, "TEXT_HIDDEN"},
		{"variant\u180b", `variant\u{180B}`, "TEXT_HIDDEN"},
		{"joined\u034f", `joined\u{34F}`, "TEXT_HIDDEN"},
		{"kept for later\U000e0fff", `kept for later\u{E0FFF}`, "TEXT_HIDDEN"},
		{"coloured \u2764\ufe0f", `coloured \u{2764}\u{FE0F}`, ""},
		{"two\nlines", `two\u{A}lines`, "TEXT_HIDDEN"},
		{"p\u0430ypal", `p\u{430}ypal`, "TEXT_SCRIPTS"}, // a Cyrillic a
		{"\u043f\u0440\u0438\u0432\u0435\u0442 world", `\u{43F}\u{440}\u{438}\u{432}\u{435}\u{442} world`, ""},
		{"\u6771\u4eac\u30bf\u30ef\u30fc", `\u{6771}\u{4EAC}\u{30BF}\u{30EF}\u{30FC}`, ""}, // Han and Katakana go together
		{"caf\u00e9", `caf\u{E9}`, ""},
		{"\xff\xfe", "0xfffe", ""}, // no UTF-8: bytes
	} {
		v := show.New(&show.Known{})
		v.Part().Text("text", c.in)
		_, m := document(t, v)
		if got := m["parts"].([]any)[0].(map[string]any)["text"]; got != c.want {
			t.Errorf("%q is %q, want %q", c.in, got, c.want)
		}
		if got := codes(m); got != c.warnings {
			t.Errorf("%q: %q, want %q", c.in, got, c.warnings)
		}
	}
}

// A line break of a message makes a line, and no field of a viewer's.
func TestLines(t *testing.T) {
	v := show.New(&show.Known{})
	v.Part().Lines("lines", "first\r\nsecond\n\u202ethird")
	_, m := document(t, v)
	got := fmt.Sprint(m["parts"].([]any)[0].(map[string]any)["lines"])
	if want := `[first second \u{202E}third]`; got != want || codes(m) != "TEXT_BIDI" {
		t.Errorf("%s, %s", got, codes(m))
	}
}

// Whatever is put in, the document stays within its bounds and says that something was left out.
func TestBounds(t *testing.T) {
	nasty := strings.Repeat(`"\`, 400)
	for name, fill := range map[string]func(*show.View, *show.Object){
		"long texts": func(_ *show.View, o *show.Object) {
			for i := range 2000 {
				o.Text(fmt.Sprint(i), nasty)
			}
		},
		"many entries": func(_ *show.View, o *show.Object) {
			l := o.List("list")
			for range 5000 {
				l.Object().Plain("x", "y")
			}
		},
		"deep objects": func(_ *show.View, o *show.Object) {
			for range 5000 {
				o = o.Object("deeper")
			}
			o.Warn(show.Upgrade)
		},
		"long names": func(_ *show.View, o *show.Object) {
			for range 600 {
				o = o.List("list").Entry(strings.Repeat(`"`, 255))
				o.Warn(show.AddressNew)
			}
		},
		"many places": func(_ *show.View, o *show.Object) {
			for i := range 3000 {
				child := o.Object(fmt.Sprint(i) + strings.Repeat("x", 300))
				child.Warn(show.AddressNew)
				child.Warn(show.ApprovalUnlimited)
			}
		},
		"many sources": func(v *show.View, _ *show.Object) {
			for i := range 3000 {
				v.Use(show.Source{From: show.FromOrganization, Record: fmt.Sprint(i), MadeBy: nasty})
			}
			v.Part().List("x").TooMany()
		},
	} {
		t.Run(name, func(t *testing.T) {
			v := show.New(&show.Known{})
			fill(v, v.Part())
			d, m := document(t, v)
			if !strings.Contains(codes(m), "LIMIT") || m["readable"] != "PARTIAL" || d.Severity() != show.Danger {
				t.Errorf("%s, readable %s: nothing tells that something was left out", codes(m), m["readable"])
			}
		})
	}
}

// What is left out is still read for warnings.
func TestWarningsOfWhatIsLeftOut(t *testing.T) {
	v := show.New(&show.Known{})
	l := v.Part().List("outputs")
	for i := range show.MaxEntries + 10 {
		if o := l.Object(); i == show.MaxEntries+5 {
			o.Warn(show.ChangeFalse)
		}
	}
	_, m := document(t, v)
	if got := codes(m); got != "LIMIT CHANGE_FALSE" {
		t.Errorf("%s", got)
	}
	for _, w := range m["warnings"].([]any) {
		if at := fmt.Sprint(w.(map[string]any)["at"]); at != "[parts.0.outputs]" {
			t.Errorf("at %s", at)
		}
	}
}

func TestPlacesAreCounted(t *testing.T) {
	v := show.New(&show.Known{})
	l := v.Part().List("outputs")
	for range 20 {
		l.Object().Warn(show.AddressNew)
	}
	_, m := document(t, v)
	w := m["warnings"].([]any)[0].(map[string]any)
	if len(w["at"].([]any)) != 8 || w["more"] != "12" {
		t.Errorf("%v", w)
	}
}

func TestScale(t *testing.T) {
	for _, c := range []struct {
		n        string
		decimals int
		want     string
	}{
		{"0", 18, "0"}, {"1", 18, "0.000000000000000001"}, {"1500000000000000000", 18, "1.5"}, {"1000000", 6, "1"}, {"7", 0, "7"}, {"-1500", 3, "-1.5"},
	} {
		n, _ := new(big.Int).SetString(c.n, 10)
		if got := show.Scale(n, c.decimals); got != c.want {
			t.Errorf("%s at %d: %s, want %s", c.n, c.decimals, got, c.want)
		}
	}
}

// Addresses of which people compare the ends.
func TestLookalike(t *testing.T) {
	known := show.Known{Entries: []show.Entry{{Name: "Exchange", Address: "0xd1671C723014D3C03E3694A88Ce3F03750248FB5", From: show.FromOrganization}}}
	for address, want := range map[string]string{
		"0xd1671C723014D3C03E3694A88Ce3F03750248FB5": "",
		"0xd167000000000000000000000000000000008fb5": "LOOKALIKE ADDRESS_NEW",
		"0xd1670000000000000000000000000000000000b5": "ADDRESS_NEW",
	} {
		v := show.New(&known)
		v.Part().Party("eip155:1", address, "to")
		if _, m := document(t, v); codes(m) != want {
			t.Errorf("%s: %s, want %s", address, codes(m), want)
		}
	}
	for name, want := range map[string]bool{"Permit2": false, "Perm\u0456t2": true, "P\u0435rmit2": true, "permit2": true, "Permit3": false, "Permit\u200b2": true} {
		if got := show.LooksLikeName(name, "Permit2"); got != want {
			t.Errorf("%q: %v", name, got)
		}
	}
}

// One name for two addresses is told.
func TestNames(t *testing.T) {
	known := show.Known{Entries: []show.Entry{
		{Name: "Payroll", Address: "0x00000000000000000000000000000000000000a1", From: show.FromOrganization},
		{Name: "payroll", Address: "0x00000000000000000000000000000000000000a2", From: show.FromOrganization},
	}, Tokens: show.NewTokens([]show.Token{{Network: "eip155:1", Address: "0x00000000000000000000000000000000000000a3", Symbol: "USDC", Decimals: 6}}, []byte("[]"))}
	v := show.New(&known)
	o := v.Part()
	o.Address("a", "eip155:1", "0x00000000000000000000000000000000000000A1", "")
	o.Address("b", "eip155:1", "0x00000000000000000000000000000000000000A3", "")
	o.Address("c", "eip155:10", "0x00000000000000000000000000000000000000A3", "") // another chain, another token
	o.Address("d", "eip155:1", "0x00000000000000000000000000000000000000A3", "Built in")
	d, m := document(t, v)
	if codes(m) != "LABEL_CLASH" {
		t.Error(codes(m))
	}
	for _, want := range []string{
		`"a":{"address":"0x00000000000000000000000000000000000000A1","label":"Payroll","labelSource":"ORGANIZATION"}`,
		`"b":{"address":"0x00000000000000000000000000000000000000A3","label":"USDC","labelSource":"OPERATOR_LIST"}`,
		`"c":{"address":"0x00000000000000000000000000000000000000A3"}`,
		`"label":"Built in","labelSource":"BUILTIN"`, `"sources":[{"source":"OPERATOR_LIST","sha256":"4f53cda18c2baa0c0354bb5f9a3ecbe5ed12ab4d8e11ba873c2f11161202b945"}]`,
	} {
		if !bytes.Contains(d.Text(), []byte(want)) {
			t.Errorf("%s lacks %s", d.Text(), want)
		}
	}
}

// Every warning has a name, a weight and a text.
func TestCatalogue(t *testing.T) {
	seen := map[string]bool{}
	for c := show.Warning(1); !strings.HasPrefix(c.String(), "warning-"); c++ {
		if c.Text() == "" || c.Severity() == show.Calm || seen[c.String()+c.Severity().String()] {
			t.Errorf("%v: %v, %q", c, c.Severity(), c.Text())
		}
		seen[c.String()+c.Severity().String()] = true
	}
	if len(seen) != 54 {
		t.Errorf("%d warnings", len(seen))
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{"plain", "\u202e", "\\u{202E}", "\xff", "a\nb", strings.Repeat("\"", 3000)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		v := show.New(&show.Known{})
		o := v.Part()
		o.Text("text", s)
		o.Lines("lines", s)
		o.List("list").Entry(s)
		o.Bytes("bytes", []byte(s))
		document(t, v)
	})
}
