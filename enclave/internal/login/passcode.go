package login

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// Bounds of a passcode's length, and its default.
const (
	MinPasscode     = 6
	MaxPasscode     = 9
	DefaultPasscode = 9
)

// A Passcode is the code that is sent to a contact. It is no Secret, because it ends in the text
// of a mail, but it does not print itself; string(p) is the code.
type Passcode string

// alphabet is Crockford's base 32, without I, L, O and U. Its first ten letters are digits.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

// NewPasscode draws a code. All codes are equally likely.
func NewPasscode(rand io.Reader, length int, alphanumeric bool) (Passcode, error) {
	if length < MinPasscode || length > MaxPasscode {
		return "", errors.New("a passcode of impossible length")
	}
	letters := 10
	if alphanumeric {
		letters = len(alphabet)
	}
	fair := 256 - 256%letters // bytes from here on would favour the first letters
	code := make([]byte, 0, MaxPasscode)
	var drawn [32]byte
	// The chance that fewer than 9 of 32 bytes are fair is 1 in 10^30.
	for range 4 {
		if _, err := io.ReadFull(rand, drawn[:]); err != nil {
			return "", fmt.Errorf("drawing a passcode: %w", err)
		}
		for _, b := range drawn {
			if int(b) >= fair {
				continue
			}
			if code = append(code, alphabet[int(b)%letters]); len(code) == length {
				return Passcode(code), nil
			}
		}
	}
	return "", errors.New("randomness gives no passcode")
}

// Matches compares the text that a user entered with the code, in constant time. Case and spaces
// at either end do not matter; I and L count as 1, O as 0.
func (p Passcode) Matches(entered string) bool {
	if len(p) < MinPasscode || len(p) > MaxPasscode {
		return false // the zero value is nobody's code
	}
	var got, want [1 + MaxPasscode]byte
	got[0], want[0] = normal(got[1:], entered), normal(want[1:], string(p))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// normal writes a code in its one spelling and returns its length, 0 if it is too long.
func normal(into []byte, s string) byte {
	trimmed := strings.Trim(s, " ")
	if len(s) > 4*MaxPasscode || len(trimmed) > MaxPasscode {
		return 0
	}
	for i := range len(trimmed) {
		c := trimmed[i]
		if c >= 'a' && c <= 'z' {
			c -= 'a' - 'A'
		}
		switch c {
		case 'I', 'L':
			c = '1'
		case 'O':
			c = '0'
		}
		into[i] = c
	}
	return byte(len(trimmed))
}

// Format writes the type's name for every verb.
func (Passcode) Format(f fmt.State, _ rune) { io.WriteString(f, "login.Passcode") }

// LogValue is the type's name.
func (Passcode) LogValue() slog.Value { return slog.StringValue("login.Passcode") }

// MarshalJSON fails.
func (Passcode) MarshalJSON() ([]byte, error) { return nil, errors.New("a passcode has no encoding") }

// An Attempt is what a client encrypted to the target key of a passcode.
type Attempt struct {
	Entered   string
	PublicKey PublicKey // to bind the token to
}

// OpenAttempt opens a client's attempt with the private half of the target key. A target that has
// opened something is used up. A bundle that does not open counts as a wrong code.
func OpenAttempt(field, text string, target secret.Secret) (*Attempt, error) {
	sealed, err := bundle.ParseClient(field, text)
	if err != nil {
		return nil, err
	}
	plain, err := sealed.Open(target)
	if err != nil {
		return nil, InvalidPasscode()
	}
	defer plain.Wipe()
	var in struct {
		Code      string `json:"otp_code" rule:"required,max=64"`
		PublicKey string `json:"public_key" rule:"required"`
	}
	plain.Use(func(b []byte) { err = strictjson.Decode(b, &in) })
	if err != nil {
		return nil, fault.Field(field, `invalid bundle: must hold {"otp_code":"...","public_key":"<hex>"}`)
	}
	key, err := ParsePublicKey(field, in.PublicKey)
	if err != nil {
		return nil, err
	}
	return &Attempt{in.Code, key}, nil
}
