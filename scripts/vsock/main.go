// Command vsock plays the test of make test-vsock: two QEMU guests, the parent and
// the enclave, joined by AF_VSOCK. README.md tells what stands in them.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"cloister/eif/cpio"
	"cloister/scripts/internal/guest"
	"cloister/sim/laptop"
	"cloister/sim/nsm"
	"cloister/sim/script"
	"cloister/sim/vhostvsock"
)

// The context ids of Nitro: the parent's, and the enclave's.
const (
	parentID  = 3
	enclaveID = 16
	// unknownID is nobody that the enclave may listen to.
	unknownID = 5
)

// What the parent's guest listens on.
const (
	guestAPI   = 8080
	guestRelay = 5000
)

type options struct {
	kernel                     kernel
	qemu, enclave, host, guest string
	dir, scripts               string
	limit                      time.Duration
}

func main() {
	var o options
	flag.StringVar(&o.kernel.folder, "kernel", "", "`folder` with Debian's kernel package unpacked")
	flag.StringVar(&o.qemu, "qemu", "qemu-system-x86_64", "`program`")
	flag.StringVar(&o.enclave, "enclave", "", "`file`: the production enclave")
	flag.StringVar(&o.host, "host", "bin/cloister-host", "`file`")
	flag.StringVar(&o.guest, "guest", "", "`file`: the program sim/guest")
	flag.StringVar(&o.scripts, "scripts", "sim/testdata", "`folder` with end-to-end scripts")
	flag.StringVar(&o.dir, "dir", "", "`folder` for what is made on the way")
	flag.DurationVar(&o.limit, "limit", 15*time.Minute, "how long all may take")
	flag.Parse()
	runtime.LockOSThread() // the machines die with the thread that started them
	ctx, cancel := context.WithTimeout(context.Background(), o.limit)
	defer cancel()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "scripts/vsock:", err)
		os.Exit(1)
	}
}

var began = time.Now()

func say(format string, args ...any) {
	fmt.Printf("%5.1f s  %s\n", time.Since(began).Seconds(), fmt.Sprintf(format, args...))
}

func (o *options) run(ctx context.Context) error {
	w, err := o.prepare(ctx)
	if err != nil {
		return err
	}
	if err = w.play(ctx); err != nil {
		for _, m := range w.machines {
			err = m.With(err)
		}
	}
	return err
}

// A world is both guests.
type world struct {
	options
	api, relay string // where host and enclave are reached by TCP
	root       *nsm.Root
	pcrs       [3]string
	image      string
	vsock      *vhostvsock.Switch
	machines   []*guest.Guest
	deployment *deployment
	// organizations are those that scripts were played in, by the script's name.
	organizations map[string]script.Organization
}

func (o *options) prepare(ctx context.Context) (*world, error) {
	w := &world{options: *o, vsock: vhostvsock.NewSwitch(), organizations: map[string]script.Organization{}}
	var err error
	if w.image, err = o.kernel.image(); err != nil {
		return nil, err
	}
	if w.root, err = nsm.NewRoot(rand.Reader, time.Now()); err != nil {
		return nil, err
	}
	pem, err := w.root.Marshal()
	if err != nil {
		return nil, err
	}
	measured := ""
	for i := range w.pcrs {
		b := make([]byte, 48)
		_, _ = rand.Read(b)
		w.pcrs[i] = hex.EncodeToString(b)
		measured += w.pcrs[i] + "\n"
	}
	// The enclave's own: its drivers in /modules. What emulates the module lies apart.
	entries, err := o.kernel.drivers("modules", vsockDrivers...)
	if err != nil {
		return nil, err
	}
	emulated, err := o.kernel.drivers("emulated", cuseDrivers...)
	if err != nil {
		return nil, err
	}
	entries = append(append(entries, emulated...), cpio.File("emulated/root.pem", 0o400, pem), cpio.File("emulated/pcrs", 0o444, []byte(measured)))
	if err := archive(w.file("enclave.cpio"), map[string]string{"init": o.guest, "enclave": o.enclave}, entries...); err != nil {
		return nil, err
	}
	if entries, err = o.kernel.drivers("modules", append(vsockDrivers, networkDrivers...)...); err != nil {
		return nil, err
	}
	arguments := fmt.Sprintf("serve\n-enclave\nvsock://%d:5000\n-api-addr\n:%d\n-auth-proxy-addr\noff\n-store\nsqlite:/state/cloister.db\n-data-dir\n/state\n", enclaveID, guestAPI)
	entries = append(entries, cpio.Dir("state"), cpio.Dir("tmp"), cpio.File("host.args", 0o444, []byte(arguments)))
	if err := archive(w.file("parent.cpio"), map[string]string{"init": o.guest, "host": o.host}, entries...); err != nil {
		return nil, err
	}
	for _, cid := range []uint64{parentID, enclaveID} {
		if err := w.vsock.Listen(ctx, w.socket(cid), cid, func(err error) { fmt.Fprintln(os.Stderr, "scripts/vsock:", err) }); err != nil {
			return nil, err
		}
	}
	return w, nil
}

func (w *world) file(name string) string { return filepath.Join(w.dir, name) }

// socket is where the machine with a context id reaches the others.
func (w *world) socket(cid uint64) string { return w.file(fmt.Sprintf("vsock-%d", cid)) }

// free is a port of the loopback interface that nobody has.
func free() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

func (w *world) startParent() (*guest.Guest, error) {
	api, err := free()
	if err != nil {
		return nil, err
	}
	relay, err := free()
	if err != nil {
		return nil, err
	}
	w.api, w.relay = fmt.Sprintf("http://127.0.0.1:%d", api), fmt.Sprintf("tcp://127.0.0.1:%d", relay)
	return w.start(plan{name: "parent", initrd: "parent.cpio", settings: "role=parent", id: parentID, memory: 768,
		network: fmt.Sprintf("user,id=net,restrict=on,hostfwd=tcp:127.0.0.1:%d-:%d,hostfwd=tcp:127.0.0.1:%d-:%d", api, guestAPI, relay, guestRelay)})
}

func (w *world) startEnclave(settings string) (*guest.Guest, error) {
	return w.start(plan{name: "enclave", initrd: "enclave.cpio", settings: "role=enclave " + settings, id: enclaveID, memory: 1024})
}

func (w *world) play(ctx context.Context) error {
	parent, err := w.startParent()
	if err != nil {
		return err
	}
	defer parent.Kill()
	// First one that must not start: the kernel's randomness is the parent's.
	refused, err := w.startEnclave("random=virtio_rng.0")
	if err != nil {
		return err
	}
	if err := w.refuses(ctx, refused); err != nil {
		return err
	}
	enclave, err := w.startEnclave("")
	if err != nil {
		return err
	}
	defer enclave.Kill()
	line, err := parent.Says(ctx, "heartbeat 0xb7 from vm(16)")
	if err != nil {
		return err
	}
	say("parent: %s", line)
	s, err := w.status(ctx)
	if err != nil {
		return err
	}
	say("the enclave's state is %q, asked over AF_VSOCK", s)
	if s != "hello" {
		return fmt.Errorf("the enclave's state is %q, want hello", s)
	}
	if err := laptop.AwaitOK(ctx, w.api+"/healthz"); err != nil {
		return err
	}
	say("the host answers at %s", w.api)
	if err := w.intrude(ctx); err != nil {
		return err
	}
	if err := w.provision(ctx); err != nil {
		return err
	}
	n, err := w.playAll(ctx)
	if err != nil {
		return err
	}
	say("%d end-to-end scripts passed", n)
	if err := w.proof(ctx, w.organizations["wallets.txt"]); err != nil {
		return fmt.Errorf("boot proof: %w", err)
	}
	say("the boot proof is a document of the module over image, manifest and live key, all registers locked")
	return w.restart(ctx, enclave)
}

// intrude connects to the enclave as a guest that is not its parent: the connection
// must be closed at once, where the parent's is listened to.
func (w *world) intrude(ctx context.Context) error {
	short, cancel := context.WithTimeout(ctx, 4*time.Second) // core waits longer for a hello
	defer cancel()
	if err := w.vsock.Intrude(short, unknownID, enclaveID, 5000); err != nil {
		return fmt.Errorf("a connection of context id %d: %w", unknownID, err)
	}
	say("a connection of context id %d, which is not the parent, is closed at once", unknownID)
	return nil
}

// provision makes the deployment and brings its first enclave up.
func (w *world) provision(ctx context.Context) error {
	if err := w.genesis(ctx); err != nil {
		return fmt.Errorf("genesis: %w", err)
	}
	if err := w.boot(ctx, 0, 2); err != nil {
		return fmt.Errorf("boot: %w", err)
	}
	say("the enclave serves: %d of %d operators gave their shares", threshold, operatorCount)
	return laptop.AwaitOK(ctx, w.api+"/readyz")
}

// restart kills the enclave's machine and brings up another: what was stored is
// there, opened with shares of other operators.
func (w *world) restart(ctx context.Context, enclave *guest.Guest) error {
	enclave.Kill()
	again, err := w.startEnclave("")
	if err != nil {
		return err
	}
	defer again.Kill()
	if _, err := again.Says(ctx, "cloister-enclave: listening"); err != nil {
		return err
	}
	if err := w.boot(ctx, 1, 0); err != nil {
		return fmt.Errorf("boot after a loss of power: %w", err)
	}
	if err := laptop.AwaitOK(ctx, w.api+"/readyz"); err != nil {
		return err
	}
	s, err := script.Parse("afterwards", afterwards)
	if err != nil {
		return err
	}
	if err := s.Run(ctx, script.Target{URL: w.api, Client: http.DefaultClient, Now: time.Now}, w.organizations["import.txt"]); err != nil {
		return err
	}
	say("after a loss of power another enclave, with the shares of other operators, signs with what was stored")
	return nil
}

// afterwards is played where import.txt was: the same transaction has the same signature.
const afterwards = `
query list_wallets
-> 200
  {"wallets": [{"walletName": "Brought in", "imported": true}]}
submit ACTIVITY_TYPE_SIGN_TRANSACTION_V2
  {"signWith": "0x9858EfFD232B4033E47d90003D41EC34EcaEda94", "type": "TRANSACTION_TYPE_ETHEREUM",
   "unsignedTransaction": "02e70180843b9aca0084773594008252089400000000000000000000000000000000000000010180c0"}
-> 200
  {"activity": {"result": {"signTransactionResult": {"signedTransaction":
    "02f86a0180843b9aca0084773594008252089400000000000000000000000000000000000000010180c001a06f1c8e437d5be9f33eee83b0578f9b25e7c2ed087bef802e87830776908af447a07d926a4b7030bd472352b88e186869eddf9d3a1dd985ab122b7f57fe2d1c6298"}}}}
`

// refuses waits for an enclave that will not start to end its machine by itself:
// QEMU ends, without a panic of the kernel.
func (w *world) refuses(ctx context.Context, m *guest.Guest) error {
	line, err := m.Says(ctx, "the kernel's source of randomness is")
	if err != nil {
		return err
	}
	if err := m.AwaitEnd(ctx); err != nil {
		return err
	}
	if _, err := m.Says(ctx, "Kernel panic"); err == nil {
		return errors.New("the kernel panicked")
	}
	say("an enclave without the module's randomness ends: %s", line)
	return nil
}

// status asks the enclave for its state until it answers.
func (w *world) status(ctx context.Context) (string, error) {
	for {
		var s struct{ State string }
		d, err := laptop.DialEnclave(ctx, w.relay)
		if err == nil {
			err = d.Call(ctx, "status", nil, nil, &s)
			d.Close()
		}
		if err == nil {
			return s.State, nil
		}
		if !laptop.Pause(ctx, 100*time.Millisecond) {
			return "", fmt.Errorf("asking the enclave: %w", err)
		}
	}
}

// playAll plays the end-to-end scripts, each in an organization of its own, against the host over HTTP.
func (w *world) playAll(ctx context.Context) (int, error) {
	files, err := filepath.Glob(filepath.Join(w.scripts, "*.txt"))
	if err != nil || len(files) == 0 {
		return 0, fmt.Errorf("%d scripts in %s: %w", len(files), w.scripts, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		s, err := script.Parse(filepath.Base(file), string(text))
		if err != nil {
			return 0, err
		}
		o, err := w.organization(ctx, s.Name)
		if err != nil {
			return 0, fmt.Errorf("making an organization: %w", err)
		}
		w.organizations[s.Name] = o
		if err := s.Run(ctx, script.Target{URL: w.api, Client: http.DefaultClient, Now: time.Now}, o); err != nil {
			return 0, err
		}
	}
	return len(files), nil
}
