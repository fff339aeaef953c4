package wire

import "time"

// The protocol's version and limits. Both sides enforce the limits: the enclave because its
// peer may be hostile, the host because its own peer may have a defect. Sizes are in bytes.
const (
	Version = 1

	MaxRanges     = 64        // ranges of a deployment; each costs its owner two renewals a second
	MaxFrame      = 8 << 20   // one frame's payload; a batch or a load answer is the largest
	MaxCallFrame  = 2 << 20   // a call: body, headers and framing
	MaxBody       = 1 << 20   // body of a request
	MaxHead       = 16 << 10  // all credential headers of a request
	MaxOp         = 128       // name of an operation
	MaxSealed     = 4 << 20   // one sealed entry
	MaxPiece      = 256 << 10 // one piece of a snapshot before sealing
	MaxSnapshot   = 4 << 20   // one sealed snapshot root
	MaxObject     = 1 << 20   // one object (PutObject)
	MaxObjectName = 160
	MaxBatchBytes = 4 << 20   // sealed bytes in a batch, checked before one more entry is added
	MaxBatch      = 4096      // entries in a batch
	MaxProof      = 64        // hashes in an inclusion proof
	MaxFind       = 100       // entries in an answer to Find or Page
	MaxPieces     = 64        // pieces asked for at once
	MaxIndex      = 1 << 14   // index changes of one entry
	MaxRows       = 256       // rows in an answer to PageIndex
	MaxTimes      = 64        // times in CountActivities
	MaxCounts     = 1 << 10   // rows in an answer to CountActivities
	MaxSends      = 64        // sends of one entry
	MaxStates     = 100       // sends, or transactions, in one question for their states
	MaxDeliveries = 100       // deliveries in an answer to Deliveries
	MaxKeysPage   = 256       // data keys in one question or answer
	MaxWrapped    = 1 << 10   // one wrapped data key
	MaxTable      = 256 << 10 // the KeptTable of a range: 32 bytes a block, about 32,768 organizations in a block
	MaxPage       = 256 << 10 // a page of a tip table
	MaxDropPages  = 1 << 14   // pages dropped by one PutTable
	MaxTipsPage   = 4096      // tips in one answer
	MaxInFlight   = 8192      // unanswered questions on one connection, each way
	MaxWaiting    = 64 << 20  // questions in work and unwritten frames on one connection

	MaxChainName = 64        // a chain's CAIP-2 name
	MaxChainData = 128 << 10 // data of a call to estimate: nodes' mempools accept no larger transaction
	MaxChainText = 256       // a node's message
	MaxRevert    = 1 << 10   // data that a reverted call returned
	MaxTokens    = 100       // tokens of a chain that the operator names
	MaxSigned    = 256 << 10 // a signed transaction

	MaxDialHost  = 253     // host name to dial
	MaxImageName = 512     // name of a container image
	MaxAuth      = 4 << 10 // credentials for an image's registry
	MaxStreams   = 256     // byte streams, open or requested
	MaxURL       = 2048
	MaxWebhook   = 4 << 20   // body of a webhook
	MaxProgram   = 512 << 10 // a document about a customer's program
	MaxMail      = 256 << 10

	// DefaultWait is a call's deadline if the host sends none; MaxWait is the longest that it may send.
	DefaultWait = 30 * time.Second
	MaxWait     = 5 * time.Minute
)
