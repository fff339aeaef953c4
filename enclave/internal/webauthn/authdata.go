package webauthn

import (
	"encoding/binary"

	"github.com/fxamacker/cbor/v2"
)

// Flags of authenticator data. The others are not read.
const (
	flagUserPresent    = 1 << 0
	flagBackupEligible = 1 << 3
	flagBackedUp       = 1 << 4
	flagAttested       = 1 << 6
	flagExtensions     = 1 << 7
)

// authenticatorData is what an authenticator signs.
type authenticatorData struct {
	raw         []byte
	rpIDHash    [32]byte
	userPresent bool
	counter     uint32
	attested    *attestedCredential
}

// attestedCredential is a new passkey.
type attestedCredential struct {
	aaguid [16]byte
	id     []byte
	key    []byte // COSE_Key, not yet parsed
}

const errAuthenticatorData = Refusal("authenticatorData is malformed")

func parseAuthenticatorData(raw []byte) (*authenticatorData, error) {
	const head = 32 + 1 + 4
	if len(raw) < head || len(raw) > MaxAuthenticatorData {
		return nil, errAuthenticatorData
	}
	flags, rest := raw[32], raw[head:]
	d := &authenticatorData{raw: raw, rpIDHash: [32]byte(raw[:32]), userPresent: flags&flagUserPresent != 0, counter: binary.BigEndian.Uint32(raw[33:])}
	if flags&flagBackedUp != 0 && flags&flagBackupEligible == 0 {
		return nil, errAuthenticatorData
	}
	if flags&flagAttested != 0 {
		var ok bool
		if d.attested, rest, ok = parseAttested(rest); !ok {
			return nil, errAuthenticatorData
		}
	}
	if flags&flagExtensions != 0 {
		var extensions map[string]cbor.RawMessage
		var err error
		if rest, err = decoding.UnmarshalFirst(rest, &extensions); err != nil || extensions == nil { // null is no map
			return nil, errAuthenticatorData
		}
	}
	if len(rest) != 0 {
		return nil, errAuthenticatorData
	}
	return d, nil
}

// parseAttested takes attested credential data off b.
func parseAttested(b []byte) (a *attestedCredential, rest []byte, ok bool) {
	const head = 16 + 2
	if len(b) < head {
		return nil, nil, false
	}
	size := int(binary.BigEndian.Uint16(b[16:]))
	if size == 0 || size > MaxCredentialID || size > len(b)-head {
		return nil, nil, false
	}
	key := b[head+size:]
	var members map[int64]cbor.RawMessage
	rest, err := decoding.UnmarshalFirst(key, &members)
	if err != nil {
		return nil, nil, false
	}
	return &attestedCredential{[16]byte(b), b[head : head+size], key[:len(key)-len(rest)]}, rest, true
}
