package crash_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
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
	compile(t, p.sim, tags, "../../sim")
	if len(built.by) == 0 {
		compile(t, p.host, "", "../../host")
	}
	built.by[tags] = p
	return p
}

func compile(t *testing.T, to, tags, from string) {
	t.Helper()
	tool := os.Getenv("GO")
	if tool == "" {
		tool = "go"
	}
	cmd := exec.Command(tool, "build", "-trimpath", "-buildvcs=false", "-tags", tags, "-o", to, from)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("building %s: %v\n%s", from, err, out)
	}
}

func TestMain(m *testing.M) {
	isWitness()
	dir, err := os.MkdirTemp("", "crash")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	built.dir, built.by = dir, map[string]programs{}
	go startProcesses()
	code := m.Run()
	_ = os.RemoveAll(dir)
	os.Exit(code)
}

// starts carries every start of a process to one thread that never ends: a
// child's death signal comes when the thread that started it ends, and must
// come when this process does, however it ends.
var starts = make(chan func())

func startProcesses() {
	runtime.LockOSThread()
	for start := range starts {
		start()
	}
}
