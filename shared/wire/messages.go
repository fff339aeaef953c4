package wire

// A Kind is the type of a frame: which message it carries. Kinds are never renumbered.
type Kind uint8

// The kinds of frames. Questions lists who asks which of them, on connections of which role, and which kind answers.
// KindFailed answers a question that failed; after a write the outcome is then unknown, not "not stored".
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
	KindDeliveries       Kind = 45
	KindDeliveryList     Kind = 46

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

	KindCountActivities Kind = 97 // RoleLoads
	KindActivityCounts  Kind = 98

	KindPutObject Kind = 51
	KindDone      Kind = 52

	KindFailed Kind = 60
	KindCancel Kind = 61 // cancels the question with the frame's id; it has no answer

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

// A Role is the purpose of a connection. The host dials connections of every role.
type Role uint8

// The roles. RoleCalls carries calls from the host. On the others the enclave asks and the host answers; they are
// separate so that a slow load, a slow node of a chain or a slow server never delays a batch. RoleStream carries
// no frames after its hello: it is the byte stream that the enclave asked for by KindDial or KindPull.
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

// ID identifies an organization, an activity, a boot or a receiver: the 16 bytes of its UUID.
type ID [16]byte

// Hash is a SHA-256 digest or a node of an RFC 6962 tree.
type Hash [32]byte

// A Ticket identifies a stream that the enclave has asked for. The enclave draws it; it is valid once.
type Ticket [16]byte

// Hello opens a connection. Ticket is set with RoleStream and with no other role.
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

// From is what the host claims about the caller; it is not verified. Use it only for logs and to refuse:
// rate limits, an organization's IP allowlist, the auth proxy's list of origins.
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
	// WithinMs is how long the caller waits for the reply; 0 means DefaultWait. The enclave caps it at MaxWait.
	WithinMs uint32 `cbor:"6,keyasint,omitempty"`
}

// A Reply answers a Call. Body is JSON.
type Reply struct {
	Status uint16 `cbor:"1,keyasint"`
	Body   Bytes  `cbor:"2,keyasint"`
	// Request is the SHA-256 of the call's body.
	Request Hash `cbor:"3,keyasint"`
	// Phases are the durations of stamp, decide, execute and store, in microseconds.
	Phases []uint32 `cbor:"4,keyasint,omitempty"`
	// Limit is the size in requests, and Remaining the content, of that rate limit bucket of the
	// caller which has the least left. Limit 0: the caller has no rate limit.
	Limit     uint32 `cbor:"5,keyasint,omitempty"`
	Remaining uint32 `cbor:"6,keyasint,omitempty"`
	// Readable is set at EndpointProxy: browsers may show the reply to a page of Call.From.Origin (CORS).
	Readable bool `cbor:"7,keyasint,omitempty"`
	// RetryMs is, with status 429, the time until the rate limit allows the request. RefusesAll means that until then every
	// request of the same credential is refused the same way.
	RetryMs    uint32 `cbor:"8,keyasint,omitempty"`
	RefusesAll bool   `cbor:"9,keyasint,omitempty"`
	// Signed is set if the call has HeaderSignReply and the enclave serves.
	Signed *Signed `cbor:"10,keyasint,omitempty"`
	// Moved is one more than the range of the call's organization if this enclave doesn't own that range;
	// otherwise 0. The call then had no effect, and the host must ask the owner. If the range was lost while
	// the call was under way, the call may have taken effect: sending the same body again finds out.
	Moved uint16 `cbor:"20,keyasint,omitempty"`
}

// HeaderSignReply is the HTTP header, in a call's Head, by which a client asks
// for a signed reply. Its value is the client's nonce.
const HeaderSignReply = "X-Cloister-Sign-Reply"

// HeaderLogProof is the HTTP header, in a submit call's Head, by which a client asks for
// the log proof of the reply's activity.
const HeaderLogProof = "X-Cloister-Log-Proof"

// Signed is the signature of a signed reply, by the enclave's live key. Package attestation defines the signed text.
type Signed struct {
	Deployment Hash   `cbor:"1,keyasint"`
	LiveKey    []byte `cbor:"2,keyasint"` // 130 bytes
	TimeMs     uint64 `cbor:"3,keyasint"`
	Signature  []byte `cbor:"4,keyasint"` // r ‖ s, 64 bytes
}

// A Range is a partition (shard) of a deployment's organizations: a top-level organization and all its
// sub-organizations are in one range. A deployment has 1 to MaxRanges of them, numbered from 0, fixed at genesis.
type Range uint8

// RangeOf returns the range of an organization in a deployment with that many ranges.
func RangeOf(id ID, ranges int) Range { return Range(int(id[0]) * ranges / 256) }

// Own reads or changes the ownership of a range in the store: a row with the owner's boot id and an
// epoch. A range has at most one owner.
//
// OwnTake succeeds only while the row's epoch is Expect (0: no row yet) and sets the row to Boot and epoch
// Expect+1. OwnLook changes nothing. OwnRenew and OwnRelease succeed only while the row has Boot and epoch Expect.
type Own struct {
	Action OwnAction `cbor:"1,keyasint"`
	Boot   ID        `cbor:"2,keyasint"`
	Expect uint64    `cbor:"3,keyasint"`
	Range  Range     `cbor:"4,keyasint,omitempty"`
}

// OwnAction is the action that Own asks for.
type OwnAction uint8

// The actions of Own.
const (
	OwnLook    OwnAction = 1
	OwnTake    OwnAction = 2
	OwnRenew   OwnAction = 3
	OwnRelease OwnAction = 4
)

// Owned answers Own: whether the action succeeded (OK), and the range's row after it.
type Owned struct {
	OK       bool   `cbor:"1,keyasint"`
	Epoch    uint64 `cbor:"2,keyasint"`
	Boot     ID     `cbor:"3,keyasint"`
	Released bool   `cbor:"4,keyasint"`
	// Batches is how many batches the row's boot has stored.
	Batches uint64 `cbor:"5,keyasint"`
	// Beat counts the owner's renewals: while it or Batches grows, the owner is
	// alive. A store may count anew after a restart. Only hosts use it;
	// enclaves ignore it.
	Beat uint64 `cbor:"6,keyasint,omitempty"`
}

// An Entry is one sealed entry of an organization's ledger, with the fields by which the
// host pages and filters. Activity, Type, Status, TimeMs and Prior are copies of sealed
// fields; the enclave believes the sealed ones only.
type Entry struct {
	Organization ID     `cbor:"1,keyasint"`
	Seq          uint64 `cbor:"2,keyasint"`
	Sealed       Bytes  `cbor:"3,keyasint"`
	Activity     ID     `cbor:"4,keyasint"` // zero: no activity (entry 0 of a first organization, upkeep)
	Type         string `cbor:"5,keyasint,omitempty"`
	Status       uint8  `cbor:"6,keyasint,omitempty"`
	TimeMs       uint64 `cbor:"7,keyasint"`
	// Prior is one more than the seq of the activity's previous entry, or 0 if it
	// has none. Lists show only the newest entry of an activity.
	Prior uint64 `cbor:"8,keyasint,omitempty"`
	// Index changes the host's index rows that lead to this organization. The
	// store makes them in order, in the entry's transaction.
	Index []IndexChange `cbor:"10,keyasint,omitempty"` // 9 is not used again
	// Sends announces what must go out once the entry is stored. The content is
	// sealed in the entry; the place in this list is a send's number.
	Sends []SendMark `cbor:"11,keyasint,omitempty"`
}

// An IndexChange puts or drops the index row from a key to the entry's organization. Key is a keyed hash of a
// value: the host learns which rows have the same value, but not the value. Rank orders the rows of a key; all rows
// of an organization have the same. Putting a row that exists and dropping one that doesn't change nothing.
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

// A Batch is the unit in which an enclave writes: entries of a range's organizations, which the
// store stores in order, in one transaction, all or none.
type Batch struct {
	Boot   ID     `cbor:"1,keyasint"`
	Epoch  uint64 `cbor:"2,keyasint"`
	Number uint64 `cbor:"3,keyasint"` // 1 for the boot's first
	// Header is an encoded BatchHeader and its MAC of 32 bytes. The host stores it unchanged and
	// returns it to the next boot (LoadHeaders). A batch without entries only adds its leaf to the
	// log.
	Header  Bytes        `cbor:"4,keyasint"`
	Entries []Entry      `cbor:"5,keyasint"`
	Keys    []WrappedKey `cbor:"6,keyasint,omitempty"`
	Range   Range        `cbor:"7,keyasint,omitempty"` // the range of all its organizations
}

// A BatchHeader is the content of a batch's Header: the batch's position and leaf in the range's log, and the
// new tips of its organizations. Headers form a hash chain. A MAC of 32 bytes follows, by which a boot
// verifies that an enclave of the deployment has made it.
type BatchHeader struct {
	Format     uint8      `cbor:"1,keyasint"` // 2; format 1 was used before there were logs
	Deployment Hash       `cbor:"2,keyasint"`
	Range      Range      `cbor:"3,keyasint"`
	Generation uint32     `cbor:"4,keyasint"`
	Position   uint64     `cbor:"5,keyasint"` // index of the leaf in the log, from 0
	Previous   Hash       `cbor:"6,keyasint"` // SHA-256 of the previous header with its MAC; zero: there is none
	Leaf       []byte     `cbor:"7,keyasint"` // as package attestation/tlog encodes it
	Tips       []Tip      `cbor:"8,keyasint,omitempty"`
	Table      *TableHead `cbor:"9,keyasint,omitempty"` // set if the leaf commits to a tip table
}

// A TableHead commits to a tip table, and to the log up to the last batch that the table covers.
type TableHead struct {
	Covers   uint64 `cbor:"1,keyasint"` // number of the log's batches whose tips the table has
	LogRoot  Hash   `cbor:"2,keyasint"` // root of the tree over their leaves
	Previous Hash   `cbor:"3,keyasint"` // SHA-256 of the last one's header; zero: there is none
	Tips     uint64 `cbor:"4,keyasint"`
	Root     Hash   `cbor:"5,keyasint"` // root of the tree over the pages' hashes
	// Policy and Mode are in force after the covered batches: those of the last start leaf.
	Policy Hash  `cbor:"6,keyasint,omitzero"`
	Mode   uint8 `cbor:"7,keyasint,omitempty"`
	// Boots is the number of the boot of that leaf.
	Boots uint64 `cbor:"8,keyasint,omitempty"`
	// Recovered is the newest generation that began with a recovery after which each organization needs its root quorum's
	// consent to sign again, and RecoveredMs the time of the newest recovery; 0: there was none.
	Recovered   uint32 `cbor:"9,keyasint,omitempty"`
	RecoveredMs uint64 `cbor:"10,keyasint,omitempty"`
	// ManifestNonce is the nonce of the manifest in force.
	ManifestNonce uint64 `cbor:"11,keyasint,omitempty"`
	// WaitMs is how long, in milliseconds, an enclave under earlier terms may still serve, unless a boot has waited for that;
	// 0: no longer than one under the terms in force.
	WaitMs uint64 `cbor:"12,keyasint,omitempty"`
}

// Verdict is the store's answer to a batch.
type Verdict uint8

// The verdicts of a batch. After VerdictConflict and VerdictSuperseded the enclave ends. A store that is not sure
// answers KindFailed instead.
const (
	VerdictStored     Verdict = 1 // these bytes are stored, now or already before
	VerdictConflict   Verdict = 2 // the store has other bytes at one of the places, or lacks an earlier place
	VerdictSuperseded Verdict = 3 // another boot or epoch owns the range
)

// Stored answers a Batch.
type Stored struct {
	Number  uint64  `cbor:"1,keyasint"`
	Verdict Verdict `cbor:"2,keyasint"`
}

// LoadOrganization asks for an organization's wrapped keys, its newest
// snapshot, and the entries after that, as many as fit in MaxBytes.
type LoadOrganization struct {
	Organization ID     `cbor:"1,keyasint"`
	MaxBytes     uint32 `cbor:"2,keyasint"`
}

// Organization answers LoadOrganization. Count is 0 if the organization doesn't exist.
type Organization struct {
	Count    uint64       `cbor:"1,keyasint"` // entries in the ledger
	Keys     []WrappedKey `cbor:"2,keyasint,omitempty"`
	Snapshot []byte       `cbor:"3,keyasint,omitempty"`
	From     uint64       `cbor:"4,keyasint"`           // seq of Entries[0]: number of entries that the snapshot covers
	Entries  [][]byte     `cbor:"5,keyasint,omitempty"` // sealed, consecutive
}

// LoadEntries asks for consecutive sealed entries from seq From.
type LoadEntries struct {
	Organization ID     `cbor:"1,keyasint"`
	From         uint64 `cbor:"2,keyasint"`
	MaxBytes     uint32 `cbor:"3,keyasint"`
}

// Entries answers LoadEntries: at least one entry, unless there is none at From.
type Entries struct {
	Entries [][]byte `cbor:"1,keyasint,omitempty"`
}

// LoadPieces asks for pieces of a snapshot by the hash of their sealed bytes.
type LoadPieces struct {
	Organization ID     `cbor:"1,keyasint"`
	Pieces       []Hash `cbor:"2,keyasint"`
}

// Pieces answers LoadPieces and LoadPages, in the question's order; a missing piece is empty.
type Pieces struct {
	Pieces [][]byte `cbor:"1,keyasint"`
}

// Find asks for the newest entry of each of Activities, or for the entries at Seqs, with inclusion proofs for the
// tree of the first TreeSize entries. Entries at or after TreeSize are left out.
type Find struct {
	Organization ID       `cbor:"1,keyasint"`
	TreeSize     uint64   `cbor:"2,keyasint"`
	Activities   []ID     `cbor:"3,keyasint,omitempty"`
	Seqs         []uint64 `cbor:"4,keyasint,omitempty"`
}

// Page asks for a page of the list of activities' newest entries, newest first, filtered. Before and After are
// cursors, ids of activities: After X asks for those that follow X in the list, Before X for those that precede it.
// End leaves out entries at or after it.
type Page struct {
	Organization ID       `cbor:"1,keyasint"`
	TreeSize     uint64   `cbor:"2,keyasint"`
	Types        []string `cbor:"3,keyasint,omitempty"`
	Statuses     []uint8  `cbor:"4,keyasint,omitempty"`
	Before       *ID      `cbor:"5,keyasint,omitempty"`
	After        *ID      `cbor:"6,keyasint,omitempty"`
	Limit        uint16   `cbor:"7,keyasint"`
	End          *uint64  `cbor:"8,keyasint,omitempty"`
}

// CountActivities asks how many activities changed last between neighbouring times, which ascend: 2 to MaxTimes of them, in milliseconds.
// A period includes the time that it begins with, and not the one that it ends with.
type CountActivities struct {
	Organization ID       `cbor:"1,keyasint"`
	TimesMs      []uint64 `cbor:"2,keyasint"`
}

// ActivityCounts answers CountActivities, an unverified claim of the host: a row for each type and status that a period has, in no order.
type ActivityCounts struct {
	Rows []ActivityCount `cbor:"1,keyasint"` // at most MaxCounts
}

// An ActivityCount is how many activities of a type and status, those of their newest entries, each period has.
type ActivityCount struct {
	Type   string   `cbor:"1,keyasint"`
	Status uint8    `cbor:"2,keyasint"`
	Counts []uint64 `cbor:"3,keyasint"` // one for each period
}

// An IndexRow is a row of the host's index under one key. Rows are ordered by rank and id.
type IndexRow struct {
	Rank         uint64 `cbor:"1,keyasint"`
	Organization ID     `cbor:"2,keyasint"`
}

// PageIndex asks for rows of one key, in order: the first ones, those that follow
// After, or those that precede Before. No row needs to exist for a cursor.
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

// ProvenEntry is an old entry with its inclusion proof (RFC 6962, from the leaf
// upwards) in the organization's tree of the requested size.
type ProvenEntry struct {
	Seq    uint64 `cbor:"1,keyasint"`
	Sealed Bytes  `cbor:"2,keyasint"`
	Proof  []Hash `cbor:"3,keyasint,omitempty"`
}

// Proven answers Find and Page. Unknown means that the cursor names no activity.
type Proven struct {
	Entries []ProvenEntry `cbor:"1,keyasint,omitempty"`
	Unknown bool          `cbor:"2,keyasint,omitempty"`
}

// LoadKeys asks for the wrapped data keys of organizations From to To, both included, in
// the order of organization and key id, from key id FromKey of organization From on.
type LoadKeys struct {
	From    ID     `cbor:"1,keyasint"`
	FromKey uint32 `cbor:"2,keyasint"`
	To      ID     `cbor:"3,keyasint"`
	Limit   uint32 `cbor:"4,keyasint"` // 1 to MaxKeysPage
}

// Keys answers LoadKeys. Fewer keys than the limit mean that there are no more.
type Keys struct {
	Keys []WrappedKey `cbor:"1,keyasint"`
}

// PutKeys replaces stored data keys by the same keys under a new storage key, all or none. It adds no key that is
// not stored. Done.OK is false if the boot doesn't own the range.
type PutKeys struct {
	Range Range        `cbor:"1,keyasint,omitempty"`
	Boot  ID           `cbor:"2,keyasint"`
	Epoch uint64       `cbor:"3,keyasint"`
	Keys  []WrappedKey `cbor:"4,keyasint"` // 1 to MaxKeysPage
}

// PutSnapshot replaces an organization's snapshot by one that covers the first Count entries, adds its
// new Pieces and deletes those in Drop, which no snapshot names any more.
//
// Without a Snapshot it only adds pieces, for a snapshot that follows: there is at least one, and Drop
// is empty.
//
// It succeeds only for the owner of the range, and only if the stored snapshot is the one that the new one
// was built on: Over is that one's Count, 0 if there is none. Sending the same snapshot again succeeds. If
// Done.OK is false, nothing was changed and a retry fails, too.
type PutSnapshot struct {
	Organization ID       `cbor:"1,keyasint"`
	Count        uint64   `cbor:"2,keyasint"`
	Snapshot     []byte   `cbor:"3,keyasint"`
	Pieces       [][]byte `cbor:"4,keyasint,omitempty"` // stored under SHA-256 of the bytes
	Drop         []Hash   `cbor:"5,keyasint,omitempty"`
	Boot         ID       `cbor:"6,keyasint"`
	Epoch        uint64   `cbor:"7,keyasint"`
	Over         uint64   `cbor:"8,keyasint"` // below Count; ignored without a Snapshot
	Range        Range    `cbor:"9,keyasint,omitempty"`
}

// LoadHeaders asks for the headers of a range's batches in the order of storing, from batch Number of Epoch
// on and into later epochs, as many as fit in MaxBytes.
type LoadHeaders struct {
	Range    Range  `cbor:"1,keyasint,omitempty"`
	Epoch    uint64 `cbor:"2,keyasint"`
	Number   uint64 `cbor:"3,keyasint"`
	MaxBytes uint32 `cbor:"4,keyasint"`
}

// Headers answers LoadHeaders: at least one header, unless there is none.
type Headers struct {
	Headers [][]byte `cbor:"1,keyasint,omitempty"`
}

// A Tip is the tree head of an organization's ledger: the number of its entries, and the root of the
// RFC 6962 tree over them.
type Tip struct {
	Organization ID     `cbor:"1,keyasint"`
	Count        uint64 `cbor:"2,keyasint"`
	Root         Hash   `cbor:"3,keyasint"`
}

// LoadTips asks for the tips of organizations From to To, both included, by ascending id. An enclave
// asks it only for a range that has no log yet.
type LoadTips struct {
	From  ID     `cbor:"1,keyasint"`
	To    ID     `cbor:"2,keyasint"`
	Limit uint32 `cbor:"3,keyasint"` // 1 to MaxTipsPage
}

// Tips answers LoadTips. Fewer tips than the limit mean that there are no more.
type Tips struct {
	Tips []Tip `cbor:"1,keyasint,omitempty"`
}

// LoadTable asks for the newest tip table of a range.
type LoadTable struct {
	Range Range `cbor:"1,keyasint,omitempty"`
}

// TipTable answers LoadTable with an encoded KeptTable; empty if there is none.
type TipTable struct {
	Table []byte `cbor:"1,keyasint,omitempty"`
}

// LoadPages asks for pages of a range's tip table by the SHA-256 of their bytes. Pieces answers it.
type LoadPages struct {
	Range Range  `cbor:"1,keyasint,omitempty"`
	Pages []Hash `cbor:"2,keyasint"`
}

// PutTable replaces a range's tip table, adds its new Pages and deletes those in Drop, which only the old table
// names. Without a Table it either adds pages for a table that follows, or deletes further pages of a replaced
// one.
//
// It succeeds only for the owner of the range, and only if the stored table is the one that the new one was made
// from: Over is the SHA-256 of that one's bytes, zero if there is none. If Done.OK is false, nothing was changed.
// Sending the same again succeeds.
type PutTable struct {
	Range Range    `cbor:"1,keyasint,omitempty"`
	Boot  ID       `cbor:"2,keyasint"`
	Epoch uint64   `cbor:"3,keyasint"`
	Table []byte   `cbor:"4,keyasint,omitempty"`
	Pages [][]byte `cbor:"5,keyasint,omitempty"` // stored under SHA-256 of the bytes
	Drop  []Hash   `cbor:"6,keyasint,omitempty"`
	Over  Hash     `cbor:"7,keyasint"` // ignored without a Table
}

// PutObject stores a small object of the deployment under a name: the genesis record, the wrapped keyring,
// boot proofs. With Once it replaces nothing: it succeeds only if the name is new or has the same bytes.
type PutObject struct {
	Name  string `cbor:"1,keyasint"`
	Bytes []byte `cbor:"2,keyasint"`
	Once  bool   `cbor:"3,keyasint"`
}

// LoadObject asks for the object called Name or, with Newest, for the last stored one whose name begins with Name.
type LoadObject struct {
	Name   string `cbor:"1,keyasint"`
	Newest bool   `cbor:"2,keyasint,omitempty"`
}

// Object answers LoadObject. Found is false if there is no such object.
type Object struct {
	Found bool   `cbor:"1,keyasint"`
	Bytes []byte `cbor:"2,keyasint,omitempty"`
}

// Done answers PutSnapshot, PutKeys, PutTable and PutObject.
type Done struct {
	OK bool `cbor:"1,keyasint"`
}

// Witness asks for cosignatures of a range's checkpoint by the witnesses of a policy (c2sp.org/tlog-policy). The
// host answers when the policy's quorum has cosigned, or when it gives up waiting for the other witnesses.
type Witness struct {
	Range      Range  `cbor:"1,keyasint,omitempty"`
	Policy     string `cbor:"2,keyasint"`
	Checkpoint []byte `cbor:"3,keyasint"` // the signed note that holds it
}

// Cosigned answers Witness with the witnesses' signature lines, as in a signed note, each with its newline.
// The enclave verifies them.
type Cosigned struct {
	Lines []string `cbor:"1,keyasint,omitempty"`
}

// ProveLogged asks for the proof that an entry's batch is among the first Size leaves of a range's log.
type ProveLogged struct {
	Range        Range  `cbor:"1,keyasint,omitempty"`
	Generation   uint32 `cbor:"2,keyasint"`
	Organization ID     `cbor:"3,keyasint"`
	Seq          uint64 `cbor:"4,keyasint"`
	Size         uint64 `cbor:"5,keyasint"`
	// Header, unless empty, is the header of the batch to prove instead of the entry's own.
	Header Bytes `cbor:"6,keyasint,omitempty"`
}

// Logged answers ProveLogged. Header is empty if the store can't prove it: the entry is older than the
// stored headers, of another generation, or after the first Size leaves.
type Logged struct {
	Header Bytes  `cbor:"1,keyasint,omitempty"` // header of the entry's batch, or ProveLogged.Header
	Path   []Hash `cbor:"2,keyasint,omitempty"` // inclusion proof of that batch's leaf in the tree of the first Size leaves
	// First is the log's first leaf and FirstPath its inclusion proof, in generations after the first.
	First     []byte `cbor:"3,keyasint,omitempty"`
	FirstPath []Hash `cbor:"4,keyasint,omitempty"`
}

// Failed is the message of KindFailed: the peer could not answer. Text is a description for its logs.
type Failed struct {
	Text string `cbor:"1,keyasint,omitempty"`
}
