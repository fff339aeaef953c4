package nsm

import (
	"errors"

	"github.com/fxamacker/cbor/v2"
)

// Sizes of the protocol, in bytes: as the driver of the device bounds them.
const (
	MaxRequest  = 0x1000
	MaxResponse = 0x3000
	// randomSize is what one GetRandom gives.
	randomSize = 256
)

var strict = func() cbor.DecMode {
	m, err := cbor.DecOptions{DupMapKey: cbor.DupMapKeyEnforcedAPF, IndefLength: cbor.IndefLengthForbidden, TagsMd: cbor.TagsForbidden,
		FieldNameMatching: cbor.FieldNameMatchingCaseSensitive, ExtraReturnErrors: cbor.ExtraDecErrorUnknownField}.DecMode()
	if err != nil {
		panic(err) // the options contradict each other
	}
	return m
}()

var errBufferTooSmall = errors.New("BufferTooSmall")

// Exchange answers one request in the protocol of /dev/nsm: what the ioctl of
// the device does. It puts the answer into response and tells its length. What
// the module refuses is an answer too; an error is a response that is too short
// even for that.
func (d *Device) Exchange(request, response []byte) (int, error) {
	a, err := d.perform(request)
	if err == nil && len(a) > min(len(response), MaxResponse) {
		err = errBufferTooSmall
	}
	if err != nil {
		a = text(text(head(nil, cborMap, 1), "Error"), refusal(err))
	}
	if len(a) > len(response) {
		return 0, errors.New("no room for the answer")
	}
	return copy(response, a), nil
}

// refusal is the protocol's name of an error.
func refusal(err error) string {
	for _, e := range []error{ErrInvalidIndex, ErrReadOnlyIndex, ErrInputTooLarge, ErrInvalidArgument, errBufferTooSmall} {
		if errors.Is(err, e) {
			return e.Error()
		}
	}
	return "InternalError"
}

func (d *Device) perform(request []byte) ([]byte, error) {
	if len(request) > MaxRequest {
		return nil, ErrInputTooLarge
	}
	var name string
	if strict.Unmarshal(request, &name) == nil {
		switch name {
		case "GetRandom":
			var b [randomSize]byte
			if err := d.Random(b[:]); err != nil {
				return nil, err
			}
			return fields(name, 1, func(a []byte) []byte { return bytestring(text(a, "random"), b[:]) }), nil
		case "DescribeNSM":
			return d.describe(), nil
		}
		return nil, ErrInvalidArgument
	}
	var all map[string]cbor.RawMessage
	if strict.Unmarshal(request, &all) != nil || len(all) != 1 {
		return nil, ErrInvalidArgument
	}
	for name, in := range all {
		return d.performWith(name, in)
	}
	return nil, ErrInvalidArgument
}

func (d *Device) performWith(name string, in cbor.RawMessage) ([]byte, error) {
	read := func(into any) error {
		if strict.Unmarshal(in, into) != nil {
			return ErrInvalidArgument
		}
		return nil
	}
	var index struct {
		Index uint16 `cbor:"index"`
	}
	switch name {
	case "Attestation":
		var f struct {
			UserData  []byte `cbor:"user_data"`
			Nonce     []byte `cbor:"nonce"`
			PublicKey []byte `cbor:"public_key"`
		}
		if err := read(&f); err != nil {
			return nil, err
		}
		doc, err := d.Attest(f.PublicKey, f.UserData, f.Nonce)
		if err != nil {
			return nil, err
		}
		return fields(name, 1, func(a []byte) []byte { return bytestring(text(a, "document"), doc) }), nil
	case "ExtendPCR":
		var f struct {
			Index uint16 `cbor:"index"`
			Data  []byte `cbor:"data"`
		}
		if err := read(&f); err != nil {
			return nil, err
		}
		v, err := d.ExtendPCR(int(f.Index), f.Data)
		if err != nil {
			return nil, err
		}
		return fields(name, 1, func(a []byte) []byte { return bytestring(text(a, "data"), v) }), nil
	case "DescribePCR":
		if err := read(&index); err != nil {
			return nil, err
		}
		v, locked, err := d.DescribePCR(int(index.Index))
		if err != nil {
			return nil, err
		}
		return fields(name, 2, func(a []byte) []byte { return bytestring(text(boolean(text(a, "lock"), locked), "data"), v) }), nil
	case "LockPCR":
		if err := read(&index); err != nil {
			return nil, err
		}
		if err := d.LockPCR(int(index.Index)); err != nil {
			return nil, err
		}
		return text(nil, name), nil
	case "LockPCRs":
		var f struct {
			Range uint16 `cbor:"range"`
		}
		if err := read(&f); err != nil {
			return nil, err
		}
		if err := d.LockPCRs(int(f.Range)); err != nil {
			return nil, err
		}
		return text(nil, name), nil
	}
	return nil, ErrInvalidArgument
}

// describe is what the module says of itself.
func (d *Device) describe() []byte {
	d.mu.Lock()
	defer d.mu.Unlock()
	var locked []byte
	n := uint64(0)
	for i, l := range d.locked {
		if l {
			locked, n = head(locked, cborUint, uint64(i)), n+1
		}
	}
	return fields("DescribeNSM", 7, func(a []byte) []byte {
		for i, name := range []string{"version_major", "version_minor", "version_patch"} {
			a = head(text(a, name), cborUint, []uint64{1, 0, 0}[i])
		}
		a = text(text(a, "module_id"), d.moduleID)
		a = head(text(a, "max_pcrs"), cborUint, pcrCount)
		a = append(head(text(a, "locked_pcrs"), cborArray, n), locked...)
		return text(text(a, "digest"), "SHA384")
	})
}

// fields is an answer with n fields, which f appends.
func fields(name string, n uint64, f func([]byte) []byte) []byte {
	return f(head(text(head(nil, cborMap, 1), name), cborMap, n))
}

func boolean(b []byte, v bool) []byte {
	if v {
		return append(b, 0xf5)
	}
	return append(b, 0xf4)
}
