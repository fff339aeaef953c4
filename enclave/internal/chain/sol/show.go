package sol

import (
	"encoding/binary"
	"math/big"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/mr-tron/base58"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
)

// Kind is the kind of what is shown.
func (t *transaction) Kind() string { return "SOLANA_TRANSACTION" }

// listName is the name of Solana on lists of tokens.
const listName = "solana"

var lamports = show.Unit{Name: "lamport", Symbol: "SOL", SymbolFrom: show.FromImage, Decimals: 9, HasDecimals: true}

// Fees, in lamports: of a signature, and the one from which approvers are warned (0.1 SOL).
const (
	feePerSignature = 5000
	highFee         = 100_000_000
)

// ReadMessage reads a message without the slots of its signatures, as Chain.Read reads a transaction: what the key would sign
// if it signed these bytes.
func ReadMessage(message []byte, by chain.PublicKey) (chain.Transaction, error) {
	first := 0
	if len(message) > 1 && message[0] == versioned {
		first = 1
	}
	if len(message) <= first || message[first] >= versioned {
		return nil, bareMessage()
	}
	signers := int(message[first])
	raw := make([]byte, 1+signers*signatureSize, 1+signers*signatureSize+len(message))
	raw[0] = byte(signers)
	return Chain{}.Read(append(raw, message...), chain.SigningKey{Public: by})
}

// IsMessage tells bytes that signers of a transaction sign.
func IsMessage(b []byte) bool { return new(message).read(&cursor{rest: b}) == nil }

// Open is what is found only when a transaction is signed: its recent blockhash, and what the account adds that pays for it.
type Open struct{ Blockhash, Sponsor bool }

// ShowOpen shows a transaction of which something is found only when it is signed, and answers its kind. There are no digests.
// The errors are those of Read.
func ShowOpen(v *show.View, unsigned []byte, open Open) (kind string, err error) {
	tx, err := Chain{}.Read(unsigned, v.Signer())
	if err != nil {
		return "", err
	}
	t := tx.(*transaction)
	t.open = open
	v.Open()
	o := v.Part()
	o.Input("SOLANA_WIRE", unsigned)
	o.List("signs")
	return t.Kind(), t.Show(v, o)
}

// A shower shows one transaction, or the instructions that one stores on the chain to be run later.
type shower struct {
	*transaction
	view   *show.View
	out    *show.Object
	self   string // the signer's address
	depth  int    // layers of calls: 1 for the transaction's own
	owners ownerTable

	spent big.Int // lamports that leave own accounts; their sum may have more than 64 bits
	more  bool    // and others, of which only the chain knows how many
}

// Show shows all instructions in their order: of the programs that are built in or that the organization has uploaded an
// interface for what they do, of others the bytes.
func (t *transaction) Show(v *show.View, o *show.Object) error {
	s := shower{transaction: t, view: v, out: o, self: base58.Encode(v.Signer().Public.Bytes()), depth: 1}
	left := maxDerived
	s.owners = ownerTable{view: v, owners: []string{s.self}, left: &left}
	version := "legacy"
	if t.bytes[0] >= versioned {
		version = strconv.Itoa(int(t.bytes[0] - versioned))
	}
	o.Plain("version", version)
	payer := t.keys[0].String()
	if t.open.Sponsor {
		o.Plain("feePayer", "SPONSOR")
	} else {
		o.Address("feePayer", listName, payer, "")
	}
	signers := o.List("signers")
	others := false
	for i := range t.signers {
		signers.Plain(t.keys[i].String())
		others = others || !s.isOwn(t.keys[i].String())
	}
	if others {
		o.Warn(show.OtherParties, "signers")
	}
	if t.open.Blockhash {
		o.Object("recentBlockhash").Plain("source", show.FromHost)
	} else {
		o.Plain("recentBlockhash", base58.Encode(t.blockhash))
	}
	s.nonce()
	o.Uint("instructions", uint64(len(t.instructions)))
	if err := s.instructions(o.List("calls")); err != nil {
		return err
	}
	s.fee(s.isOwn(payer))
	v.Title("Call a program")
	return nil
}

func (s *shower) isOwn(address string) bool { return address == s.self || s.view.IsOwn(address) }

// keeps tells whether what an account gets stays the organization's alone.
func (s *shower) keeps(address string) bool {
	return address == s.self || s.view.OwnershipOf(address) == show.Own
}

// leaves counts lamports that an instruction moves to one of its accounts, if another of them is own: the payer, or who decides
// about the payer, as about a nonce or a stake.
func (s *shower) leaves(in *instruction, to int, amount uint64) {
	if s.keeps(s.account(in, to)) {
		return
	}
	for i := range in.accounts {
		if i != to && s.isOwn(s.account(in, i)) {
			s.spent.Add(&s.spent, new(big.Int).SetUint64(amount))
			return
		}
	}
}

// empties warns that an account's lamports go to another, all of them: those of wrapped SOL among them.
func (s *shower) empties(o *show.Object, to string, member ...string) {
	if !s.keeps(to) {
		o.Warn(show.WholeBalance, member...)
		s.more = true
	}
}

// nonce tells a transaction that stays good until its nonce is used.
func (s *shower) nonce() {
	if len(s.transaction.instructions) == 0 {
		return
	}
	in := &s.transaction.instructions[0]
	if s.keys[in.program] != systemProgram || systemNumber(in) != systemAdvanceNonce {
		return
	}
	nonce := s.out.Object("nonce")
	nonce.Plain("account", s.account(in, 0))
	nonce.Plain("authority", s.account(in, len(in.accounts)-1))
	nonce.Plain("value", base58.Encode(s.blockhash))
	nonce.Warn(show.DurableNonce)
}

// fee sets the most that is paid for the transaction itself, and what leaves own accounts in all.
func (s *shower) fee(own bool) {
	if s.open.Sponsor {
		s.showSpent()
		return
	}
	fee := s.maxFee()
	s.out.Amount("maxFee", fee, lamports)
	if fee.Cmp(big.NewInt(highFee)) > 0 {
		s.out.Warn(show.FeeHigh, "maxFee")
	}
	if own {
		s.spent.Add(&s.spent, fee)
	}
	s.showSpent()
}

func (s *shower) showSpent() {
	spent := s.out.Amount("spent", &s.spent, lamports)
	if s.more {
		spent.Bool("atLeast", true)
	}
}

// account is the text of one of an instruction's accounts; of one that a table on the chain holds, the table and the place.
func (s *shower) account(in *instruction, i int) string {
	if a := int(in.accounts[i]); a < len(s.keys) {
		return s.keys[a].String()
	}
	return lookedUp
}

// place finds what table on the chain holds an account.
func (s *shower) place(a int) (table string, index byte) {
	writable, readonly := len(s.keys), len(s.keys)+s.writable
	for i := range s.lookups {
		l := &s.lookups[i]
		switch {
		case a >= writable && a < writable+len(l.writable):
			return l.table.String(), l.writable[a-writable]
		case a >= readonly && a < readonly+len(l.readonly):
			return l.table.String(), l.readonly[a-readonly]
		}
		writable, readonly = writable+len(l.writable), readonly+len(l.readonly)
	}
	return "", 0
}

// setAccount sets one of an instruction's accounts as a member, and answers its address, empty if only the chain knows it.
func (s *shower) setAccount(o *show.Object, key string, in *instruction, i int) string {
	return s.setIndex(o, key, in.accounts[i])
}

// setIndex sets the account with an index as setAccount does.
func (s *shower) setIndex(o *show.Object, key string, index byte) string {
	if a := int(index); a >= len(s.keys) {
		table, index := s.place(a)
		child := o.Object(key)
		child.Plain("table", table)
		child.Uint("index", uint64(index))
		return ""
	}
	text := s.keys[index].String()
	o.Address(key, listName, text, programNames[text])
	return text
}

// party warns of an account that nobody knows, unless a table on the chain holds it, of which there is a warning already.
func (s *shower) party(o *show.Object, address, member string) {
	if address != "" && address != lookedUp && address != s.self && programNames[address] == "" {
		o.Party(listName, address, member)
	}
}

// instructions shows them in a row.
func (s *shower) instructions(list *show.List) error {
	for i := range s.transaction.instructions {
		if why := s.view.Call(s.depth); why != "" {
			list.TooMany()
			return nil
		}
		in := &s.transaction.instructions[i]
		o := list.Object()
		program := s.setIndex(o, "program", in.program)
		if program == "" || slices.ContainsFunc(in.accounts, func(a byte) bool { return int(a) >= len(s.keys) }) {
			o.Warn(show.LookupAccounts)
		}
		switch {
		case program == "":
			s.accountsOf(o, in, nil)
			o.Unreadable(show.UnknownProgram, in.data)
			continue
		case s.depth > 1 && checkProgram(i, s.keys[in.program], in) != nil: // Read has checked the transaction's own
			s.accountsOf(o, in, nil)
			o.Unreadable(show.DoesNotDecode, in.data)
			continue
		}
		if err := s.instruction(o, in, program); err != nil {
			return err
		}
	}
	return nil
}

func (s *shower) instruction(o *show.Object, in *instruction, program string) error {
	switch s.keys[in.program] {
	case systemProgram:
		s.system(o, in)
		return nil
	case tokenProgram, token2022:
		s.token(o, in)
		return nil
	}
	switch programNames[program] {
	case computeBudget:
		s.compute(o, in)
		return nil
	case memo:
		name(o, "Memo")
		if utf8.Valid(in.data) {
			o.Lines("lines", string(in.data))
		} else {
			o.Bytes("data", in.data)
		}
		return nil
	case tokenAccounts:
		s.tokenAccount(o, in)
		return nil
	case loader:
		s.loader(o, in)
		return nil
	case stakeProgram:
		s.stake(o, in)
		return nil
	case squads:
		if q := squadsInstructionOf(in); q != nil {
			return s.multisig(o, in, q)
		}
	}
	return s.other(o, in, program)
}

// name sets which instruction of a built-in program it is.
func name(o *show.Object, text string) {
	o.Plain("function", text)
	o.Plain("functionSource", show.FromImage)
}

// The programs that are built in beside System and the token programs.
const (
	computeBudget = "Compute Budget"
	memo          = "Memo"
	tokenAccounts = "Associated Token Account"
	loader        = "BPF Upgradeable Loader"
)

var programNames = map[string]string{
	"11111111111111111111111111111111":             "System Program",
	"TokenkegQfeZyiNwAJbNbGKPFXCWuBvf9Ss623VQ5DA":  "Token Program",
	"TokenzQdBNbLqP5VEhdkAS6EPFLC1PHnBqCXEpPxuEb":  "Token-2022",
	"ComputeBudget111111111111111111111111111111":  computeBudget,
	"MemoSq4gqABAXKb96qnH8TysNcWxMyWCqXgDLGmfcHr":  memo,
	"Memo1UhkJRfHyvLMcVucJwxXeuD728EqVddwQDwFMNo":  memo,
	"ATokenGPvbdGVxr1b2hvZbsiqW5xWH25efTNsLJA8knL": tokenAccounts,
	"BPFLoaderUpgradeab1e11111111111111111111111":  loader,
	"Stake11111111111111111111111111111111111111":  stakeProgram,
	"SQDS4ep65T869zMMBKyuUq6aD6EgTu8psMjkvj52pCf":  squads,
}

// ProgramNames are the names of programs that are built in, by their addresses. Nobody may change them.
func ProgramNames() map[string]string { return programNames }

// system shows an instruction of the System program, all of which Read knows.
func (s *shower) system(o *show.Object, in *instruction) {
	n := systemNumber(in)
	what := &system[n]
	name(o, what.name)
	if from, to, amount, moves := moveOf(in); moves {
		s.setAccount(o, "from", in, from)
		receiver := s.setAccount(o, "to", in, to)
		o.Amount("amount", new(big.Int).SetUint64(amount), lamports)
		s.party(o, receiver, "to")
		s.leaves(in, to, amount)
		s.view.Title("Send SOL")
	} else if what.accounts > 0 {
		s.setAccount(o, "account", in, 0)
	}
	s.systemArguments(o, in, what)
	if what.hands == "" {
		return
	}
	var to key
	copy(to[:], in.data[len(in.data)-keySize:])
	o.Address("newAuthority", listName, to.String(), programNames[to.String()])
	o.Plain("authorityType", what.hands)
	s.party(o, to.String(), "newAuthority")
	o.Warn(show.ControlChange)
	s.view.Title("Change who controls an account")
}

// systemArguments shows the numbers, keys and seeds of an instruction, but for the amount that it moves.
func (s *shower) systemArguments(o *show.Object, in *instruction, what *systemInstruction) {
	rest, moved := in.data[4:], !what.moves
	if what.args == "u" && what.moves {
		return
	}
	args := o.List("args")
	for _, arg := range what.args {
		size := sizeOf(arg, rest)
		piece := rest[:size]
		rest = rest[size:]
		switch arg {
		case 'u':
			if n := binary.LittleEndian.Uint64(piece); moved {
				args.Object().Uint("value", n)
			}
			moved = true
		case 'k':
			args.Object().Plain("address", base58.Encode(piece))
		case 's':
			args.Object().Text("seed", string(piece[8:]))
		}
	}
}

// tokenNames are the instructions of the token programs, by number.
var tokenNames = []string{"InitializeMint", "InitializeAccount", "InitializeMultisig", "Transfer", "Approve", "Revoke", "SetAuthority", "MintTo", "Burn",
	"CloseAccount", "FreezeAccount", "ThawAccount", "TransferChecked", "ApproveChecked", "MintToChecked", "BurnChecked", "InitializeAccount2", "SyncNative",
	"InitializeAccount3", "InitializeMultisig2", "InitializeMint2", "GetAccountDataSize", "InitializeImmutableOwner", "AmountToUiAmount", "UiAmountToAmount"}

// token shows an instruction of the token programs.
func (s *shower) token(o *show.Object, in *instruction) {
	t := tokenInstructionOf(in)
	if t == nil {
		s.plainTokenInstruction(o, in)
		return
	}
	name(o, t.name)
	program := s.keys[in.program]
	switch t.list {
	case tokenAuthorities:
		s.authority(o, in)
		return
	case tokenCloses:
		s.setAccount(o, "account", in, 0)
		to := s.setAccount(o, "to", in, t.to)
		s.party(o, to, "to")
		s.empties(o, to, "to")
		s.view.Title("Close a token account")
		return
	}
	first := map[string]string{tokenTransfers: "from", tokenApprovals: "account", tokenBurns: "account"}[t.list]
	account := s.setAccount(o, first, in, 0)
	mint, source := "", ""
	if t.mint >= 0 {
		mint = s.account(in, t.mint)
	} else if owner, of, ok := s.owners.find(account, program); ok {
		mint, source = of, show.FromImage
		o.Plain("accountOwner", owner)
	}
	switch t.list {
	case tokenTransfers:
		s.receiver(o, in, t.to, mint, program)
		s.view.Title("Send tokens")
	case tokenApprovals:
		s.party(o, s.setAccount(o, "delegate", in, t.to), "delegate")
		s.view.Title("Allow another to move tokens")
	case tokenBurns:
		s.view.Title("Destroy tokens")
	}
	if mint != "" && mint != lookedUp {
		o.Address("mint", listName, mint, "")
		if source != "" {
			o.Plain("mintSource", source)
		}
	}
	s.tokenAmount(o, in, t, mint)
	if program == token2022 {
		o.Warn(show.TokenRules)
	}
	if owner := s.account(in, t.owner); owner != lookedUp && !s.isOwn(owner) {
		o.Plain("owner", owner)
	}
}

// receiver sets the token account that receives, and whose it is if that follows from owner and mint.
func (s *shower) receiver(o *show.Object, in *instruction, i int, mint string, program key) {
	to := s.setAccount(o, "to", in, i)
	owner, known := s.owners.ownerOf(to, mint, program)
	if !known {
		s.party(o, to, "to")
		return
	}
	o.Address("toOwner", listName, owner, "")
	o.Plain("toOwnerSource", show.FromImage)
	s.party(o, owner, "toOwner")
}

// tokenAmount sets an amount: with the decimals that the bytes say or the operator's list has.
func (s *shower) tokenAmount(o *show.Object, in *instruction, t *tokenInstruction, mint string) {
	u, n := s.unitOf(o, mint), new(big.Int).SetUint64(t.amountOf(in))
	if at := len(t.prefix) + 8; len(in.data) > at {
		u.Decimals, u.DecimalsFrom, u.HasDecimals = int(in.data[at]), show.FromBytes, true
	}
	all := t.list == tokenApprovals && n.BitLen() > 63
	amount := o.Object("amount")
	amount.SetAmount(n, u, all)
	switch {
	case all:
		amount.Warn(show.ApprovalUnlimited)
	case t.list == tokenApprovals && n.Sign() > 0:
		amount.Warn(show.Approval)
	}
	if at := len(t.prefix) + 9; len(in.data) == at+8 {
		u.DecimalsFrom = ""
		o.Amount("tokenFee", new(big.Int).SetUint64(binary.LittleEndian.Uint64(in.data[at:])), u)
	}
}

// unitOf is what amounts of a mint count by the operator's list. An object is warned of one that is not on it.
func (s *shower) unitOf(o *show.Object, mint string) show.Unit {
	listed, ok := s.view.Token(listName, mint)
	if !ok {
		o.Warn(show.TokenUnknown)
		return show.Unit{}
	}
	s.view.UseTokens()
	return listed.Unit()
}

// shownAuthorities are the kinds of authority as the token programs spell them, by number.
var shownAuthorities = []string{"MintTokens", "FreezeAccount", "AccountOwner", "CloseAccount"}

// authority shows who gets an account or a mint.
func (s *shower) authority(o *show.Object, in *instruction) {
	account := s.setAccount(o, "account", in, 0)
	if owner, _, ok := s.owners.find(account, s.keys[in.program]); ok {
		o.Plain("accountOwner", owner)
	}
	kind := authorityType(in)
	if n := int(in.data[1]); n < len(shownAuthorities) {
		kind = shownAuthorities[n]
	}
	o.Plain("authorityType", kind)
	if b := newAuthority(in); len(b) > 0 {
		to := base58.Encode(b)
		o.Address("newAuthority", listName, to, programNames[to])
		s.party(o, to, "newAuthority")
	} else {
		o.Plain("newAuthority", "")
	}
	o.Warn(show.ControlChange)
	s.view.Title("Change who controls an account")
}

// plainTokenInstruction shows one that gives nothing away, or one of which nothing is known but its bytes.
func (s *shower) plainTokenInstruction(o *show.Object, in *instruction) {
	const mintTo, mintToChecked, freeze, thaw = 7, 14, 10, 11
	if len(in.data) == 0 || int(in.data[0]) >= len(tokenNames) {
		s.accountsOf(o, in, nil)
		o.Unreadable(show.UnknownInstruction, in.data)
		return
	}
	n := in.data[0]
	name(o, tokenNames[n])
	s.accountsOf(o, in, nil)
	switch {
	case (n == mintTo && len(in.data) == 9 || n == mintToChecked && len(in.data) == 10) && len(in.accounts) > 2:
		t := tokenInstruction{prefix: string(n), list: tokenTransfers}
		s.tokenAmount(o, in, &t, s.account(in, 0))
		s.party(o, s.account(in, 1), "accounts")
	case n == freeze || n == thaw:
	case plainToken[n]:
		if len(in.data) > 1 {
			o.Bytes("data", in.data[1:])
		}
	default:
		o.Unreadable(show.UnknownInstruction, in.data)
	}
}

// compute shows what is paid for computation.
func (s *shower) compute(o *show.Object, in *instruction) {
	var what byte
	if len(in.data) > 0 {
		what = in.data[0]
	}
	names := [...]string{1: "RequestHeapFrame", 2: "SetComputeUnitLimit", 3: "SetComputeUnitPrice", 4: "SetLoadedAccountsDataSizeLimit"}
	size := 4
	if what == 3 {
		size = 8
	}
	if len(in.data) != 1+size || int(what) >= len(names) || names[what] == "" {
		o.Unreadable(show.UnknownInstruction, in.data)
		return
	}
	var wide [8]byte
	copy(wide[:], in.data[1:])
	n := binary.LittleEndian.Uint64(wide[:])
	name(o, names[what])
	o.Uint("value", n)
}

// tokenAccount shows that an account for tokens is made.
func (s *shower) tokenAccount(o *show.Object, in *instruction) {
	names := []string{"Create", "CreateIdempotent", "RecoverNested"}
	n := 0
	if len(in.data) == 1 {
		n = int(in.data[0])
	}
	if len(in.data) > 1 || n >= len(names) || len(in.accounts) < 6 {
		o.Unreadable(show.UnknownInstruction, in.data)
		return
	}
	name(o, names[n])
	if names[n] == "RecoverNested" {
		s.accountsOf(o, in, nil)
		return
	}
	s.setAccount(o, "payer", in, 0)
	s.setAccount(o, "account", in, 1)
	s.setAccount(o, "owner", in, 2)
	s.setAccount(o, "mint", in, 3)
	s.view.Title("Open a token account")
}

// loader shows what happens to programs.
func (s *shower) loader(o *show.Object, in *instruction) {
	names := []string{"InitializeBuffer", "Write", "DeployWithMaxDataLen", "Upgrade", "SetAuthority", "Close", "ExtendProgram", "SetAuthorityChecked"}
	if len(in.data) < 4 || binary.LittleEndian.Uint32(in.data) >= uint32(len(names)) {
		o.Unreadable(show.UnknownInstruction, in.data)
		return
	}
	n := names[binary.LittleEndian.Uint32(in.data)]
	name(o, n)
	s.accountsOf(o, in, nil)
	switch n {
	case "Write", "DeployWithMaxDataLen", "Upgrade":
		o.Warn(show.Upgrade)
		s.view.Title("Replace the code of a program")
	case "SetAuthority", "SetAuthorityChecked", "Close":
		o.Warn(show.ControlChange)
		s.view.Title("Change who controls a program")
		if n == "Close" && len(in.accounts) > 1 {
			s.empties(o, s.account(in, 1), "accounts")
		}
	}
	if rest := in.data[4:]; len(rest) > 0 {
		o.Bytes("data", rest)
	}
}

// accountsOf shows the accounts of an instruction, with their names where an interface has them.
func (s *shower) accountsOf(o *show.Object, in *instruction, names []account) {
	list := o.List("accounts")
	for i, a := range in.accounts {
		name := ""
		if i < len(names) {
			name = names[i].name
		}
		entry := list.Entry(name)
		if int(a) >= len(s.keys) {
			table, index := s.place(int(a))
			entry.Plain("table", table)
			entry.Uint("index", uint64(index))
		} else {
			text := s.account(in, i)
			entry.Plain("address", text)
			entry.Label(listName, text, programNames[text])
		}
		if s.signs(int(a)) {
			entry.Bool("signer", true)
		}
		if s.writes(int(a)) {
			entry.Bool("writable", true)
		}
	}
}

// other shows an instruction of a program that is not built in.
func (s *shower) other(o *show.Object, in *instruction, program string) error {
	s.party(o, program, "program")
	uploaded, err := s.view.Interface(program)
	if err != nil {
		return err
	}
	var c *call
	var discriminator []byte
	why := show.UnknownProgram
	if programNames[program] != "" {
		why = show.UnknownInstruction
	}
	if d, ok := uploaded.Description.(*idl); ok && d != nil {
		var several bool
		c, discriminator, several = d.find(in.data)
		if why = show.UnknownInstruction; several {
			c, why = nil, show.DoesNotDecode
		}
	}
	if c == nil {
		s.accountsOf(o, in, nil)
		o.Unreadable(why, in.data)
		return nil
	}
	o.Text("function", c.name)
	o.Plain("functionSource", show.FromOrganization)
	s.view.Use(uploaded.Source)
	s.accountsOf(o, in, c.accounts)
	budget := maxValues
	read := values{rest: in.data[len(discriminator):], budget: &budget, whole: true}
	args, ok := read.read(&c.args, 0)
	if !ok || len(read.rest) > 0 {
		o.Unreadable(show.DoesNotDecode, in.data)
		return nil
	}
	list := o.List("args")
	fields := args.(chain.Map)
	for i, name := range c.args.names {
		showValue(list.Entry(name), c.args.elems[i], fields[name], nil)
	}
	return nil
}

// showValue sets a value of an IDL's type. Of a value, and of those in it, special may set what they mean to people instead, and
// tells whether it has.
func showValue(o *show.Object, t *typ, value any, special func(o *show.Object, t *typ, value any) bool) {
	for t.kind == kindAlias || (t.kind == kindOption || t.kind == kindCOption) && value != nil {
		t = t.elems[0]
	}
	if special != nil && special(o, t, value) {
		return
	}
	switch value := value.(type) {
	case nil:
		o.Bool("absent", true)
	case bool:
		o.Bool("value", value)
	case int64:
		o.Number("value", big.NewInt(value))
	case uint64:
		o.Uint("value", value)
	case *big.Int:
		o.Number("value", value)
	case float64:
		o.Plain("value", strconv.FormatFloat(value, 'g', -1, 64))
	case []byte:
		o.Bytes("value", value)
	case string:
		if t.kind == kindKey {
			o.Plain("address", value)
			o.Label(listName, value, programNames[value])
			return
		}
		o.Text("value", value)
	case []any:
		items := o.List("items")
		for i, item := range value {
			of := t.elems[0]
			if t.kind == kindTuple {
				of = t.elems[i]
			}
			showValue(items.Object(), of, item, special)
		}
	case chain.Map:
		members := o.List("members")
		for i, name := range t.names {
			if part, there := value[name]; there {
				showValue(members.Entry(name), t.elems[i], part, special)
			}
		}
	}
}
