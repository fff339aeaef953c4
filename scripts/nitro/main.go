// Command nitro boots an enclave image in QEMU's nitro-enclave machine, beside
// another guest that stands for the parent instance, and holds what the enclave
// says against what the image was measured as. See run.sh.
package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"cloister/attestation"
	"cloister/eif/cpio"
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
	qemu, firmware, image, release, second, kernel, parent, host string
	limit                                                        time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.qemu, "qemu", "", "`file`: a QEMU with the machine nitro-enclave")
	flag.StringVar(&o.firmware, "firmware", "", "`folders` with QEMU's firmware, commas between them")
	flag.StringVar(&o.image, "image", "", "`file`: the image")
	flag.StringVar(&o.release, "release", "", "`file`: what cloister-eif says that it measures as")
	flag.StringVar(&o.second, "second", "", "`file`: what scripts/nitro/pcrs.py says")
	flag.StringVar(&o.kernel, "kernel", "", "`folder` of eif/debian-kernel.sh, for the parent's guest")
	flag.StringVar(&o.parent, "parent", "", "`file`: the program scripts/nitro/parent")
	flag.StringVar(&o.host, "host", "", "`file`: cloister-host, static")
	flag.DurationVar(&o.limit, "limit", 30*time.Minute, "for all of it")
	flag.Parse()
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "scripts/nitro:", err)
		os.Exit(1)
	}
}

func (o *options) run() (err error) {
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
	return judge(release, lines)
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
	entries := []cpio.Entry{cpio.Dir("dev"), cpio.Dir("modules"), cpio.Dir("proc"), cpio.Dir("state"), cpio.Dir("sys"), cpio.File("release.json", 0o644, release)}
	for name, file := range map[string]string{"init": o.parent, "host": o.host} {
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
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	between := vhostvsock.NewSwitch()
	failed := make(chan error, 3)
	for id, name := range map[uint64]string{parentID: "parent", enclaveID: "enclave"} {
		l, err := net.ListenUnix("unix", &net.UnixAddr{Name: filepath.Join(dir, name+".vsock"), Net: "unix"})
		if err != nil {
			return nil, err
		}
		go func() {
			if err := between.Serve(ctx, l, id); err != nil {
				failed <- fmt.Errorf("vsock: %w", err)
			}
		}()
	}
	clock, err := ticks()
	if err != nil {
		return nil, err
	}
	began := time.Now()
	parent, err := o.start(ctx, dir, "parent", "-m", "768", "-M", "microvm,acpi=on,memory-backend=memory", "-object", "memory-backend-memfd,id=memory,size=768M,share=on",
		"-chardev", "socket,id=vsock,path=parent.vsock", "-device", "vhost-user-vsock-device,chardev=vsock",
		"-kernel", filepath.Join(o.kernel, "bzImage"), "-initrd", "parent.cpio", "-append", "console=ttyS0 quiet panic=-1 reboot=k "+clock)
	if err != nil {
		return nil, err
	}
	defer parent.stop()
	if err := parent.says(ctx, failed, "READY"); err != nil {
		return nil, parent.with(err)
	}
	// The machine adds what -append says to the image's command line, and does not measure it: the emulated processor has no
	// clock that the kernel could measure its own by, and Debian's kernel finds the devices by ACPI only.
	enclave, err := o.start(ctx, dir, "enclave", "-m", "1024",
		"-M", "nitro-enclave,vsock=vsock,id=i-0123456789abcdef0-enc0,acpi=on,parent-role="+role+",parent-id="+instanceID,
		"-chardev", "socket,id=vsock,path=enclave.vsock", "-kernel", o.image, "-append", clock)
	if err != nil {
		return nil, err
	}
	defer enclave.stop()
	go func() {
		<-enclave.ended
		failed <- errors.New("the enclave's machine ended")
	}()
	if err := parent.says(ctx, failed, "DONE"); err != nil {
		return nil, enclave.with(parent.with(err))
	}
	lines := parent.lines()
	for _, l := range lines {
		if strings.HasPrefix(l, "FAILED") {
			return nil, enclave.with(parent.with(errors.New("the parent's guest: " + l)))
		}
	}
	if err := enclave.says(ctx, failed, "cloister-enclave: listening"); err != nil {
		return nil, enclave.with(err)
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

// A guest is a running QEMU and what its console shows.
type guest struct {
	name    string
	command *exec.Cmd
	ended   chan struct{}

	mu     sync.Mutex
	output bytes.Buffer
	more   chan struct{} // holds something after each write
}

func (o *options) start(ctx context.Context, dir, name string, args ...string) (*guest, error) {
	g := &guest{name: name, ended: make(chan struct{}), more: make(chan struct{}, 1)}
	common := []string{"-accel", "tcg", "-cpu", "max", "-nodefaults", "-no-user-config", "-nographic", "-no-reboot", "-serial", "stdio"}
	for folder := range strings.SplitSeq(o.firmware, ",") {
		common = append(common, "-L", folder)
	}
	g.command = exec.CommandContext(ctx, o.qemu, append(common, args...)...)
	g.command.Dir = dir
	g.command.Stdout, g.command.Stderr = g, g
	if err := g.command.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = g.command.Wait()
		close(g.ended)
	}()
	return g, nil
}

// Write takes what the guest's console shows.
func (g *guest) Write(b []byte) (int, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	select {
	case g.more <- struct{}{}:
	default:
	}
	return g.output.Write(b)
}

func (g *guest) lines() []string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return strings.Split(strings.ReplaceAll(g.output.String(), "\r", ""), "\n")
}

// says waits for a whole line with these words on it.
func (g *guest) says(ctx context.Context, failed <-chan error, words string) error {
	for {
		lines := g.lines()
		for _, l := range lines[:len(lines)-1] {
			if strings.Contains(l, words) {
				return nil
			}
		}
		select {
		case <-g.more:
		case err := <-failed:
			return err
		case <-g.ended:
			// What it said last has been read: Wait returns after that.
			for _, l := range g.lines() {
				if strings.Contains(l, words) {
					return nil
				}
			}
			return fmt.Errorf("the guest %s ended before it said %q", g.name, words)
		case <-ctx.Done():
			return fmt.Errorf("the guest %s did not say %q in time", g.name, words)
		}
	}
}

// with adds the end of the console to an error.
func (g *guest) with(err error) error {
	lines := g.lines()
	return fmt.Errorf("%w\n-- console of the guest %s\n%s", err, g.name, strings.Join(lines[max(0, len(lines)-40):], "\n"))
}

func (g *guest) stop() {
	_ = g.command.Process.Kill()
	<-g.ended
}
