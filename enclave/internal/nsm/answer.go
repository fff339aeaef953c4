package nsm

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/fxamacker/cbor/v2"
)

// An Error is the module's own refusal, by the name that its protocol gives it.
type Error string

// The refusals that there are.
const (
	InvalidArgument  Error = "InvalidArgument"
	InvalidIndex     Error = "InvalidIndex"
	InvalidResponse  Error = "InvalidResponse"
	ReadOnlyIndex    Error = "ReadOnlyIndex"
	InvalidOperation Error = "InvalidOperation"
	BufferTooSmall   Error = "BufferTooSmall"
	InputTooLarge    Error = "InputTooLarge"
	InternalError    Error = "InternalError"
)

var refusals = []Error{InvalidArgument, InvalidIndex, InvalidResponse, ReadOnlyIndex, InvalidOperation, BufferTooSmall, InputTooLarge, InternalError}

// Error tells the refusal.
func (e Error) Error() string { return "security module refused: " + string(e) }

// Faults of an answer. They name nothing of what was received.
var (
	errAnswer   = errors.New("security module answered nonsense")
	errOther    = errors.New("security module answered something else")
	errDocument = errors.New("security module gave no document")
	errRegister = errors.New("security module gave no register")
	errRandom   = errors.New("security module gave no randomness")
	errTime     = errors.New("security module gave no time")
)

// strict reads answers: one meaning for each sequence of bytes. The module
// writes documents with maps of open length, so those are allowed.
var strict = must(cbor.DecOptions{
	DupMapKey:         cbor.DupMapKeyEnforcedAPF,
	ExtraReturnErrors: cbor.ExtraDecErrorUnknownField,
	FieldNameMatching: cbor.FieldNameMatchingCaseSensitive,
	TagsMd:            cbor.TagsForbidden,
	MaxNestedLevels:   6,
	MaxArrayElements:  32,
	MaxMapPairs:       registers,
}.DecMode())

func must(m cbor.DecMode, err error) cbor.DecMode {
	if err != nil {
		panic(err) // the options contradict each other
	}
	return m
}

func encode(ask any) ([]byte, error) {
	b, err := cbor.Marshal(ask)
	if err != nil {
		return nil, err
	}
	if len(b) > maxRequest {
		return nil, fmt.Errorf("request of %d bytes", len(b))
	}
	return b, nil
}

// octets is a byte string. The library would take an array of numbers for one too.
type octets []byte

// UnmarshalCBOR refuses what is no byte string.
func (o *octets) UnmarshalCBOR(b []byte) error {
	if len(b) == 0 || b[0]>>5 != 2 {
		return errAnswer
	}
	return strict.Unmarshal(b, (*[]byte)(o))
}

// answer reads what the module said to a request called name into into, which is nil
// where the answer has no fields.
func answer(resp []byte, name string, into any) error {
	if len(resp) == 0 {
		return errAnswer
	}
	if resp[0]>>5 == 3 { // a text string: an answer without fields
		var text string
		switch {
		case strict.Unmarshal(resp, &text) != nil:
			return errAnswer
		case text != name || into != nil:
			return errOther
		}
		return nil
	}
	var all map[string]cbor.RawMessage
	if err := strict.Unmarshal(resp, &all); err != nil || len(all) != 1 {
		return errAnswer
	}
	if e, ok := all["Error"]; ok {
		var text string
		if strict.Unmarshal(e, &text) != nil || !slices.Contains(refusals, Error(text)) {
			return errAnswer
		}
		return Error(text)
	}
	got, ok := all[name]
	if !ok || into == nil {
		return errOther
	}
	if got[0]>>5 != 5 || strict.Unmarshal(got, into) != nil {
		return errAnswer
	}
	return nil
}

// The times that a module may tell: the first enclaves are of 2020.
var (
	earliest = time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	latest   = time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC)
)

// timestamp takes the time out of an attestation document of our own module. It does
// not verify the signature: the document came from the device itself. Of other fields
// it checks the form alone.
func timestamp(doc []byte) (time.Time, error) {
	var cose []cbor.RawMessage
	if len(doc) > maxResponse || strict.Unmarshal(doc, &cose) != nil || len(cose) != 4 {
		return time.Time{}, errDocument
	}
	var payload octets
	var fields map[string]cbor.RawMessage
	if payload.UnmarshalCBOR(cose[2]) != nil || strict.Unmarshal(payload, &fields) != nil {
		return time.Time{}, errDocument
	}
	// An unsigned number and nothing else: the library would take a float for one.
	raw, ok := fields["timestamp"]
	var ms uint64
	if !ok || raw[0]>>5 != 0 || strict.Unmarshal(raw, &ms) != nil ||
		ms < uint64(earliest.UnixMilli()) || ms > uint64(latest.UnixMilli()) {
		return time.Time{}, errTime
	}
	return time.UnixMilli(int64(ms)), nil
}
