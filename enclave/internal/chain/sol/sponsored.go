package sol

import (
	"encoding/binary"
	"math/big"
	"slices"

	"cloister/enclave/internal/chain"
)

// Sponsorable is a transaction that another account can pay for: nobody has signed it, and it does not stay valid for any time.
type Sponsorable struct{ wire }

// ReadSponsorable takes a wire transaction. The errors are those of Read.
func ReadSponsorable(tx []byte) (*Sponsorable, error) {
	w, err := parse(slices.Clone(tx))
	if err != nil {
		return nil, err
	}
	for i := range w.signers {
		if w.filled(i) {
			return nil, chain.Invalid("%s has signed it without the sponsor, who pays for it", w.keys[i].String())
		}
	}
	if w.isDurable() {
		return nil, chain.Invalid("a durable nonce stands in the place of its recent blockhash, and what a sponsor pays for must end")
	}
	return &Sponsorable{*w}, nil
}

// NamesPrice reports whether the transaction itself says what a unit of computation costs.
func (s *Sponsorable) NamesPrice() bool {
	return slices.ContainsFunc(s.instructions, func(in instruction) bool { _, is := s.budget(&in, setPrice); return is })
}

// Writable are the accounts that the transaction may change, without those that tables on the chain hold.
func (s *Sponsorable) Writable() [][]byte {
	all := [][]byte{}
	for i := range s.keys {
		if s.writes(i) {
			all = append(all, s.keys[i][:])
		}
	}
	return all
}

// A Rent is what a signer must lock up in accounts that the transaction makes, in lamports.
type Rent struct {
	To       [32]byte
	Lamports uint64
}

// Rents are what signers pay for accounts that instructions make, each signer once; bit i of existing tells that account i of
// Writable is there already. Of accounts that other programs make nothing is known.
func (s *Sponsorable) Rents(existing uint64) (all []Rent) {
	made := make([]bool, len(s.keys)) // or there before
	bit := 0
	for i := range s.keys {
		made[i] = true
		if s.writes(i) {
			made[i] = existing>>bit&1 == 1
			bit++
		}
	}
	for i := range s.instructions {
		from, to, lamports := s.creation(&s.instructions[i])
		if lamports == 0 || from >= s.signers || to >= len(s.keys) || made[to] {
			continue
		}
		made[to] = true
		if j := slices.IndexFunc(all, func(r Rent) bool { return r.To == s.keys[from] }); j >= 0 {
			all[j].Lamports += lamports
		} else {
			all = append(all, Rent{s.keys[from], lamports})
		}
	}
	return all
}

// What accounts must hold to be kept: the network's for two years, of each byte and of 128 more.
const (
	lamportsOfByte = 6960
	bytesBeside    = 128
	maxAccount     = 10 << 20 // bytes
)

// Bytes of accounts for tokens: of the Token program, and of Token-2022, whose owner cannot be changed. Mints with other
// extensions need more.
const (
	tokenBytes     = 165
	token2022Bytes = 170
)

func rentOf(size uint64) uint64 { return lamportsOfByte * (bytesBeside + min(size, maxAccount)) }

// creation tells which account pays for which that an instruction makes, and how much; nothing if it makes none.
func (m *message) creation(in *instruction) (from, to int, lamports uint64) {
	switch m.keys[in.program] {
	case systemProgram:
		payer, account, lamports, moves := moveOf(in)
		size, makes := sizeOfCreated(in)
		if !moves || !makes {
			return 0, 0, 0
		}
		return int(in.accounts[payer]), int(in.accounts[account]), min(lamports, rentOf(size))
	case tokenAccountProgram:
		if len(in.accounts) < 6 || len(in.data) > 1 || len(in.data) == 1 && in.data[0] > 1 {
			return 0, 0, 0
		}
		size := uint64(tokenBytes)
		if a := int(in.accounts[5]); a < len(m.keys) && m.keys[a] == token2022 {
			size = token2022Bytes
		}
		return int(in.accounts[0]), int(in.accounts[1]), rentOf(size)
	}
	return 0, 0, 0
}

// sizeOfCreated is the size of the account that an instruction of the System program makes: its second number.
func sizeOfCreated(in *instruction) (size uint64, makes bool) {
	s, rest, numbers := &system[systemNumber(in)], in.data[4:], 0
	for _, arg := range s.args {
		if arg == 'u' {
			numbers++
			size = binary.LittleEndian.Uint64(rest)
		}
		rest = rest[sizeOf(arg, rest):]
	}
	return size, s.moves && numbers == 2
}

// A Sponsorship is what a sponsor adds: his account as the one that pays the fee, a price, and rents.
type Sponsorship struct {
	Payer [32]byte
	// Price is what a unit of computation costs, in millionths of a lamport, where the transaction names none. 0 adds none.
	Price uint64
	Rents []Rent
}

// maxPriority bounds what a price that the host names adds to the fee, in lamports: a thousandth of a coin.
const maxPriority = 1_000_000

// PriceWithin is a price that a node proposes, cut to what is paid at most.
func (s *Sponsorable) PriceWithin(proposed uint64) uint64 {
	return min(proposed, maxPriority*1_000_000/max(s.units(), 1))
}

// Sponsor returns the transaction with a sponsor: he is its first signer, and has his price in its last and the rents in its
// first instructions. lamports is the most that he pays. The sponsor's account must not be among the transaction's own, so that
// no instruction but the rents can use his signature.
func (s *Sponsorable) Sponsor(by *Sponsorship) (tx []byte, lamports uint64, err error) {
	m := s.message
	if slices.Contains(m.keys, by.Payer) {
		return nil, 0, chain.Invalid("the sponsor's account %s is one of its own accounts", (*key)(&by.Payer).String())
	}
	keys := append([]key{by.Payer}, m.keys...)
	budget := -1
	if by.Price > 0 && !s.NamesPrice() {
		if budget = slices.Index(keys, budgetProgram); budget < 0 {
			budget = len(keys)
			keys = append(keys, budgetProgram)
			m.readonlyOthers++
		}
	}
	loaded := len(keys) - len(m.keys) // what the indexes of accounts from tables grow by
	moved := func(a byte) byte {
		if int(a) < len(m.keys) {
			return a + 1
		}
		return a + byte(loaded)
	}
	if len(keys)+m.loaded > maxAccounts {
		return nil, 0, chain.Invalid("with its sponsor it has %d accounts; Solana takes at most %d", len(keys)+m.loaded, maxAccounts)
	}
	var instructions []instruction
	for _, r := range by.Rents {
		system, to := slices.Index(keys, systemProgram), slices.Index(keys, key(r.To))
		if system < 0 {
			return nil, 0, chain.Invalid("the System program must be one of its static account keys, since its sponsor pays for new accounts")
		}
		instructions = append(instructions, instruction{byte(system), []byte{0, byte(to)}, binary.LittleEndian.AppendUint64([]byte{systemTransfer, 0, 0, 0}, r.Lamports)})
	}
	for _, in := range m.instructions {
		accounts := make([]byte, len(in.accounts))
		for i, a := range in.accounts {
			accounts[i] = moved(a)
		}
		instructions = append(instructions, instruction{moved(in.program), accounts, in.data})
	}
	if budget >= 0 {
		instructions = append(instructions, instruction{byte(budget), nil, binary.LittleEndian.AppendUint64([]byte{setPrice}, by.Price)})
	}
	m.signers++
	m.keys, m.instructions = keys, instructions
	tx = appendCount(nil, m.signers)
	tx = append(tx, make([]byte, m.signers*signatureSize)...)
	if tx = m.append(tx, s.bytes[0] >= versioned); len(tx) > maxSize {
		return nil, 0, chain.Invalid("with its sponsor it has %d bytes; Solana takes at most %d", len(tx), maxSize)
	}
	cost := m.maxFee()
	for _, r := range by.Rents {
		cost.Add(cost, new(big.Int).SetUint64(r.Lamports))
	}
	if !cost.IsUint64() {
		return nil, 0, chain.Invalid("it could cost more than there are coins")
	}
	return tx, cost.Uint64(), nil
}

// SponsorshipOf finds what a sponsor has added to the transaction: a tx of other contents is not what Sponsor makes of it.
func (s *Sponsorable) SponsorshipOf(tx []byte) (*Sponsorship, error) {
	w, err := parse(tx)
	if err != nil {
		return nil, err
	}
	by, priced := &Sponsorship{Payer: w.keys[0]}, s.NamesPrice()
	for i := range w.instructions {
		in := &w.instructions[i]
		if i < len(w.instructions)-len(s.instructions) && w.keys[in.program] == systemProgram {
			if from, to, lamports, moves := moveOf(in); moves && in.accounts[from] == 0 && int(in.accounts[to]) < w.signers {
				by.Rents = append(by.Rents, Rent{w.keys[in.accounts[to]], lamports})
			}
		}
		if price, is := w.budget(in, setPrice); is && !priced {
			by.Price = price
		}
	}
	most := s.Rents(0)
	for _, r := range by.Rents {
		if !slices.ContainsFunc(most, func(m Rent) bool { return m.To == r.To && r.Lamports <= m.Lamports }) {
			return nil, chain.Invalid("a signer gets more than its new accounts cost")
		}
	}
	return by, nil
}

// Numbers of instructions: of the Compute Budget program, and of the System program.
const (
	setUnits       = 2
	setPrice       = 3
	systemTransfer = 2
)

var budgetProgram = mustKey("ComputeBudget111111111111111111111111111111")

// signatureCheckers are the programs that nodes check signatures for, each at the fee of one of the transaction's.
var signatureCheckers = []key{mustKey("Ed25519SigVerify111111111111111111111111111"), mustKey("KeccakSecp256k11111111111111111111111111111"), mustKey("Secp256r1SigVerify1111111111111111111111111")}

// budget is the number in an instruction of the Compute Budget program with a number of its own.
func (m *message) budget(in *instruction, which byte) (n uint64, is bool) {
	if m.keys[in.program] != budgetProgram || len(in.data) == 0 || in.data[0] != which {
		return 0, false
	}
	var wide [8]byte
	copy(wide[:], in.data[1:])
	return binary.LittleEndian.Uint64(wide[:]), true
}

// The units of computation of a transaction that names none, for each instruction, and the most of any.
const (
	unitsOfInstruction = 200_000
	maxUnits           = 1_400_000
)

// units is the most computation that is paid for.
func (m *message) units() uint64 {
	units := unitsOfInstruction * uint64(len(m.instructions))
	for i := range m.instructions {
		if n, is := m.budget(&m.instructions[i], setUnits); is {
			units = n
		}
	}
	return min(units, maxUnits)
}

// maxFee is the most that the network takes for the transaction, in lamports.
func (m *message) maxFee() *big.Int {
	signatures, price := m.signers, uint64(0)
	for i := range m.instructions {
		in := &m.instructions[i]
		if n, is := m.budget(in, setPrice); is {
			price = max(price, n)
		}
		if len(in.data) > 0 && slices.Contains(signatureCheckers, m.keys[in.program]) {
			signatures += int(in.data[0])
		}
	}
	fee := new(big.Int).Mul(new(big.Int).SetUint64(m.units()), new(big.Int).SetUint64(price))
	fee.Add(fee, big.NewInt(999_999)).Div(fee, big.NewInt(1_000_000))
	return fee.Add(fee, big.NewInt(int64(feePerSignature*signatures)))
}

// append appends the message as signers sign it.
func (m *message) append(dst []byte, v0 bool) []byte {
	if v0 {
		dst = append(dst, versioned)
	}
	dst = append(dst, byte(m.signers), byte(m.readonlySigners), byte(m.readonlyOthers))
	dst = appendCount(dst, len(m.keys))
	for i := range m.keys {
		dst = append(dst, m.keys[i][:]...)
	}
	dst = append(dst, m.blockhash...)
	dst = appendCount(dst, len(m.instructions))
	for i := range m.instructions {
		in := &m.instructions[i]
		dst = append(dst, in.program)
		dst = append(appendCount(dst, len(in.accounts)), in.accounts...)
		dst = append(appendCount(dst, len(in.data)), in.data...)
	}
	if !v0 {
		return dst
	}
	dst = appendCount(dst, len(m.lookups))
	for i := range m.lookups {
		l := &m.lookups[i]
		dst = append(dst, l.table[:]...)
		dst = append(appendCount(dst, len(l.writable)), l.writable...)
		dst = append(appendCount(dst, len(l.readonly)), l.readonly...)
	}
	return dst
}

// appendCount appends a compact-u16.
func appendCount(dst []byte, n int) []byte {
	for ; n >= 0x80; n >>= 7 {
		dst = append(dst, byte(n)|0x80)
	}
	return append(dst, byte(n))
}
