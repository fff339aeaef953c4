package show_test

import (
	"bytes"
	"errors"
	"testing"

	"cloister/enclave/internal/chain/show"
)

// An address that an organization knows, one that looks like it, and one that looks like nothing.
const (
	payroll  = "0x1111aa0000000000000000000000000000002222"
	imitator = "0x1111bb0000000000000000000000000000002222"
	anybody  = "0x9999cc0000000000000000000000000000008888"
	permit2  = "0x000000000022D473030F116dDEE9F6B43aC78BA3"
)

// labelled is what an organization knows in which somebody has labelled a contract.
func labelled(address, label string) *show.Known {
	return &show.Known{
		Entries: []show.Entry{
			{Name: "Payroll", Address: payroll, From: show.FromOrganization, Source: &show.Source{From: show.FromOrganization, Record: "BOOK"}},
			{Name: label, Address: address, From: show.FromInterface, Source: &show.Source{From: show.FromInterface, Record: "7", MadeBy: "eve's id"}},
		},
		Tokens:   show.NewTokens([]show.Token{{Network: "eip155:1", Address: "0x00000000000000000000000000000000000000a3", Symbol: "USDC", Decimals: 6}}, []byte("[]")),
		BuiltIn:  show.NewNames([]show.Entry{{Name: "Permit2", Address: permit2}, {Name: "Seaport 1.6", Address: "0x0000000000000068F116a894984e2DB1123eB395"}}, []string{"USDT", "ETH"}),
		OwnNames: func() ([]string, error) { return []string{"Cold treasury"}, nil },
		UserName: func(id string) (string, error) { return map[string]string{"eve's id": "Eve"}[id], nil },
		Own:      func(string) (show.Ownership, error) { return show.NotOwn, nil },
	}
}

// Whoever may upload interfaces cannot make an address known, and cannot pass it off as something else.
func TestLabelsOfInterfaces(t *testing.T) {
	for _, c := range []struct{ address, label, want string }{
		// As a name that somebody would know, for an address that looks like one of the book.
		{imitator, "USDT", "LOOKALIKE LABEL_CLASH ADDRESS_NEW"},
		{imitator, "Permit2", "LOOKALIKE LABEL_CLASH ADDRESS_NEW"},
		{imitator, "PayroII", "LOOKALIKE LABEL_CLASH ADDRESS_NEW"},
		{imitator, "Payro11", "LOOKALIKE LABEL_CLASH ADDRESS_NEW"},
		{imitator, "Your own account: verified safe", "LOOKALIKE LABEL_CLAIM ADDRESS_NEW"},
		{imitator, payroll, "LOOKALIKE LABEL_CLAIM ADDRESS_NEW"},
		{imitator, "Router", "LOOKALIKE ADDRESS_NEW"},
		// For any address.
		{anybody, "payroll", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, " P4y-ro|l. ", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "Ｐａｙｒｏｌｌ", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "𝐏𝐚𝐲𝐫𝐨𝐥𝐥", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "Pàyrøll", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "Ρаyroll", "TEXT_SCRIPTS LABEL_CLASH ADDRESS_NEW"},
		{anybody, "Pay\u200broll", "TEXT_HIDDEN LABEL_CLASH ADDRESS_NEW"},
		{anybody, "U5DC", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "Seaport", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "SEAPORT 1.6", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "E T H", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "cold treasury", "LABEL_CLASH ADDRESS_NEW"},
		{anybody, "Verifled", "LABEL_CLAIM ADDRESS_NEW"},
		{anybody, "s4fe", "LABEL_CLAIM ADDRESS_NEW"},
		{anybody, "In the address book", "LABEL_CLAIM ADDRESS_NEW"},
		{anybody, "0x1111aa…2222", "LABEL_CLAIM ADDRESS_NEW"},
		{anybody, "1111aa...2222", "LABEL_CLAIM ADDRESS_NEW"},
		{anybody, "(OX1111AA)", "LABEL_CLAIM ADDRESS_NEW"},
		{anybody, "bc1qw508d6", "LABEL_CLAIM ADDRESS_NEW"},
		{anybody, "TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t", "LABEL_CLAIM ADDRESS_NEW"},
		// What is a name of its own is no more than new.
		{anybody, "Router", "ADDRESS_NEW"},
		{anybody, "Payroll router", "ADDRESS_NEW"},
		{anybody, "Groth16Verifier", "ADDRESS_NEW"},
		{anybody, "Safeguard vault 12", "ADDRESS_NEW"},
		{anybody, "0x Protocol", "ADDRESS_NEW"},
		{anybody, "Permit3", "ADDRESS_NEW"},
		{anybody, "支付", "ADDRESS_NEW"},
		{anybody, "…", "ADDRESS_NEW"},
		// The book and what is built in are known, whoever labels them.
		{payroll, "Anything", ""},
		{payroll, "Verified", ""},
	} {
		v := show.New(labelled(c.address, c.label))
		o := v.Part()
		o.Address("to", "eip155:1", c.address, "")
		o.Party("eip155:1", c.address, "to")
		d, m := document(t, v)
		if codes(m) != c.want {
			t.Errorf("%s, %q: %s, want %s", c.address, c.label, codes(m), c.want)
		}
		by := []byte(`"labelSource":"INTERFACE","labelBy":{"userId":"eve's id","name":"Eve","nameSource":"ORGANIZATION"}`)
		if is := bytes.Contains(d.Text(), by); is != (c.address != payroll) {
			t.Errorf("%q: %s", c.label, d.Text())
		}
		source := `"sources":[{"source":"INTERFACE","record":"7","by":"eve's id"}]`
		if c.address == payroll {
			source = `"sources":[{"source":"ORGANIZATION","record":"BOOK"}]`
		}
		if !bytes.Contains(d.Text(), []byte(source)) {
			t.Errorf("%q: no %s in %s", c.label, source, d.Text())
		}
	}
}

// A label does not have approvers warned of the names that it imitates, and a name of the book of its own wallet.
func TestBetterNamesAreCalm(t *testing.T) {
	known := labelled(anybody, "Payroll")
	known.Entries = append(known.Entries, show.Entry{Name: "USDC", Address: imitator, From: show.FromInterface}, show.Entry{Name: "permit2", Address: permit2, From: show.FromInterface},
		show.Entry{Name: "Cold treasury", Address: "0x00000000000000000000000000000000000000b7", From: show.FromOrganization})
	for address, want := range map[string]string{payroll: "", "0x00000000000000000000000000000000000000a3": "", "0x00000000000000000000000000000000000000b7": "", anybody: "LABEL_CLASH"} {
		v := show.New(known)
		v.Part().Address("to", "eip155:1", address, "")
		if _, m := document(t, v); codes(m) != want {
			t.Errorf("%s: %s, want %s", address, codes(m), want)
		}
	}
	v := show.New(known)
	v.Part().Address("to", "eip155:1", permit2, "Permit2")
	if _, m := document(t, v); codes(m) != "" {
		t.Errorf("what is built in: %s", codes(m))
	}
	// Names of the book are held against what is as good as they are.
	for name, want := range map[string]string{"PayroII": "LABEL_CLASH", "usdc": "LABEL_CLASH", "Permit2": "LABEL_CLASH", "Payroll 2": "", "USDT": "", "Verified": ""} {
		known := labelled(anybody, "Router")
		known.Entries = append(known.Entries, show.Entry{Name: name, Address: imitator, From: show.FromOrganization})
		v := show.New(known)
		v.Part().Address("to", "eip155:1", imitator, "")
		if _, m := document(t, v); codes(m) != want {
			t.Errorf("%s in the book: %s, want %s", name, codes(m), want)
		}
	}
}

// The same words in the other order of entries: a label does not take the place of a name of the book.
func TestTheBookGoesFirst(t *testing.T) {
	known := labelled(payroll, "Router")
	known.Entries[0], known.Entries[1] = known.Entries[1], known.Entries[0]
	v := show.New(known)
	if name := v.NameOf("eip155:1", payroll); name.Text != "Payroll" || name.From != show.FromOrganization {
		t.Errorf("%+v", name)
	}
}

// An own account whose key was outside is marked, wherever it stands.
func TestOwnKeysOutside(t *testing.T) {
	for _, c := range []struct {
		own  show.Ownership
		to   string
		want string
		has  string
	}{
		{show.Own, anybody, "", `"to":{"address":"` + anybody + `"}`},
		{show.OwnKeyOutside, anybody, "OWN_KEY_OUTSIDE", `"to":{"address":"` + anybody + `","own":true,"keyOutside":true}`},
		{show.OwnKeyOutside, imitator, "LOOKALIKE OWN_KEY_OUTSIDE", `"keyOutside":true`},
		{show.OwnKeyOutside, payroll, "OWN_KEY_OUTSIDE", `"keyOutside":true`},
		{show.NotOwn, anybody, "ADDRESS_NEW", `"to":{"address":"` + anybody + `"}`},
	} {
		known := labelled("0x00000000000000000000000000000000000000b7", "Router")
		known.Own = func(string) (show.Ownership, error) { return c.own, nil }
		v := show.New(known)
		o := v.Part()
		o.Address("to", "eip155:1", c.to, "")
		o.Party("eip155:1", c.to, "to")
		o.Party("eip155:1", c.to, "to") // once
		d, m := document(t, v)
		if codes(m) != c.want || !bytes.Contains(d.Text(), []byte(c.has)) {
			t.Errorf("%d, %s: %s, want %s and %s in %s", c.own, c.to, codes(m), c.want, c.has, d.Text())
		}
	}
	// Where the member is no object, the object itself is the place, or the warning alone.
	known := &show.Known{Own: func(string) (show.Ownership, error) { return show.OwnKeyOutside, nil }}
	v := show.New(known)
	list := v.Part().List("accounts")
	list.Object().Party("solana", anybody)
	text := list.Object()
	text.Plain("to", anybody)
	text.Party("solana", anybody, "to")
	if d, m := document(t, v); codes(m) != "OWN_KEY_OUTSIDE" || !bytes.Contains(d.Text(), []byte(`"accounts":[{"own":true,"keyOutside":true},{"to":"`+anybody+`"}]`)) {
		t.Errorf("%s", d.Text())
	}
}

// What cannot be found out fails the document.
func TestErrorsOfNames(t *testing.T) {
	broken := errors.New("not loaded")
	for name, change := range map[string]func(*show.Known){
		"own":   func(k *show.Known) { k.Own = func(string) (show.Ownership, error) { return show.Own, broken } },
		"names": func(k *show.Known) { k.OwnNames = func() ([]string, error) { return nil, broken } },
		"users": func(k *show.Known) { k.UserName = func(string) (string, error) { return "", broken } },
	} {
		known := labelled(anybody, "Router")
		change(known)
		v := show.New(known)
		o := v.Part()
		o.Address("to", "eip155:1", anybody, "")
		o.Party("eip155:1", anybody, "to")
		if v.Err() != broken {
			t.Errorf("%s: %v", name, v.Err())
		}
	}
}
