package sol_test

import (
	"bytes"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
)

// sponsorKey is the account that pays.
const sponsorKey = number(200)

// programs at the places of accounts that are numbers else.
var programAt = map[number]string{
	101: "ComputeBudget111111111111111111111111111111",
	102: "ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL",
	103: "TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb",
	104: "Ed25519SigVerify111111111111111111111111111",
	105: "TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA",
}

// withPrograms puts the programs into a transaction.
func withPrograms(raw []byte) []byte {
	for n, text := range programAt {
		id, _ := base58.Decode(text)
		raw = bytes.ReplaceAll(raw, n.key(), id)
	}
	return raw
}

func budget(which byte, n uint64) []byte {
	if which == 2 {
		return binary.LittleEndian.AppendUint32([]byte{2}, uint32(n))
	}
	return append([]byte{which}, le64(n)...)
}

func sponsorable(t testing.TB, raw []byte) *sol.Sponsorable {
	t.Helper()
	s, err := sol.ReadSponsorable(raw)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// priced names a price and units, token makes an account for tokens, both of them paid for by account 1.
var (
	priced = payment.with(func(d *draft) {
		d.header, d.keys = [3]byte{1, 0, 2}, []number{1, 2, 0, 101}
		d.calls = append(d.calls, call{3, nil, budget(2, 300_000)}, call{3, nil, budget(3, 2_000_000)})
	})
	token = draft{header: [3]byte{1, 0, 5}, keys: []number{1, 2, 3, 4, 0, 105, 102},
		calls: []call{{6, []byte{0, 1, 2, 3, 4, 5}, []byte{1}}, {6, []byte{0, 1, 2, 3, 4, 5}, nil}}}
)

func TestSponsor(t *testing.T) {
	var payer [32]byte
	copy(payer[:], sponsorKey.key())
	for what, c := range map[string]struct {
		of        draft
		price     uint64
		prefund   bool
		existing  uint64
		want      draft
		fee, rent uint64
	}{
		"a payment": {of: payment, want: draft{header: [3]byte{2, 0, 1}, keys: []number{sponsorKey, 1, 2, 0}, calls: []call{{3, []byte{1, 2}, system(2, le64(5))}}}, fee: 10_000},
		"with a price": {of: payment, price: 1_000_000, want: draft{header: [3]byte{2, 0, 2}, keys: []number{sponsorKey, 1, 2, 0, 101},
			calls: []call{{3, []byte{1, 2}, system(2, le64(5))}, {4, nil, budget(3, 1_000_000)}}}, fee: 10_000 + 400_000},
		"its own price stays": {of: priced, price: 7, want: draft{header: [3]byte{2, 0, 2}, keys: []number{sponsorKey, 1, 2, 0, 101},
			calls: []call{{3, []byte{1, 2}, system(2, le64(5))}, {4, nil, budget(2, 300_000)}, {4, nil, budget(3, 2_000_000)}}}, fee: 10_000 + 600_000},
		"accounts from tables move": {of: loading, price: 1, want: draft{header: [3]byte{3, 1, 2}, keys: []number{sponsorKey, 1, 2, 4, 3, 101}, v0: true,
			calls: []call{{4, []byte{1, 2, 3, 4, 6, 7, 8, 9}, []byte{9}}, {5, nil, budget(3, 1)}}, tables: loading.tables}, fee: 15_000 + 1},
		"a token account": {of: token, prefund: true, want: draft{header: [3]byte{2, 0, 5}, keys: []number{sponsorKey, 1, 2, 3, 4, 0, 105, 102},
			calls: []call{{5, []byte{0, 1}, system(2, le64(2_039_280))}, {7, []byte{1, 2, 3, 4, 5, 6}, []byte{1}}, {7, []byte{1, 2, 3, 4, 5, 6}, nil}}}, fee: 10_000, rent: 2_039_280},
		"a token account that is there": {of: token, prefund: true, existing: 0b10, want: draft{header: [3]byte{2, 0, 5}, keys: []number{sponsorKey, 1, 2, 3, 4, 0, 105, 102},
			calls: []call{{7, []byte{1, 2, 3, 4, 5, 6}, []byte{1}}, {7, []byte{1, 2, 3, 4, 5, 6}, nil}}}, fee: 10_000},
	} {
		s := sponsorable(t, withPrograms(c.of.bytes()))
		by := &sol.Sponsorship{Payer: payer, Price: c.price}
		if c.prefund {
			by.Rents = s.Rents(c.existing)
		}
		tx, lamports, err := s.Sponsor(by)
		if err != nil || !bytes.Equal(tx, withPrograms(c.want.bytes())) || lamports != c.fee+c.rent {
			t.Errorf("%s: %d lamports, %v\n%x\n%x", what, lamports, err, tx, withPrograms(c.want.bytes()))
			continue
		}
		if c.of.header == priced.header && c.price == 7 {
			by.Price = 0
		}
		if back, err := s.SponsorshipOf(tx); err != nil || back.Payer != by.Payer || back.Price != by.Price || !slices.Equal(back.Rents, by.Rents) {
			t.Errorf("%s: %+v, %v", what, back, err)
		}
	}
}

func TestRents(t *testing.T) {
	create := func(number uint32, args ...[]byte) []byte { return system(number, args...) }
	for what, c := range map[string]struct {
		d        draft
		existing uint64
		want     []sol.Rent
	}{
		"nothing is made":         {d: payment},
		"an account":              {d: two(create(0, le64(5_000_000), le64(100), number(9).key()), 0, 1), want: []sol.Rent{{To: [32]byte(number(1).key()), Lamports: 6960 * 228}}},
		"with less than its rent": {d: two(create(0, le64(5), le64(100), number(9).key()), 0, 1), want: []sol.Rent{{To: [32]byte(number(1).key()), Lamports: 5}}},
		"of any size":             {d: two(create(0, le64(1<<63), le64(1<<63), number(9).key()), 0, 1), want: []sol.Rent{{To: [32]byte(number(1).key()), Lamports: 6960 * (128 + 10<<20)}}},
		"with a seed": {d: two(create(3, number(1).key(), seed("s"), le64(5_000_000), le64(0), number(9).key()), 1, 0),
			want: []sol.Rent{{To: [32]byte(number(2).key()), Lamports: 6960 * 128}}},
		"that may be there": {d: two(create(13, le64(5_000_000), le64(0), number(9).key()), 0, 1), want: []sol.Rent{{To: [32]byte(number(2).key()), Lamports: 6960 * 128}}},
		"it is there":       {d: two(create(0, le64(5_000_000), le64(100), number(9).key()), 0, 1), existing: 0b10},
		"moved, not made":   {d: two(create(2, le64(5_000_000)), 0, 1)},
		"a nonce's withdrawal": {d: payment.with(func(d *draft) {
			d.calls[0] = call{2, []byte{0, 1, 0, 0}, system(5, le64(5))}
		})},
		"a token account of another":    {d: token.with(func(d *draft) { d.calls[0].accounts[0], d.calls = 2, d.calls[:1] })},
		"a token account of 2022":       {d: token.with(func(d *draft) { d.keys[5] = 103 }), want: []sol.Rent{{To: [32]byte(number(1).key()), Lamports: 2_074_080}}},
		"a token account recovered":     {d: token.with(func(d *draft) { d.calls = []call{{6, []byte{0, 1, 2, 3, 4, 5}, []byte{2}}} })},
		"a token account that is fixed": {d: token.with(func(d *draft) { d.header[2] = 6 })},
	} {
		if got := sponsorable(t, withPrograms(c.d.bytes())).Rents(c.existing); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", what, got, c.want)
		}
	}
}

// two signs with accounts 1 and 2 an instruction of the System program about both.
func two(data []byte, accounts ...byte) draft {
	return draft{header: [3]byte{2, 0, 1}, keys: []number{1, 2, 0}, calls: []call{{2, accounts, data}}}
}

func TestFeesAreTheMost(t *testing.T) {
	checks := payment.with(func(d *draft) {
		d.header, d.keys = [3]byte{1, 0, 2}, []number{1, 2, 0, 104}
		d.calls = append(d.calls, call{3, nil, []byte{3, 0}}, call{3, nil, nil})
	})
	for what, c := range map[string]struct {
		d     draft
		price uint64
		want  uint64
	}{
		"signatures that nodes check": {checks, 0, 5 * 5000},
		"units of three instructions": {checks, 1_000_000, 5*5000 + 4*200_000}, // and of the one with the price
		"no more units than any":      {priced.with(func(d *draft) { d.calls[1].data = budget(2, 1<<32-1) }), 0, 10_000 + 2_800_000},
		"the highest of two prices":   {priced.with(func(d *draft) { d.calls = append(d.calls, call{3, nil, budget(3, 5)}) }), 0, 10_000 + 600_000},
	} {
		if _, got, err := sponsorable(t, withPrograms(c.d.bytes())).Sponsor(&sol.Sponsorship{Payer: [32]byte(sponsorKey.key()), Price: c.price}); err != nil || got != c.want {
			t.Errorf("%s: %d, %v, want %d", what, got, err, c.want)
		}
	}
	if s := sponsorable(t, payment.bytes()); s.PriceWithin(7) != 7 || s.PriceWithin(1<<63) != 5_000_000 || s.NamesPrice() {
		t.Error("a price without a bound")
	}
	if s := sponsorable(t, withPrograms(priced.bytes())); !s.NamesPrice() {
		t.Error("the price is not seen")
	}
}

func TestNotSponsored(t *testing.T) {
	signed := payment.bytes()
	signed[5] = 1
	for what, c := range map[string]struct {
		raw  []byte
		says string
	}{
		"nothing":         {nil, "it is empty"},
		"signed":          {signed, "has signed it without the sponsor"},
		"a durable nonce": {payment.with(func(d *draft) { d.calls = []call{{2, []byte{0, 1, 0}, system(4)}, d.calls[0]} }).bytes(), "a durable nonce"},
	} {
		_, err := sol.ReadSponsorable(c.raw)
		if refused(t, err, invalid, c.says); err == nil {
			t.Error(what)
		}
	}
	full := payment.with(func(d *draft) {
		d.calls[0].accounts = append(d.calls[0].accounts, make([]byte, 1232-len(payment.bytes())-2)...)
	})
	system := payment.with(func(d *draft) { d.keys[2] = 3; d.calls = nil })
	for what, c := range map[string]struct {
		d    draft
		by   sol.Sponsorship
		says string
	}{
		"the sponsor among its signers":  {payment, sol.Sponsorship{Payer: [32]byte(number(1).key())}, "the sponsor's account " + number(1).name() + " is one of its own"},
		"the sponsor among its accounts": {payment, sol.Sponsorship{Payer: [32]byte(number(2).key())}, "is one of its own"},
		"no room":                        {full, sol.Sponsorship{Payer: [32]byte(sponsorKey.key())}, "with its sponsor it has 1327 bytes"},
		"no System program":              {system, sol.Sponsorship{Payer: [32]byte(sponsorKey.key()), Rents: []sol.Rent{{To: [32]byte(number(1).key()), Lamports: 1}}}, "the System program must be"},
		"more than there is": {payment, sol.Sponsorship{Payer: [32]byte(sponsorKey.key()), Rents: []sol.Rent{{To: [32]byte(number(1).key()), Lamports: 1<<64 - 1}}},
			"more than there are coins"},
	} {
		_, _, err := sponsorable(t, c.d.bytes()).Sponsor(&c.by)
		if refused(t, err, invalid, c.says); err == nil {
			t.Error(what)
		}
	}
	// Whoever changes what the sponsor gives is found out.
	s := sponsorable(t, withPrograms(token.bytes()))
	more, _, err := s.Sponsor(&sol.Sponsorship{Payer: [32]byte(sponsorKey.key()), Rents: []sol.Rent{{To: [32]byte(number(1).key()), Lamports: 2_039_281}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.SponsorshipOf(more); fault.Of(err) == nil {
		t.Error("a signer gets more than an account costs")
	}
	if _, err := s.SponsorshipOf(more[:9]); fault.Of(err) == nil {
		t.Error("it was read")
	}
}

// FuzzSponsor: what a sponsor makes of any transaction can be read, has its message's instructions with the same accounts, and only
// the rents name the sponsor.
func FuzzSponsor(f *testing.F) {
	for _, d := range []draft{payment, loading, priced, token} {
		f.Add(withPrograms(d.bytes()), uint64(5), uint64(0))
	}
	for _, v := range vectors(f) {
		f.Add(unhex(f, v.Unsigned), uint64(0), uint64(1))
	}
	f.Fuzz(func(t *testing.T, raw []byte, price, existing uint64) {
		s, err := sol.ReadSponsorable(raw)
		if err != nil {
			if fault.Of(err) == nil {
				t.Fatal(err)
			}
			return
		}
		by := &sol.Sponsorship{Payer: [32]byte(sponsorKey.key()), Price: s.PriceWithin(price), Rents: s.Rents(existing)}
		if s.NamesPrice() {
			by.Price = 0
		}
		tx, lamports, err := s.Sponsor(by)
		if err != nil {
			if fault.Of(err) == nil {
				t.Fatal(err)
			}
			return
		}
		if lamports < 10_000 {
			t.Fatalf("it costs %d", lamports)
		}
		back, err := s.SponsorshipOf(tx)
		if err != nil || back.Price != by.Price || !slices.Equal(back.Rents, by.Rents) {
			t.Fatalf("%+v, %v, want %+v", back, err, by)
		}
		before, err := read(raw, 0)
		if signers, _ := sol.Signers(raw); before == nil && err != nil {
			before, err = sol.Chain{}.Read(raw, signerOf(t, signers[0].Address))
		}
		if err != nil {
			t.Fatal(err)
		}
		after, err := read(tx, sponsorKey)
		if err != nil {
			t.Fatal(err)
		}
		was, is := factsOf(t, before, nil)["instructions"].([]any), factsOf(t, after, nil)["instructions"].([]any)
		for i, in := range was {
			same(t, is[len(by.Rents)+i], in)
		}
	})
}
