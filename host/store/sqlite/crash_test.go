package sqlite_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/store/sqlite"
	"cloister/shared/wire"
)

const crashing = "CLOISTER_TEST_CRASHING_STORE"

var boot, org = wire.ID{1}, wire.ID{2}

func numbered(n uint64) *wire.Batch {
	return &wire.Batch{Boot: boot, Epoch: 1, Number: n, Header: fmt.Appendf(nil, "header %d", n),
		Entries: []wire.Entry{{Organization: org, Seq: n - 1, Sealed: make([]byte, 4000)}}}
}

// TestMain is also the process that TestCrash kills.
func TestMain(m *testing.M) {
	if path := os.Getenv(crashing); path != "" {
		fmt.Println("failed:", appendForever(path))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// appendForever tells each batch that was answered as stored.
func appendForever(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, path)
	if err != nil {
		return err
	}
	owned, err := s.Own(ctx, wire.Own{Action: wire.OwnLook})
	if err == nil && owned.Epoch == 0 {
		owned, err = s.Own(ctx, wire.Own{Action: wire.OwnTake, Boot: boot})
	}
	if err != nil {
		return err
	}
	for n := owned.Batches + 1; ; n++ {
		stored, err := s.Append(ctx, numbered(n))
		if err != nil || stored.Verdict != wire.VerdictStored {
			return fmt.Errorf("%+v: %w", stored, err)
		}
		fmt.Println("stored", n)
	}
}

// TestCrash kills a process that appends, with kill -9, and looks for what it
// had been told is stored. Several rounds, long enough for checkpoints.
func TestCrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "crash.db")
	stored := uint64(0)
	for round := range 4 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), crashing+"="+path)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(out)
		for target := stored + uint64(300+150*round); stored < target && lines.Scan(); {
			if _, err := fmt.Sscanf(lines.Text(), "stored %d", &stored); err != nil && strings.Contains(lines.Text(), "failed:") {
				t.Fatal(lines.Text())
			}
		}
		if err := cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() { // said before it died
			_, _ = fmt.Sscanf(lines.Text(), "stored %d", &stored)
		}
		_ = cmd.Wait() // "signal: killed" is what was asked for

		s, err := sqlite.Open(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		o, err := s.LoadOrganization(t.Context(), wire.LoadOrganization{Organization: org})
		if err != nil {
			t.Fatal(err)
		}
		if o.Count < stored || o.Count > stored+1 {
			t.Fatalf("round %d: %d entries, %d were stored", round, o.Count, stored)
		}
		for n := stored; n <= stored+1; n++ { // known, and unknown: the same bytes again
			got, err := s.Append(t.Context(), numbered(n))
			if err != nil || got.Verdict != wire.VerdictStored {
				t.Fatalf("batch %d again: %+v, %v", n, got, err)
			}
		}
		stored++
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if stored < 2000 {
		t.Fatalf("only %d batches", stored)
	}
}
