// Package wire is all that crosses between host and enclave: the messages, how they are written as bytes, how
// bytes are framed, and a connection that carries many questions and answers at once.
//
// What it promises:
//
//   - Every message has exactly one encoding (deterministic CBOR, RFC 8949
//     section 4.2.1, unsigned integer keys); Unmarshal refuses every other.
//   - A frame's length, kind and direction are checked against the table in
//     frame.go before a byte of it is allocated.
//   - A peer that breaks a rule loses that connection and nothing else.
//   - Nobody waits for a dead peer: frames that were begun, and writes, have
//     time-outs; an ended context ends its question and tells the peer.
//
// The package reads no clock, opens no connection and starts nothing by
// itself: clock and net.Conn are handed in.
package wire
