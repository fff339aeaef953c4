// Package login is what logging in is made of: passcodes, the tokens that the
// enclave issues, the identity tokens of others, client signatures, OAuth 2.0
// exchanges, and the words of mails and text messages.
//
// All of it are functions of what is handed in: bytes, keys, randomness, and the
// time in milliseconds since 1970. Nothing here fetches, sends, stores or counts.
// Who may log in, how often a code was tried and what a token was used for is
// for the caller, who keeps it in the ledger.
//
// It promises:
//
//   - Text from outside is bounded before it is parsed, read strictly (a member
//     of a JSON object twice is an error, in tokens too), and never makes it
//     panic or run for longer than in proportion to its bound.
//   - Tokens are believed only under the key that their kind has. Sessions are
//     signed over a double SHA-256, verification tokens of the two forms by two
//     keys, so that no token passes for one of another kind.
//   - A verification token says nothing to anybody but to who has shown to hold the
//     key that it is bound to: UnprovenToken.
//   - Identity tokens are verified with RS256, PS256, ES256 or EdDSA, by the one
//     key of the issuer's set that has the token's key id and is made for its
//     algorithm; keys that a token brings along are not looked at.
//   - Errors for users are *fault.Error. A passcode that is unknown, expired,
//     locked or wrong has one error, InvalidPasscode.
//
// The payload of a token that is issued has neither - nor _ in base64url, because
// clients decode it as plain base64: whatever could give such a letter is escaped.
package login
