// Package attestation verifies the proofs of a Cloister deployment offline: it
// opens no file and no connection, and reads no clock.
//
// A boot proof shows that an enclave with known measurements runs under a known
// manifest and holds a live key. An app proof is a statement signed by that live
// key: an address was derived, a policy decided, a signature was made.
//
// A nil error means that every check named in README.md passed; with an error no result is returned. The
// defaults are strict: the AWS root is pinned by hash, a simulator's root is trusted only if [Policy] names it,
// an image in debug mode is refused, and so is a boot proof whose image or deployment the caller did not pin.
// Hostile input gives an error, never a panic; limits.go bounds what it can cost.
//
// Call [VerifyBootProof] once for a boot; [Boot.VerifyAppProof] then costs one
// P-256 verification per proof. [Expectation] ties a proof to the request that
// the caller sent, so that a true proof of another request is refused.
package attestation
