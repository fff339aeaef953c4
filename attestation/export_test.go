package attestation

// Guarded is how every call of the library below is made.
var Guarded = guard

// IsAWSRoot says whether the root at hand is the pinned one.
var IsAWSRoot = func() bool { t, err := awsTrust(); return err == nil && isAWSRoot(t.cert) }
