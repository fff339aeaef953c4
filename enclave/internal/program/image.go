package program

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"hash"
	"io"
	"path"
	"strings"

	"cloister/enclave/internal/strictjson"
	"cloister/shared/tvc"
)

// Bounds of what is read of one image, in bytes unless they say otherwise.
const (
	MaxManifest = 1 << 20
	maxConfig   = 1 << 20
	MaxImage    = 1 << 30 // all layers, as they are fetched
	maxUnpacked = 4 << 30 // all that comes out of them
	maxLayers   = 127
	maxFiles    = 1 << 20 // of all layers
)

// Blobs gives an image's blobs by their digests, as whoever keeps them has them; the zero digest is the manifest that the
// image's name leads to. What it gives is bounded and verified by who reads.
type Blobs interface {
	Open(d Digest) (io.Reader, error)
}

// ErrAway is what Blobs give if it cannot be told what is there: nothing is said of the image by it.
var ErrAway = errors.New("the image could not be fetched")

// The kinds of documents and layers that are read.
var (
	manifestTypes = []string{"application/vnd.oci.image.manifest.v1+json", "application/vnd.docker.distribution.manifest.v2+json"}
	indexTypes    = []string{"application/vnd.oci.image.index.v1+json", "application/vnd.docker.distribution.manifest.list.v2+json"}
	layerTypes    = map[string]bool{ // whether they are compressed
		"application/vnd.oci.image.layer.v1.tar+gzip": true, "application/vnd.docker.image.rootfs.diff.tar.gzip": true,
		"application/vnd.oci.image.layer.v1.tar": false,
	}
)

// manifest is what is read of an image's manifest. Members besides these mean nothing here.
type manifest struct {
	SchemaVersion int32        `json:"schemaVersion"`
	MediaType     string       `json:"mediaType"`
	Config        descriptor   `json:"config"`
	Layers        []descriptor `json:"layers"`
	Manifests     []descriptor `json:"manifests"` // of an index
}

type descriptor struct {
	MediaType string   `json:"mediaType"`
	Digest    string   `json:"digest"`
	Size      int64    `json:"size"`
	URLs      []string `json:"urls"`
}

// config is what is read of an image's configuration.
type config struct {
	Architecture string `json:"architecture"`
	OS           string `json:"os"`
	RootFS       struct {
		DiffIDs []string `json:"diff_ids"`
	} `json:"rootfs"`
}

// Resolve is the digest of the image's manifest, which is that of one image for linux/amd64.
func Resolve(blobs Blobs, r Reference) (Digest, error) {
	_, d, err := open(blobs, r)
	return d, err
}

// Find is the digest of the program at a path of an image.
func Find(blobs Blobs, r Reference, at string) (Digest, error) {
	m, _, err := open(blobs, r)
	if err != nil {
		return Digest{}, err
	}
	s := search{blobs: blobs, path: strings.TrimPrefix(path.Clean(at), "/")}
	for i := len(m.layers) - 1; i >= 0; i-- { // the last one lies on top
		found, gone, err := s.layer(&m.layers[i])
		if err != nil {
			return Digest{}, err
		}
		if found != nil {
			return *found, nil
		}
		if gone {
			break
		}
	}
	return Digest{}, Invalid("no such path in the image: there is no file %s", quote(at))
}

func quote(text string) string { return fmt.Sprintf("%.128q", text) }

// image is one that was read and is sound so far.
type image struct{ layers []layer }

type layer struct {
	digest, unpacked Digest
	size             int64
	compressed       bool
}

// open reads manifest and configuration.
func open(blobs Blobs, r Reference) (*image, Digest, error) {
	raw, err := blob(blobs, r.Digest, MaxManifest)
	if err != nil {
		return nil, Digest{}, err
	}
	var m manifest
	if err := unmarshal("manifest", raw, &m); err != nil {
		return nil, Digest{}, err
	}
	switch {
	case m.SchemaVersion != 2:
		return nil, Digest{}, Invalid("the image's manifest is of no version that is read here, 2")
	case isOneOf(indexTypes, m.MediaType) || len(m.Manifests) > 0:
		return nil, Digest{}, Invalid("this digest names several images: pin the one for linux/amd64")
	case m.MediaType != "" && !isOneOf(manifestTypes, m.MediaType):
		return nil, Digest{}, Invalid("the image's manifest is of no type that is read here: %s", quote(m.MediaType))
	case len(m.Layers) == 0 || len(m.Layers) > maxLayers:
		return nil, Digest{}, Invalid("the image has %d layers: 1 to %d are read", len(m.Layers), maxLayers)
	}
	named, ok := ParseDigest(m.Config.Digest)
	if !ok {
		return nil, Digest{}, Invalid("the image's manifest names no configuration")
	}
	var c config
	if raw, err := blob(blobs, named, maxConfig); err != nil {
		return nil, Digest{}, err
	} else if err := unmarshal("configuration", raw, &c); err != nil {
		return nil, Digest{}, err
	}
	switch {
	case c.OS != "linux" || c.Architecture != "amd64":
		return nil, Digest{}, Invalid("the image is for %s/%s and not for linux/amd64", quote(c.OS), quote(c.Architecture))
	case len(c.RootFS.DiffIDs) != len(m.Layers):
		return nil, Digest{}, Invalid("the image's configuration tells of other layers than its manifest")
	}
	im := &image{layers: make([]layer, len(m.Layers))}
	var total int64
	for i, d := range m.Layers {
		l := &im.layers[i]
		var known, good, right bool
		l.compressed, known = layerTypes[d.MediaType]
		l.digest, good = ParseDigest(d.Digest)
		l.unpacked, right = ParseDigest(c.RootFS.DiffIDs[i])
		l.size = d.Size
		switch {
		case !known || len(d.URLs) > 0:
			return nil, Digest{}, Invalid("layer %d is of no type that is read here: %s; tar and tar with gzip are", i, quote(d.MediaType))
		case !good || !right || d.Size <= 0:
			return nil, Digest{}, Invalid("layer %d has no digest or no size", i)
		case d.Size > MaxImage-total:
			return nil, Digest{}, Invalid("the image has more than %d bytes", int64(MaxImage))
		}
		total += d.Size
	}
	return im, sha256.Sum256(raw), nil
}

func isOneOf(all []string, text string) bool {
	for _, one := range all {
		if one == text {
			return true
		}
	}
	return false
}

// unmarshal reads a document of which others know more members. None stands twice, so that all read the same.
func unmarshal(what string, raw []byte, into any) error {
	if strictjson.Decode(raw, into, strictjson.AllowUnknown()) != nil {
		return Invalid("the image's %s is no JSON of its form", what)
	}
	return nil
}

// blob is a small one, held against its digest unless that is zero.
func blob(blobs Blobs, d Digest, most int64) ([]byte, error) {
	from, err := blobs.Open(d)
	if err != nil {
		return nil, err
	}
	raw, err := io.ReadAll(io.LimitReader(from, most+1))
	switch {
	case err != nil:
		return nil, asErrAway(err)
	case int64(len(raw)) > most:
		return nil, Invalid("the image's manifest or configuration has more than %d bytes", most)
	case d != Digest{} && sha256.Sum256(raw) != d:
		return nil, errOther
	}
	return raw, nil
}

// errOther tells that what came is not what was named: nothing is said of the image by it.
var errOther = fmt.Errorf("%w: what came is not what was named", ErrAway)

// asErrAway is the error of a reader of blobs.
func asErrAway(err error) error {
	if errors.Is(err, ErrAway) {
		return err
	}
	return fmt.Errorf("%w: %v", ErrAway, err)
}

// search goes through layers.
type search struct {
	blobs    Blobs
	path     string
	unpacked int64
	files    int
}

// layer looks for the program in one layer, and tells whether the layer takes it away from those below. The layer is read
// to its end whatever is found: only then is it known to be the one that was named, and what is wrong with it to be wrong
// with the image.
func (s *search) layer(l *layer) (found *Digest, gone bool, err error) {
	from, err := s.blobs.Open(l.digest)
	if err != nil {
		return nil, false, err
	}
	outer := &counted{from: from, left: l.size, sum: sha256.New()}
	unpacked := &counted{left: maxUnpacked - s.unpacked, sum: sha256.New()}
	unpacked.from = bufio.NewReaderSize(outer, 1<<16)
	if l.compressed {
		z, zerr := gzip.NewReader(unpacked.from)
		if unpacked.from, err = z, nil; zerr != nil {
			err = Invalid("a layer of the image is not compressed as its type says")
		}
	}
	if err == nil {
		found, gone, err = s.walk(tar.NewReader(unpacked))
	}
	if err == nil {
		if _, err = io.Copy(io.Discard, unpacked); err != nil { // what stands behind the archive
			err = Invalid("a layer of the image is damaged")
		}
	}
	s.unpacked = maxUnpacked - unpacked.left
	_, _ = io.Copy(io.Discard, outer)
	switch {
	case outer.err != nil:
		return nil, false, asErrAway(outer.err)
	case outer.over || outer.left != 0 || outer.digest() != l.digest:
		return nil, false, errOther
	case unpacked.over:
		return nil, false, Invalid("the image has more than %d bytes once it is unpacked", int64(maxUnpacked))
	case err != nil:
		return nil, false, err
	case unpacked.digest() != l.unpacked:
		return nil, false, Invalid("a layer of the image is not the one that its configuration names")
	}
	return found, gone, nil
}

// walk looks through an archive. Of several files of one name the last one counts, as when it is unpacked.
func (s *search) walk(archive *tar.Reader) (found *Digest, gone bool, err error) {
	for {
		h, err := archive.Next()
		switch {
		case err == io.EOF:
			return found, gone, nil
		case err != nil:
			return nil, false, Invalid("a layer of the image is no tar archive")
		}
		if s.files++; s.files > maxFiles {
			return nil, false, Invalid("the image has more than %d files", maxFiles)
		}
		name := strings.TrimPrefix(path.Clean("/"+h.Name), "/")
		switch {
		case hides(name, s.path):
			gone = true
		case name != s.path:
			// Whatever else lies where a directory on the way would be, the path leads through it to nothing that is read here.
			if h.Typeflag != tar.TypeDir && strings.HasPrefix(s.path, name+"/") {
				return nil, false, Invalid("no such path in the image: %s is no directory", quote("/"+name))
			}
		case h.Typeflag == tar.TypeReg:
			d, err := readProgram(archive, h.Size)
			if err != nil {
				return nil, false, err
			}
			found = &d
		default:
			return nil, false, Invalid("what lies at %s in the image is no file: name the program itself, no link to it", quote("/"+name))
		}
	}
}

// The marks of files that a layer takes away.
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// hides tells whether a file is the mark by which a layer takes path away from the layers below.
func hides(name, at string) bool {
	dir, base := path.Split(name)
	switch {
	case base == opaque:
		return strings.HasPrefix(at, dir)
	case !strings.HasPrefix(base, whiteout):
		return false
	}
	hidden := dir + strings.TrimPrefix(base, whiteout)
	return at == hidden || strings.HasPrefix(at, hidden+"/")
}

// What an ELF file for x86-64 begins with: its identification, type at 16, machine at 18.
const (
	elfHeader  = 64
	elfMachine = 62
)

// readProgram hashes a program, which must be one for x86-64.
func readProgram(from io.Reader, size int64) (d Digest, err error) {
	if size > tvc.MaxProgram {
		return d, Invalid("the program has more than %d bytes", tvc.MaxProgram)
	}
	var head [elfHeader]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		return d, errNoELF
	}
	kind, machine := uint16(head[16])|uint16(head[17])<<8, uint16(head[18])|uint16(head[19])<<8
	if string(head[:7]) != "\x7fELF\x02\x01\x01" || kind != 2 && kind != 3 || machine != elfMachine {
		return d, errNoELF
	}
	sum := sha256.New()
	sum.Write(head[:])
	if _, err := io.Copy(sum, from); err != nil {
		return d, Invalid("a layer of the image is damaged")
	}
	return Digest(sum.Sum(nil)), nil
}

var errNoELF = Invalid("not ELF x86-64: the program is no executable of that form")

// counted hashes and bounds what is read.
type counted struct {
	from io.Reader
	left int64
	sum  hash.Hash
	over bool  // there was more
	err  error // other than the end
}

func (c *counted) Read(p []byte) (int, error) {
	if c.err != nil {
		return 0, c.err
	}
	if c.left == 0 {
		var one [1]byte
		if n, err := c.from.Read(one[:]); n == 0 {
			return 0, c.end(err)
		}
		c.over = true
		return 0, errors.New("more than there may be")
	}
	n, err := c.from.Read(p[:min(int64(len(p)), c.left)])
	c.left -= int64(n)
	c.sum.Write(p[:n])
	return n, c.end(err)
}

func (c *counted) end(err error) error {
	if err != nil && err != io.EOF {
		c.err = err
	}
	return err
}

func (c *counted) digest() Digest { return Digest(c.sum.Sum(nil)) }
