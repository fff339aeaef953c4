package login

import "cloister/enclave/internal/strictjson"

// Limits of input from outside, in bytes where nothing else is said.
const (
	// MaxToken bounds a token as text.
	MaxToken = 16 << 10
	// MaxDiscovery bounds an issuer's discovery document.
	MaxDiscovery = 64 << 10
	// MaxKeySet bounds an issuer's key set, MaxKeys the keys in it.
	MaxKeySet = 256 << 10
	MaxKeys   = 100
	// MaxAnswer bounds the answer of an OAuth 2.0 provider.
	MaxAnswer = 64 << 10
	// MaxMessage bounds the message that a client signs at a log-in or sign-up.
	MaxMessage = 256 << 10
	// MaxTemplate bounds a template, MaxContent the mail that it becomes.
	MaxTemplate = 48 << 10
	MaxContent  = 64 << 10
	// MaxText bounds a text message, in characters: some ten segments.
	MaxText = 1600
	// MaxVariables bounds the JSON of a template's variables.
	MaxVariables = 16 << 10
	// MaxURL bounds the URL of an issuer, key set, logo or link.
	MaxURL = 2048
)

const (
	maxName      = 1024 // an issuer and an audience
	maxSubject   = 255  // by OpenID Connect
	maxKeyID     = 256
	maxNonce     = 256
	maxAudiences = 100
	maxContact   = 255
	maxEnvelope  = 4096 // a client secret, encrypted
	maxAccess    = 2048 // an access token
)

// Skew is how far an issuer's clock may be off, in milliseconds.
const Skew = 60_000

// Limits of the JSON of a token, of a fetched document and of a message. Depth counts the object
// that they are read in.
var (
	tokenLimits   = strictjson.Limits{Depth: 9, Items: 500, Members: 200, Values: 2000}
	fetchedLimits = strictjson.Limits{Depth: 7, Items: 500, Members: 200, Values: 20_000}
	messageLimits = strictjson.Limits{Depth: 12, Items: 200, Members: 50, Values: 5000}
)
