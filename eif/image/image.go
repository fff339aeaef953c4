// Package image writes and reads enclave images of AWS Nitro Enclaves (EIF,
// version 4) and computes what the hypervisor measures of them.
//
// An image here is always a kernel, its command line, metadata and exactly two ramdisks, in the
// order in which nitro-cli writes them, and perhaps a signature. The measurements are taken over
// the contents laid end to end and do not say where one section ends and the next begins. PCR 0, 1
// and 2 compared together, and the fixed number of ramdisks, keep different images apart.
package image

import (
	"bytes"
	"cmp"
	"crypto/sha512"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"hash/crc32"
	"strings"
)

// What a section may hold, in bytes. An image that exceeds one of them is neither written nor read.
const (
	MaxKernel      = 64 << 20
	MaxCommandLine = 2047 // of Linux on x86, without the NUL that ends it there
	MaxMetadata    = 64 << 10
	MaxRamdisk     = 256 << 20
	MaxSignature   = 64 << 10

	// MaxImage is the longest image file.
	MaxImage = headerSize + 6*sectionSize + MaxKernel + MaxCommandLine + MaxMetadata + 2*MaxRamdisk + MaxSignature
)

// How much memory in bytes, and how many processors, an image asks for when
// whoever starts it does not say. Neither is measured.
const (
	DefaultMemory     = 1 << 30
	DefaultProcessors = 2
)

// The file begins with a header of fixed size; each section has one too. All numbers are big-endian.
const (
	magic       = ".eif"
	version     = 4
	flagARM     = 1
	headerSize  = 548
	crcOffset   = headerSize - 4
	sectionSize = 12
	maxSections = 32

	offsetsAt = 28
	sizesAt   = offsetsAt + 8*maxSections
	unusedAt  = sizesAt + 8*maxSections
)

type kind uint16

const (
	kindKernel kind = iota + 1
	kindCommandLine
	kindRamdisk
	kindSignature
	kindMetadata
)

func (k kind) String() string {
	return [...]string{"no section", "kernel", "command line", "ramdisk", "signature", "metadata"}[k]
}

// order is how nitro-cli lays sections out; the last one may be missing.
var order = []kind{kindKernel, kindCommandLine, kindMetadata, kindRamdisk, kindRamdisk, kindSignature}

var limits = map[kind]int{
	kindKernel: MaxKernel, kindCommandLine: MaxCommandLine, kindMetadata: MaxMetadata, kindRamdisk: MaxRamdisk, kindSignature: MaxSignature,
}

// An Image is what an image file holds.
type Image struct {
	// ARM says that kernel and programs are for 64-bit ARM, not x86-64.
	ARM bool
	// Memory in bytes and Processors are the defaults of whoever starts it. In
	// what is written, zero stands for DefaultMemory and DefaultProcessors.
	Memory, Processors uint64
	Kernel             []byte
	// CommandLine is that of the kernel: printable ASCII.
	CommandLine string
	// Metadata describes the image. It is in no measurement, so nothing may depend on it.
	Metadata Metadata
	// Ramdisks are unpacked over each other in this order. The first is measured
	// with the kernel, the second by itself.
	Ramdisks [2][]byte
	// Signature is nil for an image without.
	Signature *Signature

	metadata  []byte // as read
	signature []byte // as read or made
}

type section struct {
	kind kind
	data []byte
}

// Encode writes the image. The same image gives the same bytes. It refuses what
// Parse would refuse, so an image that was changed must be signed again.
func (m *Image) Encode() ([]byte, error) {
	sections, err := m.sections()
	if err != nil {
		return nil, err
	}
	if m.Signature != nil {
		if _, err := parseSignature(m.signature, m.measure().PCR0); err != nil {
			return nil, fmt.Errorf("image: signature: %w", err)
		}
	}
	header := make([]byte, headerSize)
	be := binary.BigEndian
	copy(header, magic)
	be.PutUint16(header[4:], version)
	if m.ARM {
		be.PutUint16(header[6:], flagARM)
	}
	be.PutUint64(header[8:], cmp.Or(m.Memory, DefaultMemory))
	be.PutUint64(header[16:], cmp.Or(m.Processors, DefaultProcessors))
	be.PutUint16(header[26:], uint16(len(sections)))
	total := headerSize
	for i, s := range sections {
		be.PutUint64(header[offsetsAt+8*i:], uint64(total))
		be.PutUint64(header[sizesAt+8*i:], uint64(len(s.data)))
		total += sectionSize + len(s.data)
	}
	out := bytes.NewBuffer(make([]byte, 0, total))
	out.Write(header)
	for _, s := range sections {
		out.Write(be.AppendUint64(be.AppendUint16(be.AppendUint16(nil, uint16(s.kind)), 0), uint64(len(s.data))))
		out.Write(s.data)
	}
	raw := out.Bytes()
	be.PutUint32(raw[crcOffset:], checksum(raw))
	return raw, nil
}

// checksum covers everything but itself.
func checksum(raw []byte) uint32 {
	return crc32.Update(crc32.ChecksumIEEE(raw[:crcOffset]), crc32.IEEETable, raw[headerSize:])
}

// sections are those of the file, in order, each within its limits.
func (m *Image) sections() ([]section, error) {
	meta := m.metadata
	if meta == nil {
		var err error
		if meta, err = m.Metadata.encode(); err != nil {
			return nil, err
		}
	}
	all := []section{
		{kindKernel, m.Kernel}, {kindCommandLine, []byte(m.CommandLine)}, {kindMetadata, meta},
		{kindRamdisk, m.Ramdisks[0]}, {kindRamdisk, m.Ramdisks[1]},
	}
	if m.Signature != nil {
		all = append(all, section{kindSignature, m.signature})
	}
	for _, s := range all {
		if n := len(s.data); n == 0 || n > limits[s.kind] {
			return nil, fmt.Errorf("image: %v of %d bytes, want 1 to %d", s.kind, n, limits[s.kind])
		}
	}
	return all, checkCommandLine(m.CommandLine)
}

func checkCommandLine(s string) error {
	if strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' }) {
		return errors.New("image: command line is not printable ASCII")
	}
	return nil
}

// Parse reads an image that may come from anybody. It takes exactly the layout that Encode and
// nitro-cli write: the sections of order without gaps or rests, zero where nothing is defined, the
// right checksum, well-formed metadata, and any signature valid and over this image's PCR0. The
// result shares memory with raw.
func Parse(raw []byte) (*Image, error) {
	m := &Image{}
	sections, err := m.parseHeader(raw)
	if err != nil {
		return nil, fmt.Errorf("image: %w", err)
	}
	m.Kernel, m.CommandLine, m.metadata = sections[0].data, string(sections[1].data), sections[2].data
	m.Ramdisks = [2][]byte{sections[3].data, sections[4].data}
	if err := checkCommandLine(m.CommandLine); err != nil {
		return nil, err
	}
	if m.Metadata, err = parseMetadata(m.metadata); err != nil {
		return nil, fmt.Errorf("image: metadata: %w", err)
	}
	if len(sections) == len(order) {
		m.signature = sections[5].data
		if m.Signature, err = parseSignature(m.signature, m.measure().PCR0); err != nil {
			return nil, fmt.Errorf("image: signature: %w", err)
		}
	}
	return m, nil
}

// parseHeader reads the header and finds the sections that it tells of.
func (m *Image) parseHeader(raw []byte) ([]section, error) {
	be := binary.BigEndian
	switch {
	case len(raw) < headerSize || len(raw) > MaxImage:
		return nil, fmt.Errorf("%d bytes, want %d to %d", len(raw), headerSize, MaxImage)
	case string(raw[:4]) != magic:
		return nil, errors.New("does not begin with " + magic)
	case be.Uint16(raw[4:]) != version:
		return nil, fmt.Errorf("version %d, want %d", be.Uint16(raw[4:]), version)
	case be.Uint16(raw[6:])&^flagARM != 0:
		return nil, errors.New("unknown flags")
	case be.Uint16(raw[24:]) != 0 || be.Uint32(raw[unusedAt:]) != 0:
		return nil, errors.New("reserved bytes are not zero")
	case be.Uint32(raw[crcOffset:]) != checksum(raw):
		return nil, errors.New("checksum is wrong")
	}
	m.ARM = be.Uint16(raw[6:])&flagARM != 0
	m.Memory, m.Processors = be.Uint64(raw[8:]), be.Uint64(raw[16:])
	if m.Memory == 0 || m.Processors == 0 {
		return nil, errors.New("asks for no memory or no processors")
	}
	n := int(be.Uint16(raw[26:]))
	if n != len(order) && n != len(order)-1 {
		return nil, fmt.Errorf("%d sections, want a kernel, a command line, metadata, two ramdisks and perhaps a signature", n)
	}
	sections := make([]section, 0, n)
	next := uint64(headerSize)
	for i := range maxSections {
		offset, size := be.Uint64(raw[offsetsAt+8*i:]), be.Uint64(raw[sizesAt+8*i:])
		if i >= n {
			if offset != 0 || size != 0 {
				return nil, errors.New("header tells of sections that are not there")
			}
			continue
		}
		s, err := parseSection(raw, order[i], next, offset, size)
		if err != nil {
			return nil, fmt.Errorf("section %d: %w", i+1, err)
		}
		sections = append(sections, s)
		next += sectionSize + size
	}
	if next != uint64(len(raw)) {
		return nil, errors.New("bytes follow the last section")
	}
	return sections, nil
}

func parseSection(raw []byte, want kind, next, offset, size uint64) (section, error) {
	be := binary.BigEndian
	if offset != next {
		return section{}, errors.New("not where the one before it ends")
	}
	// next lies within raw or at its end, so these do not wrap.
	if rest := uint64(len(raw)) - next; rest < sectionSize || size > rest-sectionSize {
		return section{}, errors.New("longer than the file")
	}
	head, data := raw[offset:offset+sectionSize], raw[offset+sectionSize:offset+sectionSize+size]
	switch {
	case kind(be.Uint16(head)) != want:
		return section{}, fmt.Errorf("of type %d, want a %v", be.Uint16(head), want)
	case be.Uint16(head[2:]) != 0:
		return section{}, errors.New("unknown flags")
	case be.Uint64(head[4:]) != size:
		return section{}, errors.New("its own size is not that of the header")
	case size == 0 || size > uint64(limits[want]):
		return section{}, fmt.Errorf("%v of %d bytes, want 1 to %d", want, size, limits[want])
	}
	return section{want, data[:size:size]}, nil
}

// A PCR is a platform configuration register: 48 bytes.
type PCR [sha512.Size384]byte

// String is the register in lower-case hex.
func (p PCR) String() string { return hex.EncodeToString(p[:]) }

// PCRs are what the hypervisor measures of an image before it starts it. In
// debug mode it sets them all to zero.
type PCRs struct {
	PCR0 PCR // the whole image: kernel, command line, both ramdisks
	PCR1 PCR // kernel, command line, first ramdisk
	PCR2 PCR // second ramdisk: the application
	PCR8 PCR // the signing certificate; zero for an image without signature
}

// Measure computes the measurements. It refuses an image that could not be written.
func (m *Image) Measure() (PCRs, error) {
	if _, err := m.sections(); err != nil {
		return PCRs{}, err
	}
	return m.measure(), nil
}

func (m *Image) measure() PCRs {
	line := []byte(m.CommandLine)
	p := PCRs{
		PCR0: extend(m.Kernel, line, m.Ramdisks[0], m.Ramdisks[1]),
		PCR1: extend(m.Kernel, line, m.Ramdisks[0]),
		PCR2: extend(m.Ramdisks[1]),
	}
	if m.Signature != nil {
		p.PCR8 = extend(m.Signature.Certificate.Raw)
	}
	return p
}

// extend is a register of zeros, extended once with the SHA-384 of all parts.
func extend(parts ...[]byte) PCR {
	h := sha512.New384()
	for _, p := range parts {
		h.Write(p)
	}
	return sha512.Sum384(h.Sum(make([]byte, sha512.Size384)))
}
