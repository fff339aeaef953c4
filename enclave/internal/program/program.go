// Package program finds a customer's program in the image that it comes in, and says what it is to run in.
//
// An image comes from a registry by way of the host, who may send anything. It is named by the SHA-256 of its manifest;
// that names the configuration and the layers by theirs, and everything is held against those names before a word of it
// counts. What is read is bounded: bytes that are fetched, bytes that come out of compression, files, names.
// Nothing is kept but the digest of the program.
package program

import (
	"encoding/hex"
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/shared/tvc"
)

// A Platform is what customers' programs run in, as the measured configuration says.
type Platform struct {
	Domain string // below which apps have their names
	Bases  []Base // the newest one last; there is one at least
}

// A Base is a release of the image that programs run in.
type Base struct {
	Name    string
	Enclave tvc.Enclave
}

// Base finds a release by its name, or nil.
func (p *Platform) Base(name string) *Base {
	for i := range p.Bases {
		if p.Bases[i].Name == name {
			return &p.Bases[i]
		}
	}
	return nil
}

// Invalid refuses an image, or a program in it.
func Invalid(format string, args ...any) *fault.Error {
	return fault.WithCode(fault.InvalidArgument, "TVC_IMAGE_VALIDATION_FAILED", format, args...)
}

// maxReference bounds the name of an image in bytes.
const maxReference = 512

// A Reference names an image at a registry.
type Reference struct {
	Text     string
	Registry string // host, and port if there is one
	Digest   Digest // zero: whatever the tag names now
}

// A Digest is the SHA-256 of a blob.
type Digest [32]byte

// String is as registries write it.
func (d Digest) String() string { return algorithm + hex.EncodeToString(d[:]) }

const algorithm = "sha256:"

// ParseDigest reads what String writes, and nothing else.
func ParseDigest(text string) (d Digest, ok bool) {
	raw, err := hex.DecodeString(strings.TrimPrefix(text, algorithm))
	if err != nil || len(raw) != len(d) {
		return d, false
	}
	copy(d[:], raw)
	return d, d.String() == text
}

// dockerHub is meant where an image's name begins with no host.
const dockerHub = "index.docker.io"

// ParseReference reads the name of an image: HOST/PATH, with a tag or not, and with pinned @sha256:HEX behind it.
// The errors are *fault.Error about field.
func ParseReference(field, text string, pinned bool) (r Reference, err error) {
	name, digest, has := strings.Cut(text, "@")
	switch {
	case len(text) > maxReference || name == "" || strings.Trim(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/:@") != "":
		return r, fault.Field(field, "must be the name of an image of at most %d bytes, such as registry.example.com/team/app@sha256:…", maxReference)
	case pinned && !has:
		return r, fault.Field(field, "must be pinned: a tag may name another image tomorrow; put @sha256: and the digest behind the name")
	}
	r = Reference{Text: text, Registry: dockerHub}
	if has {
		var ok bool
		if r.Digest, ok = ParseDigest(digest); !ok {
			return r, fault.Field(field, "must end in @sha256: and 64 digits of lower-case hex")
		}
	}
	first, rest, below := strings.Cut(name, "/")
	if below && (strings.ContainsAny(first, ".:") || first == "localhost") {
		r.Registry = strings.ToLower(first)
	} else {
		rest = name
	}
	if rest == "" || strings.Contains(rest, "//") || strings.HasPrefix(rest, "/") || strings.HasSuffix(rest, "/") || strings.Count(rest, ":") > 1 {
		return r, fault.Field(field, "is no name of an image")
	}
	if r.Registry == "docker.io" || r.Registry == "registry-1.docker.io" {
		r.Registry = dockerHub
	}
	return r, nil
}
