package image

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"unicode/utf8"
)

// Metadata is the description in an image, as nitro-cli names its members.
type Metadata struct {
	ImageName      string          `json:"ImageName"`
	ImageVersion   string          `json:"ImageVersion"`
	BuildMetadata  BuildMetadata   `json:"BuildMetadata"`
	DockerInfo     json.RawMessage `json:"DockerInfo"`     // any JSON; {} in ours
	CustomMetadata json.RawMessage `json:"CustomMetadata"` // any JSON; null in ours
}

// BuildMetadata says how an image was made. In ours the time is always 1970, so
// that the same inputs give the same file.
type BuildMetadata struct {
	BuildTime        string `json:"BuildTime"` // RFC 3339
	BuildTool        string `json:"BuildTool"`
	BuildToolVersion string `json:"BuildToolVersion"`
	OperatingSystem  string `json:"OperatingSystem"`
	KernelVersion    string `json:"KernelVersion"`
}

// Describe is the metadata of an image of ours.
func Describe(name, version, kernel string) Metadata {
	return Metadata{
		ImageName: name, ImageVersion: version,
		BuildMetadata: BuildMetadata{
			BuildTime: "1970-01-01T00:00:00Z", BuildTool: "cloister-eif", BuildToolVersion: "1", OperatingSystem: "Linux", KernelVersion: kernel,
		},
		DockerInfo: json.RawMessage("{}"), CustomMetadata: json.RawMessage("null"),
	}
}

func (m Metadata) encode() ([]byte, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, err
	}
	_, err = parseMetadata(raw)
	return raw, err
}

const maxDepth = 32

// parseMetadata takes one JSON object with exactly the members above, each once;
// what is in the last two is nobody's business but that it is JSON.
func parseMetadata(raw []byte) (Metadata, error) {
	if !utf8.Valid(raw) {
		return Metadata{}, errors.New("not UTF-8")
	}
	scan := json.NewDecoder(bytes.NewReader(raw))
	scan.UseNumber()
	if err := once(scan, maxDepth); err != nil {
		return Metadata{}, err
	}
	if _, err := scan.Token(); !errors.Is(err, io.EOF) {
		return Metadata{}, errors.New("bytes follow the JSON value")
	}
	// By exact names: the decoder of structs would take them in any case.
	var all, build map[string]json.RawMessage
	var m Metadata
	if json.Unmarshal(raw, &all) != nil || !has(all, "ImageName", "ImageVersion", "BuildMetadata", "DockerInfo", "CustomMetadata") ||
		json.Unmarshal(all["BuildMetadata"], &build) != nil ||
		!has(build, "BuildTime", "BuildTool", "BuildToolVersion", "OperatingSystem", "KernelVersion") ||
		json.Unmarshal(raw, &m) != nil {
		return Metadata{}, errors.New("not the members of version 4")
	}
	return m, nil
}

// has tells whether an object has these members and no other.
func has(object map[string]json.RawMessage, names ...string) bool {
	for _, n := range names {
		if _, ok := object[n]; !ok {
			return false
		}
	}
	return len(object) == len(names)
}

// once reads one value and refuses a member that appears twice in an object, and nesting deeper than depth.
func once(d *json.Decoder, depth int) error {
	t, err := d.Token()
	if err != nil {
		return errors.New("malformed JSON")
	}
	open, nested := t.(json.Delim)
	if !nested {
		return nil
	}
	if depth == 0 {
		return errors.New("nested too deeply")
	}
	seen := make(map[string]bool)
	for d.More() {
		if open == '{' {
			t, err := d.Token()
			name, ok := t.(string)
			if err != nil || !ok {
				return errors.New("malformed JSON")
			}
			if seen[name] {
				return errors.New("a member appears twice")
			}
			seen[name] = true
		}
		if err := once(d, depth-1); err != nil {
			return err
		}
	}
	if _, err := d.Token(); err != nil {
		return errors.New("malformed JSON")
	}
	return nil
}
