package image_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha512"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/binary"
	"encoding/pem"
	"hash/crc32"
	"math/big"
	"strings"
	"testing"
	"time"

	"cloister/eif/image"
)

var now = time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)

func plain() *image.Image {
	return &image.Image{
		Kernel: []byte("a kernel"), CommandLine: "panic=1 reboot=k", Metadata: image.Describe("cloister", "1", "6.12"),
		Ramdisks: [2][]byte{[]byte("first"), []byte("the second ramdisk")},
	}
}

// signer is a key with its certificate, valid for a year around now.
func signer(t testing.TB, curve elliptic.Curve) (*ecdsa.PrivateKey, []byte) {
	t.Helper()
	key, err := ecdsa.GenerateKey(curve, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key, certify(t, key, now)
}

func certify(t testing.TB, key *ecdsa.PrivateKey, at time.Time) []byte {
	t.Helper()
	c := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "image signer"},
		NotBefore: at.AddDate(0, -6, 0), NotAfter: at.AddDate(0, 6, 0),
	}
	der, err := x509.CreateCertificate(rand.Reader, c, c, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func signed(t testing.TB) *image.Image {
	t.Helper()
	m := plain()
	key, cert := signer(t, elliptic.P384())
	if err := m.Sign(cert, key, now); err != nil {
		t.Fatal(err)
	}
	return m
}

func encode(t testing.TB, m *image.Image) []byte {
	t.Helper()
	raw, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

func TestReadBack(t *testing.T) {
	for name, m := range map[string]*image.Image{"plain": plain(), "signed": signed(t), "arm": {
		ARM: true, Memory: 5 << 30, Processors: 4, Kernel: []byte("k"), CommandLine: "c", Metadata: image.Describe("", "", ""),
		Ramdisks: [2][]byte{{0}, {1}},
	}} {
		raw := encode(t, m)
		got, err := image.Parse(raw)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		want, err := m.Measure()
		if err != nil {
			t.Fatal(err)
		}
		if pcrs, err := got.Measure(); err != nil || pcrs != want {
			t.Errorf("%s: measurements differ: %v", name, err)
		}
		if (got.Signature == nil) != (m.Signature == nil) || got.ARM != m.ARM || !bytes.Equal(got.Kernel, m.Kernel) || got.CommandLine != m.CommandLine {
			t.Errorf("%s: another image", name)
		}
		if !bytes.Equal(encode(t, got), raw) {
			t.Errorf("%s: written again, other bytes", name)
		}
	}
}

// Nitro's rule, written down once more: a register of zeros extended with the SHA-384 of the parts.
func TestMeasurements(t *testing.T) {
	m := signed(t)
	got, err := m.Measure()
	if err != nil {
		t.Fatal(err)
	}
	x := func(s string) image.PCR {
		inner := sha512.Sum384([]byte(s))
		return sha512.Sum384(append(make([]byte, 48), inner[:]...))
	}
	want := image.PCRs{
		PCR0: x("a kernelpanic=1 reboot=kfirstthe second ramdisk"), PCR1: x("a kernelpanic=1 reboot=kfirst"), PCR2: x("the second ramdisk"),
		PCR8: x(string(m.Signature.Certificate.Raw)),
	}
	if got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	unsigned, err := plain().Measure()
	if err != nil {
		t.Fatal(err)
	}
	if want.PCR8 = (image.PCR{}); unsigned != want {
		t.Error("a signature changes more than PCR8")
	}
}

func TestNotWritten(t *testing.T) {
	for name, change := range map[string]func(*image.Image){
		"no kernel":              func(m *image.Image) { m.Kernel = nil },
		"no command line":        func(m *image.Image) { m.CommandLine = "" },
		"long command line":      func(m *image.Image) { m.CommandLine = strings.Repeat("a", image.MaxCommandLine+1) },
		"NUL in command line":    func(m *image.Image) { m.CommandLine = "panic=1\x00" },
		"two lines":              func(m *image.Image) { m.CommandLine = "panic=1\n" },
		"no first ramdisk":       func(m *image.Image) { m.Ramdisks[0] = nil },
		"no second ramdisk":      func(m *image.Image) { m.Ramdisks[1] = nil },
		"kernel too long":        func(m *image.Image) { m.Kernel = make([]byte, image.MaxKernel+1) },
		"metadata not JSON":      func(m *image.Image) { m.Metadata.DockerInfo = []byte("{") },
		"metadata too long":      func(m *image.Image) { m.Metadata.ImageName = strings.Repeat("a", image.MaxMetadata) },
		"a signature from where": func(m *image.Image) { m.Signature = &image.Signature{} },
	} {
		m := plain()
		change(m)
		if _, err := m.Encode(); err == nil {
			t.Errorf("%s: written", name)
		}
	}
	m := signed(t)
	m.Ramdisks[1] = []byte("another application")
	if _, err := m.Encode(); err == nil {
		t.Error("written with a signature over another image")
	}
}

// seal sets the checksum right, so that what is refused is refused for something else.
func seal(raw []byte) []byte {
	if len(raw) >= 548 {
		sum := crc32.Update(crc32.ChecksumIEEE(raw[:544]), crc32.IEEETable, raw[548:])
		binary.BigEndian.PutUint32(raw[544:], sum)
	}
	return raw
}

func TestNotRead(t *testing.T) {
	good := encode(t, plain())
	be := binary.BigEndian
	kernel := 548           // its section
	line := kernel + 12 + 8 // that of the command line
	meta := line + 12 + 16  // and so on
	at := func(raw []byte, i int) { raw[i] ^= 1 }
	for name, change := range map[string]func([]byte) []byte{
		"nothing":               func(raw []byte) []byte { return nil },
		"half a header":         func(raw []byte) []byte { return raw[:547] },
		"a header alone":        func(raw []byte) []byte { return raw[:548] },
		"cut":                   func(raw []byte) []byte { return raw[:len(raw)-1] },
		"rest":                  func(raw []byte) []byte { return append(raw, 0) },
		"magic":                 func(raw []byte) []byte { at(raw, 1); return raw },
		"version 3":             func(raw []byte) []byte { be.PutUint16(raw[4:], 3); return raw },
		"version 5":             func(raw []byte) []byte { be.PutUint16(raw[4:], 5); return raw },
		"flags":                 func(raw []byte) []byte { be.PutUint16(raw[6:], 2); return raw },
		"no memory":             func(raw []byte) []byte { be.PutUint64(raw[8:], 0); return raw },
		"no processors":         func(raw []byte) []byte { be.PutUint64(raw[16:], 0); return raw },
		"reserved":              func(raw []byte) []byte { at(raw, 25); return raw },
		"no sections":           func(raw []byte) []byte { be.PutUint16(raw[26:], 0); return raw },
		"one ramdisk":           func(raw []byte) []byte { be.PutUint16(raw[26:], 4); return raw },
		"a section too many":    func(raw []byte) []byte { be.PutUint16(raw[26:], 6); return raw },
		"33 sections":           func(raw []byte) []byte { be.PutUint16(raw[26:], 33); return raw },
		"offset":                func(raw []byte) []byte { at(raw, 28+7); return raw },
		"offset beyond":         func(raw []byte) []byte { be.PutUint64(raw[28:], 1<<63); return raw },
		"size":                  func(raw []byte) []byte { at(raw, 284+7); return raw },
		"size that wraps":       func(raw []byte) []byte { be.PutUint64(raw[284:], ^uint64(0)-11); return raw },
		"size of all there is":  func(raw []byte) []byte { be.PutUint64(raw[284:], uint64(len(raw))); return raw },
		"offset of no section":  func(raw []byte) []byte { at(raw, 28+8*31+7); return raw },
		"size of no section":    func(raw []byte) []byte { at(raw, 284+8*5+7); return raw },
		"unused":                func(raw []byte) []byte { at(raw, 540); return raw },
		"no kernel":             func(raw []byte) []byte { be.PutUint16(raw[kernel:], 3); return raw },
		"type 0":                func(raw []byte) []byte { be.PutUint16(raw[kernel:], 0); return raw },
		"type 6":                func(raw []byte) []byte { be.PutUint16(raw[kernel:], 6); return raw },
		"section flags":         func(raw []byte) []byte { at(raw, kernel+3); return raw },
		"section's own size":    func(raw []byte) []byte { at(raw, kernel+11); return raw },
		"NUL in command line":   func(raw []byte) []byte { raw[line+12] = 0; return raw },
		"metadata not JSON":     func(raw []byte) []byte { raw[meta+12] = '['; return raw },
		"metadata not UTF-8":    func(raw []byte) []byte { raw[meta+14] = 0xff; return raw },
		"metadata member":       func(raw []byte) []byte { return bytes.Replace(raw, []byte("ImageName"), []byte("imageName"), 1) },
		"member of it missing":  func(raw []byte) []byte { return bytes.Replace(raw, []byte("BuildTool\""), []byte("BuildFool\""), 1) },
		"metadata member twice": func(raw []byte) []byte { return bytes.Replace(raw, []byte("BuildTime"), []byte("BuildTool"), 1) },
	} {
		raw := seal(change(bytes.Clone(good)))
		if _, err := image.Parse(raw); err == nil {
			t.Errorf("%s: read", name)
		}
	}
	raw := bytes.Clone(good)
	at(raw, len(raw)-1)
	if _, err := image.Parse(raw); err == nil || !strings.Contains(err.Error(), "checksum") {
		t.Errorf("a changed byte: %v", err)
	}
}

// Sections in another order measure the same where their contents end up in the same order; the order is checked all the same.
func TestOrderOfSections(t *testing.T) {
	raw := encode(t, plain())
	at := bytes.Index(raw, []byte("a kernel")) - 12
	swapped := bytes.Clone(raw)
	// Kernel and command line change places with their sizes.
	a, b := raw[at:at+20], raw[at+20:at+20+28]
	copy(swapped[at:], b)
	copy(swapped[at+28:], a)
	be := binary.BigEndian
	be.PutUint64(swapped[28+8:], uint64(at+28))
	be.PutUint64(swapped[284:], 16)
	be.PutUint64(swapped[284+8:], 8)
	if _, err := image.Parse(seal(swapped)); err == nil {
		t.Error("command line before kernel: read")
	}
}

func FuzzParse(f *testing.F) {
	f.Add(encode(f, plain()))
	f.Add(encode(f, signed(f)))
	f.Fuzz(func(t *testing.T, raw []byte) {
		// A fuzzer does not guess checksums.
		m, err := image.Parse(seal(bytes.Clone(raw)))
		if err != nil {
			return
		}
		again, err := m.Encode()
		if err != nil || !bytes.Equal(again[548:], raw[548:]) {
			t.Errorf("read, but not written again as it was: %v", err)
		}
	})
}
