package attestation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"unicode/utf8"
)

// decodeStrict reads one JSON value of at most max bytes into v. It refuses
// duplicate, unknown and differently cased members, null, invalid UTF-8, lone
// surrogates, trailing bytes and nesting deeper than maxJSONDepth.
func decodeStrict(raw []byte, max int, v any) error {
	names := make(map[string]bool)
	collectNames(reflect.TypeOf(v), names)
	if err := scanJSON(raw, max, maxJSONDepth, names); err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(v); err != nil {
		return errors.New("JSON does not have the expected form")
	}
	return nil
}

// parseJSON decodes a document with decodeStrict. what is its name in errors.
func parseJSON[T any](what string, raw []byte, max int) (*T, error) {
	v := new(T)
	if err := decodeStrict(raw, max, v); err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return v, nil
}

// CheckJSON refuses text that two JSON readers could interpret differently: anything but one value of at most max bytes, duplicate
// members, invalid UTF-8, lone surrogates, trailing bytes and more than 16 levels. Any members are allowed, and null.
func CheckJSON(raw []byte, max int) error { return scanJSON(raw, max, maxJSONDepth, nil) }

// scanJSON checks the form alone. With names nil any member is allowed, and null.
func scanJSON(raw []byte, max, depth int, names map[string]bool) error {
	if len(raw) == 0 || len(raw) > max {
		return fmt.Errorf("%d bytes of JSON, want 1 to %d", len(raw), max)
	}
	if !utf8.Valid(raw) || loneSurrogate(raw) {
		return errors.New("JSON is not valid UTF-8")
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := scanValue(dec, names, depth); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("bytes follow the JSON value")
	}
	return nil
}

func scanValue(dec *json.Decoder, names map[string]bool, depth int) error {
	tok, err := dec.Token()
	if err != nil {
		return errors.New("malformed JSON")
	}
	if tok == nil && names != nil {
		return errors.New("JSON null is not allowed here")
	}
	open, nested := tok.(json.Delim)
	if !nested {
		return nil
	}
	if depth == 0 {
		return errors.New("JSON is nested too deeply")
	}
	seen := make(map[string]bool)
	for dec.More() {
		if open == '{' {
			if err := scanName(dec, names, seen); err != nil {
				return err
			}
		}
		if err := scanValue(dec, names, depth-1); err != nil {
			return err
		}
	}
	if _, err := dec.Token(); err != nil {
		return errors.New("malformed JSON")
	}
	return nil
}

func scanName(dec *json.Decoder, names, seen map[string]bool) error {
	tok, err := dec.Token()
	if err != nil {
		return errors.New("malformed JSON")
	}
	name, _ := tok.(string)
	if seen[name] {
		return errors.New("a JSON member appears twice")
	}
	if names != nil && !names[name] {
		return errors.New("unknown JSON member")
	}
	seen[name] = true
	return nil
}

// collectNames adds the member names of a struct type and of all types in it. The standard
// decoder matches names without regard to case; this set does not.
func collectNames(t reflect.Type, names map[string]bool) {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice:
		collectNames(t.Elem(), names)
	case reflect.Struct:
		for i := range t.NumField() {
			name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
			names[name] = true
			collectNames(t.Field(i).Type, names)
		}
	}
}

// loneSurrogate finds \u escapes that name half a character; the standard
// decoder would replace them silently.
func loneSurrogate(raw []byte) bool {
	for i := 0; i+1 < len(raw); i++ {
		if raw[i] != '\\' {
			continue
		}
		i++
		if raw[i] != 'u' {
			continue
		}
		switch surrogateHalf(raw, i+1) {
		case 'h':
			if i+6 >= len(raw) || raw[i+5] != '\\' || raw[i+6] != 'u' || surrogateHalf(raw, i+7) != 'l' {
				return true
			}
			i += 10
		case 'l':
			return true
		}
	}
	return false
}

// surrogateHalf returns 'h' or 'l' if four hex digits at i are a high or low surrogate.
func surrogateHalf(raw []byte, i int) byte {
	if i+4 > len(raw) || raw[i]|0x20 != 'd' {
		return 0
	}
	switch c := raw[i+1] | 0x20; {
	case c == '8' || c == '9' || c == 'a' || c == 'b':
		return 'h'
	case c >= 'c' && c <= 'f':
		return 'l'
	}
	return 0
}

// encodeJSON writes without escaping of HTML characters and without a newline.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer // which the encoder writes to once
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}
