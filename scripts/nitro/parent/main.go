// Command parent is /init of the guest that stands for the parent instance in
// scripts/nitro: it answers the enclave's heartbeat as nitro-cli does, asks the
// enclave what stands in /calls.json, and prints what it hears on the console, a
// line each. It judges nothing.
package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/mdlayher/vsock"
	"golang.org/x/sys/unix"

	"cloister/shared/wire"
)

const (
	heartbeats  = 9000
	enclaveID   = 16
	enclavePort = 5000
	patience    = 2 * time.Minute
)

// A call is one operation of the door boot.
type call struct {
	Op   string `json:"op"`
	Body []byte `json:"body"`
}

func main() {
	if err := run(); err != nil {
		fmt.Println("FAILED", err)
	}
	fmt.Println("DONE")
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_RESTART)
}

func run() error {
	if os.Getpid() != 1 {
		return errors.New("this is /init of a guest")
	}
	for _, m := range []struct{ kind, target string }{{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}} {
		if err := unix.Mount(m.kind, m.target, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mounting %s: %w", m.target, err)
		}
	}
	drivers, err := filepath.Glob("/modules/*.ko")
	if err != nil {
		return err
	}
	for _, name := range drivers {
		if err := load(name); err != nil {
			return fmt.Errorf("loading %s: %w", name, err)
		}
	}
	raw, err := os.ReadFile("/calls.json")
	if err != nil {
		return err
	}
	var calls []call
	if err := json.Unmarshal(raw, &calls); err != nil {
		return err
	}
	beats, err := vsock.Listen(heartbeats, nil)
	if err != nil {
		return fmt.Errorf("waiting for the heartbeat: %w", err)
	}
	fmt.Println("READY")
	if err := heartbeat(beats); err != nil {
		return err
	}
	for _, c := range calls {
		status, body, err := ask(c)
		if err != nil {
			return fmt.Errorf("asking %s: %w", c.Op, err)
		}
		fmt.Printf("REPLY %s %d %s\n", c.Op, status, base64.StdEncoding.EncodeToString(body))
	}
	return nil
}

func load(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	return unix.FinitModule(int(f.Fd()), "", 0)
}

// heartbeat answers one.
func heartbeat(l *vsock.Listener) error {
	if err := l.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	c, err := l.Accept()
	if err != nil {
		return fmt.Errorf("waiting for the heartbeat: %w", err)
	}
	defer c.Close()
	b := make([]byte, 1)
	if _, err := io.ReadFull(c, b); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	if _, err := c.Write(b); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	from, ok := c.RemoteAddr().(*vsock.Addr)
	if !ok {
		return fmt.Errorf("heartbeat from %v", c.RemoteAddr())
	}
	fmt.Printf("HEARTBEAT %#x %d\n", b[0], from.ContextID)
	return nil
}

// ask asks one operation over a connection of its own.
func ask(c call) (status int, body []byte, err error) {
	nc, err := vsock.Dial(enclaveID, enclavePort, nil)
	if err != nil {
		return 0, nil, err
	}
	defer nc.Close()
	if err := wire.WriteHello(nc, wire.Hello{Role: wire.RoleCalls}, time.Now().Add(5*time.Second)); err != nil {
		return 0, nil, err
	}
	conn := wire.NewConn(nc, wire.Options{Role: wire.RoleCalls, Side: wire.SideHost})
	defer conn.Close()
	b, err := wire.Marshal(&wire.Call{Door: wire.DoorBoot, Op: c.Op, Body: c.Body, WithinMs: 60_000})
	if err != nil {
		return 0, nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	kind, answer, err := conn.Ask(ctx, wire.KindCall, b)
	if err != nil {
		return 0, nil, err
	}
	var r wire.Reply
	if kind != wire.KindReply {
		return 0, nil, errors.New("no reply")
	}
	err = wire.Unmarshal(answer, &r)
	return int(r.Status), r.Body, err
}
