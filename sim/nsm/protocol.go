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

// Exchange answers one request in the protocol of /dev/nsm, as the device's ioctl does: it puts
// the answer into response and tells its length. A refusal is an answer too; an error is a
// response that is too short even for that.
func (d *Device) Exchange(request, response []byte) (int, error) {
	a, err := d.perform(request)
	if err == nil && len(a) > min(len(response), MaxResponse) {
		err = errBufferTooSmall
	}
	if err != nil {
		if a, err = cbor.Marshal(map[string]string{"Error": refusal(err)}); err != nil {
			return 0, err
		}
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
			b := make([]byte, randomSize)
			return answer(name, map[string][]byte{"random": b}, d.Random(b))
		case "DescribeNSM":
			return answer(name, d.describe(), nil)
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
		if strict.Unmarshal(in, &f) != nil {
			return nil, ErrInvalidArgument
		}
		doc, err := d.Attest(f.PublicKey, f.UserData, f.Nonce)
		return answer(name, map[string][]byte{"document": doc}, err)
	case "ExtendPCR":
		var f struct {
			Index uint16 `cbor:"index"`
			Data  []byte `cbor:"data"`
		}
		if strict.Unmarshal(in, &f) != nil {
			return nil, ErrInvalidArgument
		}
		v, err := d.ExtendPCR(int(f.Index), f.Data)
		return answer(name, map[string][]byte{"data": v}, err)
	case "DescribePCR":
		if strict.Unmarshal(in, &index) != nil {
			return nil, ErrInvalidArgument
		}
		v, locked, err := d.DescribePCR(int(index.Index))
		return answer(name, struct {
			Lock bool   `cbor:"lock"`
			Data []byte `cbor:"data"`
		}{locked, v}, err)
	case "LockPCR":
		if strict.Unmarshal(in, &index) != nil {
			return nil, ErrInvalidArgument
		}
		return answer(name, nil, d.LockPCR(int(index.Index)))
	case "LockPCRs":
		var f struct {
			Range uint16 `cbor:"range"`
		}
		if strict.Unmarshal(in, &f) != nil {
			return nil, ErrInvalidArgument
		}
		return answer(name, nil, d.LockPCRs(int(f.Range)))
	}
	return nil, ErrInvalidArgument
}

// answer is what a request of this name is answered with: its fields, or the name alone.
func answer(name string, fields any, err error) ([]byte, error) {
	switch {
	case err != nil:
		return nil, err
	case fields == nil:
		return cbor.Marshal(name)
	}
	return cbor.Marshal(map[string]any{name: fields})
}

// A description is what the module says of itself.
type description struct {
	Major    int    `cbor:"version_major"`
	Minor    int    `cbor:"version_minor"`
	Patch    int    `cbor:"version_patch"`
	ModuleID string `cbor:"module_id"`
	MaxPCRs  int    `cbor:"max_pcrs"`
	Locked   []int  `cbor:"locked_pcrs"`
	Digest   string `cbor:"digest"`
}

func (d *Device) describe() description {
	d.mu.Lock()
	defer d.mu.Unlock()
	locked := []int{}
	for i, l := range d.locked {
		if l {
			locked = append(locked, i)
		}
	}
	return description{Major: 1, ModuleID: d.moduleID, MaxPCRs: pcrCount, Locked: locked, Digest: "SHA384"}
}
