package witness_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/sim/witness"
	"cloister/sim/witness/witnesstest"
)

var clock = time.Unix(1_800_000_000, 0)

const origin = "log.example/00/0/1"

// open makes a witness that knows a log.
func open(t testing.TB, dir string, l *witnesstest.Log) *witness.Witness {
	t.Helper()
	w, err := witness.New(witness.Options{Name: "w.example", Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)), Dir: dir, Now: func() time.Time { return clock }})
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(l.Key); err != nil {
		t.Fatal(err)
	}
	return w
}

// call asks a witness without a network.
func call(w *witness.Witness, method, path string, body []byte) (answer, string) {
	r := httptest.NewRecorder()
	w.Handler().ServeHTTP(r, httptest.NewRequest(method, path, bytes.NewReader(body)))
	return is(r.Code), r.Body.String()
}

// sign asks for a cosignature.
func sign(t testing.TB, w *witness.Witness, l *witnesstest.Log, old, size uint64) answer {
	t.Helper()
	body := fmt.Appendf(nil, "old %d\n", old)
	if old <= size {
		for _, h := range l.Prove(old, size) {
			body = fmt.Appendf(body, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
		}
	}
	a, text := call(w, "POST", "/add-checkpoint", append(append(body, '\n'), l.Checkpoint(size)...))
	if a.status == 409 {
		return answer{409, text}
	}
	if a.signed() && !verifies(w, l, append(l.Checkpoint(size), text...)) {
		t.Errorf("%q does not verify", text)
	}
	return a
}

func verifies(w *witness.Witness, l *witnesstest.Log, cosigned []byte) bool {
	p, err := tlog.ParsePolicy(fmt.Sprintf("witness %s %s\nquorum %s\n", w.Key().Name(), w.Key(), w.Key().Name()))
	if err != nil {
		return false
	}
	_, signed, err := p.VerifyExactly(l.Key, cosigned)
	return err == nil && signed[0].Seconds == uint64(clock.Unix())
}

func TestMalformed(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	w := open(t, "", l)
	good, c := "old 0\n\n"+string(l.Checkpoint(5)), string(l.Checkpoint(5))
	hash := base64.StdEncoding.EncodeToString(make([]byte, 32))
	text, _, _ := strings.Cut(c, "\n\n")
	for _, body := range []string{
		"", "\n", "\n\n", "old 0", "old 0\n", "old 0\n\n", "old 0\n" + c, c, "\n\n" + c,
		"old\n\n" + c, "old \n\n" + c, "old 00\n\n" + c, "old +0\n\n" + c, "old -1\n\n" + c, "old 0 \n\n" + c, "old  0\n\n" + c, "Old 0\n\n" + c,
		"old 0x0\n\n" + c, "old 9223372036854775808\n\n" + c, "old 0\r\n\r\n" + c, strings.ReplaceAll(good, "\n", "\r\n"),
		"old 0\n" + hash + "\n" + c, "old 0\n" + hash[:43] + "\n\n" + c, "old 0\n" + hash + "A===\n\n" + c, "old 0\n" + hash[:42] + "B=\n\n" + c,
		"old 0\n" + hash + "\r\n\n" + c, "old 0\n " + hash + "\n\n" + c, "old 0\n" + hash[:20] + "\r" + hash[20:] + "\n\n" + c,
		"old 0\n" + strings.Repeat(hash+"\n", 64) + "\n" + c,
		"old 0\n\n" + text, "old 0\n\n" + text + "\n", "old 0\n\n" + text + "\n\n", "old 0\n\n" + text + "\n\n- x y\n", good + "\n", good + "x",
		"old 0\n\n" + string(l.Sign(text+"\nextension\n")), "old 0\n\n" + string(l.Sign(text+"\n\nmore\n")),
		"old 0\n\n" + string(l.Sign(strings.Replace(text, "\n5\n", "\n05\n", 1)+"\n")),
		good + strings.Repeat("— x y\n", 20_000),
	} {
		if a, text := call(w, "POST", "/add-checkpoint", []byte(body)); a != is(400) || len(text) > 200 {
			t.Errorf("%.200q: %v, %q", body, a, text)
		}
	}
	for path, want := range map[string]int{"/": 404, "/add-checkpoint": 405, "/add-checkpoint/": 404, "/" + hash + "/checkpoint": 404} {
		if a, _ := call(w, "GET", path, nil); a != is(want) {
			t.Errorf("GET %s: %v", path, a)
		}
	}
	if a := sign(t, w, l, 0, 5); !a.signed() { // nothing was kept of all that
		t.Error(a)
	}
}

// A log without leaves can be cosigned, as what it is.
func TestNothing(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(5)
	w := open(t, "", l)
	other := tlog.Checkpoint{Origin: origin, Root: [32]byte{1}}
	if a, _ := call(w, "POST", "/add-checkpoint", append([]byte("old 0\n\n"), l.Sign(other.Text())...)); a != is(422) {
		t.Errorf("a root of nothing that is not nothing's: %v", a)
	}
	if a := sign(t, w, l, 0, 0); !a.signed() {
		t.Error(a)
	}
	if a := sign(t, w, l, 0, 5); !a.signed() {
		t.Error(a)
	}
}

func TestMonitored(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	w := open(t, t.TempDir(), l)
	h := sha256.Sum256([]byte(origin))
	path := "/" + hex.EncodeToString(h[:]) + "/checkpoint"
	if a, _ := call(w, "GET", path, nil); a != is(404) {
		t.Errorf("before anything was signed: %v", a)
	}
	old := uint64(0)
	for _, size := range []uint64{5, 9} {
		if a := sign(t, w, l, old, size); !a.signed() {
			t.Fatal(a)
		}
		old = size
		a, text := call(w, "GET", path, nil)
		if a != is(200) || !bytes.HasPrefix([]byte(text), l.Checkpoint(size)) || !verifies(w, l, []byte(text)) {
			t.Errorf("%v, %q", a, text)
		}
	}
}

// What a witness knows it knows from its folder, or from nowhere.
func TestRestarted(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	dir := filepath.Join(t.TempDir(), "made", "when needed")
	if a := sign(t, open(t, dir, l), l, 0, 5); !a.signed() {
		t.Fatal(a)
	}
	w := open(t, dir, l)
	if a := sign(t, w, l, 0, 9); a != at(5) {
		t.Errorf("a witness that was restarted: %v", a)
	}
	if a := sign(t, w, l.Fork(4).Grow(9), 5, 9); a != is(422) {
		t.Errorf("a witness that was restarted, another branch: %v", a)
	}
	if err := w.Add(witnesstest.NewLog(origin).Key); err != nil { // known
		t.Error(err)
	}
	if a := sign(t, w, l, 5, 9); !a.signed() {
		t.Error(a)
	}
	memory := open(t, "", l)
	if a := sign(t, memory, l, 0, 5); !a.signed() {
		t.Error(a)
	}
	if a := sign(t, open(t, "", l), l, 0, 9); !a.signed() {
		t.Error("a witness without a folder remembers", a)
	}
}

// What is kept and cannot be read is no reason to begin anew.
func TestDamaged(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	for name, damage := range map[string]func([]byte) []byte{
		"cut off":           func(b []byte) []byte { return b[:len(b)/2] },
		"empty":             func([]byte) []byte { return nil },
		"a bit":             func(b []byte) []byte { b[len(b)-20] ^= 1; return b },
		"another size":      func(b []byte) []byte { return bytes.Replace(b, []byte("\n5\n"), []byte("\n4\n"), 1) },
		"of another log":    func([]byte) []byte { return witnesstest.NewLog("log.example/other").Grow(5).Checkpoint(5) },
		"no checkpoint":     func([]byte) []byte { return l.Sign("hello\n") },
		"too long":          func(b []byte) []byte { return append(b, make([]byte, tlog.MaxNote)...) },
		"of another origin": func([]byte) []byte { return l.Sign((&tlog.Checkpoint{Origin: "log.example/other", Size: 5}).Text()) },
	} {
		dir := t.TempDir()
		w := open(t, dir, l)
		if a := sign(t, w, l, 0, 5); !a.signed() {
			t.Fatal(a)
		}
		files, err := filepath.Glob(filepath.Join(dir, "*"))
		if err != nil || len(files) != 1 {
			t.Fatal(files, err)
		}
		b, err := os.ReadFile(files[0])
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(files[0], damage(b), 0o600); err != nil {
			t.Fatal(err)
		}
		again, err := witness.New(witness.Options{Name: "w.example", Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)), Dir: dir, Now: time.Now})
		if err != nil {
			t.Fatal(err)
		}
		if err := again.Add(l.Key); err == nil {
			t.Errorf("%s: it goes on", name)
		}
		if a := sign(t, again, l, 0, 9); a != is(404) {
			t.Errorf("%s: %v", name, a)
		}
	}
}

// What cannot be kept is not signed.
func TestNotKept(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(9)
	dir := filepath.Join(t.TempDir(), "folder")
	w := open(t, dir, l)
	if err := os.WriteFile(dir, nil, 0o600); err != nil { // where the folder should be
		t.Fatal(err)
	}
	if a := sign(t, w, l, 0, 5); a != is(500) {
		t.Error(a)
	}
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	if a := sign(t, w, l, 0, 9); !a.signed() {
		t.Error(a)
	}
}

func TestLying(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(20)
	fork := l.Fork(4).Grow(30)
	w := open(t, t.TempDir(), l)
	if a := sign(t, w, l, 0, 9); !a.signed() {
		t.Fatal(a)
	}
	w.Lie(true)
	for _, size := range []uint64{9, 30, 2, 20} {
		if a := sign(t, w, fork.Grow(30), 3, size); !a.signed() {
			t.Errorf("at %d: %v", size, a)
		}
	}
	unsigned := tlog.Checkpoint{Origin: origin, Size: 5}
	if a, _ := call(w, "POST", "/add-checkpoint", append([]byte("old 0\n\n"), unsigned.Text()+"\n— x AAAA\n"...)); !a.signed() {
		t.Errorf("not signed by the log: %v", a)
	}
	w.Lie(false)
	if a := sign(t, w, l, 0, 20); a != at(9) {
		t.Errorf("what it signed when it was honest: %v", a)
	}
}

func TestForgetful(t *testing.T) {
	for _, dir := range []string{"", t.TempDir()} {
		l := witnesstest.NewLog(origin).Grow(20)
		fork := l.Fork(4).Grow(20)
		w := open(t, dir, l)
		if a := sign(t, w, l, 0, 9); !a.signed() {
			t.Fatal(a)
		}
		if a := sign(t, w, fork, 0, 20); a != at(9) {
			t.Errorf("before it forgot: %v", a)
		}
		if err := w.Forget(); err != nil {
			t.Fatal(err)
		}
		if dir != "" { // a restart does not bring it back
			w = open(t, dir, l)
		}
		if a := sign(t, w, fork, 0, 20); !a.signed() {
			t.Errorf("after it forgot: %v", a)
		}
		if a := sign(t, w, l, 9, 20); a != at(20) {
			t.Errorf("what it signed since: %v", a)
		}
	}
}

func TestOptionsRefused(t *testing.T) {
	key := ed25519.NewKeyFromSeed(make([]byte, 32))
	for _, o := range []witness.Options{
		{}, {Name: "w"}, {Key: key}, {Name: "w", Key: key[:32]}, {Name: "a b", Key: key}, {Name: "a+b", Key: key}, {Name: strings.Repeat("w", 256), Key: key},
	} {
		if w, err := witness.New(o); err == nil {
			t.Errorf("%+v was taken: %s", o, w.Key())
		}
	}
	l := witnesstest.NewLog(origin)
	w := open(t, "", l)
	other, err := tlog.NewKey(origin, tlog.TypeLog, key.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Add(other); err == nil {
		t.Error("one log with two keys")
	}
}

func TestReadKey(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new", "seed")
	if _, err := witness.ReadKey(file, strings.NewReader("short")); err == nil {
		t.Error("made of 5 random bytes")
	}
	made, err := witness.ReadKey(file, strings.NewReader(strings.Repeat("r", 32)))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := witness.ReadKey(file, nil); err != nil || !again.Equal(made) {
		t.Error("it is another one the second time", err)
	}
	if i, err := os.Stat(file); err != nil || i.Mode() != 0o600 {
		t.Error(i.Mode(), err)
	}
	for _, text := range []string{"", "\n", "00\n", strings.Repeat("0", 66), strings.Repeat("0", 65) + "\n", strings.Repeat("x", 64) + "\n", strings.Repeat("0", 1000)} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := witness.ReadKey(file, nil); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}

// Serve ends with its context, and answers until then.
func TestServe(t *testing.T) {
	l := witnesstest.NewLog(origin).Grow(5)
	w := open(t, "", l)
	at, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- w.Serve(ctx, at) }()
	r, err := http.Post("http://"+at.Addr().String()+"/add-checkpoint", "text/plain", bytes.NewReader(append([]byte("old 0\n\n"), l.Checkpoint(5)...)))
	if err != nil {
		t.Fatal(err)
	}
	b, err := io.ReadAll(r.Body)
	if err != nil || r.StatusCode != 200 || !verifies(w, l, append(l.Checkpoint(5), b...)) {
		t.Errorf("%d %q %v", r.StatusCode, b, err)
	}
	if err := r.Body.Close(); err != nil {
		t.Error(err)
	}
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if err := w.Serve(t.Context(), at); err == nil {
		t.Error("served at a listener that is closed")
	}
}

// Whatever is asked, only what the log signed is cosigned, and it verifies.
func FuzzRequest(f *testing.F) {
	l := witnesstest.NewLog(origin).Grow(9)
	proof := ""
	for _, h := range l.Prove(5, 9) {
		proof += base64.StdEncoding.EncodeToString(h[:]) + "\n"
	}
	for _, s := range []string{"old 0\n\n" + string(l.Checkpoint(5)), "old 5\n" + proof + "\n" + string(l.Checkpoint(9)), "old 5\n\n" + string(l.Checkpoint(5)), "old 9\n\n" + string(l.Checkpoint(5))} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		w := open(t, "", l)
		if a := sign(t, w, l, 0, 5); !a.signed() {
			t.Fatal(a)
		}
		a, text := call(w, "POST", "/add-checkpoint", body)
		_, c, _ := bytes.Cut(body, []byte("\n\n"))
		switch a.status {
		case 200:
			head, _, _ := bytes.Cut(c, []byte("\n\n"))
			if !slices.ContainsFunc([]uint64{5, 9}, func(size uint64) bool {
				return bytes.HasPrefix(l.Checkpoint(size), slices.Concat(head, []byte("\n\n"))) && verifies(w, l, append(l.Checkpoint(size), text...))
			}) {
				t.Errorf("%q for %q", text, body)
			}
		case 409:
			if text != "5\n" {
				t.Errorf("it has %q", text)
			}
		case 400, 403, 404, 422:
		default:
			t.Errorf("%v: %q", a, text)
		}
	})
}

// Whatever lies in the folder, it is a head that the log signed or refused.
func FuzzKept(f *testing.F) {
	l := witnesstest.NewLog(origin).Grow(9)
	f.Add(l.Checkpoint(5))
	f.Add(l.Checkpoint(9))
	f.Add([]byte(nil))
	f.Fuzz(func(t *testing.T, kept []byte) {
		dir := t.TempDir()
		h := sha256.Sum256([]byte(origin))
		if err := os.WriteFile(filepath.Join(dir, hex.EncodeToString(h[:])), kept, 0o600); err != nil {
			t.Fatal(err)
		}
		w, err := witness.New(witness.Options{Name: "w.example", Key: ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32)), Dir: dir, Now: func() time.Time { return clock }})
		if err != nil {
			t.Fatal(err)
		}
		if w.Add(l.Key) != nil {
			return
		}
		if a := sign(t, w, l, 0, 9); a != at(5) && a != at(9) {
			t.Errorf("%v from %q", a, kept)
		}
	})
}
