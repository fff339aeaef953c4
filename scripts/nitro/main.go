// Command nitro boots an enclave image in QEMU's nitro-enclave machine, beside another guest that stands for the parent
// instance, and holds what the enclave says against what the image was measured as. See test.sh.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/eif/cpio"
	"cloister/scripts/internal/guest"
	"cloister/sim/vhostvsock"
)

// Context ids of vsock, as Nitro gives them out, and what the machine is told of
// its parent instance, which is measured in PCR3 and PCR4.
const (
	enclaveID  = 16
	parentID   = 3
	role       = "arn:aws:iam::000000000000:role/test"
	instanceID = "i-0123456789abcdef0"
)

type options struct {
	qemu, firmware, image, release, second, kernel, parent, host, program string
	limit                                                                 time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.qemu, "qemu", "", "`file`: a QEMU with the machine nitro-enclave")
	flag.StringVar(&o.firmware, "firmware", "", "`folders` with QEMU's firmware, commas between them")
	flag.StringVar(&o.image, "image", "", "`file`: the image")
	flag.StringVar(&o.release, "release", "", "`file`: what cloister-eif says that it measures as")
	flag.StringVar(&o.second, "second", "", "`file`: what scripts/nitro/pcrs.py says")
	flag.StringVar(&o.kernel, "kernel", "", "`folder` of eif/debian-kernel.sh, for the parent's guest")
	flag.StringVar(&o.parent, "parent", "", "`file`: the program scripts/nitro/parent, or apphost with -program")
	flag.StringVar(&o.host, "host", "", "`file`: cloister-host, static; not with -program")
	flag.StringVar(&o.program, "program", "", "`file`: a customer's program, for the base image of these")
	flag.DurationVar(&o.limit, "limit", 30*time.Minute, "for all of it")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "scripts/nitro:", err)
		os.Exit(1)
	}
}

func (o *options) run() (err error) {
	runtime.LockOSThread() // the guests end with the thread that has started them
	ctx, cancel := context.WithTimeout(context.Background(), o.limit)
	defer cancel()
	dir, err := os.MkdirTemp("", "cloister-nitro-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	raw, err := os.ReadFile(o.release)
	if err != nil {
		return err
	}
	release, err := attestation.ParseRelease(raw)
	if err != nil {
		return err
	}
	if err := o.secondOpinion(release); err != nil {
		return err
	}
	disk, err := o.ramdisk(raw)
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "parent.cpio"), disk, 0o600); err != nil {
		return err
	}
	lines, err := o.boot(ctx, dir)
	if err != nil {
		return err
	}
	if o.program == "" {
		return judge(release, lines)
	}
	for _, l := range lines {
		if strings.HasPrefix(l, "ok ") || strings.HasPrefix(l, "left ") {
			fmt.Println(l)
		}
	}
	return nil
}

// secondOpinion compares both computations, each register of both.
func (o *options) secondOpinion(r *attestation.Release) error {
	raw, err := os.ReadFile(o.second)
	if err != nil {
		return err
	}
	want := fmt.Sprintf("PCR0 %s\nPCR1 %s\nPCR2 %s\n", r.PCRs.PCR0, r.PCRs.PCR1, r.PCRs.PCR2)
	if r.PCRs.PCR8 != "" {
		want += "PCR8 " + r.PCRs.PCR8 + "\nSIGNED PCR0 " + r.PCRs.PCR0 + "\n"
	}
	if string(raw) != want {
		return fmt.Errorf("two computations of the measurements differ: cloister-eif says\n%sscripts/nitro/pcrs.py says\n%s", want, raw)
	}
	fmt.Println("ok    both computations give the same PCR0, 1, 2 and 8; openssl verifies the signature over PCR0")
	return nil
}

// ramdisk is the first file system of the parent's guest.
func (o *options) ramdisk(release []byte) ([]byte, error) {
	entries := []cpio.Entry{cpio.Dir("dev"), cpio.Dir("modules"), cpio.Dir("proc"), cpio.Dir("state"), cpio.Dir("sys"), cpio.File("release.json", 0o644, release), cpio.File("pcr3", 0o644, []byte(extendZeros(role)))}
	for name, file := range map[string]string{"init": o.parent, "host": o.host, "cosigner": o.program} {
		if file == "" {
			continue
		}
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		entries = append(entries, cpio.File(name, 0o755, raw))
	}
	drivers, err := filepath.Glob(filepath.Join(o.kernel, "modules/*.ko"))
	if err != nil {
		return nil, err
	}
	for _, name := range drivers {
		raw, err := os.ReadFile(name)
		if err != nil {
			return nil, err
		}
		entries = append(entries, cpio.File("modules/"+filepath.Base(name), 0o644, raw))
	}
	return cpio.Archive(entries...)
}

// boot runs both guests and gives what the parent printed, from READY to DONE.
func (o *options) boot(ctx context.Context, dir string) ([]string, error) {
	ctx, fail := context.WithCancelCause(ctx)
	defer fail(nil)
	between := vhostvsock.NewSwitch()
	for id, name := range map[uint64]string{parentID: "parent", enclaveID: "enclave"} {
		if err := between.Listen(ctx, filepath.Join(dir, name+".vsock"), id, fail); err != nil {
			return nil, err
		}
	}
	clock, err := ticks()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	parent, err := o.start(dir, "parent", "-m", "768", "-M", "microvm,acpi=on,memory-backend=memory", "-object", "memory-backend-memfd,id=memory,size=768M,share=on",
		"-chardev", "socket,id=vsock,path=parent.vsock", "-device", "vhost-user-vsock-device,chardev=vsock",
		"-kernel", filepath.Join(o.kernel, "bzImage"), "-initrd", "parent.cpio", "-append", "console=ttyS0 quiet panic=-1 reboot=k "+clock)
	if err != nil {
		return nil, err
	}
	defer parent.Kill()
	if _, err := parent.Says(ctx, "READY"); err != nil {
		return nil, parent.With(err)
	}
	// The machine adds what -append says to the image's command line, and does not measure it: the emulated processor has no
	// clock that the kernel could measure its own by, and Debian's kernel finds the devices by ACPI only.
	enclave, err := o.start(dir, "enclave", "-m", "1024",
		"-M", "nitro-enclave,vsock=vsock,id=i-0123456789abcdef0-enc0,acpi=on,parent-role="+role+",parent-id="+instanceID,
		"-chardev", "socket,id=vsock,path=enclave.vsock", "-kernel", o.image, "-append", clock)
	if err != nil {
		return nil, err
	}
	defer enclave.Kill()
	go func() {
		<-enclave.Ended
		fail(errors.New("the enclave's machine ended"))
	}()
	if _, err := parent.Says(ctx, "DONE"); err != nil {
		return nil, enclave.With(parent.With(err))
	}
	lines, _ := parent.Console()
	for _, l := range lines {
		if strings.HasPrefix(l, "FAILED") {
			return nil, enclave.With(parent.With(errors.New("the parent's guest: " + l)))
		}
	}
	listens := "cloister-enclave: listening"
	if o.program != "" {
		listens = "cloister-app: listening"
	}
	if _, err := enclave.Says(ctx, listens); err != nil {
		return nil, enclave.With(err)
	}
	fmt.Printf("ok    the image boots in the nitro-enclave machine, and all questions are answered after %.1f s\n", time.Since(began).Seconds())
	return lines, nil
}

// ticks tells the kernel how fast the processor's counter runs, because without a
// second clock it waits for ever to find out.
func ticks() (string, error) {
	raw, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return "", err
	}
	for line := range strings.Lines(string(raw)) {
		var mhz float64
		if name, value, _ := strings.Cut(line, ":"); strings.TrimSpace(name) == "cpu MHz" {
			if _, err := fmt.Sscan(value, &mhz); err == nil {
				return fmt.Sprintf("no_timer_check tsc_early_khz=%d", int(mhz*1000)), nil
			}
		}
	}
	return "", errors.New("/proc/cpuinfo does not say how fast the processor runs")
}

func (o *options) start(dir, name string, args ...string) (*guest.Guest, error) {
	for folder := range strings.SplitSeq(o.firmware, ",") {
		args = append(args, "-L", folder)
	}
	return guest.Start(name, dir, o.qemu, args...)
}
