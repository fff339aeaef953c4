package login

import "cloister/enclave/internal/p256"

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
	EqualJSON  = equalJSON
	AppendHTML = appendHTML
	Encoded    = encoded
	AppendForm = appendForm
)

// Sign signs a digest, r and s.
func (s *Signer) Sign(digest [32]byte) ([]byte, error) {
	sig, err := p256.Sign(s.key, digest)
	return sig[:], err
}

// SignText makes a token of any header and payload, as a forger with the key would.
func SignText(s *Signer, header, claims string, double bool) string {
	text := base64URL.EncodeToString([]byte(header)) + "." + base64URL.EncodeToString([]byte(claims))
	digest := once
	if double {
		digest = twice
	}
	sig, err := p256.Sign(s.key, digest([]byte(text)))
	if err != nil {
		panic(err)
	}
	return text + "." + base64URL.EncodeToString(sig[:])
}
