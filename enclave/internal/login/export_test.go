package login

import "crypto/sha256"

// VerifyJWS verifies a signature alone, of a payload of any kind.
func VerifyJWS(text string, s *KeySet) bool {
	t, _, err := parseParts(text)
	if err != nil {
		return false
	}
	found := s.candidates(t)
	return len(found) == 1 && found[0].verify(t)
}

// Len is how many keys of a set can verify something.
func (s *KeySet) Len() int { return len(s.keys) }

// Unexported functions under test.
var (
	VerifyBare = verifyBare
	EqualJSON  = equalJSON
	EscapeHTML = escapeHTML
	Unlinked   = withoutLinks
	Encoded    = encodedWords
	AppendForm = appendForm
)

// Sign signs a digest, r and s.
func (s *Signer) Sign(digest [32]byte) ([]byte, error) {
	sig, err := s.key.Sign(digest)
	return sig[:], err
}

// SignText makes a token of any header and payload, as a forger with the key would.
func SignText(s *Signer, header, claims string, double bool) string {
	text := base64URL.EncodeToString([]byte(header)) + "." + base64URL.EncodeToString([]byte(claims))
	digest := sha256.Sum256
	if double {
		digest = doubleDigest
	}
	sig, err := s.key.Sign(digest([]byte(text)))
	if err != nil {
		panic(err)
	}
	return text + "." + base64URL.EncodeToString(sig[:])
}

// VerifyVerificationToken is what a token says, whosever it is to use.
func VerifyVerificationToken(field, text string, keys TokenKeys, nowMs uint64) (*VerificationToken, error) {
	u, err := ReadVerificationToken(field, text, keys, nowMs)
	if err != nil {
		return nil, err
	}
	return &u.token, nil
}

// Unproven is a token of this text as it was read.
func Unproven(text string, t *VerificationToken) *UnprovenToken {
	return &UnprovenToken{field: "verificationToken", text: text, token: *t}
}

// VerifyLogin is a client signature for a log-in alone.
func (s *ClientSignature) VerifyLogin(field string, t *VerificationToken, publicKey string) error {
	return s.verifyLogin(field, t, publicKey)
}

// VerifySignup is a client signature for a sign-up alone.
func (s *ClientSignature) VerifySignup(field string, t *VerificationToken, u Usage, want *Signup) error {
	return s.verifySignup(field, t, u, want)
}
