// Package keys makes, derives and uses wallet seeds and private keys.
//
// It promises:
//
//   - No exported function takes or returns private bytes: they come and go as a
//     secret.Secret. Of a stored key they come by an export alone; of one just made by NewSecret, to be stored.
//   - A Vault opens for this package alone: whoever runs an activity opens no key with it.
//   - Nothing is opened, derived, signed or exported, and no key made, without a Grant of
//     the policies: see Holder. What is exported is a Secret, for the caller to encrypt.
//   - What is imported is refused in the same words whatever is wrong with it.
//   - Private bytes are handled inside erase.Do. Secrets of ours are wiped besides.
//   - A wiped or zero Secret, PrivateKey or Wallet refuses. It is never used as the number
//     zero, even if it is wiped at the same time.
//
// Derivation is BIP-39, BIP-32 and SLIP-0010. ECDSA is RFC 6979 over SHA-256
// with low s, so one payload has one signature; ed25519 is RFC 8032.
//
// Signing is the libraries' work. Before a signature leaves it is verified, by the
// library's verifier or, for ECDSA on secp256k1, by its equation with the private key
// (keySecp256k1.verify). crypto/ecdsa, crypto/ecdh, crypto/ed25519 and bigmod run in
// constant time. decred's secp256k1 does not: see keySecp256k1.
//
// Written here are the steps between the libraries, for which the enclave would
// otherwise link a Bitcoin node's packages (hdkeychain, txscript): the walk of
// BIP-32 and SLIP-0010, the tweak of BIP-341, the words of BIP-39. They add scalars
// with the libraries' types and have no arithmetic of their own. So do the user's shares
// of Spark (spark.go), for whose ciphersuite there is no library: frostNonce says why no
// nonce of theirs is used twice.
package keys

// The limits of this package.
const (
	MaxPathSteps  = 32
	MaxPathText   = 1 + MaxPathSteps*12 // bytes of a path: 32 steps of /2147483647'
	MaxPassphrase = 256                 // bytes of a BIP-39 passphrase
	MaxPayload    = 1 << 20             // bytes of a decoded payload; request bodies are no larger
	MaxBatch      = 100                 // payloads of one signing request
	MaxDigests    = 1000                // that one transaction has signed, its inputs
)
