// Package bundle makes and opens what crosses the border of the enclave
// encrypted to one party: exported secrets, the keys that a client encrypts an
// import to, what it encrypts to them, and credential bundles.
//
// The suite is HPKE (RFC 9180) in base mode, one message for each sender:
// DHKEM(P-256, HKDF-SHA256), HKDF-SHA256, AES-256-GCM, info `turnkey_hpke`,
// associated data the sender's encapsulated key and the receiver's public key,
// 65 bytes each. A receiving key is for one message: who keeps it forgets it when
// it has opened something.
//
// It promises:
//
//   - Secrets go in and come out as secret.Secret, and are handled inside
//     erase.Do; what leaves as text is ciphertext or public.
//   - What the enclave signs has one form: the members in the published order,
//     a deterministic signature with low s in its only DER encoding.
//   - Text from outside is bounded before it is parsed, read strictly, and never
//     makes it panic. An opened message is authentic as to its content and says
//     nothing about who sent it.
//
// The sender's one-time key is drawn by the standard library from the kernel,
// into whose pool the enclave's main has mixed the module's randomness.
package bundle
