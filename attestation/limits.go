package attestation

import "time"

// Limits of untrusted input. They are checked before it is parsed where that is possible.
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
	// MaxApprovals, MaxDigests and MaxOperators are the longest lists of them.
	MaxApprovals = 256
	MaxDigests   = 100
	MaxOperators = 64
	// MaxProofs is how many app proofs one call of VerifyAppProofs takes.
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
	maxExactInt   = 1<<53 - 1 // the largest integer that every JSON reader holds exactly
	pcrCount      = 32
	pcrSize       = 48
	bootKeySize   = 130 // encryption key ‖ signing key, both uncompressed P-256
	pointSize     = 65
	signatureSize = 64
)

// Skew is the tolerated difference of clocks: by how much the time of a proof may be
// before that of its boot, or after the verifier's own.
const Skew = 5 * time.Minute
