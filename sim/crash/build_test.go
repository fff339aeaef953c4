package crash_test

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"cloister/sim/process"
)

// programs are the binaries under test.
type programs struct{ sim, host string }

var built struct {
	sync.Mutex
	dir string
	by  map[string]programs
}

// build builds the simulator with the given build tags, and the host, as the
// Makefile does. What was built once in this process is not built again.
func build(t *testing.T, tags string) programs {
	t.Helper()
	built.Lock()
	defer built.Unlock()
	if p, ok := built.by[tags]; ok {
		return p
	}
	p := programs{filepath.Join(built.dir, "sim"+tags, "cloister-sim"), filepath.Join(built.dir, "cloister-host")}
	process.Build(t, p.sim, "../../sim", tags)
	if len(built.by) == 0 {
		process.Build(t, p.host, "../../host", "")
	}
	built.by[tags] = p
	return p
}

func TestMain(m *testing.M) {
	isWitness()
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir, built.by = dir, map[string]programs{}
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}
