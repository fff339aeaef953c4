package backup_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cloister/host/backup"
	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/host/store/sqlite"
	"cloister/host/store/storetest"
	"cloister/shared/wire"
)

const nowMs = 1_700_000_000_000

// filled is a store with something of everything in it.
func filled(t *testing.T) store.Store {
	t.Helper()
	s := logged{empty(t)}
	storetest.Full(t, s)
	return s
}

func empty(t *testing.T) store.Store {
	t.Helper()
	s, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "cloister.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// written is a backup of it, in a folder.
func written(t *testing.T, s store.Store) backup.Dir {
	t.Helper()
	to := backup.Dir{Path: filepath.Join(t.TempDir(), "one")}
	if _, err := backup.Write(t.Context(), s, to, "0.6", nowMs); err != nil {
		t.Fatal(err)
	}
	return to
}

func deployment() *wire.Hash {
	h := wire.Hash(sha256.Sum256([]byte("genesis")))
	return &h
}

func TestRoundTrip(t *testing.T) {
	s := filled(t)
	to := written(t, s)
	sum, err := backup.Verify(t.Context(), to, deployment(), open.Schema(), backup.Trust{})
	if err != nil {
		t.Fatal(err)
	}
	if sum.Organizations != 3 || sum.Entries != 307 || sum.Batches != 5 || sum.Sends != 6 || sum.Unsent != 5 || sum.Epoch != 2 || sum.Chunks != 1 ||
		sum.Header != (backup.Header{Release: "0.6", Schema: open.Schema(), Deployment: *deployment(), CreatedMs: nowMs}) {
		t.Fatalf("%+v", sum)
	}
	back := empty(t)
	if _, err := backup.Restore(t.Context(), to, back, nil); err != nil {
		t.Fatal(err)
	}
	storetest.Same(t, storetest.Rows(t, s), storetest.Rows(t, back))
	for _, name := range []string{"header", "index", "chunk-00000000"} {
		if f, err := os.Stat(filepath.Join(to.Path, name)); err != nil || f.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", name, f, err)
		}
	}
	if _, err := backup.Write(t.Context(), s, to, "0.6", nowMs); err == nil {
		t.Error("one backup was written over another")
	}
}

// TestChunks writes more than one chunk holds.
func TestChunks(t *testing.T) {
	s := filled(t)
	owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnLook})
	if err == nil {
		owned, err = s.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{1}, Expect: owned.Epoch})
	}
	for n := range uint64(9) {
		var got wire.Stored
		if err == nil {
			got, err = s.Append(t.Context(), &wire.Batch{Boot: wire.ID{1}, Epoch: owned.Epoch, Number: n + 1, Header: []byte{1}, Entries: []wire.Entry{
				{Organization: wire.ID{5}, Seq: n, Sealed: bytes.Repeat([]byte{byte(n)}, 3<<20)}}})
		}
		if err != nil || got.Verdict != wire.VerdictStored {
			t.Fatal(got, err)
		}
	}
	to := written(t, s)
	sum, err := backup.Verify(t.Context(), to, nil, open.Schema(), backup.Trust{})
	if err != nil || sum.Chunks != 5 || sum.Entries != 316 {
		t.Fatalf("%+v, %v", sum, err)
	}
	for i := range sum.Chunks {
		if f, err := os.Stat(filepath.Join(to.Path, fmt.Sprintf("chunk-%08d", i))); err != nil || f.Size() > backup.MaxChunk {
			t.Fatal(f, err)
		}
	}
	back := empty(t)
	if _, err := backup.Restore(t.Context(), to, back, nil); err != nil {
		t.Fatal(err)
	}
	swap(t, to, "chunk-00000001", "chunk-00000002")
	if _, err := backup.Verify(t.Context(), to, nil, open.Schema(), backup.Trust{}); !errors.Is(err, backup.ErrDamaged) {
		t.Fatalf("chunks in another order: %v", err)
	}
}

func swap(t *testing.T, in backup.Dir, a, b string) {
	t.Helper()
	a, b = filepath.Join(in.Path, a), filepath.Join(in.Path, b)
	for _, step := range [][2]string{{a, a + "x"}, {b, a}, {a + "x", b}} {
		if err := os.Rename(step[0], step[1]); err != nil {
			t.Fatal(err)
		}
	}
}

func edit(t *testing.T, in backup.Dir, name string, change func([]byte) []byte) {
	t.Helper()
	path := filepath.Join(in.Path, name)
	b, err := os.ReadFile(path)
	if err == nil {
		err = os.WriteFile(path, change(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// rewritten is a backup of rows as they are given, with hashes that fit: what
// somebody makes who knows the format.
func rewritten(t *testing.T, to backup.Dir, h backup.Header, rows []store.Row) {
	t.Helper()
	head, err := backup.EncodeHeader(&h)
	if err != nil {
		t.Fatal(err)
	}
	var chunk []byte
	for _, r := range rows {
		if chunk, err = backup.AppendRow(chunk, r); err != nil {
			t.Fatal(err)
		}
	}
	index, err := backup.EncodeIndex(&backup.Index{Header: h, Rows: uint64(len(rows)), Chunks: []backup.Chunk{{Size: uint32(len(chunk)), SHA256: sha256.Sum256(chunk)}},
		Total: sha256.Sum256(append(bytes.Clone(head), chunk...))})
	if err != nil {
		t.Fatal(err)
	}
	for name, b := range map[string][]byte{"header": head, "chunk-00000000": chunk, "index": index} {
		if err := to.Put(t.Context(), name, b); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRefused(t *testing.T) {
	s := filled(t)
	flip := func(b []byte) []byte { b[len(b)/2] ^= 1; return b }
	cut := func(b []byte) []byte { return b[:len(b)-1] }
	for name, c := range map[string]struct {
		change func(*testing.T, backup.Dir)
		want   error
	}{
		"no index":      {func(t *testing.T, d backup.Dir) { _ = os.Remove(filepath.Join(d.Path, "index")) }, backup.ErrDamaged},
		"no header":     {func(t *testing.T, d backup.Dir) { _ = os.Remove(filepath.Join(d.Path, "header")) }, backup.ErrDamaged},
		"no chunk":      {func(t *testing.T, d backup.Dir) { _ = os.Remove(filepath.Join(d.Path, "chunk-00000000")) }, backup.ErrDamaged},
		"chunk flipped": {func(t *testing.T, d backup.Dir) { edit(t, d, "chunk-00000000", flip) }, backup.ErrDamaged},
		"chunk cut":     {func(t *testing.T, d backup.Dir) { edit(t, d, "chunk-00000000", cut) }, backup.ErrDamaged},
		"chunk longer": {func(t *testing.T, d backup.Dir) {
			edit(t, d, "chunk-00000000", func(b []byte) []byte { return append(b, 0) })
		}, backup.ErrDamaged},
		"header flipped": {func(t *testing.T, d backup.Dir) {
			edit(t, d, "header", func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}, backup.ErrDamaged},
		"index flipped": {func(t *testing.T, d backup.Dir) {
			edit(t, d, "index", func(b []byte) []byte { b[len(b)-1] ^= 1; return b })
		}, backup.ErrDamaged},
		"index cut":    {func(t *testing.T, d backup.Dir) { edit(t, d, "index", cut) }, backup.ErrDamaged},
		"empty header": {func(t *testing.T, d backup.Dir) { edit(t, d, "header", func([]byte) []byte { return nil }) }, backup.ErrDamaged},
		"something else": {func(t *testing.T, d backup.Dir) {
			edit(t, d, "header", func([]byte) []byte { return []byte("hello\n") })
		}, backup.ErrDamaged},
		"number with a zero": {func(t *testing.T, d backup.Dir) {
			edit(t, d, "header", func(b []byte) []byte { return bytes.Replace(b, []byte(" 1\n"), []byte(" 01\n"), 1) })
		}, backup.ErrDamaged},
		"later format": {func(t *testing.T, d backup.Dir) {
			edit(t, d, "header", func(b []byte) []byte { return bytes.Replace(b, []byte(" 1\n"), []byte(" 2\n"), 1) })
		}, backup.ErrLater},
		"later index": {func(t *testing.T, d backup.Dir) {
			edit(t, d, "index", func(b []byte) []byte { return bytes.Replace(b, []byte(" 1\n"), []byte(" 2\n"), 1) })
		}, backup.ErrLater},
	} {
		d := written(t, s)
		c.change(t, d)
		if _, err := backup.Verify(t.Context(), d, nil, open.Schema(), backup.Trust{}); !errors.Is(err, c.want) {
			t.Errorf("%s: verified: %v", name, err)
		}
		to := empty(t)
		if _, err := backup.Restore(t.Context(), d, to, nil); !errors.Is(err, c.want) {
			t.Errorf("%s: restored: %v", name, err)
		}
		if rows := storetest.Rows(t, to); len(rows) != 0 {
			t.Errorf("%s: %d rows are left", name, len(rows))
		}
	}
}

// TestForged holds what hashes do not show.
func TestForged(t *testing.T) {
	rows := storetest.Rows(t, filled(t))
	h := backup.Header{Release: "0.6", Schema: open.Schema(), Deployment: *deployment(), CreatedMs: nowMs}
	edit := func(kind store.RowKind, change func(store.Row) []store.Row) []store.Row {
		var out []store.Row
		done := false
		for _, r := range rows {
			if r.Kind() == kind && !done {
				done = true
				out = append(out, change(r)...)
				continue
			}
			out = append(out, r)
		}
		return out
	}
	first := func(kind store.RowKind) int {
		return slices.IndexFunc(rows, func(r store.Row) bool { return r.Kind() == kind })
	}
	none := func(store.Row) []store.Row { return nil }
	good := func(store.Row) []store.Row { return []store.Row{&store.ObjectRow{Name: "x", Bytes: []byte{1}}} }
	for name, c := range map[string]struct {
		header backup.Header
		rows   []store.Row
		want   error
	}{
		"as it was": {h, rows, nil},
		"an entry's bytes": {h, edit(store.KindEntry, func(store.Row) []store.Row {
			return []store.Row{&store.EntryRow{Sealed: []byte("other"), TimeMs: 1000}}
		}), backup.ErrDamaged},
		"a root":           {h, edit(store.KindEnd, func(r store.Row) []store.Row { return []store.Row{&store.EndRow{Count: r.(*store.EndRow).Count}} }), backup.ErrDamaged},
		"an entry less":    {h, edit(store.KindEntry, none), backup.ErrDamaged},
		"a batch less":     {h, slices.Delete(slices.Clone(rows), first(store.KindBatch)+2, first(store.KindBatch)+3), backup.ErrDamaged},
		"no owner":         {h, edit(store.KindOwner, none), backup.ErrDamaged},
		"no keyring":       {h, edit(store.KindObject, good), backup.ErrDamaged},
		"owner's epoch":    {h, edit(store.KindOwner, func(store.Row) []store.Row { return []store.Row{&store.OwnerRow{Boot: wire.ID{1}, Epoch: 1}} }), backup.ErrDamaged},
		"other deployment": {backup.Header{Release: "0.6", Schema: h.Schema, CreatedMs: nowMs}, rows, backup.ErrForeign},
		"a table of no range's": {h, edit(store.KindTable, func(r store.Row) []store.Row {
			return []store.Row{r, &store.TableRow{Range: 9, Table: []byte("of nobody's")}}
		}), backup.ErrDamaged},
		"a page of no range's": {h, edit(store.KindCheckpoint, func(r store.Row) []store.Row {
			return []store.Row{&store.PageRow{Range: 9, Page: []byte("of nobody's")}, r}
		}), backup.ErrDamaged},
		"a checkpoint of no range's": {h, append(slices.Clone(rows), &store.CheckpointRow{Range: 9, Size: 1, Signed: []byte("of nobody's")}), backup.ErrDamaged},
		"a page before a table":      {h, append(slices.Clone(rows), &store.TableRow{Table: []byte("late")}), backup.ErrDamaged},
		"hidden deployment": {h, edit(store.KindObject, func(store.Row) []store.Row {
			return []store.Row{rows[1], &store.ObjectRow{Name: "genesis", Bytes: []byte("2")}}
		}), backup.ErrDamaged},
		"a later release":    {backup.Header{Release: "9.0", Schema: h.Schema + 1, Deployment: h.Deployment, CreatedMs: nowMs}, rows, backup.ErrLater},
		"release of a bell":  {backup.Header{Release: "\a", Schema: h.Schema, Deployment: h.Deployment}, rows, backup.ErrDamaged},
		"release of a novel": {backup.Header{Release: strings.Repeat("x", 65), Schema: h.Schema, Deployment: h.Deployment}, rows, backup.ErrDamaged},
	} {
		d := backup.Dir{Path: filepath.Join(t.TempDir(), "x")}
		rewritten(t, d, c.header, c.rows)
		if _, err := backup.Verify(t.Context(), d, deployment(), open.Schema(), backup.Trust{}); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

// TestEarlierRelease restores what a release wrote that knew no tip tables.
func TestEarlierRelease(t *testing.T) {
	rows := slices.DeleteFunc(storetest.Rows(t, filled(t)), func(r store.Row) bool { return r.Kind() > store.KindSend })
	d := backup.Dir{Path: filepath.Join(t.TempDir(), "x")}
	rewritten(t, d, backup.Header{Release: "0.6", Schema: 8, Deployment: *deployment(), CreatedMs: nowMs}, rows)
	to := empty(t)
	if _, err := backup.Restore(t.Context(), d, to, deployment()); err != nil {
		t.Fatal(err)
	}
	storetest.Same(t, rows, storetest.Rows(t, to))
	if table, err := to.LoadTable(t.Context(), wire.LoadTable{}); err != nil || len(table.Table) != 0 {
		t.Fatal(table, err)
	}
}

// TestLargeTable backs up and restores the largest row there is.
func TestLargeTable(t *testing.T) {
	s := filled(t)
	owned, err := s.Own(t.Context(), wire.Own{Action: wire.OwnLook})
	if err != nil {
		t.Fatal(err)
	}
	before, err := s.LoadTable(t.Context(), wire.LoadTable{})
	if err != nil {
		t.Fatal(err)
	}
	table := bytes.Repeat([]byte{7}, wire.MaxTable)
	if done, err := s.PutTable(t.Context(), wire.PutTable{Boot: owned.Boot, Epoch: owned.Epoch, Table: table, Over: sha256.Sum256(before.Table)}); err != nil || !done.OK {
		t.Fatal(done, err)
	}
	to := empty(t)
	if _, err := backup.Restore(t.Context(), written(t, s), to, nil); err != nil {
		t.Fatal(err)
	}
	if back, err := to.LoadTable(t.Context(), wire.LoadTable{}); err != nil || !bytes.Equal(back.Table, table) {
		t.Fatalf("%d bytes of a table, %v", len(back.Table), err)
	}
}

func TestRestoreRefused(t *testing.T) {
	d := written(t, filled(t))
	if _, err := backup.Restore(t.Context(), d, filled(t), nil); !errors.Is(err, store.ErrRefused) {
		t.Errorf("into a store of the same deployment: %v", err)
	}
	other := empty(t)
	if _, err := other.PutObject(t.Context(), wire.PutObject{Name: "genesis", Bytes: []byte("other")}); err != nil {
		t.Fatal(err)
	}
	if _, err := backup.Restore(t.Context(), d, other, nil); !errors.Is(err, backup.ErrForeign) {
		t.Errorf("into a store of another deployment: %v", err)
	}
	if _, err := backup.Write(t.Context(), empty(t), backup.Dir{Path: filepath.Join(t.TempDir(), "x")}, "0.6", nowMs); !errors.Is(err, backup.ErrNoDeployment) {
		t.Errorf("a backup of nothing: %v", err)
	}
}

// TestLostEntry backs up a store that has lost the bytes of an entry.
func TestLostEntry(t *testing.T) {
	s := damagedStore{filled(t)}
	d := backup.Dir{Path: filepath.Join(t.TempDir(), "x")}
	_, err := backup.Write(t.Context(), s, d, "0.6", nowMs)
	if err == nil || !strings.Contains(err.Error(), "root of their tree") {
		t.Fatalf("backup of a damaged store: %v", err)
	}
	if _, err := backup.Verify(t.Context(), d, nil, open.Schema(), backup.Trust{}); !errors.Is(err, backup.ErrDamaged) {
		t.Fatalf("what it left: %v", err)
	}
}

type damagedStore struct{ store.Store }

func (s damagedStore) Export(ctx context.Context, each func(store.Row) error) error {
	return s.Store.Export(ctx, func(r store.Row) error {
		if e, ok := r.(*store.EntryRow); ok && e.Seq == 17 {
			e.Sealed[0] ^= 1
		}
		return each(r)
	})
}

func TestLocations(t *testing.T) {
	for location, want := range map[string]string{
		"/var/backups/x":        "/var/backups/x",
		"relative/x":            "relative/x",
		"s3://bucket":           "s3://bucket",
		"s3://bucket/":          "s3://bucket",
		"s3://bucket/a/b/":      "s3://bucket/a/b",
		"":                      "",
		"s3://":                 "",
		"s3:///a":               "",
		"s3://bucket/../other":  "",
		"s3://bucket/a//b":      "",
		"https://bucket/prefix": "",
	} {
		f, err := backup.OpenFolder(location, backup.S3{})
		if (err == nil) != (want != "") || err == nil && f.String() != want {
			t.Errorf("%q: %v, %v", location, f, err)
		}
	}
	if got := backup.Under("s3://b/p/", "x"); got != "s3://b/p/x" {
		t.Error(got)
	}
}

func FuzzRow(f *testing.F) {
	for k := range store.RowKind(16) {
		if r := store.NewRow(k); r != nil {
			b, err := backup.AppendRow(nil, r)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(b)
		}
	}
	b, err := backup.AppendRow(nil, &store.EntryRow{Seq: 3, Activity: wire.ID{1}, Type: "T", Status: 3, Next: 5, Sealed: []byte("sealed")})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(b, b...))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, rest, err := backup.CutRow(b)
		if err != nil {
			if !errors.Is(err, backup.ErrDamaged) {
				t.Fatal(err)
			}
			return
		}
		again, err := backup.AppendRow(nil, r)
		if err != nil || !bytes.Equal(append(again, rest...), b) {
			t.Fatalf("%x is another encoding of %x: %v", b, again, err)
		}
		if err := store.CheckRow(r); err != nil {
			t.Fatal(err)
		}
		_ = new(store.Order).Follow(r)
	})
}

func FuzzIndex(f *testing.F) {
	h := backup.Header{Release: "0.6", Schema: 5, CreatedMs: nowMs}
	head, err := backup.EncodeHeader(&h)
	if err != nil {
		f.Fatal(err)
	}
	index, err := backup.EncodeIndex(&backup.Index{Header: h, Rows: 2, Chunks: []backup.Chunk{{Size: 7}, {Size: backup.MaxChunk}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(head)
	f.Add(index)
	f.Fuzz(func(t *testing.T, b []byte) {
		if h, err := backup.ParseHeader(b); err == nil {
			if again, err := backup.EncodeHeader(h); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x is another encoding of %x: %v", b, again, err)
			}
		} else if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrLater) {
			t.Fatal(err)
		}
		if x, err := backup.ParseIndex(b); err == nil {
			if again, err := backup.EncodeIndex(x); err != nil || !bytes.Equal(again, b) {
				t.Fatalf("%x is another encoding of %x: %v", b, again, err)
			}
		} else if !errors.Is(err, backup.ErrDamaged) && !errors.Is(err, backup.ErrLater) {
			t.Fatal(err)
		}
	})
}
