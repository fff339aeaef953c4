package open_test

import (
	"path/filepath"
	"strings"
	"testing"

	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/host/store/storetest"
)

func TestOpenFiles(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{filepath.Join(dir, "a.db"), "sqlite:" + filepath.Join(dir, "b.db")} {
		s, err := open.Open(t.Context(), name)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Error(err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	if found, _ := filepath.Glob(filepath.Join(dir, "*.db")); len(found) != 2 {
		t.Fatalf("files: %v", found)
	}
}

func TestOpenRefuses(t *testing.T) {
	for _, name := range []string{
		"", "sqlite:", "mysql://u:secret@h/d", "sqlite://x",
		filepath.Join(t.TempDir(), "no", "such", "folder.db"),
		"postgres://u:secret@127.0.0.1:1/d?connect_timeout=2", "postgres://u:secret@%zz/d",
	} {
		s, err := open.Open(t.Context(), name)
		if err == nil {
			_ = s.Close()
			t.Errorf("%q was opened", name)
		} else if strings.Contains(err.Error(), "secret") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}

// TestKinds copies a store from a file into a database and back.
func TestKinds(t *testing.T) {
	dir := t.TempDir()
	var rows []store.Row
	for i, name := range []string{filepath.Join(dir, "a.db"), storetest.StartPostgres(t).Database(), filepath.Join(dir, "b.db")} {
		if _, err := open.OpenExisting(t.Context(), name); err == nil {
			t.Fatal("an empty store exists")
		}
		s, err := open.Open(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			storetest.Full(t, s)
			rows = storetest.Rows(t, s)
		} else if err := s.Import(t.Context(), storetest.From(rows)); err != nil {
			t.Fatal(err)
		} else {
			storetest.Same(t, rows, storetest.Rows(t, s))
		}
		if s.Schema() != open.Schema() {
			t.Fatalf("%s: schema %d, elsewhere %d", name, s.Schema(), open.Schema())
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if s, err = open.OpenExisting(t.Context(), name); err != nil {
			t.Fatal(err)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
