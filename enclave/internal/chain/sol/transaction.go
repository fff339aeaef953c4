package sol

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"slices"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
)

// transaction is one that its signer can sign.
type transaction struct {
	wire
	slot int // where the signer's begins in raw
	open Open
}

// Read takes a whole wire transaction, at most 1232 bytes, with as many signature slots as
// required signers. The signer must be one of them, by its key, whatever the format of its
// address. Its slot is filled anew; those of others stay as they are, unchecked. Versions
// other than legacy and 0 are unsupported.
func (Chain) Read(unsigned []byte, by chain.SigningKey) (chain.Transaction, error) {
	w, err := parse(bytes.Clone(unsigned))
	if err != nil {
		return nil, err
	}
	if by.Public.Curve() != chain.Ed25519 {
		return nil, chain.Invalid("it needs an ed25519 key to sign it")
	}
	signer := key(by.Public.Bytes())
	i := slices.Index(w.keys[:w.signers], signer)
	if i < 0 {
		return nil, chain.Invalid("%s is not among its %d required signers", signer.String(), w.signers)
	}
	return &transaction{wire: *w, slot: w.slots + i*signatureSize}, nil
}

func (*transaction) Root() string { return "solana.tx" }

// Digests is the message, whole.
func (t *transaction) Digests() []chain.Digest {
	return []chain.Digest{{Scheme: chain.EdDSA, Message: bytes.Clone(t.bytes)}}
}

// Assemble answers the same transaction with the signer's slot filled.
func (t *transaction) Assemble(signatures []chain.Signature) ([]byte, error) {
	if len(signatures) != 1 || signatures[0].V != 0 {
		return nil, fmt.Errorf("%d signatures for one slot, or one that is not of ed25519", len(signatures))
	}
	out := bytes.Clone(t.raw)
	copy(out[t.slot:], signatures[0].R[:])
	copy(out[t.slot+len(signatures[0].R):], signatures[0].S[:])
	return out, nil
}

// lookedUp stands for an account that a table on the chain holds.
const lookedUp = "ADDRESS_TABLE_LOOKUP"

// Facts are the members of solana.tx. The address_table_lookups of an instruction are those
// through which its accounts come, each with the indexes that it uses. Calls that a
// described IDL explains have parsed_instruction_data.
func (t *transaction) Facts(described chain.Described) (chain.Struct, error) {
	total := len(t.keys) + t.loaded
	f := facts{transaction: t, names: make([]string, total), accounts: make([]any, total), tables: make([]string, len(t.lookups)),
		idls: map[byte]*idl{}, budget: maxValues}
	for i := range f.tables {
		f.tables[i] = t.lookups[i].table.String()
	}
	for i := range f.names {
		f.names[i] = lookedUp
		if i < len(t.keys) {
			f.names[i] = t.keys[i].String()
		}
		f.accounts[i] = chain.Struct{"account_key": f.names[i], "signer": t.signs(i), "writable": t.writes(i)}
	}
	if err := f.findPrograms(described); err != nil {
		return nil, err
	}
	instructions := make([]any, len(t.instructions))
	out := chain.Struct{
		"account_keys":          f.names,
		"program_keys":          f.programs,
		"instructions":          instructions,
		"recent_blockhash":      base58.Encode(t.blockhash),
		"address_table_lookups": f.lookupsOf(nil),
	}
	for _, list := range lists {
		out[list] = none
	}
	for i := range t.instructions {
		in := &t.instructions[i]
		made, err := f.instruction(in)
		if err != nil {
			return nil, err
		}
		instructions[i] = made
		switch t.keys[in.program] {
		case systemProgram:
			f.listSystem(out, in)
		case tokenProgram, token2022:
			f.listToken(out, in)
		}
	}
	return out, nil
}

// lists are the members in which stand instructions of the System and token programs that give something away.
var lists = []string{systemTransfers, systemAuthorities, tokenTransfers, tokenApprovals, tokenAuthorities, tokenCloses, tokenBurns, tokenOthers}

var none any = []any{}

// add appends an element to a list of the facts.
func add(out chain.Struct, list string, element chain.Struct) {
	out[list] = append(out[list].([]any), element)
}

// listSystem puts an instruction of the System program where policies look for what it does.
func (f *facts) listSystem(out chain.Struct, in *instruction) {
	if from, to, amount, moves := moveOf(in); moves {
		add(out, systemTransfers, chain.Struct{"from": f.name(in, from), "to": f.name(in, to), "amount": amount})
	}
	if s := &system[systemNumber(in)]; s.hands != "" {
		var to key
		copy(to[:], in.data[len(in.data)-keySize:])
		add(out, systemAuthorities, chain.Struct{"account": f.name(in, 0), "type": s.hands, "authority": to.String()})
	}
}

// listToken puts an instruction of the token programs where policies look for what it does.
func (f *facts) listToken(out chain.Struct, in *instruction) {
	t := tokenInstructionOf(in)
	if t == nil {
		if len(in.data) == 0 || !plainToken[in.data[0]] {
			add(out, tokenOthers, chain.Struct{"program_key": f.names[in.program], "instruction_data_hex": chain.Hex(hex.EncodeToString(in.data))})
		}
		return
	}
	signers := make([]string, 0, len(in.accounts)-t.owner-1)
	for i := t.owner + 1; i < len(in.accounts); i++ {
		signers = append(signers, f.name(in, i))
	}
	e := chain.Struct{"owner": f.name(in, t.owner), "signers": signers}
	switch t.list {
	case tokenTransfers, tokenBurns, tokenApprovals:
		e["from"], e["amount"], e["token_mint"] = f.name(in, 0), t.amountOf(in), ""
		if t.mint >= 0 {
			e["token_mint"] = f.name(in, t.mint)
		}
		switch t.list {
		case tokenTransfers:
			e["to"] = f.name(in, t.to)
		case tokenApprovals:
			e["delegate"] = f.name(in, t.to)
		}
	case tokenCloses:
		e["account"], e["to"] = f.name(in, 0), f.name(in, t.to)
	case tokenAuthorities:
		e["account"], e["type"], e["authority"] = f.name(in, 0), authorityType(in), ""
		if b := newAuthority(in); len(b) > 0 {
			to := key(b)
			e["authority"] = to.String()
		}
	}
	add(out, t.list, e)
}

// facts are in the making.
type facts struct {
	*transaction
	names    []string // of accounts, by their indexes
	accounts []any    // likewise, as facts
	tables   []string // of lookups
	programs []string // each once, in the order of accounts
	idls     map[byte]*idl
	budget   int // values that may still come out of IDLs
}

func (f *facts) findPrograms(described chain.Described) error {
	called := make([]bool, len(f.keys))
	for i := range f.transaction.instructions {
		called[f.transaction.instructions[i].program] = true
	}
	f.programs = []string{}
	for i, yes := range called {
		if !yes {
			continue
		}
		f.programs = append(f.programs, f.names[i])
		if described == nil {
			continue
		}
		d, err := described(f.names[i])
		if err != nil {
			return err
		}
		if d, ok := d.(*idl); ok {
			f.idls[byte(i)] = d
		}
	}
	return nil
}

func (f *facts) instruction(in *instruction) (chain.Struct, error) {
	accounts := make([]any, len(in.accounts))
	for i, a := range in.accounts {
		accounts[i] = f.accounts[a]
	}
	out := chain.Struct{
		"program_key":           f.names[in.program],
		"accounts":              accounts,
		"instruction_data_hex":  chain.Hex(hex.EncodeToString(in.data)),
		"address_table_lookups": f.lookupsOf(in),
	}
	if d := f.idls[in.program]; d != nil {
		parsed, err := d.parse(f, in)
		if err != nil {
			return nil, err
		}
		if parsed != nil {
			out["parsed_instruction_data"] = parsed
		}
	}
	return out, nil
}

func (f *facts) name(in *instruction, i int) string { return f.names[in.accounts[i]] }

// lookupsOf are all, or those that an instruction uses.
func (f *facts) lookupsOf(in *instruction) []any {
	m, out := &f.message, []any{}
	if len(m.lookups) == 0 {
		return out
	}
	var used [maxAccounts]bool
	if in != nil {
		for _, a := range in.accounts {
			used[a] = true
		}
	}
	indexes := func(list []byte, at int) []any {
		some := []any{}
		for i, index := range list {
			if in == nil || used[at+i] {
				some = append(some, int64(index))
			}
		}
		return some
	}
	writable, readonly := len(m.keys), len(m.keys)+m.writable
	for i := range m.lookups {
		l := &m.lookups[i]
		w, r := indexes(l.writable, writable), indexes(l.readonly, readonly)
		if len(w)+len(r) > 0 {
			out = append(out, chain.Struct{"address_table_key": f.tables[i], "writable_indexes": w, "readonly_indexes": r})
		}
		writable, readonly = writable+len(l.writable), readonly+len(l.readonly)
	}
	return out
}
