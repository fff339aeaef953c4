// Package wire is the protocol between host and enclave: the messages, their encoding, their framing, and a
// connection that carries many questions and answers at once.
//
// It promises:
//
//   - Every message has exactly one encoding (deterministic CBOR, RFC 8949
//     section 4.2.1, unsigned integer keys); Unmarshal refuses every other.
//   - A frame's length, kind and direction are checked against the table in
//     frame.go before a byte of it is allocated.
//   - A peer that breaks a rule loses that connection and nothing else.
//   - Nobody waits for a dead peer: the rest of a frame and every write have
//     time-outs, and an ended context ends its question and cancels it at the peer.
//
// The package reads no clock and opens no connection: the caller passes in
// the clock and the net.Conn.
package wire
