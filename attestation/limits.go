package attestation

import "time"

// What is read from a stranger is bounded by these, before it is parsed where that is possible.
const (
	// MaxDocument is the longest attestation document in bytes: the security
	// module's own limit for a response.
	MaxDocument = 0x3000
	// MaxManifest is the longest manifest in bytes.
	MaxManifest = 64 << 10
	// MaxEnvelope is the longest manifest envelope in bytes.
	MaxEnvelope = 256 << 10
	// MaxPayload is the longest app proof payload in bytes. It holds the bodies
	// of the approvals that led to an outcome, each of at most 1 MiB.
	MaxPayload = 4 << 20
	// MaxText is the longest free text (label, owner, path, address) in bytes.
	MaxText = 255
	// MaxApprovals, MaxDigests and MaxOperators bound the lists.
	MaxApprovals = 256
	MaxDigests   = 100
	MaxOperators = 64
	// MaxProofs is how many app proofs VerifyAppProofs takes at once.
	MaxProofs = 10_000
	// MaxKeys is the longest keys document in bytes.
	MaxKeys = 1 << 20
	// MaxReply is the longest reply of the interface in bytes.
	MaxReply = 64 << 20

	maxBundle     = 8    // certificates in a document, root included
	maxCert       = 1024 // bytes of a certificate, as the module's format says
	maxPublicKey  = 1024
	maxUserData   = 512
	maxNonce      = 512
	maxModuleID   = 255
	maxRootPEM    = 8 << 10
	maxJSONDepth  = 16        // of proofs and manifests
	maxReplyDepth = 64        // of replies
	maxExactInt   = 1<<53 - 1 // what every JSON reader holds exactly
	pcrCount      = 32
	pcrSize       = 48
	bootKeySize   = 130 // encryption key ‖ signing key, both uncompressed P-256
	pointSize     = 65
	signatureSize = 64
)

// Skew is by how much a proof may seem to come from before its boot, or from
// after the verifier's own time, because clocks differ.
const Skew = 5 * time.Minute
