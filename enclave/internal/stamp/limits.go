package stamp

const (
	// MaxHeader bounds the value of a stamp header, in bytes.
	MaxHeader = 16 << 10
	// CachedKeys is how many parsed public keys a Verifier keeps per curve.
	CachedKeys = 4096

	pointSize  = 33                  // a compressed point
	scalarSize = 32                  // r, s and the coordinates
	maxDER     = 2 + 2*(2+pointSize) // both integers with a leading zero
)
