// Package keys generates, derives and uses wallet seeds and private keys.
//
// It promises:
//
//   - No exported function takes or returns private bytes except as a secret.Secret. Only an export
//     returns those of a stored key; NewSecret returns those of a new key, to be stored.
//   - Only this package can open a sealed key with a Vault; the code of an activity can't.
//   - Nothing is opened, derived, signed or exported, and no key is generated, without a Grant of
//     the policies: see Holder. An export returns a Secret, which the caller encrypts.
//   - The error of a refused import is the same for every reason.
//   - Private bytes are handled inside erase.Do. Our own secrets are wiped as well.
//   - A wiped or zero Secret, PrivateKey or Wallet returns an error. It is never used as the
//     number zero, even if it is wiped at the same time.
//
// Derivation is BIP-39, BIP-32 and SLIP-0010. ECDSA is RFC 6979 over SHA-256
// with low s, so one payload has one signature; ed25519 is RFC 8032.
//
// Libraries sign. Every signature is verified before it is returned, by the library's
// verifier or, for ECDSA on secp256k1, by its equation with the private key
// (keySecp256k1.verify). crypto/ecdsa, crypto/ecdh, crypto/ed25519 and bigmod run in
// constant time. decred's secp256k1 does not: see keySecp256k1.
//
// This package implements only the steps between the libraries, for which the enclave
// would otherwise link a Bitcoin node's packages (hdkeychain, txscript): the derivation of
// BIP-32 and SLIP-0010, the tweak of BIP-341, the words of BIP-39. They add scalars with
// the libraries' types and have no arithmetic of their own. The same holds for the user's
// signature shares of Spark (spark.go), for whose ciphersuite there is no library;
// frostNonce explains why none of their nonces is used twice.
package keys

// Limits of paths, passphrases and signing requests.
const (
	MaxPathSteps  = 32
	MaxPathText   = 1 + MaxPathSteps*12 // bytes of a path: 32 steps of /2147483647'
	MaxPassphrase = 256                 // bytes of a BIP-39 passphrase
	MaxPayload    = 1 << 20             // bytes of a decoded payload; request bodies are no larger
	MaxBatch      = 100                 // payloads of one signing request
	MaxDigests    = 1000                // digests of one transaction, one for each input
)
