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

// Bounds of a passcode's length, and what it is where nobody says.
const (
	MinPasscode     = 6
	MaxPasscode     = 9
	DefaultPasscode = 9
)

// A Passcode is what is sent to a contact. It is no Secret, because it ends in the
// text of a mail, but it does not print itself; string(p) is the code.
type Passcode string

// Crockford's base 32 has neither I, L, O nor U; its first ten letters are digits.
const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

const numerals = 10

// NewPasscode draws a code, each letter as likely as every other.
func NewPasscode(rand io.Reader, length int, alphanumeric bool) (Passcode, error) {
	if length < MinPasscode || length > MaxPasscode {
		return "", errors.New("a passcode of impossible length")
	}
	letters := numerals
	if alphanumeric {
		letters = len(alphabet)
	}
	fair := 256 - 256%letters // bytes from here on would favour the first letters
	code := make([]byte, 0, MaxPasscode)
	var drawn [32]byte
	// Of 32 bytes fewer than 9 are fair once in 10^30 times.
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

// Matches compares what somebody entered with the code, in constant time for all
// that was entered. Case does not matter, I and L count as 1, O as 0, and spaces
// at either end as nothing.
func (p Passcode) Matches(entered string) bool {
	if len(p) < MinPasscode || len(p) > MaxPasscode {
		return false // the zero value is nobody's code
	}
	var got, want [1 + MaxPasscode]byte
	got[0], want[0] = normal(got[1:], entered), normal(want[1:], string(p))
	return subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// normal writes a code in its one spelling and answers its length, 0 if it cannot
// be one.
func normal(into []byte, s string) byte {
	if len(s) > 4*MaxPasscode {
		return 0
	}
	if s = strings.Trim(s, " "); len(s) > MaxPasscode {
		return 0
	}
	for i := range len(s) {
		c := s[i]
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
	return byte(len(s))
}

// Format writes the type's name under every verb.
func (Passcode) Format(f fmt.State, _ rune) { io.WriteString(f, "login.Passcode") }

// LogValue is the type's name.
func (Passcode) LogValue() slog.Value { return slog.StringValue("login.Passcode") }

// MarshalJSON fails.
func (Passcode) MarshalJSON() ([]byte, error) { return nil, errors.New("a passcode has no encoding") }

// An Attempt is what a client encrypted to the target of a passcode.
type Attempt struct {
	Entered   string
	PublicKey PublicKey // that the token is to be bound to
}

// OpenAttempt opens a client's attempt with the private half of the target. Once
// it has opened something the target is used up. A bundle that does not open is as
// good as a wrong code.
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
