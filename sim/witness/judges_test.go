package witness_test

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/shared/wire"
	"cloister/sim/witness/witnesstest"
)

func TestMain(m *testing.M) { witnesstest.Main(m) }

// judges are the witnesses that the suite runs against, and where those of others answer otherwise than the protocol says:
// by case and step, what they answer instead. What a host makes of it is the same: 200 with a line is yes, 409 with a size
// is to ask again from there, all else is no.
var judges = []struct {
	name    string
	start   witnesstest.Starter
	differs map[string]answer
}{
	{"ours", witnesstest.Ours, nil},
	{"litewitness", witnesstest.Litewitness, map[string]answer{
		"first sight, with a proof: of something": is(200), // it does not look at the proof
	}},
	{"omniwitness", witnesstest.Omniwitness, map[string]answer{
		"first sight, not from nothing: with a proof":       is(200), // it signs any tree that it sees first
		"first sight, with a proof: of something":           is(200),
		"a fork at the same size: the other":                is(409), // and no size, as in the first version of the protocol
		"not signed by the log: a bit":                      is(500),
		"not signed by the log: another size":               is(500),
		"not signed by the log: by another log":             is(500),
		"not signed by the log: by another log in its name": is(500),
		"not signed by the log: of another log":             is(500),
		"an unknown log: signed by itself":                  is(500),
	}},
}

// An answer is a status and, with 409, the size.
type answer struct {
	status int
	size   string
}

func is(status int) answer    { return answer{status: status} }
func at(size uint64) answer   { return answer{409, fmt.Sprintf("%d\n", size)} }
func (a answer) signed() bool { return a.status == 200 }

// A step is one request, and what comes of it.
type step struct {
	what  string
	old   uint64
	proof []wire.Hash
	note  []byte
	want  answer
}

// cases are what a witness must and must not sign. Each has a log of its own, and another branch of it from 5 leaves on.
var cases = []struct {
	name  string
	steps func(l, fork *witnesstest.Log) []step
}{
	{"growth", func(l, _ *witnesstest.Log) []step {
		return []step{
			{"first sight", 0, nil, l.Checkpoint(5), is(200)},
			{"again", 5, nil, l.Checkpoint(5), is(200)},
			{"one more", 5, l.Prove(5, 6), l.Checkpoint(6), is(200)},
			{"to a power of two", 6, l.Prove(6, 8), l.Checkpoint(8), is(200)},
			{"from a power of two", 8, l.Prove(8, 300), l.Checkpoint(300), is(200)},
			{"across blocks", 300, l.Prove(300, 700), l.Checkpoint(700), is(200)},
			{"again, after growth", 700, nil, l.Checkpoint(700), is(200)},
			{"older", 300, nil, l.Checkpoint(300), at(700)},
		}
	}},
	{"the size is asked", func(l, _ *witnesstest.Log) []step {
		return []step{
			{"first sight", 0, nil, l.Checkpoint(5), is(200)},
			{"from nothing", 0, nil, l.Checkpoint(9), at(5)},
			{"from nothing, the same", 0, nil, l.Checkpoint(5), at(5)},
			{"from too much", 7, l.Prove(7, 9), l.Checkpoint(9), at(5)},
			{"from there", 5, l.Prove(5, 9), l.Checkpoint(9), is(200)},
		}
	}},
	{"first sight, not from nothing", func(l, _ *witnesstest.Log) []step {
		return []step{{"with a proof", 5, l.Prove(5, 9), l.Checkpoint(9), at(0)}}
	}},
	{"first sight, with a proof", func(l, _ *witnesstest.Log) []step {
		return []step{{"of something", 0, l.Prove(5, 9), l.Checkpoint(9), is(422)}}
	}},
	{"old is above the checkpoint", func(l, _ *witnesstest.Log) []step {
		return []step{
			{"first sight", 0, nil, l.Checkpoint(9), is(200)},
			{"older", 9, nil, l.Checkpoint(5), is(400)},
			{"above both", 10, nil, l.Checkpoint(9), is(400)},
			{"growth", 9, l.Prove(9, 20), l.Checkpoint(20), is(200)},
		}
	}},
	{"wrong proofs", func(l, fork *witnesstest.Log) []step {
		good := l.Prove(5, 9)
		bent := append([]wire.Hash{}, good...)
		bent[1][3] ^= 1
		return []step{
			{"first sight", 0, nil, l.Checkpoint(5), is(200)},
			{"none", 5, nil, l.Checkpoint(9), is(422)},
			{"a bit", 5, bent, l.Checkpoint(9), is(422)},
			{"one hash short", 5, good[1:], l.Checkpoint(9), is(422)},
			{"one hash more", 5, append(append([]wire.Hash{}, good...), good[0]), l.Checkpoint(9), is(422)},
			{"of other sizes", 5, l.Prove(4, 9), l.Checkpoint(9), is(422)},
			{"with the same size", 5, good, l.Checkpoint(5), is(422)},
			{"nothing moved", 5, good, l.Checkpoint(9), is(200)},
		}
	}},
	{"a fork at the same size", func(l, fork *witnesstest.Log) []step {
		return []step{
			{"first sight", 0, nil, l.Checkpoint(9), is(200)},
			{"the other", 9, nil, fork.Checkpoint(9), is(422)},
			{"the first", 9, nil, l.Checkpoint(9), is(200)},
		}
	}},
	{"a fork above", func(l, fork *witnesstest.Log) []step {
		return []step{
			{"first sight", 0, nil, l.Checkpoint(9), is(200)},
			{"with its own proof", 9, fork.Prove(9, 20), fork.Checkpoint(20), is(422)},
			{"with the other's", 9, l.Prove(9, 20), fork.Checkpoint(20), is(422)},
			{"from where they part", 5, fork.Prove(5, 20), fork.Checkpoint(20), at(9)},
			{"from nothing", 0, nil, fork.Checkpoint(20), at(9)},
			{"the first", 9, l.Prove(9, 20), l.Checkpoint(20), is(200)},
		}
	}},
	{"a store that was put back", func(l, fork *witnesstest.Log) []step {
		return []step{
			{"first sight", 0, nil, l.Checkpoint(5), is(200)},
			{"growth", 5, l.Prove(5, 20), l.Checkpoint(20), is(200)},
			{"an old head", 5, nil, l.Checkpoint(5), at(20)},
			{"it goes on otherwise", 5, fork.Prove(5, 9), fork.Checkpoint(9), at(20)},
			{"and is larger", 20, fork.Prove(20, 30), fork.Checkpoint(30), is(422)},
		}
	}},
	{"not signed by the log", func(l, _ *witnesstest.Log) []step {
		good := l.Checkpoint(5)
		bent := bytes.Clone(good)
		bent[len(bent)-20] ^= 1
		other := witnesstest.NewLog(originOf("growth")) // known too
		text, line, _ := strings.Cut(string(good), "\n\n")
		foreign := text + "\n\n" + lastLine(other.Sign(text+"\n"))
		named := text + "\n\n" + strings.Replace(lastLine(other.Sign(text+"\n")), other.Key.Name(), l.Key.Name(), 1)
		return []step{
			{"a bit", 0, nil, bent, is(403)},
			{"another size", 0, nil, []byte(strings.Replace(string(good), "\n5\n", "\n6\n", 1)), is(403)},
			{"by another log", 0, nil, []byte(foreign), is(403)},
			{"by another log in its name", 0, nil, []byte(named), is(403)},
			{"of another log", 0, nil, []byte(strings.Replace(text, l.Key.Name(), other.Key.Name(), 1) + "\n\n" + line), is(403)},
			{"by both", 0, nil, []byte(string(good) + lastLine([]byte(foreign))), is(200)},
		}
	}},
	{"an unknown log", func(_, _ *witnesstest.Log) []step {
		return []step{{"signed by itself", 0, nil, witnesstest.NewLog("log.example/unknown").Grow(5).Checkpoint(5), is(404)}}
	}},
}

// lastLine is the last signature of a note.
func lastLine(b []byte) string {
	s := strings.TrimSuffix(string(b), "\n")
	return s[strings.LastIndex(s, "\n")+1:] + "\n"
}

func originOf(name string) string { return "log.example/" + strings.ReplaceAll(name, " ", "-") }

// branches are a case's log and its fork.
func branches(name string) (l, fork *witnesstest.Log) {
	l = witnesstest.NewLog(originOf(name)).Grow(700)
	return l, l.Fork(5).Grow(30)
}

// ask sends a request and verifies the lines of its answer as a client does.
func ask(t *testing.T, p *witnesstest.Program, l *tlog.Key, s step) answer {
	t.Helper()
	body := fmt.Appendf(nil, "old %d\n", s.old)
	for _, h := range s.proof {
		body = fmt.Appendf(body, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	before := uint64(time.Now().Unix())
	r, err := http.Post(p.URL+"/add-checkpoint", "text/plain", bytes.NewReader(append(append(body, '\n'), s.note...)))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	if r.StatusCode == 409 {
		if kind := r.Header.Get("Content-Type"); len(b) > 0 && kind != "text/x.tlog.size" {
			t.Errorf("%s: a size of type %q", s.what, kind)
		}
		return answer{409, string(b)}
	}
	if r.StatusCode == 200 {
		_, signed, err := policyOf(t, 1, p).Verify(l, append(bytes.Clone(s.note), b...))
		if err != nil || signed[0].Seconds < before || signed[0].Seconds > before+60 {
			t.Errorf("%s: %q does not verify: %v, %v", s.what, b, signed, err)
		}
	}
	return is(r.StatusCode)
}

// policyOf is the policy of so many of some witnesses.
func policyOf(t testing.TB, needed int, of ...*witnesstest.Program) *tlog.Policy {
	t.Helper()
	policy, err := tlog.ParsePolicy(witnesstest.Policy(needed, of...))
	if err != nil {
		t.Fatal(err)
	}
	return policy
}

// The protocol, case by case, by our witness and by those of others.
func TestJudges(t *testing.T) {
	for _, judge := range judges {
		t.Run(judge.name, func(t *testing.T) {
			var logs []*tlog.Key
			for _, c := range cases {
				logs = append(logs, witnesstest.NewLog(originOf(c.name)).Key)
			}
			p := judge.start(t, "w.example/"+judge.name, logs...)
			for _, c := range cases {
				l, fork := branches(c.name)
				for _, s := range c.steps(l, fork) {
					want := s.want
					if other, ok := judge.differs[c.name+": "+s.what]; ok {
						want = other
					}
					if got := ask(t, p, l.Key, s); got != want {
						t.Errorf("%s: %s: %v, want %v", c.name, s.what, got, want)
					}
				}
			}
		})
	}
}

// A witness that was killed remembers what it signed, whenever that was.
func TestJudgesKilled(t *testing.T) {
	const kills, most = 5, 5000
	for _, judge := range judges {
		t.Run(judge.name, func(t *testing.T) {
			l, fork := branches("killed")
			l.Grow(most)
			fork.Grow(most)
			p := judge.start(t, "w.example/"+judge.name, l.Key)
			signed := uint64(0)
			for range kills {
				if a, err := post(p, signed, l.Prove(signed, signed+1), l.Checkpoint(signed+1)); err != nil || !a.signed() {
					t.Fatal(signed, a, err)
				}
				signed++
				// It signs until it is dead; what was on the way then may have been kept or not.
				var killed sync.WaitGroup
				killed.Go(func() {
					time.Sleep(20 * time.Millisecond)
					p.Kill()
				})
				tried := signed
				for {
					tried++
					a, err := post(p, signed, l.Prove(signed, tried), l.Checkpoint(tried))
					if err != nil {
						break
					}
					if !a.signed() {
						t.Fatalf("from %d to %d: %v", signed, tried, a)
					}
					signed = tried
				}
				killed.Wait()
				http.DefaultClient.CloseIdleConnections()
				p.Start()
				a, err := post(p, 0, nil, l.Checkpoint(most))
				if err != nil || a != at(signed) && a != at(tried) {
					t.Fatalf("killed after signing %d, and perhaps %d: %v, %v", signed, tried, a, err)
				}
				if a == at(tried) {
					signed = tried
				}
				if a, err := post(p, signed, nil, fork.Checkpoint(signed)); err != nil || a.signed() && signed > 5 {
					t.Fatalf("it signed another branch: %v, %v", a, err)
				}
			}
			t.Logf("counted: %s: %d checkpoints signed, %d kills", judge.name, signed, kills)
		})
	}
}

// post asks and does not look at the lines.
func post(p *witnesstest.Program, old uint64, proof []wire.Hash, note []byte) (answer, error) {
	body := fmt.Appendf(nil, "old %d\n", old)
	for _, h := range proof {
		body = fmt.Appendf(body, "%s\n", base64.StdEncoding.EncodeToString(h[:]))
	}
	r, err := http.Post(p.URL+"/add-checkpoint", "text/plain", bytes.NewReader(append(append(body, '\n'), note...)))
	if err != nil {
		return answer{}, err
	}
	defer r.Body.Close()
	b, err := io.ReadAll(r.Body)
	if r.StatusCode != 409 {
		b = nil
	}
	return answer{r.StatusCode, string(b)}, err
}

// Of two branches that are shown at once, a witness signs one and stays with it.
func TestJudgesRaced(t *testing.T) {
	for _, judge := range judges {
		t.Run(judge.name, func(t *testing.T) {
			var logs []*tlog.Key
			const rounds = 20
			for i := range rounds {
				logs = append(logs, witnesstest.NewLog(originOf(fmt.Sprint("raced ", i))).Key)
			}
			p := judge.start(t, "w.example/"+judge.name, logs...)
			for i := range rounds {
				l, fork := branches(fmt.Sprint("raced ", i))
				if a, err := post(p, 0, nil, l.Checkpoint(5)); err != nil || !a.signed() {
					t.Fatal(a, err)
				}
				var signed [2]int
				var all sync.WaitGroup
				var mu sync.Mutex
				for n := range 16 {
					all.Go(func() {
						from := []*witnesstest.Log{l, fork}[n%2]
						a, err := post(p, 5, from.Prove(5, 9), from.Checkpoint(9))
						mu.Lock()
						defer mu.Unlock()
						if err != nil {
							t.Error(err)
						} else if a.signed() {
							signed[n%2]++
						}
					})
				}
				all.Wait()
				if signed[0] > 0 == (signed[1] > 0) {
					t.Errorf("round %d: signed %d of one branch and %d of the other", i, signed[0], signed[1])
				}
			}
		})
	}
}

// Two branches at two witnesses each: none ever signs the other one, so neither gets 3 of 4.
func TestJudgesSplit(t *testing.T) {
	for name, starters := range map[string][]witnesstest.Starter{
		"ours": {witnesstest.Ours, witnesstest.Ours, witnesstest.Ours, witnesstest.Ours},
		"real": {witnesstest.Litewitness, witnesstest.Omniwitness, witnesstest.Litewitness, witnesstest.Omniwitness},
	} {
		t.Run(name, func(t *testing.T) {
			l, fork := branches("split")
			var ps []*witnesstest.Program
			for i, start := range starters {
				p := start(t, fmt.Sprintf("w%d.example", i), l.Key)
				ps = append(ps, p)
				first := []*witnesstest.Log{l, fork}[i/2]
				if a := ask(t, p, l.Key, step{"first sight", 0, nil, first.Checkpoint(9), is(200)}); !a.signed() {
					t.Fatal(a)
				}
			}
			for i, p := range ps {
				mine, other := l, fork
				if i >= 2 {
					mine, other = fork, l
				}
				for size := uint64(1); size <= 30; size++ {
					for _, old := range []uint64{0, 5, 9, size} {
						if old > size {
							continue
						}
						// Up to where they part it is one log, and even that is behind.
						if a, err := post(p, old, other.Prove(old, size), other.Checkpoint(size)); err != nil || a.signed() {
							t.Errorf("%s signed the other branch at %d from %d: %v, %v", p.Key.Name(), size, old, a, err)
						}
					}
				}
				if a := ask(t, p, l.Key, step{"growth", 9, mine.Prove(9, 30), mine.Checkpoint(30), is(200)}); !a.signed() {
					t.Errorf("%s no longer signs its own: %v", p.Key.Name(), a)
				}
			}
		})
	}
}
