package wire

// A Question describes a kind of question: who asks it on which connections, its message, its answer, and the sizes
// of both. KindFailed, with up to maxSmall bytes, is an allowed answer to every question.
type Question struct {
	Kind    Kind
	Name    string // for logs and metrics
	Role    Role   // role of the connections on which it is asked
	AskedBy Side
	Asks    any // zero value of the message in its payload
	Most    int // largest payload in bytes
	Answer  Kind
	Tells   any // zero value of the message in the answer
	// MostAnswer is the answer's largest payload in bytes.
	MostAnswer int
	// Writes means that it changes the store: the host finishes it even if the enclave cancels it.
	Writes bool
}

// Questions lists all questions. Both sides dispatch by this table. A peer that sends
// a frame that it doesn't allow commits a breach: its connection is closed.
var Questions = []Question{
	{Kind: KindCall, Name: "call", Role: RoleCalls, AskedBy: SideHost, Asks: Call{}, Most: MaxCallFrame, Answer: KindReply, Tells: Reply{}, MostAnswer: MaxFrame},
	{Kind: KindOpenSend, Name: "open_send", Role: RoleCalls, AskedBy: SideHost, Asks: AboutSend{}, Most: maxSmall, Answer: KindOpened, Tells: Opened{}, MostAnswer: MaxWebhook + maxSmall},
	{Kind: KindDeliver, Name: "deliver", Role: RoleCalls, AskedBy: SideHost, Asks: AboutSend{}, Most: maxSmall, Answer: KindDelivered, Tells: Delivered{}, MostAnswer: MaxMail + maxSmall},

	{Kind: KindOwn, Name: "own", Role: RoleStores, AskedBy: SideEnclave, Asks: Own{}, Most: maxSmall, Answer: KindOwned, Tells: Owned{}, MostAnswer: maxSmall, Writes: true},
	{Kind: KindBatch, Name: "batch", Role: RoleStores, AskedBy: SideEnclave, Asks: Batch{}, Most: MaxFrame, Answer: KindStored, Tells: Stored{}, MostAnswer: maxSmall, Writes: true},

	{Kind: KindLoadOrganization, Name: "load_organization", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadOrganization{}, Most: maxSmall, Answer: KindOrganization, Tells: Organization{}, MostAnswer: MaxFrame},
	{Kind: KindLoadEntries, Name: "load_entries", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadEntries{}, Most: maxSmall, Answer: KindEntries, Tells: Entries{}, MostAnswer: MaxFrame},
	{Kind: KindLoadPieces, Name: "load_pieces", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadPieces{}, Most: maxLookup, Answer: KindPieces, Tells: Pieces{}, MostAnswer: MaxFrame},
	{Kind: KindFind, Name: "find", Role: RoleLoads, AskedBy: SideEnclave, Asks: Find{}, Most: maxLookup, Answer: KindProven, Tells: Proven{}, MostAnswer: MaxFrame},
	{Kind: KindPage, Name: "page", Role: RoleLoads, AskedBy: SideEnclave, Asks: Page{}, Most: maxLookup, Answer: KindProven, Tells: Proven{}, MostAnswer: MaxFrame},
	{Kind: KindPageIndex, Name: "page_index", Role: RoleLoads, AskedBy: SideEnclave, Asks: PageIndex{}, Most: maxSmall, Answer: KindIndexRows, Tells: IndexRows{}, MostAnswer: maxLookup},
	{Kind: KindCountActivities, Name: "count_activities", Role: RoleLoads, AskedBy: SideEnclave, Asks: CountActivities{}, Most: maxSmall, Answer: KindActivityCounts, Tells: ActivityCounts{}, MostAnswer: maxCounts},
	{Kind: KindLoadObject, Name: "load_object", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadObject{}, Most: maxSmall, Answer: KindObject, Tells: Object{}, MostAnswer: MaxObject + maxSmall},
	{Kind: KindSends, Name: "sends", Role: RoleLoads, AskedBy: SideEnclave, Asks: Sends{}, Most: maxLookup, Answer: KindSendStates, Tells: SendStates{}, MostAnswer: maxStates},
	{Kind: KindDeliveries, Name: "deliveries", Role: RoleLoads, AskedBy: SideEnclave, Asks: Deliveries{}, Most: maxSmall, Answer: KindDeliveryList, Tells: DeliveryList{}, MostAnswer: maxStates},
	{Kind: KindLoadKeys, Name: "load_keys", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadKeys{}, Most: maxSmall, Answer: KindKeys, Tells: Keys{}, MostAnswer: maxKeys},
	{Kind: KindLoadHeaders, Name: "load_headers", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadHeaders{}, Most: maxSmall, Answer: KindHeaders, Tells: Headers{}, MostAnswer: MaxFrame},
	{Kind: KindLoadTips, Name: "load_tips", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadTips{}, Most: maxSmall, Answer: KindTips, Tells: Tips{}, MostAnswer: maxTips},
	{Kind: KindLoadTable, Name: "load_table", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadTable{}, Most: maxSmall, Answer: KindTable, Tells: TipTable{}, MostAnswer: MaxTable + maxSmall},
	{Kind: KindProveLogged, Name: "prove_logged", Role: RoleLoads, AskedBy: SideEnclave, Asks: ProveLogged{}, Most: maxSmall, Answer: KindLogged, Tells: Logged{}, MostAnswer: MaxFrame},
	{Kind: KindLoadPages, Name: "load_pages", Role: RoleLoads, AskedBy: SideEnclave, Asks: LoadPages{}, Most: maxLookup, Answer: KindPieces, Tells: Pieces{}, MostAnswer: MaxFrame},

	{Kind: KindPutSnapshot, Name: "put_snapshot", Role: RoleSnapshots, AskedBy: SideEnclave, Asks: PutSnapshot{}, Most: MaxFrame, Answer: KindDone, Tells: Done{}, MostAnswer: maxSmall, Writes: true},
	{Kind: KindPutKeys, Name: "put_keys", Role: RoleSnapshots, AskedBy: SideEnclave, Asks: PutKeys{}, Most: maxKeys, Answer: KindDone, Tells: Done{}, MostAnswer: maxSmall, Writes: true},
	{Kind: KindPutTable, Name: "put_table", Role: RoleSnapshots, AskedBy: SideEnclave, Asks: PutTable{}, Most: MaxFrame, Answer: KindDone, Tells: Done{}, MostAnswer: maxSmall, Writes: true},
	{Kind: KindPutObject, Name: "put_object", Role: RoleSnapshots, AskedBy: SideEnclave, Asks: PutObject{}, Most: MaxObject + maxSmall, Answer: KindDone, Tells: Done{}, MostAnswer: maxSmall, Writes: true},

	{Kind: KindChain, Name: "chain", Role: RoleChains, AskedBy: SideEnclave, Asks: Chain{}, Most: maxChain, Answer: KindChainState, Tells: ChainState{}, MostAnswer: 2 * maxSmall},
	{Kind: KindReadChain, Name: "read_chain", Role: RoleChains, AskedBy: SideEnclave, Asks: ReadChain{}, Most: maxLookup, Answer: KindReading, Tells: ChainReading{}, MostAnswer: maxReading},
	{Kind: KindWitness, Name: "witness", Role: RoleWitnesses, AskedBy: SideEnclave, Asks: Witness{}, Most: maxLookup, Answer: KindCosigned, Tells: Cosigned{}, MostAnswer: maxLookup},
	{Kind: KindDial, Name: "dial", Role: RoleDials, AskedBy: SideEnclave, Asks: Dial{}, Most: maxSmall, Answer: KindDialed, Tells: Dialed{}, MostAnswer: maxSmall},
	{Kind: KindProgram, Name: "program", Role: RoleDials, AskedBy: SideEnclave, Asks: AboutProgram{}, Most: maxSmall, Answer: KindProgramStatus, Tells: ProgramStatus{}, MostAnswer: MaxProgram + maxSmall},
	{Kind: KindPull, Name: "pull", Role: RoleDials, AskedBy: SideEnclave, Asks: Pull{}, Most: maxLookup, Answer: KindDialed, Tells: Dialed{}, MostAnswer: maxSmall},
}

var questions = func() (byKind [256]*Question) {
	for i := range Questions {
		byKind[Questions[i].Kind] = &Questions[i]
	}
	return byKind
}()

// QuestionOf returns the question of a kind, nil if the kind is not a question's.
func QuestionOf(k Kind) *Question { return questions[k] }
