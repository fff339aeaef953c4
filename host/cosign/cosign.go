// Package cosign collects witness cosignatures for the checkpoints of the enclave's logs: it sends each checkpoint to the
// witnesses of the policy that came with it, and returns their cosignature lines. It also proves that an entry is in such a log.
//
// What it promises:
//
//   - A round ends as soon as the policy's quorum of lines has arrived, each of another witness, or else, with the lines so
//     far, when its time is up. Lines for a checkpoint of another size do not count.
//   - A checkpoint whose root is not that of the leaves in the store is sent to no witness: witnesses would remember leaves
//     that the store has lost.
//   - Proofs are computed from the store's headers, and nothing else is persisted: a restarted host reads the headers after
//     the newest tip table, and earlier ones when a witness is that far behind.
//   - The newest checkpoint of each log, and the newest that a quorum has cosigned, are stored within a second or two: `log heads`
//     asks witnesses for their state with them, also when no enclave runs.
//   - The host verifies only the cosignatures that it stores. The enclave verifies all lines itself.
package cosign

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/attestation/tlog"
	"cloister/host/leaves"
	"cloister/host/store"
	"cloister/host/witness"
	"cloister/shared/wire"
)

const (
	maxLogs     = 2                // logs of a range in memory: the newest, and the one before
	rereadPause = 10 * time.Second // between two times that a log is read from the store again
)

// A Result is the outcome of a round.
type Result string

// The results of rounds.
const (
	Quorum Result = "quorum" // a quorum has cosigned
	Short  Result = "short"  // too few had cosigned when the time was up
	Lost   Result = "lost"   // the store does not have what the log signed
	Failed Result = "failed" // the store did not answer in time, or the request is malformed
)

// Results lists every Result.
var Results = []Result{Quorum, Short, Lost, Failed}

// An Observer receives the result of each round; it must not block.
type Observer interface {
	Round(in wire.Range, r Result, took time.Duration)
}

// Options of a Cosigner. All are needed but Observer.
type Options struct {
	Store       Store
	Checkpoints store.Checkpoints // of the same store as Store
	Transport   http.RoundTripper // to witnesses; see witness.NewTransport
	Timeout     time.Duration     // of a round, and of a witness's reply
	Log         *slog.Logger
	Observer    Observer
	Now         func() time.Time
	Pause       func(context.Context, time.Duration) // waits for d or until the context ends
}

// A Cosigner collects cosignatures for checkpoints. Make it with New.
type Cosigner struct {
	options Options
	life    context.Context
	end     context.CancelFunc
	running sync.WaitGroup

	mu   sync.Mutex
	logs map[wire.Range][]*rangeLog // most recently used first
}

// New makes a Cosigner without logs; the first request of a log adds it with its witnesses.
func New(o Options) (*Cosigner, error) {
	if o.Store == nil || o.Checkpoints == nil || o.Transport == nil || o.Log == nil || o.Now == nil || o.Pause == nil || o.Timeout <= 0 {
		return nil, errors.New("cosign: incomplete options")
	}
	c := &Cosigner{options: o, logs: map[wire.Range][]*rangeLog{}}
	c.life, c.end = context.WithCancel(context.Background())
	c.running.Go(c.keep)
	return c, nil
}

// Close cancels the witnesses' requests, stores the checkpoints that are not stored yet, and waits for that. Later requests fail.
func (c *Cosigner) Close() {
	c.mu.Lock() // no log may be added after this
	c.end()
	c.mu.Unlock()
	c.running.Wait()
}

// Witness runs one round and returns its cosignature lines. It implements link.Witnesses.
func (c *Cosigner) Witness(ctx context.Context, ask wire.Witness) (wire.Cosigned, error) {
	began := c.options.Now()
	ctx, cancel := context.WithTimeout(ctx, c.options.Timeout)
	defer cancel()
	lines, r, err := c.round(ctx, ask)
	if c.options.Observer != nil && ask.Range < wire.MaxRanges {
		c.options.Observer.Round(ask.Range, r, c.options.Now().Sub(began))
	}
	if err != nil {
		return wire.Cosigned{}, fmt.Errorf("range %d: %w", ask.Range, err)
	}
	return wire.Cosigned{Lines: lines}, nil
}

func (c *Cosigner) round(ctx context.Context, ask wire.Witness) ([]string, Result, error) {
	head, err := witness.ParseSigned(ask.Checkpoint)
	if err == nil && (head.Size == 0 || head.Size > leaves.MaxSize) {
		err = fmt.Errorf("a checkpoint of %d leaves", head.Size)
	}
	if err != nil {
		return nil, Failed, err
	}
	l, err := c.logOf(ask, head.Origin, nil)
	if err != nil {
		return nil, Failed, err
	}
	err = l.leaves.Check(ctx, &head)
	if errors.Is(err, leaves.ErrOther) && c.options.Now().Sub(l.since) >= rereadPause {
		// The leaves in memory may be of a store that has been replaced since.
		if l, err = c.logOf(ask, head.Origin, l); err == nil {
			err = l.leaves.Check(ctx, &head)
		}
	}
	switch {
	case errors.Is(err, leaves.ErrOther):
		return nil, Lost, err
	case err != nil:
		return nil, Failed, err
	}
	lines, err := l.collectCosignatures(ctx, c.life, head.Size, ask.Checkpoint)
	switch {
	case err != nil:
		return nil, Failed, err
	case len(lines) < l.quorum:
		return lines, Short, nil
	}
	return lines, Quorum, nil
}

// logOf finds the log of a request, or makes it. A log that is stale is replaced.
func (c *Cosigner) logOf(ask wire.Witness, origin string, stale *rangeLog) (*rangeLog, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := c.logs[ask.Range]
	i := slices.IndexFunc(all, func(l *rangeLog) bool { return l.origin == origin && l.text == ask.Policy })
	if i >= 0 && all[i] != stale {
		l := all[i]
		c.logs[ask.Range] = slices.Insert(slices.Delete(all, i, i+1), 0, l)
		return l, nil
	}
	if c.life.Err() != nil {
		return nil, context.Canceled
	}
	l, err := c.begin(ask, origin, i >= 0)
	if err != nil {
		return nil, err
	}
	if i >= 0 {
		stale.stop()
		all = slices.Delete(all, i, i+1)
	}
	all = slices.Insert(all, 0, l)
	for len(all) > maxLogs {
		all[maxLogs].stop()
		all = slices.Delete(all, maxLogs, maxLogs+1)
	}
	c.logs[ask.Range] = all
	return l, nil
}

// begin makes a log without leaves, and starts its witness client. With whole, leaves are read from the first one and not from a tip table.
func (c *Cosigner) begin(ask wire.Witness, origin string, whole bool) (*rangeLog, error) {
	in, generation, err := parseOrigin(origin)
	if err == nil && (in != ask.Range || in >= wire.MaxRanges) {
		err = fmt.Errorf("a checkpoint of %.255q", origin)
	}
	if err != nil {
		return nil, err
	}
	policy, err := tlog.ParsePolicy(ask.Policy)
	if err != nil {
		return nil, err
	}
	l := &rangeLog{options: &c.options, in: in, origin: origin, generation: generation, text: ask.Policy, policy: policy, quorum: policy.Quorum(), since: c.options.Now(),
		leaves: leaves.New(c.options.Store, in, generation, whole), owing: map[string]time.Time{}, reported: map[string]bool{}, rounds: map[*round]bool{}}
	l.client, err = witness.New(witness.Options{Policy: policy, Transport: c.options.Transport, Timeout: c.options.Timeout,
		Cosigned: l.addCosignature, Now: c.options.Now, Pause: c.options.Pause})
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(c.life)
	l.stop = stop
	c.running.Go(func() { l.client.Run(ctx) })
	return l, nil
}

// parseOrigin parses the end of an origin, RANGE/GENERATION. Only the canonical decimal form is accepted.
func parseOrigin(origin string) (wire.Range, uint32, error) {
	words := strings.Split(origin, "/")
	if len(words) < 3 {
		return 0, 0, fmt.Errorf("a checkpoint of %.255q, which is no range's log", origin)
	}
	in, err := strconv.ParseUint(words[len(words)-2], 10, 16)
	generation, err2 := strconv.ParseUint(words[len(words)-1], 10, 32)
	if err = errors.Join(err, err2); err != nil || !strings.HasSuffix(origin, fmt.Sprintf("/%d/%d", in, generation)) {
		return 0, 0, fmt.Errorf("a checkpoint of %.255q, which is no range's log", origin)
	}
	return wire.Range(in), uint32(generation), nil
}

// A rangeLog is one log of a range: its leaves and its witness client.
type rangeLog struct {
	options    *Options
	in         wire.Range
	origin     string
	generation uint32
	text       string // source of policy
	policy     *tlog.Policy
	quorum     int
	since      time.Time // when reading its leaves began
	leaves     *leaves.Log
	client     *witness.Client
	stop       context.CancelFunc

	mu       sync.Mutex
	newest   uint64               // size of the largest checkpoint sent
	signed   []byte               // the largest checkpoint sent
	lines    map[string]string    // cosignatures of signed, by witness
	cosigned cosigned             // the largest checkpoint with a quorum
	owing    map[string]time.Time // witnesses that have not cosigned signed, since when
	reported map[string]bool      // witnesses whose error has been logged
	rounds   map[*round]bool      // rounds in progress

	keptSize, keptCosigned uint64 // sizes of the stored checkpoints
}

// A round is one wait for the cosignature lines of a checkpoint.
type round struct {
	size   uint64
	signed []byte
	lines  map[string]string // by witness
	done   chan struct{}     // closed when a quorum has arrived
}

// A cosigned is a checkpoint with a quorum of lines, not verified.
type cosigned struct {
	size   uint64
	signed []byte
	lines  []string
	when   time.Time
}

// note is the signed note of the checkpoint and a quorum of verified lines, in the order of the policy; nil if too few verify.
func (c *cosigned) note(p *tlog.Policy) []byte {
	if c.size == 0 {
		return nil
	}
	return p.Collect(c.signed, c.lines)
}

// collectCosignatures sends a checkpoint to the witnesses and waits until ctx ends for a quorum of lines. Consistency proofs are made until life ends.
func (l *rangeLog) collectCosignatures(ctx, life context.Context, size uint64, signed []byte) ([]string, error) {
	prove := func(old uint64) ([]wire.Hash, error) {
		ctx, cancel := context.WithTimeout(life, l.options.Timeout)
		defer cancel()
		return l.leaves.ProveConsistency(ctx, old, size)
	}
	r := &round{size: size, signed: signed, lines: map[string]string{}, done: make(chan struct{})}
	defer l.ends(r)
	if err := l.startRound(r, func() error { return l.client.Send(signed, prove) }); err != nil {
		return nil, err
	}
	select {
	case <-r.done:
	case <-ctx.Done():
	}
	return l.linesOf(r), nil
}

func (l *rangeLog) startRound(r *round, send func() error) error {
	all := l.client.Statuses()
	now := l.options.Now()
	l.mu.Lock() // held while sending, which does not block
	defer l.mu.Unlock()
	l.rounds[r] = true
	if r.size >= l.newest {
		if r.size > l.newest {
			l.newest, l.signed, l.lines = r.size, r.signed, map[string]string{}
		}
		r.lines = maps.Clone(l.lines) // an earlier round sent the same checkpoint and had too few lines
		if len(r.lines) >= l.quorum {
			l.quorumLocked(r)
		}
		for _, s := range all {
			if l.owing[s.Witness].IsZero() {
				l.owing[s.Witness] = now
			}
		}
	}
	return send()
}

// ends removes a round and logs each witness that has not signed, once until it signs again.
func (l *rangeLog) ends(r *round) {
	all := l.client.Statuses()
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.rounds, r)
	for _, s := range all {
		if s.Err == nil {
			l.reported[s.Witness] = false
		} else if !l.reported[s.Witness] {
			l.reported[s.Witness] = true
			l.options.Log.Warn("witness does not sign", "range", l.in, "witness", s.Witness, "signed", s.Size, "leaves", r.size, "error", s.Err)
		}
	}
}

// linesOf returns a round's lines in the order of the policy.
func (l *rangeLog) linesOf(r *round) (lines []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range l.client.Statuses() {
		if line, ok := r.lines[s.Witness]; ok {
			lines = append(lines, line)
		}
	}
	return lines
}

// addCosignature adds a witness's line to the rounds that wait for it.
func (l *rangeLog) addCosignature(c witness.Cosignature) {
	now := l.options.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if delete(l.owing, c.Witness); c.Size < l.newest {
		l.owing[c.Witness] = now // it is reachable, and behind
	}
	if c.Size == l.newest { // for a later round: its own may have ended
		l.lines[c.Witness] = c.Line
	}
	for r := range l.rounds {
		if r.size != c.Size {
			continue
		}
		had := len(r.lines)
		if r.lines[c.Witness] = c.Line; had < l.quorum && len(r.lines) == l.quorum {
			l.quorumLocked(r)
		}
	}
}

// quorumLocked ends the wait of a round that has a quorum of lines.
func (l *rangeLog) quorumLocked(r *round) {
	close(r.done)
	if r.size > l.cosigned.size {
		l.cosigned = cosigned{r.size, r.signed, slices.Collect(maps.Values(r.lines)), l.options.Now()}
	}
}

// A Status is the state of a range's log, as observed by this host.
type Status struct {
	Range      wire.Range
	Origin     string
	Generation uint32
	Quorum     int    // cosignatures needed
	Size       uint64 // of the largest checkpoint sent to the witnesses
	Cosigned   uint64 // of the largest checkpoint with a quorum
	CosignedAt time.Time
	Witnesses  []WitnessStatus
}

// A WitnessStatus is the state of one witness of a log.
type WitnessStatus struct {
	witness.Status
	// Owing is for how long it has been behind the newest checkpoint, counted anew when it signs an older one; 0: it has signed the newest.
	Owing time.Duration
}

// Statuses returns the state of each range's most recently used log, in the order of ranges.
func (c *Cosigner) Statuses() (all []Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, logs := range c.logs {
		all = append(all, logs[0].status())
	}
	slices.SortFunc(all, func(a, b Status) int { return int(a.Range) - int(b.Range) })
	return all
}

func (l *rangeLog) status() Status {
	all := l.client.Statuses()
	l.mu.Lock()
	defer l.mu.Unlock()
	s := Status{Range: l.in, Origin: l.origin, Generation: l.generation, Quorum: l.quorum, Size: l.newest, Cosigned: l.cosigned.size, CosignedAt: l.cosigned.when}
	for _, w := range all {
		one := WitnessStatus{Status: w}
		if since := l.owing[w.Witness]; !since.IsZero() {
			one.Owing = max(0, l.options.Now().Sub(since))
		}
		s.Witnesses = append(s.Witnesses, one)
	}
	return s
}
