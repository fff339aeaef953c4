package main

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/eif/cpio"
	"cloister/eif/image"
	"cloister/shared/commandline"
)

// commandLine is what the kernel is told unless the caller says otherwise: how to reboot where
// there is no BIOS, that a panic ends the enclave at once, and that neither the processor's nor the
// boot loader's randomness is believed. The enclave checks after the boot what its safety needs.
const commandLine = "reboot=k panic=1 pci=off console=ttyS0 quiet random.trust_cpu=off random.trust_bootloader=off"

const maxInit = 128 << 20 // bytes of the enclave binary

type buildOptions struct {
	kernel, kernelSHA256, kernelName string
	init, modules, commandLine       string
	key, certificate                 string
	version, platform, source        string
	out                              string
}

func build(args []string, stdout io.Writer, now func() time.Time) error {
	var o buildOptions
	f := commandline.NewFlags("cloister-eif build", "usage: cloister-eif build -kernel FILE -init FILE -o IMAGE [flags]\n\n", stdout, nil)
	f.StringVar(&o.kernel, "kernel", "", "`file`: the kernel, an x86 bzImage")
	f.StringVar(&o.kernelSHA256, "kernel-sha256", "", "`hex`: refuse any other kernel")
	f.StringVar(&o.kernelName, "kernel-name", "", "`text`: where the kernel is from, for the record; default its file name")
	f.StringVar(&o.init, "init", "", "`file`: the enclave binary, a static program")
	f.StringVar(&o.modules, "modules", "", "`directory` with kernel modules to load in the order of their names, or a comma-separated list of files in that order")
	f.StringVar(&o.commandLine, "cmdline", commandLine, "`text`: the kernel's command line")
	f.StringVar(&o.key, "key", "", "PEM `file`: P-384 key to sign with")
	f.StringVar(&o.certificate, "cert", "", "PEM `file`: certificate of that key")
	f.StringVar(&o.version, "version", "development", "`text`: version of the release")
	f.StringVar(&o.platform, "platform", attestation.PlatformNitro, "nitro or qemu")
	f.StringVar(&o.source, "source", "", "`hex`: git commit of the source, for the record")
	f.StringVar(&o.out, "o", "", "`file` to write; measurements go to the same name with .json behind it")
	if err := parse(f, args, 0); err != nil {
		return err
	}
	if o.kernel == "" || o.init == "" || o.out == "" {
		return fmt.Errorf("%w: build needs -kernel, -init and -o", errUsage)
	}
	if (o.key == "") != (o.certificate == "") {
		return fmt.Errorf("%w: -key and -cert go together", errUsage)
	}
	m, r, err := o.assemble()
	if err != nil {
		return err
	}
	if o.key != "" {
		if err := signWith(m, o.key, o.certificate, now()); err != nil {
			return err
		}
	}
	return finish(m, r, o.out, stdout)
}

// assemble reads the inputs and makes the image, still without signature.
func (o *buildOptions) assemble() (*image.Image, *attestation.Release, error) {
	kernel, err := read(o.kernel, image.MaxKernel)
	if err != nil {
		return nil, nil, err
	}
	sum := digest(kernel)
	if o.kernelSHA256 != "" && o.kernelSHA256 != sum {
		return nil, nil, fmt.Errorf("%s has the SHA-256 %s, not the pinned one", o.kernel, sum)
	}
	if err := checkKernel(kernel); err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.kernel, err)
	}
	name := cmp.Or(o.kernelName, filepath.Base(o.kernel))
	init, err := read(o.init, maxInit)
	if err != nil {
		return nil, nil, err
	}
	toolchain, err := program(init)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", o.init, err)
	}
	modules, record, err := readModules(o.modules)
	if err != nil {
		return nil, nil, err
	}
	first, err := cpio.Archive(append(mounts(), modules...)...)
	if err != nil {
		return nil, nil, err
	}
	second, err := cpio.Archive(cpio.File("init", 0o755, init))
	if err != nil {
		return nil, nil, err
	}
	m := &image.Image{
		Kernel: kernel, CommandLine: o.commandLine, Metadata: image.Describe(attestation.Application, o.version, name),
		Ramdisks: [2][]byte{first, second},
	}
	return m, &attestation.Release{
		Format: 1, Application: attestation.Application, Version: o.version, Platform: o.platform, Source: o.source, Toolchain: toolchain,
		ApplicationDigest: digest(init), Kernel: attestation.ReleaseFile{Name: name, SHA256: sum}, Modules: record, CommandLine: o.commandLine,
	}, nil
}

// mounts is what must be there before init runs: where it mounts, and the two
// devices that a program is started with.
func mounts() []cpio.Entry {
	return []cpio.Entry{
		cpio.Dir("dev"), cpio.Device("dev/console", 5, 1), cpio.Device("dev/null", 1, 3),
		cpio.Dir("proc"), cpio.Dir("run"), cpio.Dir("sys"), cpio.Dir("tmp"),
	}
}

// readModules takes the modules of a directory or list. In the image they are
// /modules/NN-name.ko, NN counting from 01 in the order of loading.
func readModules(from string) ([]cpio.Entry, []attestation.ReleaseFile, error) {
	record := []attestation.ReleaseFile{}
	if from == "" {
		return nil, record, nil
	}
	files := strings.Split(from, ",")
	if stat, err := os.Stat(from); err == nil && stat.IsDir() {
		if files, err = filepath.Glob(filepath.Join(from, "*.ko")); err != nil || len(files) == 0 {
			return nil, nil, fmt.Errorf("no *.ko in %s", from)
		}
		slices.Sort(files)
	}
	if len(files) > attestation.MaxModules {
		return nil, nil, fmt.Errorf("%d modules, want %d at most", len(files), attestation.MaxModules)
	}
	entries := []cpio.Entry{cpio.Dir("modules")}
	for i, file := range files {
		raw, err := read(file, image.MaxRamdisk)
		if err != nil {
			return nil, nil, err
		}
		if !isModule(raw) {
			return nil, nil, fmt.Errorf("%s is not a kernel module for x86-64", file)
		}
		name := strings.TrimSuffix(trimNumber(filepath.Base(file)), ".ko")
		entries = append(entries, cpio.File(fmt.Sprintf("modules/%02d-%s.ko", i+1, name), 0o644, raw))
		record = append(record, attestation.ReleaseFile{Name: name, SHA256: digest(raw)})
	}
	return entries, record, nil
}

// checkKernel refuses what no boot loader would start as a 64-bit kernel, by the setup header of the Linux/x86 boot protocol.
func checkKernel(raw []byte) error {
	const header, loadFlags, xloadFlags = 0x1fe, 0x211, 0x236 // where the header begins; bit 0: above 1 MiB, a bzImage; bit 0: 64 bits
	switch {
	case bytes.HasPrefix(raw, []byte(elf.ELFMAG)):
		return errors.New("is an ELF file, such as a program or vmlinux: want the kernel's arch/x86/boot/bzImage")
	case bytes.HasPrefix(raw, []byte{0x1f, 0x8b}):
		return errors.New("is compressed by gzip: want a bzImage, which decompresses itself")
	case len(raw) > 0x3c && string(raw[0x38:0x3c]) == "ARM\x64":
		return errors.New("is a kernel for 64-bit ARM: want a bzImage, for x86-64")
	case len(raw) <= xloadFlags || raw[header] != 0x55 || raw[header+1] != 0xaa || string(raw[0x202:0x206]) != "HdrS":
		return errors.New("is no bzImage: it has no setup header of a Linux kernel (55 AA and HdrS at 0x1FE and 0x202)")
	case raw[loadFlags]&1 == 0:
		return errors.New("is a zImage: want a bzImage")
	case raw[xloadFlags]&1 == 0:
		return errors.New("is a kernel for 32 bits: want one for x86-64")
	}
	return nil
}

// isModule tells whether it is a relocatable object for x86-64. Compressed modules would be the kernel's business, which may
// not know how.
func isModule(raw []byte) bool {
	return len(raw) >= 64 && bytes.HasPrefix(raw, []byte(elf.ELFMAG)) && elf.Class(raw[elf.EI_CLASS]) == elf.ELFCLASS64 &&
		elf.Type(binary.LittleEndian.Uint16(raw[16:])) == elf.ET_REL && elf.Machine(binary.LittleEndian.Uint16(raw[18:])) == elf.EM_X86_64
}

// trimNumber takes the number off a name that already has one.
func trimNumber(name string) string {
	if len(name) > 3 && name[2] == '-' && strings.Trim(name[:2], "0123456789") == "" {
		return name[3:]
	}
	return name
}

// program refuses what cannot run alone in an enclave, and gives the toolchain that made it.
func program(raw []byte) (toolchain string, err error) {
	file, err := elf.NewFile(bytes.NewReader(raw))
	if err != nil {
		return "", errors.New("not a program for Linux")
	}
	if file.Class != elf.ELFCLASS64 || file.Machine != elf.EM_X86_64 || file.Type != elf.ET_EXEC && file.Type != elf.ET_DYN {
		return "", errors.New("not a program for x86-64")
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_INTERP {
			return "", errors.New("not a static program: there are no shared libraries in the image")
		}
	}
	info, err := buildinfo.Read(bytes.NewReader(raw))
	if err != nil {
		return "", errors.New("does not say which Go toolchain made it")
	}
	return info.GoVersion, nil
}

func digest(raw []byte) string {
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// finish writes the image, reads it back, and only then writes and prints what it measures as.
func finish(m *image.Image, r *attestation.Release, out string, stdout io.Writer) error {
	raw, err := m.Encode()
	if err != nil {
		return err
	}
	if err := write(out, raw); err != nil {
		return err
	}
	if raw, err = read(out, image.MaxImage); err != nil {
		return err
	}
	if m, err = image.Parse(raw); err != nil {
		return fmt.Errorf("%s as written: %w", out, err)
	}
	pcrs, err := m.Measure()
	if err != nil {
		return err
	}
	r.PCRs = measurements(pcrs)
	r.Image = attestation.ReleaseFileHash{SHA256: digest(raw)}
	text, err := r.Encode()
	if err != nil {
		return err
	}
	if err := write(out+".json", text); err != nil {
		return err
	}
	_, err = stdout.Write(text)
	return err
}

// measurements are PCRs as a release names them.
func measurements(p image.PCRs) attestation.ReleasePCRs {
	out := attestation.ReleasePCRs{PCR0: p.PCR0.String(), PCR1: p.PCR1.String(), PCR2: p.PCR2.String()}
	if p.PCR8 != (image.PCR{}) {
		out.PCR8 = p.PCR8.String()
	}
	return out
}
