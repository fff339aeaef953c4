package wire

// A Kind says which message a frame carries. Kinds are never renumbered.
type Kind uint8

// Questions says who asks which of them, on connections of which role, and what answers it. KindFailed
// answers when the host could not do it, which for a write means "unknown", never "not stored".
const (
	KindHello Kind = 1 // first frame on every connection, by the dialing host

	KindCall     Kind = 10
	KindReply    Kind = 11
	KindOpenSend Kind = 12
	KindOpened   Kind = 13

	KindDeliver   Kind = 14 // RoleCalls
	KindDelivered Kind = 15

	KindOwn    Kind = 20 // RoleStores
	KindOwned  Kind = 21
	KindBatch  Kind = 22
	KindStored Kind = 23

	KindLoadOrganization Kind = 30 // RoleLoads
	KindOrganization     Kind = 31
	KindLoadEntries      Kind = 32
	KindEntries          Kind = 33
	KindLoadPieces       Kind = 34
	KindPieces           Kind = 35
	KindFind             Kind = 36
	KindPage             Kind = 37
	KindProven           Kind = 38 // answer to Find and Page
	KindLoadObject       Kind = 39
	KindObject           Kind = 40
	KindPageIndex        Kind = 41
	KindIndexRows        Kind = 42
	KindSends            Kind = 43
	KindSendStates       Kind = 44

	KindPutSnapshot Kind = 50 // RoleSnapshots
	KindLoadKeys    Kind = 80 // RoleLoads
	KindKeys        Kind = 81
	KindPutKeys     Kind = 82 // RoleSnapshots
	KindLoadHeaders Kind = 83 // RoleLoads
	KindHeaders     Kind = 84
	KindLoadTips    Kind = 85
	KindTips        Kind = 86
	KindLoadTable   Kind = 87
	KindTable       Kind = 88
	KindLoadPages   Kind = 89 // answered by KindPieces
	KindPutTable    Kind = 90 // RoleSnapshots
	KindProveLogged Kind = 91 // RoleLoads
	KindLogged      Kind = 92
	KindPutObject   Kind = 51
	KindDone        Kind = 52

	KindFailed Kind = 60
	KindCancel Kind = 61 // the asker no longer waits for this id; no answer

	KindChain      Kind = 70 // RoleChains
	KindChainState Kind = 71
	KindReadChain  Kind = 76
	KindReading    Kind = 77

	KindDial   Kind = 72 // RoleDials
	KindDialed Kind = 73
	KindPull   Kind = 78 // answered by KindDialed

	KindProgram       Kind = 93 // RoleDials
	KindProgramStatus Kind = 94

	KindWitness  Kind = 74 // RoleWitnesses
	KindCosigned Kind = 75
)

// A Role is what a connection is for. The host dials all of them.
type Role uint8

// RoleCalls carries calls from the host. On the others the enclave asks and the host answers; they are apart
// so that a slow load never delays a batch, and a slow node of a chain or name outside neither. RoleStream
// carries no frames behind its hello: it is the byte stream that the enclave asked for by KindDial or KindPull.
const (
	RoleCalls     Role = 1
	RoleStores    Role = 2
	RoleLoads     Role = 3
	RoleSnapshots Role = 4
	RoleChains    Role = 5
	RoleDials     Role = 6
	RoleStream    Role = 7
	RoleWitnesses Role = 8
)

// Roles is the number of roles, which count from 1.
const Roles = 8

// ID names an organization or an activity: the 16 bytes of its UUID.
type ID [16]byte

// Hash is a SHA-256 digest or a node of an RFC 6962 tree.
type Hash [32]byte

// A Ticket names a stream that the enclave has asked for. It is drawn by the enclave and good once.
type Ticket [16]byte

// Hello opens a connection. A ticket comes with RoleStream and with no other.
type Hello struct {
	Version uint16  `cbor:"1,keyasint"`
	Role    Role    `cbor:"2,keyasint"`
	Ticket  *Ticket `cbor:"3,keyasint,omitempty"`
}

// Endpoint selects the API that a call is for: submit, query, auth proxy or boot.
type Endpoint uint8

// The endpoints of the enclave.
const (
	EndpointSubmit Endpoint = 1
	EndpointQuery  Endpoint = 2
	EndpointProxy  Endpoint = 3
	EndpointBoot   Endpoint = 4
)

// Header is one HTTP header that may carry a credential, as received.
type Header struct {
	Name  string `cbor:"1,keyasint"`
	Value string `cbor:"2,keyasint"`
}

// From is hearsay of the host about who called. It serves logs, rate limits, an organization's IP allowlist
// and the auth proxy's list of origins, which can only keep out, and no other decision.
type From struct {
	Address string `cbor:"1,keyasint,omitempty"`
	Origin  string `cbor:"2,keyasint,omitempty"`
}

// A Call is one request of a client, unread by the host. Every field is chosen by an attacker.
type Call struct {
	Endpoint Endpoint `cbor:"1,keyasint"`
	Op       string   `cbor:"2,keyasint"` // last segment of the path
	Head     []Header `cbor:"3,keyasint,omitempty"`
	Body     Bytes    `cbor:"4,keyasint"`
	From     From     `cbor:"5,keyasint,omitempty"`
	// WithinMs is how long the caller is willing to wait. 0 means DefaultWait.
	WithinMs uint32 `cbor:"6,keyasint,omitempty"`
}

// A Reply answers a Call. Body is JSON.
type Reply struct {
	Status uint16 `cbor:"1,keyasint"`
	Body   Bytes  `cbor:"2,keyasint"`
	// Request is the SHA-256 of the body that this answers.
	Request Hash `cbor:"3,keyasint"`
	// Phases are microseconds spent: stamp, decide, execute, store.
	Phases []uint32 `cbor:"4,keyasint,omitempty"`
	// Limit is how many requests a full bucket of the caller's holds, Remaining
	// how many are left, of the bucket with the fewest. Limit 0: not counted.
	Limit     uint32 `cbor:"5,keyasint,omitempty"`
	Remaining uint32 `cbor:"6,keyasint,omitempty"`
	// Readable is said at the endpoint of the auth proxy: a page of Call.From.Origin may read the reply.
	Readable bool `cbor:"7,keyasint,omitempty"`
	// RetryMs is for how long the caller has nothing left of what it would take, in a refusal with status 429. RefusesAll says that
	// until then the same is answered to whatever the credential stamps.
	RetryMs    uint32 `cbor:"8,keyasint,omitempty"`
	RefusesAll bool   `cbor:"9,keyasint,omitempty"`
	// Signed is there where the call asked by HeaderSignReply and the enclave serves.
	Signed *Signed `cbor:"10,keyasint,omitempty"`
	// Moved is one more than the range of the organization that the call is about, when this enclave does not
	// own it: nothing was done here, and whoever does own it is to be asked. 0: not so. Of a range that was
	// lost while the call was under way the call may have been done; the same body again finds out.
	Moved uint16 `cbor:"20,keyasint,omitempty"`
}

// HeaderSignReply is the name of the header, in a call's Head, by which a client asks
// for a signed reply; its value is the client's nonce.
const HeaderSignReply = "X-Cloister-Sign-Reply"

// HeaderLogProof is the name of the header, in a submit's Head, by which a client asks for
// the logged proof beside what the reply tells of.
const HeaderLogProof = "X-Cloister-Log-Proof"

// Signed is what a signed reply carries beside its body; package attestation says what is signed.
type Signed struct {
	Deployment Hash   `cbor:"1,keyasint"`
	LiveKey    []byte `cbor:"2,keyasint"` // 130 bytes
	TimeMs     uint64 `cbor:"3,keyasint"`
	Signature  []byte `cbor:"4,keyasint"` // r ‖ s, 64 bytes
}

// A Range is a part of a deployment's organizations: a top-level organization and all below it lie in one. A
// deployment has 1 to MaxRanges, fixed when it was made; with one, everything is range 0.
type Range uint8

// RangeOf is the range of an organization in a deployment of so many.
func RangeOf(id ID, ranges int) Range { return Range(int(id[0]) * ranges / 256) }

// Own asks for a range of the store, or extends or gives back what is owned. A range
// is owned by at most one boot; ownership is a row with an epoch.
//
// Take: succeeds only while the row's epoch is still Expect (0: no row yet); the row then holds Boot and
// epoch Expect+1. Look changes nothing. Renew and Release succeed only while the row holds Boot and Expect.
type Own struct {
	Action OwnAction `cbor:"1,keyasint"`
	Boot   ID        `cbor:"2,keyasint"`
	Expect uint64    `cbor:"3,keyasint"`
	Range  Range     `cbor:"4,keyasint,omitempty"`
}

// OwnAction is what Own asks for.
type OwnAction uint8

// The actions of Own.
const (
	OwnLook    OwnAction = 1
	OwnTake    OwnAction = 2
	OwnRenew   OwnAction = 3
	OwnRelease OwnAction = 4
)

// Owned tells the row as it stands after the action.
type Owned struct {
	OK       bool   `cbor:"1,keyasint"`
	Epoch    uint64 `cbor:"2,keyasint"`
	Boot     ID     `cbor:"3,keyasint"`
	Released bool   `cbor:"4,keyasint"`
	// Batches is how many batches the row's boot has stored.
	Batches uint64 `cbor:"5,keyasint"`
	// Beat counts renewals, for as long as somebody owns the row: as long as it or
	// Batches grows, its owner lives. A store may begin to count anew when it is
	// opened again. It is for hosts; an enclave makes nothing of it.
	Beat uint64 `cbor:"6,keyasint,omitempty"`
}

// An Entry is one sealed entry of an organization's ledger and what the host
// needs to page and filter. Activity, Type, Status, TimeMs and Prior are a
// copy of what is sealed; the enclave believes only what is sealed.
type Entry struct {
	Organization ID     `cbor:"1,keyasint"`
	Seq          uint64 `cbor:"2,keyasint"`
	Sealed       Bytes  `cbor:"3,keyasint"`
	Activity     ID     `cbor:"4,keyasint"` // zero: no activity (entry 0 of a first organization, upkeep)
	Type         string `cbor:"5,keyasint,omitempty"`
	Status       uint8  `cbor:"6,keyasint,omitempty"`
	TimeMs       uint64 `cbor:"7,keyasint"`
	// Prior is one more than the seq of this activity's entry before this one,
	// or 0: lists show only the newest entry of an activity.
	Prior uint64 `cbor:"8,keyasint,omitempty"`
	// Blind are keyed hashes under which the entry's record can be found.
	Blind []Hash `cbor:"9,keyasint,omitempty"`
	// Index changes the rows of the host's index that lead to this organization.
	// They are done in their order, in the transaction of the entry.
	Index []IndexChange `cbor:"10,keyasint,omitempty"`
	// Sends are what must go out once the entry is stored. What it is lies sealed
	// in the entry; the place in this list is a send's number.
	Sends []SendMark `cbor:"11,keyasint,omitempty"`
}

// An IndexChange puts or drops the row that leads from a key to the entry's organization. Key is a keyed
// hash: the host learns which rows have one value and not what it is. Rank orders the rows of a key and is
// the same in all of an organization's. A row that is there may be put again, one that is not dropped.
type IndexChange struct {
	Key  Hash   `cbor:"1,keyasint"`
	Rank uint64 `cbor:"2,keyasint"`
	Drop bool   `cbor:"3,keyasint,omitempty"`
}

// A WrappedKey is an organization's data key, sealed under the storage key.
type WrappedKey struct {
	Organization ID     `cbor:"1,keyasint"`
	KeyID        uint32 `cbor:"2,keyasint"`
	Sealed       []byte `cbor:"3,keyasint"`
}

// A Batch is stored whole or not at all, in one transaction, in order.
type Batch struct {
	Boot   ID     `cbor:"1,keyasint"`
	Epoch  uint64 `cbor:"2,keyasint"`
	Number uint64 `cbor:"3,keyasint"` // 1 for the boot's first
	// Header holds the batch's leaf of the range's log and the tips that it moves, names the header
	// before it, and ends in a MAC. The host stores it as it is and shows it to the next boot. A batch
	// without entries is one that only says something in the log.
	Header  Bytes        `cbor:"4,keyasint"`
	Entries []Entry      `cbor:"5,keyasint"`
	Keys    []WrappedKey `cbor:"6,keyasint,omitempty"`
	Range   Range        `cbor:"7,keyasint,omitempty"` // of all its organizations
}

// A BatchHeader is what a batch's Header holds, with a MAC of 32 bytes behind it by which a starting enclave
// believes it: where the batch stands in the log of its range, its leaf there, and the tips that it moves.
type BatchHeader struct {
	Format     uint8      `cbor:"1,keyasint"` // 2; 1 was of batches before there was a log
	Deployment Hash       `cbor:"2,keyasint"`
	Range      Range      `cbor:"3,keyasint"`
	Generation uint32     `cbor:"4,keyasint"`
	Position   uint64     `cbor:"5,keyasint"` // of the leaf in the log, from 0
	Previous   Hash       `cbor:"6,keyasint"` // SHA-256 of the header before, its MAC included; zero: there is none
	Leaf       []byte     `cbor:"7,keyasint"` // as package tlog of attestation writes it
	Tips       []Tip      `cbor:"8,keyasint,omitempty"`
	Table      *TableHead `cbor:"9,keyasint,omitempty"` // with a leaf that commits to one
}

// A TableHead commits to a tip table, and to the log up to where the table stands.
type TableHead struct {
	Covers   uint64 `cbor:"1,keyasint"` // how many batches of the log the table has the tips of
	LogRoot  Hash   `cbor:"2,keyasint"` // of the leaves of these
	Previous Hash   `cbor:"3,keyasint"` // SHA-256 of the last one's header; zero: there is none
	Tips     uint64 `cbor:"4,keyasint"`
	Root     Hash   `cbor:"5,keyasint"` // of the pages
	// Policy and Mode are in force where the table stands, as the leaf of a boot says them.
	Policy Hash  `cbor:"6,keyasint,omitzero"`
	Mode   uint8 `cbor:"7,keyasint,omitempty"`
	// Boots is the number of that boot.
	Boots uint64 `cbor:"8,keyasint,omitempty"`
	// Recovered is the newest generation that began with a recovery after which each organization's root quorum has to let
	// it sign again, and RecoveredMs the time of the newest recovery; 0: there was none.
	Recovered   uint32 `cbor:"9,keyasint,omitempty"`
	RecoveredMs uint64 `cbor:"10,keyasint,omitempty"`
	// ManifestNonce is that of the manifest in force there.
	ManifestNonce uint64 `cbor:"11,keyasint,omitempty"`
	// WaitMs is how long, in milliseconds, an enclave of earlier terms may serve that no boot has waited for yet; 0: no longer
	// than one of the terms in force.
	WaitMs uint64 `cbor:"12,keyasint,omitempty"`
}

// Verdict is the store's answer to a batch.
type Verdict uint8

// Stored and the two ways to lose the store. A store that is not sure answers KindFailed instead.
const (
	VerdictStored     Verdict = 1 // these bytes are stored, now or before
	VerdictConflict   Verdict = 2 // something else stands at one of the places, or a place before it is empty
	VerdictSuperseded Verdict = 3 // another boot or epoch owns the range
)

// Stored answers a Batch.
type Stored struct {
	Number  uint64  `cbor:"1,keyasint"`
	Verdict Verdict `cbor:"2,keyasint"`
}

// LoadOrganization asks for what opens an organization: its wrapped keys, its
// newest snapshot, and the entries after that, as many as fit in MaxBytes.
type LoadOrganization struct {
	Organization ID     `cbor:"1,keyasint"`
	MaxBytes     uint32 `cbor:"2,keyasint"`
}

// Organization answers LoadOrganization. Count 0 means that there is none.
type Organization struct {
	Count    uint64       `cbor:"1,keyasint"` // entries in the ledger
	Keys     []WrappedKey `cbor:"2,keyasint,omitempty"`
	Snapshot []byte       `cbor:"3,keyasint,omitempty"`
	From     uint64       `cbor:"4,keyasint"`           // seq of Entries[0]: what the snapshot covers
	Entries  [][]byte     `cbor:"5,keyasint,omitempty"` // sealed, consecutive
}

// LoadEntries asks for consecutive sealed entries from seq From.
type LoadEntries struct {
	Organization ID     `cbor:"1,keyasint"`
	From         uint64 `cbor:"2,keyasint"`
	MaxBytes     uint32 `cbor:"3,keyasint"`
}

// Entries answers LoadEntries; at least one entry unless there is none.
type Entries struct {
	Entries [][]byte `cbor:"1,keyasint,omitempty"`
}

// LoadPieces asks for pieces of a snapshot by the hash of their sealed bytes.
type LoadPieces struct {
	Organization ID     `cbor:"1,keyasint"`
	Pieces       []Hash `cbor:"2,keyasint"`
}

// Pieces answers LoadPieces in order; a missing one is empty.
type Pieces struct {
	Pieces [][]byte `cbor:"1,keyasint"`
}

// Find asks for the newest entry of each of these activities, or for the entries at these places, with
// inclusion proofs for the tree of TreeSize leaves. Entries at or past TreeSize are not answered.
type Find struct {
	Organization ID       `cbor:"1,keyasint"`
	TreeSize     uint64   `cbor:"2,keyasint"`
	Activities   []ID     `cbor:"3,keyasint,omitempty"`
	Seqs         []uint64 `cbor:"4,keyasint,omitempty"`
}

// Page asks for newest entries of activities, newest first, filtered. Before and After are ids of activities:
// After X means those behind X in the list, Before X those just ahead of it, still in list order.
type Page struct {
	Organization ID       `cbor:"1,keyasint"`
	TreeSize     uint64   `cbor:"2,keyasint"`
	Types        []string `cbor:"3,keyasint,omitempty"`
	Statuses     []uint8  `cbor:"4,keyasint,omitempty"`
	Before       *ID      `cbor:"5,keyasint,omitempty"`
	After        *ID      `cbor:"6,keyasint,omitempty"`
	Limit        uint16   `cbor:"7,keyasint"`
}

// An IndexRow is an organization that has a key, in the order of rank and id.
type IndexRow struct {
	Rank         uint64 `cbor:"1,keyasint"`
	Organization ID     `cbor:"2,keyasint"`
}

// PageIndex asks for rows of one key in their order: the first ones, those
// behind After, or those just above Before. A cursor need not be a row.
type PageIndex struct {
	Key    Hash      `cbor:"1,keyasint"`
	Before *IndexRow `cbor:"2,keyasint,omitempty"`
	After  *IndexRow `cbor:"3,keyasint,omitempty"`
	Limit  uint16    `cbor:"4,keyasint"`
}

// IndexRows answers PageIndex.
type IndexRows struct {
	Rows []IndexRow `cbor:"1,keyasint,omitempty"`
}

// ProvenEntry is an old entry with its inclusion proof (RFC 6962, leaf
// upwards) under the tree of the size asked for.
type ProvenEntry struct {
	Seq    uint64 `cbor:"1,keyasint"`
	Sealed Bytes  `cbor:"2,keyasint"`
	Proof  []Hash `cbor:"3,keyasint,omitempty"`
}

// Proven answers Find and Page. Unknown says that a cursor names nothing.
type Proven struct {
	Entries []ProvenEntry `cbor:"1,keyasint,omitempty"`
	Unknown bool          `cbor:"2,keyasint,omitempty"`
}

// LoadKeys asks for wrapped data keys of organizations From to To, both included, in
// the order of organization and key, from key FromKey of the first one on.
type LoadKeys struct {
	From    ID     `cbor:"1,keyasint"`
	FromKey uint32 `cbor:"2,keyasint"`
	To      ID     `cbor:"3,keyasint"`
	Limit   uint32 `cbor:"4,keyasint"` // 1 to MaxKeysPage
}

// Keys answers LoadKeys. Fewer than the limit: there are no more.
type Keys struct {
	Keys []WrappedKey `cbor:"1,keyasint"`
}

// PutKeys puts data keys that were wrapped anew in the place of what is stored, all or none. A key that is
// not stored is not added. Done is false when the boot does not own the range.
type PutKeys struct {
	Range Range        `cbor:"1,keyasint,omitempty"`
	Boot  ID           `cbor:"2,keyasint"`
	Epoch uint64       `cbor:"3,keyasint"`
	Keys  []WrappedKey `cbor:"4,keyasint"` // 1 to MaxKeysPage
}

// PutSnapshot stores a snapshot that covers the first Count entries, replacing
// an older one. Pieces are new ones; Drop are those that nothing names any more.
//
// Without a Snapshot it brings pieces ahead of the one that will name them: they
// are added, there is at least one, and Drop is empty.
//
// It is done only for the owner of the range, and a snapshot only in the place of the one that it was built
// on: Over is what that one counts, 0 if there is none. The very same snapshot again counts as done. Done
// says whether it was; with OK false nothing was changed and trying again changes nothing.
type PutSnapshot struct {
	Organization ID       `cbor:"1,keyasint"`
	Count        uint64   `cbor:"2,keyasint"`
	Snapshot     []byte   `cbor:"3,keyasint"`
	Pieces       [][]byte `cbor:"4,keyasint,omitempty"` // stored under SHA-256 of the bytes
	Drop         []Hash   `cbor:"5,keyasint,omitempty"`
	Boot         ID       `cbor:"6,keyasint"`
	Epoch        uint64   `cbor:"7,keyasint"`
	Over         uint64   `cbor:"8,keyasint"` // below Count; not looked at without a Snapshot
	Range        Range    `cbor:"9,keyasint,omitempty"`
}

// LoadHeaders asks for headers of a range's batches in the order in which they were stored, from batch
// Number of Epoch on; those of later epochs follow.
type LoadHeaders struct {
	Range    Range  `cbor:"1,keyasint,omitempty"`
	Epoch    uint64 `cbor:"2,keyasint"`
	Number   uint64 `cbor:"3,keyasint"`
	MaxBytes uint32 `cbor:"4,keyasint"`
}

// Headers answers LoadHeaders; at least one unless there is none.
type Headers struct {
	Headers [][]byte `cbor:"1,keyasint,omitempty"`
}

// A Tip is where an organization's ledger stands: how many entries, and the root of their tree.
type Tip struct {
	Organization ID     `cbor:"1,keyasint"`
	Count        uint64 `cbor:"2,keyasint"`
	Root         Hash   `cbor:"3,keyasint"`
}

// LoadTips asks where the ledgers of organizations From to To, both included, stand, by ascending id. An
// enclave asks it for a range that has no log yet.
type LoadTips struct {
	From  ID     `cbor:"1,keyasint"`
	To    ID     `cbor:"2,keyasint"`
	Limit uint32 `cbor:"3,keyasint"` // 1 to MaxTipsPage
}

// Tips answers LoadTips. Fewer than the limit: there are no more.
type Tips struct {
	Tips []Tip `cbor:"1,keyasint,omitempty"`
}

// LoadTable asks for the newest tip table of a range.
type LoadTable struct {
	Range Range `cbor:"1,keyasint,omitempty"`
}

// TipTable answers LoadTable; empty: there is none.
type TipTable struct {
	Table []byte `cbor:"1,keyasint,omitempty"`
}

// LoadPages asks for pages of a range's tip table by the hash of their bytes. It is answered as LoadPieces is.
type LoadPages struct {
	Range Range  `cbor:"1,keyasint,omitempty"`
	Pages []Hash `cbor:"2,keyasint"`
}

// PutTable stores a range's tip table in the place of the one before. Pages are new ones; Drop are those that
// only the one before names. Without a Table it brings pages ahead of the one that will name them, or drops
// more pages behind it, and not both.
//
// It is done only for the owner of the range, and a table only in the place of the one that it was made from:
// Over is the SHA-256 of that one's bytes, zero if there is none. With OK false nothing was changed. The same
// again counts as done.
type PutTable struct {
	Range Range    `cbor:"1,keyasint,omitempty"`
	Boot  ID       `cbor:"2,keyasint"`
	Epoch uint64   `cbor:"3,keyasint"`
	Table []byte   `cbor:"4,keyasint,omitempty"`
	Pages [][]byte `cbor:"5,keyasint,omitempty"` // stored under SHA-256 of the bytes
	Drop  []Hash   `cbor:"6,keyasint,omitempty"`
	Over  Hash     `cbor:"7,keyasint"` // not looked at without a Table
}

// PutObject stores a small object of the deployment under a name: the genesis record, the wrapped keyring,
// boot proofs. Once makes it fail to replace: the same bytes count as done.
type PutObject struct {
	Name  string `cbor:"1,keyasint"`
	Bytes []byte `cbor:"2,keyasint"`
	Once  bool   `cbor:"3,keyasint"`
}

// LoadObject asks for an object, or with Newest for the one last stored whose name begins with Name.
type LoadObject struct {
	Name   string `cbor:"1,keyasint"`
	Newest bool   `cbor:"2,keyasint,omitempty"`
}

// Object answers LoadObject. Found false means that there is none.
type Object struct {
	Found bool   `cbor:"1,keyasint"`
	Bytes []byte `cbor:"2,keyasint,omitempty"`
}

// Done answers a Put.
type Done struct {
	OK bool `cbor:"1,keyasint"`
}

// Witness asks for cosignatures of a range's checkpoint by the witnesses of a policy (tlog-policy). The answer
// comes when as many have cosigned as the policy's quorum takes, or when the host gives up on the others.
type Witness struct {
	Range      Range  `cbor:"1,keyasint,omitempty"`
	Policy     string `cbor:"2,keyasint"`
	Checkpoint []byte `cbor:"3,keyasint"` // a note that the log has signed
}

// Cosigned answers Witness: the signature lines of witnesses, as they stand in a note, each with its newline.
// Only who verifies them knows what they are worth.
type Cosigned struct {
	Lines []string `cbor:"1,keyasint,omitempty"`
}

// ProveLogged asks for what shows that an entry is in a range's log: in one of its first Size leaves.
type ProveLogged struct {
	Range        Range  `cbor:"1,keyasint,omitempty"`
	Generation   uint32 `cbor:"2,keyasint"`
	Organization ID     `cbor:"3,keyasint"`
	Seq          uint64 `cbor:"4,keyasint"`
	Size         uint64 `cbor:"5,keyasint"`
	// Header, unless empty, is of the batch that is asked about in place of the one that the entry came in.
	Header Bytes `cbor:"6,keyasint,omitempty"`
}

// Logged answers ProveLogged. Without a Header it is not there: it came before that was kept, in another
// generation, or behind these leaves.
type Logged struct {
	Header Bytes  `cbor:"1,keyasint,omitempty"` // of the batch that the entry came in, or of the one that was asked about
	Path   []Hash `cbor:"2,keyasint,omitempty"` // of that batch's leaf, from it up to the root of the first Size leaves
	// First is the log's first leaf, and FirstPath is its path, in generations after the first.
	First     []byte `cbor:"3,keyasint,omitempty"`
	FirstPath []Hash `cbor:"4,keyasint,omitempty"`
}

// Failed says that the host could not answer. Text is for the host's own log.
type Failed struct {
	Text string `cbor:"1,keyasint,omitempty"`
}
