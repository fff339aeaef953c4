package wire

import "time"

// Every bound on what crosses. They are protocol: both sides enforce them, the
// enclave because its peer is hostile, the host because it may be mistaken.
const (
	Version = 1

	MaxRanges     = 64        // of a deployment; each costs its owner two renewals a second
	MaxFrame      = 8 << 20   // one frame's payload; a batch or a load answer is the largest
	MaxCallFrame  = 2 << 20   // a call: body, headers and framing
	MaxBody       = 1 << 20   // body of a request
	MaxHead       = 16 << 10  // all credential headers of a request
	MaxOp         = 128       // name of an operation
	MaxSealed     = 4 << 20   // one sealed entry
	MaxPiece      = 256 << 10 // one piece of a snapshot before sealing
	MaxSnapshot   = 4 << 20   // one sealed snapshot root
	MaxObject     = 1 << 20   // one object
	MaxObjectName = 160
	MaxBatchBytes = 4 << 20   // sealed bytes in a batch, checked before one more entry is added
	MaxBatch      = 4096      // entries in a batch
	MaxProof      = 64        // hashes in an inclusion proof
	MaxFind       = 100       // entries in an answer to Find or Page
	MaxPieces     = 64        // pieces asked for at once
	MaxIndex      = 1 << 14   // changes of the index that come with one entry
	MaxRows       = 256       // rows in an answer to PageIndex
	MaxSends      = 64        // sends of one entry
	MaxStates     = 100       // sends in one question for where they stand
	MaxKeysPage   = 256       // data keys in one question or answer
	MaxWrapped    = 1 << 10   // one wrapped data key
	MaxTable      = 7 << 20   // the tip table of a range: 32 bytes a page, some 32 organizations on one
	MaxPage       = 256 << 10 // a page of it
	MaxDropPages  = 1 << 14   // pages dropped by one PutTable
	MaxTipsPage   = 4096      // tips in one answer
	MaxInFlight   = 8192      // requests unanswered on one connection
	MaxWaiting    = 64 << 20

	MaxChainName = 64        // a chain's CAIP-2 name
	MaxChainData = 128 << 10 // data of a call to estimate: what pools of nodes take of a whole transaction
	MaxChainText = 256       // what a node said
	MaxRevert    = 1 << 10   // data of a call that reverted
	MaxTokens    = 100       // tokens of a chain that the operator names
	MaxSigned    = 256 << 10 // a signed transaction

	MaxDialHost  = 253 // bytes of a name outside
	MaxImageName = 512 // bytes of an image's name
	MaxAuth      = 4 << 10
	MaxStreams   = 256 // byte streams that stand or are asked for
	MaxURL       = 2048
	MaxWebhook   = 4 << 20   // body of a webhook
	MaxProgram   = 512 << 10 // a document about a customer's program
	MaxMail      = 256 << 10

	// DefaultWait is a call's deadline when the host names none; MaxWait bounds what it may name.
	DefaultWait = 30 * time.Second
	MaxWait     = 5 * time.Minute
)
