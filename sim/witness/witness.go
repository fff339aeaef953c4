// Package witness is a witness of our own, for laptops and tests: it cosigns the checkpoints of logs by the protocol of C2SP
// tlog-witness (https://c2sp.org/tlog-witness), and keeps of each log the newest one that it signed. It signs only what is
// consistent with that, and keeps it before it answers.
//
// What real witnesses are for, this one cannot do on one machine: whoever puts a log's store back can put back its memory as
// well. It can also be told to lie and to forget, as real ones may.
package witness

import (
	"context"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/transparency-dev/merkle/proof"
	"github.com/transparency-dev/merkle/rfc6962"
	"golang.org/x/mod/sumdb/note"

	"cloister/attestation/tlog"
)

// Options are what a Witness is made of.
type Options struct {
	// Name is in its key and in the lines that it signs.
	Name string
	// Key is its own and no other witness's.
	Key ed25519.PrivateKey
	// Dir is where it keeps a file for each log; nobody else writes there. Empty: in memory, so that a restart forgets.
	Dir string
	Now func() time.Time
	// Patience is how long a request for a log that it does not know waits for somebody to Add it: where a log and its
	// witnesses start together, the log asks first. 0: not at all.
	Patience time.Duration
}

// A Witness cosigns checkpoints of the logs that it knows.
type Witness struct {
	options Options
	key     *tlog.Key
	lying   atomic.Bool
	delay   atomic.Int64 // time.Duration

	mu    sync.RWMutex
	logs  map[string]*witnessed // by origin
	added chan struct{}         // closed when another is added
}

// witnessed is a log, and the newest checkpoint of it that was cosigned.
type witnessed struct {
	key  *tlog.Key
	file string // empty: none

	mu   sync.Mutex // from the check until the file is written
	head head

	opened atomic.Pointer[opened] // the last note that verified
}

// opened is a note and what it says.
type opened struct {
	note string
	head head
}

// A head is a checkpoint, and the note in which the log signed it: none of a log without leaves.
type head struct {
	tlog.Checkpoint
	note *note.Note
}

// New makes a witness that knows no log.
func New(o Options) (*Witness, error) {
	if len(o.Key) != ed25519.PrivateKeySize {
		return nil, errors.New("witness: the key is not an Ed25519 key")
	}
	key, err := tlog.NewKey(o.Name, tlog.TypeCosignature, o.Key.Public().(ed25519.PublicKey))
	if err != nil {
		return nil, fmt.Errorf("witness: %w", err)
	}
	return &Witness{options: o, key: key, logs: map[string]*witnessed{}, added: make(chan struct{})}, nil
}

// Key is what its cosignatures verify by; a policy names it.
func (w *Witness) Key() *tlog.Key { return w.key }

// Add makes a log known, whose origin is its key's name, and goes on from what is kept of it. It fails if that cannot be
// read: to begin anew is for Forget. A log that is known stays as it is.
func (w *Witness) Add(log *tlog.Key) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if l, ok := w.logs[log.Name()]; ok {
		if l.key.String() != log.String() {
			return fmt.Errorf("witness: %s has another key", log.Name())
		}
		return nil
	}
	l := &witnessed{key: log, head: unseen(log)}
	if w.options.Dir != "" {
		l.file = w.file(log.Name())
		if err := l.read(); err != nil {
			return err
		}
	}
	w.logs[log.Name()] = l
	close(w.added)
	w.added = make(chan struct{})
	return nil
}

// unseen is the head of a log of which nothing was signed: any tree follows on it.
func unseen(log *tlog.Key) head {
	return head{Checkpoint: tlog.Checkpoint{Origin: log.Name(), Root: [32]byte(rfc6962.DefaultHasher.EmptyRoot())}}
}

// Lie makes it sign every checkpoint of a log that it knows, whoever signed that and whatever it signed before, and keep
// none of them; false makes it honest again, with the memory that it had.
func (w *Witness) Lie(lying bool) { w.lying.Store(lying) }

// Delay makes it wait before it looks at a request, as one far away seems to: at most as long as a conversation may take,
// 10 seconds. 0 ends that.
func (w *Witness) Delay(d time.Duration) { w.delay.Store(int64(d)) }

// Forget drops what it has signed of every log, as a witness does whose disk was lost: it will sign any tree once more.
func (w *Witness) Forget() error {
	w.mu.RLock()
	defer w.mu.RUnlock()
	for _, l := range w.logs {
		if err := l.forget(); err != nil {
			return err
		}
	}
	return nil
}

func (l *witnessed) forget() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.head = unseen(l.key)
	return l.drop()
}

// log is a log that is known, or nil.
func (w *Witness) log(ctx context.Context, origin string) *witnessed {
	ctx, cancel := context.WithTimeout(ctx, w.options.Patience)
	defer cancel()
	for {
		w.mu.RLock()
		l, added := w.logs[origin], w.added
		w.mu.RUnlock()
		if l != nil || ctx.Err() != nil {
			return l
		}
		select {
		case <-added:
		case <-ctx.Done():
		}
	}
}

// Errors that the protocol has a status for, besides those of a request that is malformed.
var (
	errUnknown  = errors.New("no such log is witnessed here")
	errUnsigned = errors.New("the log has not signed its checkpoint")
	errProof    = errors.New("the proof does not lead from what was cosigned to this checkpoint")
	errKeeping  = errors.New("it could not be kept, so it was not signed")
)

// errElsewhere says that a request starts at another size than the one that was cosigned last, which is its value.
type errElsewhere uint64

func (e errElsewhere) Error() string { return fmt.Sprintf("%d leaves were cosigned", uint64(e)) }

// add checks a request, keeps its checkpoint and gives the line that cosigns it.
func (w *Witness) add(ctx context.Context, body []byte) (string, error) {
	r, err := parseRequest(body)
	if err != nil {
		return "", err
	}
	l := w.log(ctx, r.checkpoint.Origin)
	if l == nil {
		return "", errUnknown
	}
	if w.lying.Load() {
		return w.cosign(r.checkpoint.Text()), nil
	}
	h, err := l.open(r.note)
	if err != nil {
		return "", err
	}
	if r.old > h.Size {
		return "", errors.New("the old size is above the checkpoint's")
	}
	if err := l.advance(r.old, r.proof, h); err != nil {
		return "", err
	}
	return w.cosign(h.Text()), nil
}

// open verifies a note of the log, but not the last one again: whoever learns the size that was cosigned asks once more with the same
// note. What others have signed in it is left out.
func (l *witnessed) open(b []byte) (head, error) {
	if last := l.opened.Load(); last != nil && last.note == string(b) {
		return last.head, nil
	}
	n, err := note.Open(b, note.VerifierList(l.key))
	_, unsigned := errors.AsType[*note.UnverifiedNoteError](err)
	_, invalid := errors.AsType[*note.InvalidSignatureError](err)
	if unsigned || invalid {
		return head{}, errUnsigned
	}
	if err != nil {
		return head{}, err
	}
	c, err := tlog.ParseCheckpoint(n.Text)
	if err == nil && c.Origin != l.key.Name() {
		err = errors.New("a checkpoint of another log")
	}
	h := head{c, n}
	if err == nil {
		l.opened.Store(&opened{string(b), h})
	}
	return h, err
}

// advance takes a head that the proof shows to follow on the one of the old size, if that is where the log stands.
func (l *witnessed) advance(old uint64, path [][]byte, next head) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if old != l.head.Size {
		return errElsewhere(l.head.Size)
	}
	if proof.VerifyConsistency(rfc6962.DefaultHasher, old, next.Size, path, l.head.Root[:], next.Root[:]) != nil {
		return errProof
	}
	if err := l.write(next); err != nil {
		return fmt.Errorf("%w: %w", errKeeping, err)
	}
	l.head = next
	return nil
}

// cosign makes the line of a cosignature of type 0x04.
func (w *Witness) cosign(text string) string {
	seconds := uint64(w.options.Now().Unix())
	raw := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint32(nil, w.key.KeyHash()), seconds)
	raw = append(raw, ed25519.Sign(w.options.Key, fmt.Appendf(nil, "cosignature/v1\ntime %d\n%s", seconds, text))...)
	return "— " + w.key.Name() + " " + base64.StdEncoding.EncodeToString(raw) + "\n"
}
