package btc

const (
	// maxPSBT bounds a PSBT, in bytes; the body of a request, in hexadecimal, holds less.
	maxPSBT = 1 << 20
	// maxUnsigned bounds the unsigned transaction, in bytes: no node relays more
	// than 400,000 weight units. It bounds inputs to 2,439 and outputs to 11,111.
	maxUnsigned = 100_000
	// maxOwned bounds the inputs to be signed, as keys bounds what it signs for one
	// transaction. Hashing a P2PKH input goes over the whole unsigned transaction,
	// less what the inputs before it have hashed: 100 megabytes at most in all.
	maxOwned = 1000
	// maxPairs bounds the key-value pairs of one map of a PSBT, maxKey each key.
	maxPairs = 1000
	maxKey   = 10_000
)
