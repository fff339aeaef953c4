package sol

import (
	"slices"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
)

const (
	maxSize       = 1232 // bytes of a transaction: an IPv6 packet of 1280 without its headers
	maxAccounts   = 256  // an index is one byte
	keySize       = 32
	signatureSize = 64
	versioned     = 0x80 // set in the first byte of a message that has a version
)

type key [keySize]byte

func (k *key) String() string { return base58.Encode(k[:]) }

// wire is a transaction taken apart. Its slices are parts of raw.
type wire struct {
	message
	raw   []byte
	slots int    // where the first one begins
	bytes []byte // of the message
}

// message is what signers sign, in its parts.
type message struct {
	signers, readonlySigners, readonlyOthers int

	keys         []key  // the static ones, signers first
	blockhash    []byte // 32 bytes
	instructions []instruction
	lookups      []lookup // version 0 only
	writable     int      // accounts that lookups load to write, which stand before the others
	loaded       int      // accounts that lookups load
}

// instruction calls a program. Accounts are indexes into the static keys, then
// the accounts loaded to write, then those loaded to read.
type instruction struct {
	program  byte
	accounts []byte
	data     []byte
}

// lookup loads accounts from a table on the chain.
type lookup struct {
	table              key
	writable, readonly []byte
}

// signs and writes are what the header says of the account with index i.
func (m *message) signs(i int) bool { return i < m.signers }

func (m *message) writes(i int) bool {
	switch {
	case i < m.signers:
		return i < m.signers-m.readonlySigners
	case i < len(m.keys):
		return i < len(m.keys)-m.readonlyOthers
	}
	return i < len(m.keys)+m.writable
}

// parse takes a transaction apart. It keeps raw.
func parse(raw []byte) (*wire, error) {
	switch {
	case len(raw) == 0:
		return nil, chain.Invalid("it is empty")
	case raw[0] == versioned:
		return nil, bareMessage()
	case raw[0] > versioned: // as many slots do not fit: a version that begins with its number
		return nil, chain.Unsupported("version %d; legacy and version 0 are read", raw[0]-versioned)
	case len(raw) > maxSize:
		return nil, chain.Invalid("it has %d bytes; Solana takes at most %d", len(raw), maxSize)
	}
	w := &wire{raw: raw}
	c := cursor{rest: raw}
	slots := c.count(signatureSize, "signature slots")
	w.slots = len(raw) - len(c.rest)
	c.take(slots*signatureSize, "signature slots")
	w.bytes = c.rest
	err := w.read(&c)
	if err == nil && slots != w.signers {
		err = chain.Invalid("it has %d signature slots and %d required signers", slots, w.signers)
	}
	if err != nil {
		if new(message).read(&cursor{rest: raw}) == nil {
			err = bareMessage()
		}
		return nil, err
	}
	return w, nil
}

func bareMessage() error {
	return chain.Invalid("it is a message without signature slots; send the whole transaction")
}

// read takes all that is left of c for a message.
func (m *message) read(c *cursor) error {
	first := c.byte("header")
	v0 := first >= versioned
	if v0 {
		if first != versioned {
			return chain.Unsupported("version %d; legacy and version 0 are read", first-versioned)
		}
		first = c.byte("header")
	}
	m.signers, m.readonlySigners, m.readonlyOthers = int(first), int(c.byte("header")), int(c.byte("header"))
	m.keys = make([]key, c.count(keySize, "account keys"))
	for i := range m.keys {
		m.keys[i] = key(c.take(keySize, "account keys"))
	}
	m.blockhash = c.take(keySize, "recent blockhash")
	m.instructions = make([]instruction, c.count(3, "instructions"))
	for i := range m.instructions {
		in := &m.instructions[i]
		in.program = c.byte("instructions")
		in.accounts = c.take(c.count(1, "accounts of an instruction"), "")
		in.data = c.take(c.count(1, "data of an instruction"), "")
	}
	if v0 {
		m.lookups = make([]lookup, c.count(keySize+2, "address table lookups"))
	}
	for i := range m.lookups {
		l := &m.lookups[i]
		copy(l.table[:], c.take(keySize, "address table lookups"))
		l.writable = c.take(c.count(1, "address table lookups"), "")
		l.readonly = c.take(c.count(1, "address table lookups"), "")
		m.writable += len(l.writable)
		m.loaded += len(l.writable) + len(l.readonly)
	}
	switch {
	case c.err != nil:
		return c.err
	case len(c.rest) > 0:
		return chain.Invalid("%d bytes follow its end", len(c.rest))
	}
	return m.check()
}

func (m *message) check() error {
	switch {
	case m.signers == 0:
		return chain.Invalid("it has no signers")
	case m.readonlySigners >= m.signers:
		return chain.Invalid("its fee payer is read-only")
	case m.signers+m.readonlyOthers > len(m.keys):
		return chain.Invalid("its header counts %d accounts of %d", m.signers+m.readonlyOthers, len(m.keys))
	case len(m.keys)+m.loaded > maxAccounts:
		return chain.Invalid("it has %d accounts; Solana takes at most %d", len(m.keys)+m.loaded, maxAccounts)
	}
	for i, k := range m.keys { // 38 at most
		if j := slices.Index(m.keys[:i], k); j >= 0 {
			return chain.Invalid("its account keys %d and %d are equal", j, i)
		}
	}
	for i := range m.instructions {
		in := &m.instructions[i]
		switch program := int(in.program); {
		case program == 0:
			return chain.Invalid("the program of instruction %d is the fee payer", i)
		case program >= len(m.keys)+m.loaded:
			return chain.Invalid("the program of instruction %d is account %d of %d", i, program, len(m.keys)+m.loaded)
		case program >= len(m.keys):
			return chain.Invalid("the program of instruction %d is behind an address table lookup", i)
		}
		for _, a := range in.accounts {
			if int(a) >= len(m.keys)+m.loaded {
				return chain.Invalid("instruction %d names account %d of %d", i, a, len(m.keys)+m.loaded)
			}
		}
		if err := checkProgram(i, m.keys[in.program], in); err != nil {
			return err
		}
	}
	return m.checkLookups()
}

// checkLookups refuses lookups that load nothing, or one entry of a table twice.
func (m *message) checkLookups() error {
	type entry struct {
		table key
		index byte
	}
	seen := make(map[entry]bool, m.loaded)
	for i := range m.lookups {
		l := &m.lookups[i]
		if len(l.writable)+len(l.readonly) == 0 {
			return chain.Invalid("address table lookup %d loads no account", i)
		}
		for _, index := range slices.Concat(l.writable, l.readonly) {
			e := entry{l.table, index}
			if seen[e] {
				return chain.Invalid("address table lookup %d loads an account twice", i)
			}
			seen[e] = true
		}
	}
	return nil
}

// cursor reads from the front of rest. The first error stays, and what is read
// after it is nothing.
type cursor struct {
	rest []byte
	err  error
}

func (c *cursor) take(n int, what string) []byte {
	if n > len(c.rest) {
		c.fail("it ends in its %s", what)
	}
	if c.err != nil {
		return make([]byte, keySize)[:min(n, keySize)]
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

func (c *cursor) byte(what string) byte { return c.take(1, what)[0] }

// count is a compact-u16 number of things of at least size bytes each, which
// must be there: seven bits in each byte, the low ones first, no needless byte.
func (c *cursor) count(size int, what string) int {
	n := 0
	for shift, more := 0, true; more && c.err == nil; shift += 7 {
		b := c.byte(what)
		if b == 0 && shift > 0 || shift == 14 && b > 3 {
			c.fail("a length in its %s is not in its shortest form", what)
		}
		n |= int(b&0x7f) << shift
		more = b >= 0x80
	}
	if n*size > len(c.rest) {
		c.fail("it ends in its %s", what)
	}
	if c.err != nil {
		return 0
	}
	return n
}

func (c *cursor) fail(format string, args ...any) {
	if c.err == nil {
		c.err = chain.Invalid(format, args...)
	}
}
