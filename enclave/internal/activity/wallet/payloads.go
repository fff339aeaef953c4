package wallet

import (
	"bytes"
	"slices"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/decoded"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/policy"
)

// PayloadEncoding is the encoding of a payload.
type PayloadEncoding string

const (
	encodingTyped         PayloadEncoding = "PAYLOAD_ENCODING_EIP712"
	encodingAuthorization PayloadEncoding = "PAYLOAD_ENCODING_EIP7702_AUTHORIZATION"
)

var encodings = []PayloadEncoding{"PAYLOAD_ENCODING_HEXADECIMAL", "PAYLOAD_ENCODING_TEXT_UTF8", encodingTyped, encodingAuthorization}

// Valid reports whether e is an encoding of the interface.
func (e PayloadEncoding) Valid() bool { return slices.Contains(encodings, e) }

// A payload is a decoded payload. Documents have a digest and facts of their own; bytes are hashed with the requested function.
type payload struct {
	bytes    []byte
	hash     keys.HashFunction
	document document // nil for bytes
	root     string   // of the document's facts
	kind     string   // see decoded.KindOf
}

// beginsWith reports whether a payload is bytes with this prefix that are hashed before signing.
func (p *payload) beginsWith(prefix string) bool {
	return p.document == nil && p.hash != keys.HashNoOp && bytes.HasPrefix(p.bytes, []byte(prefix))
}

// A document is a structured payload, such as EIP-712 typed data.
type document interface {
	Digest() [32]byte
	Facts() chain.Struct
}

// decodePayload decodes the payload of a request. The errors are *fault.Error about field.
func decodePayload(field string, e PayloadEncoding, h HashFunction, text string) (p payload, err error) {
	if p.hash, err = keys.ParseHashFunction(string(h)); err != nil {
		return p, err
	}
	p.kind = decoded.KindDocument
	switch e {
	case encodingTyped:
		p.root = "eth.eip_712"
		p.document, err = asDocument(eth.ParseTypedData([]byte(text)))
	case encodingAuthorization:
		p.root = "eth.eip_7702_authorization"
		p.document, err = asDocument(eth.ParseAuthorization([]byte(text)))
	default:
		if p.bytes, err = keys.DecodePayload(string(e), text); err == nil {
			p.kind = decoded.KindOf(p.hash, p.bytes)
		}
	}
	if f := fault.Of(err); f != nil && f.Code == fault.InvalidArgument {
		return p, fault.Field(field, "%s", f.Message)
	}
	if err == nil && p.document != nil && p.hash != keys.HashNoOp {
		return p, fault.Field("hashFunction", "invalid hash function: %s is hashed by its own rules: send HASH_FUNCTION_NO_OP", e)
	}
	return p, err
}

// asDocument converts a typed nil to nil.
func asDocument[D document](d D, err error) (document, error) {
	if err != nil {
		return nil, err
	}
	return d, nil
}

// digest returns the digest that a key on curve c signs for an address in format f.
func (p *payload) digest(c chain.Curve, f chain.Format) (chain.Digest, error) {
	d := chain.Digest{Scheme: chain.SchemeOf(f, c)}
	if p.document != nil {
		if c != chain.Secp256k1 || d.Scheme != chain.ECDSA {
			return d, fault.Field("encoding", "invalid payload encoding: a document of Ethereum is signed by an Ethereum key, not for %v on %v", f, c)
		}
		sum := p.document.Digest()
		d.Message = sum[:]
		return d, nil
	}
	var err error
	d.Message, err = keys.Digest(c, p.hash, p.bytes)
	return d, err
}

// askPayloads completes the policy request about signing payloads. A missing key has no facts: Run refuses it.
func askPayloads(tx *org.Tx, signWith string, ps []payload, q *policy.Request) error {
	s, err := lookUpSigningKey(tx, signWith)
	if s == nil || err != nil {
		return err
	}
	q.Facts = policy.Facts{}
	for _, p := range ps {
		switch {
		case p.document == nil:
		case len(ps) == 1:
			q.Facts[p.root] = factOf(p.document.Facts())
		default:
			q.Payloads = append(q.Payloads, policy.Facts{p.root: factOf(p.document.Facts())})
		}
	}
	return s.facts(tx, q.Facts)
}
