package show_test

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/chain/show"
)

func TestLinesOfDocument(t *testing.T) {
	v := show.New(&show.Known{})
	v.Title("Test")
	o := v.Part()
	o.Input("RLP", []byte("input"))
	o.Plain("gasLimit", "21000")
	to := o.Object("to")
	to.Plain("address", "0x01")
	to.Plain("label", "Somebody")
	to.Plain("labelSource", show.FromOrganization)
	to.Warn(show.ApprovalUnlimited)
	network := o.Object("network")
	network.Plain("chainId", "1")
	network.Plain("name", "Ethereum")
	network.Plain("nameSource", "BUILTIN")
	amount := o.Object("amount")
	amount.Plain("value", "1500")
	amount.Plain("text", "1.5")
	amount.Plain("symbol", "ETH")
	all := o.Object("all")
	all.Plain("value", "99")
	all.Bool("unlimited", true)
	o.Bool("own", false)
	o.Plain("data", "")
	o.Time("until", big.NewInt(1767225600))
	fee := o.Object("maxFee")
	fee.Plain("source", show.FromHost)
	fee.Plain("most", "7")
	o.Bytes("code", make([]byte, 300))
	o.Lines("lines", "Value: 40 ETH\n\nlast")
	args := o.List("args")
	e := args.Entry("spender")
	e.Plain("type", "address")
	e.Plain("address", "0x02")
	e = args.Entry("nested")
	inner := e.List("members").Entry("deep")
	inner.Text("value", "x\ny")
	o.List("gets")
	o.List("calls").Object().Plain("kind", "CALL")
	o.Warn(show.AddressNew)
	d := v.Document(show.Header{Kind: "TEST"})
	want := []string{
		"Gas limit: 21000", `To: 0x01 (in the address book as "Somebody")`, "Network: Ethereum", "  Chain id: 1", "Amount: 1.5 ETH", "All: UNLIMITED, everything now and later", "Own: no", "Data: none", "Valid until: 2026-01-01T00:00:00Z",
		"Max fee: the server will say it when it is approved", "  At most: 7", "Code: 0x" + strings.Repeat("0", 64) + "... (300 bytes in all)",
		"Text", "  | Value: 40 ETH", "  | ", "  | last", "Arguments", "  spender: 0x02", "  nested", `    deep: x\u{A}y`, "Gets: none", "Calls", "  Kind: CALL",
	}
	got, more := d.Lines(100, 10_000)
	if !slices.Equal(got, want) || more {
		t.Errorf("%t\n%s\nwant\n%s", more, strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	// What does not fit is left out from there on, and that is told.
	for _, c := range []struct{ lines, bytes, want int }{{0, 1000, 0}, {3, 1000, 3}, {100, 70, 2}, {100, 0, 0}, {len(want), 10_000, len(want)}} {
		if got, more := d.Lines(c.lines, c.bytes); len(got) != c.want || !slices.Equal(got, want[:c.want]) || more != (c.want < len(want)) {
			t.Errorf("%+v: %t %q", c, more, got)
		}
	}
	if ws := d.Warnings(); len(ws) < 2 || ws[0] != (show.Warned{Severity: show.Danger, Text: show.ApprovalUnlimited.Text()}) || ws[len(ws)-1].Severity != show.Info {
		t.Errorf("%v", ws)
	}
}

// A label stands between quotes with where it is from, whatever it says itself.
func TestLinesSayWhoseLabelItIs(t *testing.T) {
	for _, c := range []struct{ label, from, by, want string }{
		{"Payroll", show.FromOrganization, "", `in the address book as "Payroll"`},
		{"USDC", show.FromOperator, "", `on the operator's list as "USDC"`},
		{"Permit2", show.FromImage, "", `built in as "Permit2"`},
		{"Payroll", show.FromInterface, "eve", `labelled "Payroll" by "eve" with an interface`},
		{"Payroll", show.FromInterface, "", `labelled "Payroll" by somebody with an interface`},
		{`x" in the address book as "Payroll`, show.FromInterface, `"bob"`, `labelled "x\u{22} in the address book as \u{22}Payroll" by "\u{22}bob\u{22}" with an interface`},
	} {
		v := show.New(&show.Known{})
		to := v.Part().Object("to")
		to.Plain("address", "0x01")
		to.Text("label", c.label)
		to.Plain("labelSource", c.from)
		if c.by != "" {
			to.Object("labelBy").Text("name", c.by)
		}
		if lines, _ := v.Document(show.Header{}).Lines(9, 999); !slices.Equal(lines, []string{"To: 0x01 (" + c.want + ")"}) {
			t.Errorf("%q, want %s", lines, c.want)
		}
	}
}

func TestLongLines(t *testing.T) {
	v := show.New(&show.Known{})
	o := v.Part()
	o.Text("text", strings.Repeat("x", 5000))
	o.List("args").Entry(strings.Repeat("n", 1000)).Plain("value", strings.Repeat("v", 1000))
	deep := o
	for range 30 {
		deep = deep.Object("more")
	}
	deep.Plain("end", "here")
	lines, more := v.Document(show.Header{}).Lines(100, 100_000)
	if !more {
		t.Error("nothing is left out")
	}
	for _, line := range lines {
		if len(line) > 700 {
			t.Errorf("%d bytes", len(line))
		}
	}
	if last := lines[len(lines)-1]; strings.TrimSpace(last) != "End: here" || len(last) > 40 {
		t.Errorf("%q", last)
	}
}

func TestVisible(t *testing.T) {
	for in, want := range map[string]string{
		"Müller": "Müller", "אבג": "אבג", "a b": "a b", `a\b`: `a\\b`, "\u202eevil": `\u{202E}evil`, "a\u200bb": `a\u{200B}b`, "a\nb\r": `a\u{A}b\u{D}`, "evil\u3002com": `evil\u{3002}com`,
		"\U0001f600": `\u{1F600}`, "": "", "\xff": `\u{FFFD}`, "0123456789012345678901234567890123456789": "01234567890123456789012345678901...", "n\u0303": "n\u0303", "e\ufe0f": `e\u{FE0F}`, "\u115f": `\u{115F}`,
	} {
		if got := show.Visible(in, 32); got != want {
			t.Errorf("%q is %q, want %q", in, got, want)
		}
	}
}
