// Package monitor watches an organization's ledger from outside, with read access alone: whether every use of its keys
// is in the log that witnesses have cosigned, and whether that log is the same for everybody.
//
// Each poll without an error promises:
//
//   - The monitor was shown each entry of the ledger from its first one on, once and in order, by a logged proof. Their
//     numbers have no gap, and the ledger is one tree that only grew. The monitor keeps that tree's right edge itself and
//     trusts nobody for it.
//   - The enclave has said, in a signed reply to this poll's nonce, that no further entry exists.
//   - list_activities and the entries have the same activities. The host makes the list, so this finds a host that
//     withholds an activity from its owner.
//   - The log's head, its newest checkpoint, is cosigned by a quorum, not older than MaxAge, and no smaller than any head
//     before. Where the host publishes its tiles, the head is also proven to be consistent with the one before.
//   - The witnesses that answered have seen no more of the log than the host shows.
//
// Without tiles it cannot detect a fork of the log that concerns other organizations alone. By the rule for a manifest's
// policy (attestation.LogTerms), that takes more lying witnesses than the policy tolerates.
//
// The monitor reports each finding as an Event to Options.Tell. The package opens no file and no connection of its own.
package monitor

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"time"

	"cloister/attestation"
	"cloister/attestation/request"
	"cloister/attestation/tlog"
)

// Options are a monitor's configuration and its access to the world. All but Tiles and Witnesses must be set.
type Options struct {
	Organization string // its id, in the form of attestation.UUID
	// Ask sends a query and decodes its reply, which must be proven to be the enclave's to this very request:
	// request.API.Query through a client.Transport.
	Ask func(ctx context.Context, operation string, request, reply any) error
	// Proofs fetches the boot proof of a live key, as client.Transport.Proofs does.
	Proofs func(ctx context.Context, liveKey string) (attestation.BootProof, error)
	// Policy says which boots are trusted. The monitor sets its Now and KnownGenerations.
	Policy attestation.Policy
	// MaxAge is how old the newest head may be, before an alert.
	MaxAge time.Duration
	// Tiles fetches a tile of the log (https://c2sp.org/tlog-tiles) by a path such as tile/0/x001/067; nil: none are published.
	Tiles func(ctx context.Context, path string) ([]byte, error)
	// Witnesses sends requests to the witnesses that the manifest names; nil: they are not asked.
	Witnesses http.RoundTripper
	Now       func() time.Time
	Pause     func(context.Context, time.Duration) error
	// Tell receives each event, in order.
	Tell func(Event)
	// Save stores the state: after each poll, and within one after every 100 entries. After a crash, events since are repeated.
	Save func(State) error
}

// A Monitor watches one organization. It is not safe for concurrent use, except for WriteMetrics.
type Monitor struct {
	options Options
	state   State
	boots   map[string]*attestation.Boot
	boot    *attestation.Boot // of the newest proof
	back    bool              // an older head was reported in this poll
	metrics metrics
}

// New makes a monitor that goes on from a state; the zero State is a new one. A state of another organization is an error.
func New(o Options, s State) (*Monitor, error) {
	if s.Organization == "" {
		s = State{Format: stateFormat, Organization: o.Organization}
	}
	if s.Organization != o.Organization {
		return nil, fmt.Errorf("monitor: a state of organization %.40q", s.Organization)
	}
	if err := s.check(); err != nil {
		return nil, err
	}
	return &Monitor{options: o, state: s, boots: map[string]*attestation.Boot{}}, nil
}

// ErrRefused is the error for a proof or reply that is wrong. All other errors mean that a check could not be finished.
var ErrRefused = errors.New("refused")

// Poll does all checks once. An error says why it did not finish, and is reported as an event too, unless ctx ended. The
// state until then is saved, and the next poll goes on from there.
func (m *Monitor) Poll(ctx context.Context) error {
	m.back = false
	err := m.pollOnce(ctx)
	if err != nil && ctx.Err() == nil { // it was not cancelled
		kind := KindUnseen
		if errors.Is(err, ErrRefused) {
			kind = KindRefused
		}
		m.emit(Event{Kind: kind, Alert: true, Text: err.Error()})
	}
	if saved := m.options.Save(m.State()); saved != nil {
		err = errors.Join(err, fmt.Errorf("monitor: keeping the state: %w", saved))
	}
	m.metrics.countPoll(m.options.Now(), err)
	return err
}

func (m *Monitor) pollOnce(ctx context.Context) error {
	if err := m.resume(ctx); err != nil {
		return err
	}
	if err := m.checkEntries(ctx); err != nil {
		return err
	}
	steps := len(m.state.Steps) // that the list must have
	listed, err := m.list(ctx)
	if err != nil {
		return err
	}
	// Activities that were made between the entries and the list are in the entries that follow.
	if err := m.checkEntries(ctx); err != nil {
		return err
	}
	m.compare(listed, steps)
	if m.state.Next == 0 {
		return nil // the ledger has no entry yet
	}
	if err := m.recheckNewest(ctx); err != nil {
		return err
	}
	if err := m.witnesses(ctx); err != nil {
		return err
	}
	return m.head(ctx)
}

// maxUnsaved is after how many entries the state is saved at the latest.
const maxUnsaved = 100

// checkEntries checks and adds the entries that follow, up to the newest.
func (m *Monitor) checkEntries(ctx context.Context) error {
	for n := 1; ; n++ {
		l, err := m.prove(ctx, m.state.Next)
		if errors.Is(err, errNoEntry) {
			return nil
		}
		if err == nil {
			err = m.acceptEntry(l)
		}
		if err != nil {
			return fmt.Errorf("entry %d: %w", m.state.Next, err)
		}
		if n%maxUnsaved == 0 {
			if err := m.options.Save(m.State()); err != nil {
				return fmt.Errorf("keeping the state: %w", err)
			}
		}
	}
}

// errNoEntry is the enclave's signed reply that it has no such entry.
var errNoEntry = errors.New("no such entry")

// prove gets the verified proof of the entry with a number.
func (m *Monitor) prove(ctx context.Context, seq uint64) (*attestation.LoggedEntry, error) {
	l, err := m.ask(ctx, map[string]string{"seq": strconv.FormatUint(seq, 10)})
	if err == nil && l.Facts.Seq != seq {
		err = fmt.Errorf("%w: the proof is of entry %d", ErrRefused, l.Facts.Seq)
	}
	return l, err
}

// ask gets and verifies a logged proof, of an entry or of an activity's newest entry.
func (m *Monitor) ask(ctx context.Context, of map[string]string) (*attestation.LoggedEntry, error) {
	of["organizationId"] = m.options.Organization
	var raw json.RawMessage
	err := m.options.Ask(ctx, "get_log_proof", of, &raw)
	if refusal, ok := errors.AsType[*request.Error](err); ok && refusal.Status == http.StatusNotFound {
		return nil, errNoEntry
	}
	if err != nil {
		return nil, err
	}
	reply, err := attestation.ParseReply(raw)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	if reply.LogProof == nil {
		return nil, fmt.Errorf("%w: the reply holds no log proof", ErrRefused)
	}
	boot, err := m.bootOf(ctx, reply.LogProof.LogKey.PublicKey)
	if err != nil {
		return nil, err
	}
	l, err := attestation.VerifyLogProof(reply.LogProof.LogProof, reply.LogProof.LogKey, boot)
	if err == nil && attestation.UUID(l.Facts.Organization) != m.options.Organization {
		err = errors.New("the proof is of another organization")
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrRefused, err)
	}
	m.boot = boot
	return l, m.acceptHead(l, reply.LogProof.LogProof)
}

// maxBoots is how many verified boots are cached.
const maxBoots = 64

// bootOf returns the verified boot of a live key, at this time.
func (m *Monitor) bootOf(ctx context.Context, liveKey string) (*attestation.Boot, error) {
	policy := m.options.Policy
	policy.Now, policy.KnownGenerations = m.options.Now(), nil
	b := m.boots[liveKey]
	if b == nil {
		proof, err := m.options.Proofs(ctx, liveKey)
		if err != nil {
			return nil, fmt.Errorf("boot proof of the live key: %w", err)
		}
		if b, err = attestation.VerifyBootProof(proof, policy); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrRefused, err)
		}
		if b.PublicKeyHex != liveKey {
			return nil, fmt.Errorf("%w: the boot proof is another live key's", ErrRefused)
		}
		if len(m.boots) >= maxBoots {
			clear(m.boots)
		}
		m.boots[liveKey] = b
	}
	return b.At(policy.Now), nil
}

// acceptHead compares a proof's log and head with those before, and keeps the newest head.
func (m *Monitor) acceptHead(l *attestation.LoggedEntry, text string) error {
	p, err := tlog.ParseLoggedProof(text)
	if err != nil {
		return err // it was parsed before
	}
	last, err := checkpointOf(m.state.Checkpoint)
	if err != nil {
		return err
	}
	note, at := string(p.Checkpoint), l.Checkpoint
	if last.Origin != at.Origin && last.Origin != "" {
		if err := m.follow(l, last.Origin); err != nil {
			return err
		}
		if err := m.adopt(l, last, note); err != nil {
			return err
		}
		last = tlog.Checkpoint{}
	}
	if last.Origin == "" {
		m.emit(Event{Kind: KindLog, Log: at.Origin, Size: at.Size, Text: l.History(), Alert: l.Adopt != nil && l.Adopt.How == tlog.HowRecovered})
	}
	switch {
	case at.Size < last.Size && m.back:
		return nil
	case at.Size < last.Size:
		m.back = true
		m.emit(Event{Kind: KindOlderHead, Alert: true, Log: at.Origin, Size: at.Size, Text: fmt.Sprintf("a head of %d leaves, after one of %d", at.Size, last.Size)})
		return nil // its proof holds all the same
	case at.Size == last.Size && at.Root != last.Root:
		return m.contradict(at, m.state.Checkpoint, note, "two heads of one size")
	case at.Size == last.Size && l.Time.Unix() < m.state.CosignedSeconds:
		return nil
	}
	m.state.Checkpoint, m.state.CosignedSeconds = note, l.Time.Unix()
	m.metrics.head(at.Origin, at.Size, l.Time)
	return nil
}

// follow checks another log than before: it must be a later generation of the same range.
func (m *Monitor) follow(l *attestation.LoggedEntry, from string) error {
	before, err := tlog.ParseOrigin(from)
	if err != nil {
		return err
	}
	now := l.Origin
	switch {
	case now.Deployment != before.Deployment || now.Range != before.Range:
		return fmt.Errorf("%w: %s is no log of the range of %s", ErrRefused, now, before)
	case now.Generation < before.Generation:
		return fmt.Errorf("%w: %s, after generation %d", ErrRefused, now, before.Generation)
	case now.Generation == before.Generation:
		return fmt.Errorf("%w: %s is the generation of %s", ErrRefused, now, before)
	}
	if skipped := now.Generation - before.Generation - 1; skipped > 0 {
		m.emit(Event{Kind: KindLog, Alert: true, Log: now.String(), Text: fmt.Sprintf("%d generation(s) since %s were never shown", skipped, before)})
	}
	return nil
}

// contradict reports two heads that cannot both be of one log. Both are in the event: signed by a quorum, they are evidence
// against more witnesses than the policy tolerates, and against the log.
func (m *Monitor) contradict(at tlog.Checkpoint, one, other, why string) error {
	m.emit(Event{Kind: KindForked, Alert: true, Log: at.Origin, Size: at.Size, Text: why, Evidence: []string{one, other}})
	return fmt.Errorf("%w: the log is forked: %s", ErrRefused, why)
}

// acceptEntry checks an entry against the ledger's tree before it, and adds it.
func (m *Monitor) acceptEntry(l *attestation.LoggedEntry) error {
	if m.state.Recovered != nil {
		return errMeanwhile
	}
	f, left := l.Facts, leftOf(l.Facts.Seq, l.Opening.Count, l.Path)
	if m.state.Edge == nil && f.Seq > 0 { // the monitor's first entry
		m.state.Edge, m.state.Before, m.state.Compared = left, left, f.TimeMs/1000+1
	}
	if !slices.Equal(m.state.Edge, left) {
		m.emit(Event{Kind: KindRewritten, Alert: true, Log: l.Origin.String(), Text: fmt.Sprintf("entries before %d are others than were shown", f.Seq), Evidence: []string{m.state.Checkpoint}})
		return fmt.Errorf("%w: the ledger before it is another", ErrRefused)
	}
	if f.TimeMs < m.state.TimeMs {
		m.emit(Event{Kind: KindEarlier, Alert: true, Seq: &f.Seq, Text: "it was decided before the entry that it follows, by the enclave's clock"})
	}
	m.state.Edge = grow(left, f.Seq, l.Entry)
	m.state.Next, m.state.TimeMs = f.Seq+1, max(m.state.TimeMs, f.TimeMs)
	m.state.remember(Place{l.Entry, l.Origin.Generation, l.Index})
	if f.Activity != ([16]byte{}) {
		m.state.Steps = append(m.state.Steps, Step{attestation.UUID(f.Activity), f.Status, f.TimeMs / 1000, false})
	}
	if more := len(m.state.Steps) - maxSteps; more > 0 { // the monitor is far behind
		m.state.Compared = max(m.state.Compared, m.state.Steps[more-1].Second+1)
		m.state.Steps = m.state.Steps[more:]
	}
	e := Event{Kind: KindEntry, Log: l.Origin.String(), Size: l.Checkpoint.Size, Leaf: &l.Index, Seq: &f.Seq, Type: f.Type, Status: f.Status, Mode: f.Mode.String(),
		Fingerprint: fmt.Sprintf("sha256:%x", f.Fingerprint), Decided: timeText(f.TimeMs)}
	if f.Activity != ([16]byte{}) {
		e.Activity = attestation.UUID(f.Activity)
	}
	m.emit(e)
	m.metrics.entry(f.Seq)
	return nil
}

// timeText formats a time of the enclave, in milliseconds since 1970, for events.
func timeText(ms uint64) string {
	return time.UnixMilli(int64(min(ms, 1<<53-1))).UTC().Format(time.RFC3339Nano)
}

// An activity is one as list_activities returns it.
type activity struct {
	ID        string                `json:"id"`
	Type      string                `json:"type"`
	Status    string                `json:"status"`
	UpdatedAt attestation.Timestamp `json:"updatedAt"`

	updated uint64 // second
}

// Limits of list_activities, and of the steps that it is compared with: of more steps only the last ones.
const (
	pageSize = 100
	maxPages = 10_000
	maxSteps = 100_000
)

// list returns the activities that have a step since the last comparison, or since a step that is still missing. The
// list is sorted by newest step, the newest first.
func (m *Monitor) list(ctx context.Context) (all []activity, err error) {
	since := m.state.Compared
	for _, step := range m.state.Steps {
		since = min(since, step.Second)
	}
	before := ""
	for range maxPages {
		page, err := m.page(ctx, before)
		if err != nil {
			return nil, err
		}
		for _, a := range page {
			if a.updated < since {
				return all, nil
			}
			all, before = append(all, a), a.ID
		}
		if len(page) < pageSize {
			return all, nil
		}
	}
	return nil, errors.New("list_activities does not end")
}

// page returns the page of the list with the activities older than one, or the first page.
func (m *Monitor) page(ctx context.Context, before string) ([]activity, error) {
	options := map[string]string{"limit": strconv.Itoa(pageSize)}
	if before != "" {
		options["before"] = before
	}
	var reply struct {
		Activities []activity `json:"activities"`
	}
	if err := m.options.Ask(ctx, "list_activities", map[string]any{"organizationId": m.options.Organization, "paginationOptions": options}, &reply); err != nil {
		return nil, err
	}
	for i := range reply.Activities {
		a, err := &reply.Activities[i], error(nil)
		if a.updated, err = strconv.ParseUint(a.UpdatedAt.Seconds, 10, 43); err != nil {
			return nil, fmt.Errorf("list_activities: %w", err)
		}
	}
	return reply.Activities, nil
}

// compare compares a list with the steps in entries. The first ones, as many as steps says, were read before the list,
// so the list must have them; the others may be newer than it.
func (m *Monitor) compare(listed []activity, steps int) {
	inList, newest := map[string]activity{}, map[string]int{}
	for _, a := range listed {
		inList[a.ID] = a
	}
	for i, step := range m.state.Steps {
		newest[step.Activity] = i
	}
	for i := range m.state.Steps[:steps] {
		step := &m.state.Steps[i]
		a, ok := inList[step.Activity]
		if ok = ok && a.updated >= step.Second; ok && newest[a.ID] == i && a.updated == step.Second {
			ok = a.Status == step.Status
		}
		if step.Listed = step.Listed || ok; !step.Listed {
			m.emit(Event{Kind: KindWithheld, Alert: true, Activity: step.Activity, Status: step.Status, Decided: timeText(step.Second * 1000), Text: "an entry tells of this step, and list_activities does not"})
		}
	}
	for _, a := range listed {
		i, ok := newest[a.ID]
		if a.updated >= m.state.Compared && !(ok && m.state.Steps[i].Second >= a.updated) {
			m.emit(Event{Kind: KindUnlogged, Alert: true, Activity: a.ID, Type: a.Type, Status: a.Status, Decided: timeText(a.updated * 1000), Text: "list_activities tells of this step, and no entry does"})
		}
	}
	m.state.Compared = max(m.state.Compared, m.state.TimeMs/1000)
	m.state.Steps = slices.DeleteFunc(m.state.Steps, func(step Step) bool { return step.Listed && step.Second < m.state.Compared })
}

// head checks the age of the newest head, and that it is consistent with the one before.
func (m *Monitor) head(ctx context.Context) error {
	if age := m.options.Now().Sub(time.Unix(m.state.CosignedSeconds, 0)); age > m.options.MaxAge {
		last, err := checkpointOf(m.state.Checkpoint)
		if err != nil {
			return err
		}
		m.emit(Event{Kind: KindOldHead, Alert: true, Log: last.Origin, Size: last.Size,
			Text: fmt.Sprintf("the newest head that is shown is %s old: what came since may be hidden", age.Round(time.Second))})
	}
	return m.consistent(ctx)
}

// recheckNewest checks the last entry once more, by a new proof under the newest head.
func (m *Monitor) recheckNewest(ctx context.Context) error {
	seq := m.state.Next - 1
	l, err := m.newest(ctx)
	if errors.Is(err, errNoEntry) {
		m.emit(Event{Kind: KindRewritten, Alert: true, Seq: &seq, Text: "an entry that was shown before does not exist any more"})
		return fmt.Errorf("%w: entry %d is gone", ErrRefused, seq)
	}
	if err != nil {
		return fmt.Errorf("entry %d: %w", seq, err)
	}
	if !slices.Equal(grow(leftOf(seq, l.Opening.Count, l.Path), seq, l.Entry), m.state.Edge) {
		m.emit(Event{Kind: KindRewritten, Alert: true, Seq: &seq, Text: "it, or an entry before it, is another than was shown"})
		return fmt.Errorf("%w: entry %d is another", ErrRefused, seq)
	}
	return nil
}

// Begun reports whether the monitor's state has a next entry, so that it needs no BeginAt.
func (m *Monitor) Begun() bool { return m.state.Next > 0 }

// BeginAt makes a monitor without a state begin with an entry. Earlier entries are not reported, but they must not change.
func (m *Monitor) BeginAt(seq uint64) { m.state.Next = seq }

// Newest is the number of the newest activity's newest entry, as an argument of BeginAt; 0 if there is none.
func (m *Monitor) Newest(ctx context.Context) (uint64, error) {
	listed, err := m.page(ctx, "")
	if err != nil || len(listed) == 0 {
		return 0, err
	}
	l, err := m.ask(ctx, map[string]string{"activityId": listed[0].ID})
	if err != nil {
		return 0, err
	}
	return l.Facts.Seq, nil
}

// State returns a copy of the state, from which another monitor can go on.
func (m *Monitor) State() State {
	s := m.state
	s.Edge, s.Steps, s.Before, s.Places = slices.Clone(s.Edge), slices.Clone(s.Steps), slices.Clone(s.Before), slices.Clone(s.Places)
	return s
}

func (m *Monitor) emit(e Event) {
	e.At = m.options.Now().UTC().Format(time.RFC3339)
	e.Organization = cmp.Or(e.Organization, m.options.Organization)
	m.metrics.event(e)
	m.options.Tell(e)
}
