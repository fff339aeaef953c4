package keys

// The limits of this package.
const (
	// MaxPathText bounds a derivation path, in bytes: 32 steps of m/2147483647'.
	MaxPathText = 1 + 32*12
	// MaxPathSteps bounds the depth of a derivation path.
	MaxPathSteps = 32
	// MaxPassphrase bounds a BIP-39 passphrase, in bytes.
	MaxPassphrase = 256
	// MaxPayload bounds a decoded payload, in bytes; request bodies are no larger.
	MaxPayload = 1 << 20
	// MaxBatch bounds the payloads of one signing request.
	MaxBatch = 100
	// MaxDigests bounds what one transaction may have signed, its inputs.
	MaxDigests = 1000
)
