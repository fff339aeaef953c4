package porttest_test

import (
	"net"
	"strconv"
	"sync"
	"testing"

	"cloister/shared/porttest"
)

func TestAddress(t *testing.T) {
	var mu sync.Mutex
	var all sync.WaitGroup
	seen := map[string]bool{}
	for range 200 {
		all.Go(func() {
			address := porttest.Address(t)
			mu.Lock()
			defer mu.Unlock()
			if seen[address] {
				t.Errorf("%s was given twice", address)
			}
			seen[address] = true
			host, port, err := net.SplitHostPort(address)
			if n, _ := strconv.Atoi(port); err != nil || host != "127.0.0.1" || n < porttest.Lowest || n >= porttest.Lowest+porttest.Ports {
				t.Errorf("%s, %v", address, err)
			}
		})
	}
	all.Wait()
}

// A port has one owner at a time, comes again after its release, and has none while somebody listens there.
func TestReserve(t *testing.T) {
	address := porttest.Address(t) // so that nobody else takes it meanwhile
	t.Setenv("TMPDIR", t.TempDir())
	_, text, _ := net.SplitHostPort(address)
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	reserve := func(what string, want bool) (release func()) {
		t.Helper()
		_, release, err := porttest.Reserve(port)
		if err != nil || (release != nil) != want {
			t.Fatalf("%s: reserved %t, %v", what, release != nil, err)
		}
		return release
	}
	release := reserve("at first", true)
	reserve("a second time", false)
	release()
	release = reserve("after its release", true)
	release()
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	reserve("where somebody listens", false)
}
