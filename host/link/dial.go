package link

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"

	"github.com/mdlayher/vsock"
)

// errAddress is the error of an address without one of the three forms.
var errAddress = errors.New("want vsock://CID:PORT, tcp://HOST:PORT or unix:PATH")

// Dial connects to an enclave: vsock://CID:PORT in production, tcp://HOST:PORT for the simulator,
// unix:PATH for tests. TCP is not encrypted: use it within one machine only.
func Dial(ctx context.Context, address string) (net.Conn, error) {
	network, where, err := split(address)
	if err != nil {
		return nil, err
	}
	if network == "vsock" {
		cid, port, err := vsockAddress(where)
		if err != nil {
			return nil, err
		}
		c, err := vsock.DialContext(ctx, cid, port, nil)
		if err != nil {
			return nil, fmt.Errorf("dialing %s: %w", address, err)
		}
		return c, nil
	}
	var d net.Dialer
	return d.DialContext(ctx, network, where)
}

// Listen is the server side of Dial, for the simulator and for tests. With vsock the CID must be that
// of this machine. It removes an old socket file.
func Listen(address string) (net.Listener, error) {
	network, where, err := split(address)
	if err != nil {
		return nil, err
	}
	switch network {
	case "vsock":
		cid, port, err := vsockAddress(where)
		if err != nil {
			return nil, err
		}
		l, err := vsock.ListenContextID(cid, port, nil)
		if err != nil {
			return nil, fmt.Errorf("listening on %s: %w", address, err)
		}
		return l, nil
	case "unix":
		if f, err := os.Lstat(where); err == nil && f.Mode()&os.ModeSocket != 0 {
			_ = os.Remove(where) // if this fails, Listen returns an error
		}
	}
	return net.Listen(network, where)
}

func split(address string) (network, where string, err error) {
	path, ok := strings.CutPrefix(address, "unix:")
	if ok {
		network, where = "unix", strings.TrimPrefix(path, "//")
		ok = where != ""
	} else if network, where, ok = strings.Cut(address, "://"); ok {
		_, port, err := net.SplitHostPort(where)
		ok = (network == "vsock" || network == "tcp") && err == nil && port != ""
	}
	if !ok {
		return "", "", fmt.Errorf("address %q: %w", address, errAddress)
	}
	return network, where, nil
}

func vsockAddress(where string) (cid, port uint32, err error) {
	a, b, _ := net.SplitHostPort(where) // no error: split has parsed it
	x, errA := strconv.ParseUint(a, 10, 32)
	y, errB := strconv.ParseUint(b, 10, 32)
	if errA != nil || errB != nil {
		return 0, 0, fmt.Errorf("address %q: %w", "vsock://"+where, errAddress)
	}
	return uint32(x), uint32(y), nil
}
