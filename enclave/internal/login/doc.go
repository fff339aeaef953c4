// Package login holds the parts of logging in: passcodes, the tokens that the enclave issues,
// identity tokens of other issuers, client signatures, OAuth 2.0 exchanges, and the texts of
// mails and text messages.
//
// Its functions depend on their arguments alone: bytes, keys, randomness, and the time in
// milliseconds since 1970. Nothing here fetches, sends, stores or counts. Callers decide who may
// log in, and keep attempts and used tokens in the ledger.
//
// It promises:
//
//   - Text from outside is bounded before it is parsed, and read strictly (a repeated member
//     of a JSON object is an error, in tokens too). It never causes a panic, and costs no more
//     time than in proportion to its bound.
//   - Each kind of token has a key of its own, so no token passes for one of another kind. The
//     two forms of verification tokens have two keys; sessions are signed over a double SHA-256.
//   - A verification token is readable only for a caller that has proven to hold the key that
//     the token is bound to: UnprovenToken.
//   - Identity tokens are verified with RS256, PS256, ES256 or EdDSA, by the one key of the
//     issuer's set that has the token's key id and fits its algorithm. Keys inside a token are
//     ignored.
//   - Errors for users are *fault.Error. An unknown, expired, locked or wrong passcode has one
//     error, InvalidPasscode.
//
// Clients decode the payload of our tokens as plain base64, so it must have neither - nor _ in
// base64url: characters that could produce them are escaped.
package login
