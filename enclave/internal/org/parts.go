package org

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"cloister/attestation/tlog"
)

// An entry of the second format is sealed as a seed and its five parts, each a CBOR map with its
// length in front of it, 4 bytes big-endian:
//
//	facts     the entry's metadata that can be disclosed in a proof, tlog.Facts
//	request   the request, and its signers
//	decision  the decision, its reasons and the result
//	writes    the changed records
//	sends     the transactions and messages to be sent
//
// Only hashes are in more than one part: the facts have the SHA-256 of the result, and of the
// payload of each app proof.

type requestPart struct {
	Body      []byte `cbor:"4,keyasint,omitempty"`
	StampedMs uint64 `cbor:"6,keyasint,omitempty"`
	Votes     []Vote `cbor:"9,keyasint,omitempty"`
	Initiator ID     `cbor:"23,keyasint,omitzero"`
}

type decisionPart struct {
	Outcome        string       `cbor:"10,keyasint,omitempty"`
	Result         []byte       `cbor:"11,keyasint,omitempty"`
	Proofs         []Proof      `cbor:"12,keyasint,omitempty"`
	Failure        []byte       `cbor:"13,keyasint,omitempty"`
	Refused        uint16       `cbor:"14,keyasint,omitempty"`
	LowWatermarkMs uint64       `cbor:"17,keyasint,omitempty"`
	Other          ID           `cbor:"18,keyasint,omitzero"`
	OtherSeq       uint64       `cbor:"19,keyasint,omitempty"`
	Evaluations    []Evaluation `cbor:"22,keyasint,omitempty"`
}

type writesPart struct {
	Writes []Write `cbor:"15,keyasint,omitempty"`
}

type sendsPart struct {
	Sends []Send `cbor:"16,keyasint,omitempty"`
}

// A Place holds the facts of an entry that are not fields of Entry.
type Place struct {
	Organization ID
	Seq          uint64
	Mode         tlog.Mode
}

const lengthSize = 4 // bytes of a part's length

// Encode appends the entry to dst in the form that is sealed, and returns its commitment.
func (e *Entry) Encode(dst []byte, seed [tlog.SeedSize]byte, at Place) (b []byte, commitment [sha256.Size]byte, err error) {
	if ParseStatus(e.Status.String()) != e.Status {
		return nil, commitment, fmt.Errorf("an entry of status %d", e.Status)
	}
	all := struct {
		facts    tlog.Facts
		request  requestPart
		decision decisionPart
		writes   writesPart
		sends    sendsPart
	}{
		e.facts(at),
		requestPart{e.Body, e.StampedMs, e.Votes, e.Initiator},
		decisionPart{e.Outcome, e.Result, e.Proofs, e.Failure, e.Refused, e.LowWatermarkMs, e.Other, e.OtherSeq, e.Evaluations},
		writesPart{e.Writes},
		sendsPart{e.Sends},
	}
	buffer := bytes.NewBuffer(append(dst, seed[:]...))
	var hashes [tlog.Parts][sha256.Size]byte
	for part, content := range [tlog.Parts]any{tlog.PartRequest: &all.request, tlog.PartDecision: &all.decision, tlog.PartWrites: &all.writes, tlog.PartSends: &all.sends} {
		part, from := tlog.Part(part), buffer.Len()+lengthSize
		buffer.Write(make([]byte, lengthSize))
		if part == tlog.PartFacts {
			err = all.facts.AppendTo(buffer)
		} else {
			err = encoding.MarshalToBuffer(content, buffer)
		}
		if err != nil {
			return nil, commitment, err
		}
		written := buffer.Bytes()[from:]
		binary.BigEndian.PutUint32(buffer.Bytes()[from-lengthSize:], uint32(len(written)))
		hashes[part] = tlog.HashPart(part, tlog.Salt(seed, part), written)
	}
	return buffer.Bytes(), tlog.Commitment(&hashes), nil
}

func (e *Entry) facts(at Place) tlog.Facts {
	f := tlog.Facts{Format: tlog.FactsFormat, Organization: at.Organization, Seq: at.Seq, Activity: e.Activity, Type: e.Type, Status: e.Status.String(),
		Fingerprint: e.Fingerprint, CreatedMs: e.CreatedMs, TimeMs: e.TimeMs, Boot: e.Boot, Mode: at.Mode, Prior: e.Prior}
	if len(e.Result) > 0 {
		f.Result = sha256.Sum256(e.Result)
	}
	if len(e.Proofs) > 0 {
		f.Proofs = make([][sha256.Size]byte, 0, len(e.Proofs))
	}
	for i := range e.Proofs {
		f.Proofs = append(f.Proofs, sha256.Sum256(e.Proofs[i].Payload))
	}
	return f
}

// Parts are the encoded parts of an entry of the second format. They share memory with the bytes
// that they were split from.
type Parts struct {
	Seed    [tlog.SeedSize]byte // seed of the parts' salts
	Content [tlog.Parts][]byte
}

var errParts = errors.New("parts of an entry are cut or followed by something")

// SplitParts splits the result of Encode without decoding the parts.
func SplitParts(b []byte) (*Parts, error) {
	p := new(Parts)
	if len(b) < len(p.Seed) {
		return nil, errParts
	}
	b = b[copy(p.Seed[:], b):]
	for part := range p.Content {
		if len(b) < lengthSize {
			return nil, errParts
		}
		size := binary.BigEndian.Uint32(b)
		if b = b[lengthSize:]; uint64(size) > uint64(len(b)) {
			return nil, errParts
		}
		p.Content[part], b = b[:size:size], b[size:]
	}
	if len(b) > 0 {
		return nil, errParts
	}
	return p, nil
}

// Hashes are the leaf hashes of the parts; tlog.Commitment is the root of their tree.
func (p *Parts) Hashes() (hashes [tlog.Parts][sha256.Size]byte) {
	for part, content := range p.Content {
		hashes[part] = tlog.HashPart(tlog.Part(part), tlog.Salt(p.Seed, tlog.Part(part)), content)
	}
	return hashes
}

// Decode decodes the parts strictly: the entry and its Place. It refuses facts that contradict the
// other parts.
func (p *Parts) Decode() (*Entry, Place, error) {
	facts, err := tlog.ParseFacts(p.Content[tlog.PartFacts])
	if err != nil {
		return nil, Place{}, err
	}
	var (
		request  requestPart
		decision decisionPart
		writes   writesPart
		sends    sendsPart
	)
	for part, to := range [tlog.Parts]any{tlog.PartRequest: &request, tlog.PartDecision: &decision, tlog.PartWrites: &writes, tlog.PartSends: &sends} {
		if to == nil {
			continue
		}
		if err := decoding.Unmarshal(p.Content[part], to); err != nil {
			return nil, Place{}, fmt.Errorf("part %d: %w", part, err)
		}
	}
	e := &Entry{
		Activity: facts.Activity, Type: facts.Type, Status: ParseStatus(facts.Status), Fingerprint: facts.Fingerprint, CreatedMs: facts.CreatedMs,
		TimeMs: facts.TimeMs, Boot: facts.Boot, Prior: facts.Prior,
		Body: request.Body, StampedMs: request.StampedMs, Votes: request.Votes, Initiator: request.Initiator,
		Outcome: decision.Outcome, Result: decision.Result, Proofs: decision.Proofs, Failure: decision.Failure, Refused: decision.Refused,
		LowWatermarkMs: decision.LowWatermarkMs, Other: decision.Other, OtherSeq: decision.OtherSeq, Evaluations: decision.Evaluations,
		Writes: writes.Writes, Sends: sends.Sends,
	}
	at := Place{Organization: facts.Organization, Seq: facts.Seq, Mode: facts.Mode}
	if again := e.facts(at); again.Status != facts.Status || again.Result != facts.Result || !slices.Equal(again.Proofs, facts.Proofs) {
		return nil, Place{}, errors.New("an entry's facts are not those of its parts")
	}
	return e, at, nil
}
