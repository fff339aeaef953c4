package strictjson_test

import (
	"bytes"
	"encoding/json"
	"testing"

	"cloister/enclave/internal/strictjson"
)

// A sign_raw_payload body as the SDKs send it, about 400 bytes.
const signBody = `{"type":"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2","timestampMs":"1767225600000","organizationId":"05ff74cb-bf52-45c6-a81e-8d82099d7f78","parameters":{"signWith":"0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed","payload":"48656c6c6f2c20776f726c642148656c6c6f2c20776f726c642148656c6c6f2c21","encoding":"PAYLOAD_ENCODING_HEXADECIMAL","hashFunction":"HASH_FUNCTION_SHA256"},"generateAppProofs":true}`

type envelope struct {
	Type              string         `json:"type" rule:"required"`
	TimestampMs       uint64         `json:"timestampMs" rule:"required"`
	OrganizationID    string         `json:"organizationId" rule:"required,uuid"`
	Parameters        strictjson.Raw `json:"parameters" rule:"required"`
	GenerateAppProofs *bool          `json:"generateAppProofs,omitempty"`
}

type signParams struct {
	SignWith     string `json:"signWith" rule:"required"`
	Payload      string `json:"payload" rule:"required"`
	Encoding     string `json:"encoding" rule:"required"`
	HashFunction string `json:"hashFunction" rule:"required"`
}

func BenchmarkDecodeEnvelope(b *testing.B) {
	body := []byte(signBody)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var e envelope
		if err := strictjson.Decode(body, &e); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeEnvelopeAndParameters(b *testing.B) {
	body := []byte(signBody)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var e envelope
		var p signParams
		if err := strictjson.Decode(body, &e); err != nil {
			b.Fatal(err)
		}
		if err := strictjson.Decode(e.Parameters, &p, strictjson.At("parameters")); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkStandardEnvelopeAndParameters(b *testing.B) {
	body := bytes.Replace([]byte(signBody), []byte(`"1767225600000"`), []byte(`1767225600000`), 1)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		var e struct {
			envelope
			Parameters json.RawMessage `json:"parameters"`
		}
		var p signParams
		if err := json.Unmarshal(body, &e); err != nil {
			b.Fatal(err)
		}
		if err := json.Unmarshal(e.Parameters, &p); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkDecodeUsers(b *testing.B) {
	body := []byte(good)
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := strictjson.Decode(body, new(all)); err != nil {
			b.Fatal(err)
		}
	}
}

func appendBench(b *testing.B, encode func(v *all)) {
	var v all
	if err := strictjson.Decode([]byte(good), &v); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		encode(&v)
	}
}

func BenchmarkAppend(b *testing.B) {
	buf := make([]byte, 0, 2048)
	appendBench(b, func(v *all) { buf = strictjson.Append(buf[:0], v) })
}

func BenchmarkStandardMarshal(b *testing.B) {
	appendBench(b, func(v *all) {
		if _, err := json.Marshal(v); err != nil {
			b.Fatal(err)
		}
	})
}
