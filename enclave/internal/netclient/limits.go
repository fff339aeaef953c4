package netclient

import "time"

// Every bound on what goes out and comes back.
const (
	MaxURL      = 4 << 10   // bytes of a URL
	MaxFields   = 8 << 10   // bytes of the fields that a request adds to ours
	MaxBody     = 256 << 10 // bytes of a request's and of an answer's body
	MaxHead     = 16 << 10  // bytes of an answer's head, interim answers before it included
	maxInHead   = 256       // fields of an answer
	maxInterim  = 5         // answers 1xx before the one that counts
	maxSizeLine = 10        // bytes of the line before a chunk: eight digits and its end

	// DefaultWait is the deadline of an exchange that names none, from dialing to
	// the last byte; MaxWait bounds what it may name.
	DefaultWait = 10 * time.Second
	MaxWait     = time.Minute

	// A conversation with a mail server.
	mailWait      = 30 * time.Second // all of it
	maxReplyLine  = 1 << 10          // twice the standard's
	maxReplyLines = 100              // lines of one reply
	maxReplies    = 64 << 10         // bytes of all replies
	maxUser       = 320              // bytes of a user's name, there and at gateways
	maxPassword   = 1 << 10          // bytes of a password

	// Mail and text messages.
	MaxMail     = 256 << 10 // bytes of a mail, fields included
	maxMailLine = 998       // bytes of one of its lines, without the ending
	maxAddress  = 254       // bytes of a mail address: what fits a path of the standard
	maxLocal    = 64        // bytes of its part before @
	MaxText     = 1600      // characters of a text message: ten parts, where gateways stop
	maxTextID   = 128       // bytes of a text message's id
	maxSender   = 64        // bytes of its sender
	maxSID      = 128       // bytes of the id that a gateway gives

	maxIssuer = 1 << 10 // bytes of an identity provider's URL
)
