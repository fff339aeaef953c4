// Package attestation checks the proofs of a Cloister deployment, offline and
// alone: it opens no file, no socket and no clock.
//
// A boot proof shows that an enclave with known measurements runs under a known
// manifest and holds a live key. An app proof is a statement signed by that live
// key: an address was derived, a policy decided, a signature was made.
//
// A nil error means that every check named in README.md passed; with an error no result is returned. Nothing
// weak is taken by default: the AWS root is pinned by hash, a simulator's root is believed only when [Policy]
// names it, and an image in debug mode is refused, as is a proof whose measurements the caller did not pin.
// Hostile input gives an error, never a panic, and costs at most what limits.go allows.
//
// [VerifyBootProof] is done once for a boot; [Boot.VerifyAppProof] then costs
// one P-256 verification per proof. [Expectation] ties a proof to the request
// that the caller sent, so that a true proof of something else is refused.
package attestation
