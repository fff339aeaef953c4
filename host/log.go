package main

import (
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"cloister/host/api"
	"cloister/host/backup"
	"cloister/host/heads"
	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/host/tail"
	"cloister/host/witness"
	"cloister/shared/wire"
)

const logUsage = `usage: cloister-host log [flags]
       cloister-host log heads [flags]
       cloister-host log tail FROM [flags]

Tells of each range's log, as the running host sees it: how many leaves it has,
how many of them a quorum of witnesses has cosigned and when, what each witness
has cosigned, and what the enclave that owns the range reports: whether it serves,
and what a starting one waits for. Fails where a witness lags or a range is not
served.

heads needs no host and no enclave: it asks every witness what it remembers, and
compares with the store. Ask before an enclave is started on a store that was
restored: each start puts leaves behind what is there. tail puts behind the
store's batches those that another copy has.

`

const headsUsage = `usage: cloister-host log heads [flags]

Asks every witness of the stored policies what it remembers of each range's log,
and compares with the store. No host and no enclave need run. Fails unless the
store has all that witnesses have seen. Where it has not, or too few answer for a
quorum, the last line is what a recovery manifest takes for its member "recover".

`

// logs is the command log.
func logs(ctx context.Context, w *world, args []string) error {
	if len(args) > 0 {
		switch args[0] {
		case "heads":
			return logHeads(ctx, w, args[1:])
		case "tail":
			return logTail(ctx, w, args[1:])
		}
	}
	set := newFlags(w, "log", logUsage)
	address := cmp.Or(w.env(envName("ops-addr")), w.env(envName("api-addr")), "127.0.0.1:8080")
	url := set.String("url", "http://"+address, "`URL` of the host's -ops-addr, or -api-addr if there is none")
	timeout := set.Duration("timeout", 10*time.Second, "how long the host may take")
	if err := parseOnlyFlags(set, args); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, *timeout)
	defer cancel()
	all, err := askLogs(ctx, strings.TrimSuffix(*url, "/"))
	if err != nil {
		return err
	}
	return printLogs(w, all)
}

// maxLogs bounds what a host answers.
const maxLogs = 4 << 20

func askLogs(ctx context.Context, url string) ([]api.LogStatus, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url+api.LogsPath, nil)
	if err != nil {
		return nil, fmt.Errorf("%w: -url: %w", errUsage, err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s answered with status %d", url, answer.StatusCode)
	}
	var all struct{ Logs []api.LogStatus }
	if err := json.NewDecoder(io.LimitReader(answer.Body, maxLogs)).Decode(&all); err != nil {
		return nil, fmt.Errorf("%s: not readable: %w", url, err)
	}
	return all.Logs, nil
}

func printLogs(w *world, all []api.LogStatus) (lag error) {
	if len(all) == 0 {
		fmt.Fprintln(w.stdout, "There is no log: no enclave serves, and this host has brought no checkpoint to witnesses since it was started.")
	}
	now := w.now()
	for _, l := range all {
		fmt.Fprintf(w.stdout, "range %d: %s, generation %d\n", l.Range, l.Origin, l.Generation)
		if e := l.Enclave; e != nil {
			fmt.Fprintf(w.stdout, "  the enclave: %s\n", enclaveText(e))
			if !e.Serves() {
				lag = errors.Join(lag, fmt.Errorf("range %d %s", l.Range, api.DescribeLog(e)))
			}
		}
		if len(l.Witnesses) == 0 {
			continue
		}
		cosigned := "none of them cosigned since this host was started"
		if l.CosignedAt != nil {
			cosigned = fmt.Sprintf("%d cosigned by a quorum of %d, %s ago", l.CosignedSize, l.Quorum, age(now, *l.CosignedAt))
		}
		fmt.Fprintf(w.stdout, "  %d leaves, %s; %d lack a quorum\n", l.Size, cosigned, l.Size-l.CosignedSize)
		for _, s := range l.Witnesses {
			fmt.Fprintf(w.stdout, "  %s: %s\n", s.Name, witnessText(now, &s))
			if s.OwingSeconds >= lagSeconds {
				lag = errors.Join(lag, fmt.Errorf("range %d: %s lags", l.Range, s.Name))
			}
		}
		if l.Size > l.CosignedSize && l.CosignedAt != nil && now.Sub(*l.CosignedAt) >= lagSeconds*time.Second {
			lag = errors.Join(lag, fmt.Errorf("range %d: no quorum for %s", l.Range, age(now, *l.CosignedAt)))
		}
	}
	return lag
}

// enclaveText says what an enclave reports of a log.
func enclaveText(l *wire.LogStatus) string {
	text := fmt.Sprintf("%d leaves", l.Size)
	if l.Quorum > 0 {
		text += fmt.Sprintf(", %d of them without a quorum", l.Unwitnessed)
		if l.QuorumAgeMs != nil {
			text += fmt.Sprintf(", the last one %s ago", milliseconds(*l.QuorumAgeMs))
		} else {
			text += ", and none since its start"
		}
	}
	return text + ". The range " + api.DescribeLog(l)
}

func milliseconds(n uint64) time.Duration {
	return (time.Duration(min(n, 1<<40)) * time.Millisecond).Round(100 * time.Millisecond)
}

// lagSeconds is how long a witness may owe a cosignature that does not lag.
const lagSeconds = 10

func witnessText(now time.Time, s *api.LogWitness) string {
	text := fmt.Sprintf("%d leaves", s.Size)
	if s.SignedAt != nil {
		text += fmt.Sprintf(", %s ago", age(now, *s.SignedAt))
	} else {
		text += ", none cosigned since this host was started"
	}
	if s.OwingSeconds > 0 {
		text += fmt.Sprintf("; asked for more for %.0f s", s.OwingSeconds)
	}
	if s.Error != "" {
		text += ": " + s.Error
	}
	return text
}

func age(now, then time.Time) time.Duration {
	return max(0, now.Sub(then)).Round(100 * time.Millisecond)
}

// logFlags are those of log heads and log tail.
type logFlags struct {
	Config // of which -store, -data-dir, -witness-roots and -witness-timeout
}

func (f *logFlags) set(w *world, name, usage string) *flag.FlagSet {
	f.Config = *storeConfig(w)
	set := newFlags(w, name, usage)
	f.addStoreFlag(set)
	set.StringVar(&f.DataDir, "data-dir", f.DataDir, "the host's data `FOLDER`, as in serve (CLOISTER_DATA_DIR)")
	return set
}

// logHeads is the command log heads.
func logHeads(ctx context.Context, w *world, args []string) (err error) {
	f := new(logFlags)
	set := f.set(w, "log heads", headsUsage)
	set.StringVar(&f.WitnessRoots, "witness-roots", w.env(envName("witness-roots")), "`FILE`, as in serve (CLOISTER_WITNESS_ROOTS)")
	set.DurationVar(&f.WitnessTimeout, "witness-timeout", 10*time.Second, "how long a witness may take for an answer")
	if err := parseOnlyFlags(set, args); err != nil {
		return err
	}
	trusted, err := roots("-witness-roots", f.WitnessRoots)
	if err != nil {
		return err
	}
	st, err := open.OpenExisting(ctx, cmp.Or(f.Store, f.file()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	transport := witness.NewTransport(trusted)
	defer transport.CloseIdleConnections()
	all, err := heads.Ask(ctx, heads.Options{Store: st, Transport: transport, Timeout: f.WitnessTimeout, Now: w.now, Pause: pause})
	if err != nil {
		return err
	}
	return printHeads(w, all)
}

// A recovered is an element of a manifest's member "recover".
type recovered struct {
	Range      uint16 `json:"range"`
	Origin     string `json:"origin"`
	Size       uint64 `json:"size"`
	Root       string `json:"root"`
	Witnessed  uint64 `json:"witnessed"`
	Generation uint32 `json:"generation"`
}

func printHeads(w *world, all []heads.Head) (bad error) {
	if len(all) == 0 {
		fmt.Fprintln(w.stdout, "The store holds no range.")
	}
	var recover []recovered
	for i := range all {
		h := &all[i]
		if h.Origin == "" {
			fmt.Fprintf(w.stdout, "range %d: no checkpoint is stored: it has no witnesses, or none was asked since this release\n", h.Range)
			bad = errors.Join(bad, fmt.Errorf("range %d: nobody could be asked", h.Range))
			continue
		}
		fmt.Fprintf(w.stdout, "range %d: %s, generation %d\n", h.Range, h.Origin, h.Generation)
		fmt.Fprintf(w.stdout, "  the store has %d leaves, of which the log has signed %d and a quorum of %d has cosigned %d\n", h.Size, h.Signed, h.Quorum, h.Cosigned)
		for _, one := range h.Witnesses {
			fmt.Fprintf(w.stdout, "  %s %s\n", one.Witness, headText(h, &one))
		}
		verdict, next, lost := headVerdict(h)
		fmt.Fprintf(w.stdout, "  %s\n", strings.Join(append([]string{verdict}, next...), "\n  "))
		if lost || h.Answers() < len(h.Witnesses) {
			bad = errors.Join(bad, fmt.Errorf("range %d: %s", h.Range, verdict))
		}
		if h.Damaged == nil && (lost || h.Answers() < h.Quorum) {
			recover = append(recover, recovered{uint16(h.Range), h.Origin, h.Size, hex.EncodeToString(h.Root[:]), max(h.MostSeen(), h.Size), h.Generation + 1})
		}
	}
	if len(recover) > 0 {
		b, err := json.Marshal(recover)
		if err != nil {
			return err
		}
		fmt.Fprintf(w.stdout, "\n%s\n", b)
	}
	return bad
}

func headText(h *heads.Head, w *witness.Head) string {
	switch {
	case w.Err != nil:
		return "says nothing: " + w.Err.Error()
	case w.Other:
		return fmt.Sprintf("has seen %d leaves, and not those of this store", w.Size)
	case w.Size > h.Size:
		return fmt.Sprintf("has seen %d leaves, %d more than the store has", w.Size, w.Size-h.Size)
	case w.Same:
		return fmt.Sprintf("has seen %d leaves, those of the store", w.Size)
	}
	return fmt.Sprintf("has seen %d leaves; whether those of the store, only a starting enclave can show", w.Size)
}

// headVerdict tells what to make of the answers, and what to do.
func headVerdict(h *heads.Head) (verdict string, next []string, lost bool) {
	missing := len(h.Witnesses) - h.Answers()
	switch {
	case h.Damaged != nil:
		return "the store is damaged: " + h.Damaged.Error(), []string{"Put another copy in its place; start no enclave on this one."}, true
	case len(h.Others()) > 0:
		return strings.Join(h.Others(), ", ") + ": other leaves than the store's", []string{
			"Was an enclave started on this copy after it was restored? Then restore it once more and ask again before one is.",
			"If not, there are two histories: see the runbook, \"Two histories\".",
			"The last line of this would go on with this one, and counts what such starts have put there as if it were what is missing."}, true
	case h.Missing() > 0:
		n := h.Saw(h.MostSeen())
		return fmt.Sprintf("%d batches are missing: %d of %d witnesses have seen %d", h.Missing(), n, len(h.Witnesses), h.MostSeen()), []string{
			fmt.Sprintf("A quorum is %d. Of the witnesses %d did not answer; they may have seen more.", h.Quorum, missing),
			"1. Start no enclave on this store.",
			"2. Look for another copy that has them: a replica, a write-ahead log, a later backup, a host's disk. Any will do:",
			"   cloister-host log tail FROM",
			"3. Only where there is none: a recovery manifest whose member \"recover\" is the last line of this."}, true
	case missing > 0:
		return fmt.Sprintf("no witness has seen more than the store has, and %d did not answer", missing), []string{
			fmt.Sprintf("A quorum is %d: %s", h.Quorum, map[bool]string{true: "with those that answered an enclave can start, if nothing is lost.",
				false: "no enclave serves before more of them answer. Where they are gone for good: a recovery manifest, by the last line of this, names others."}[h.Answers() >= h.Quorum])}, false
	}
	for _, one := range h.Witnesses {
		if !one.Same {
			return "nothing is missing: the store has as many leaves as any witness has seen", nil, false
		}
	}
	return "nothing is lost: the store has all that the witnesses have seen", nil, false
}

const tailUsage = `usage: cloister-host log tail [flags] FROM

Puts behind the batches of the store those that another copy of it has: FROM is
another store, as -store names one (its password belongs into PGPASSFILE), or a
backup, as backup printed it. Which copy
that is does not matter. It has to continue what the store has, header by header,
its entries have to lead to what the headers name, and its leaves have to be those
that the log has signed, as far as FROM knows; else nothing is written. What the
enclave made of it, the enclave checks when it starts.

End every enclave and host on the store first, and on FROM. An enclave that still
owns the store loses it.

`

// checkedAgainst names the checkpoint that a copied tail was checked against.
func checkedAgainst(r tail.Range) string {
	switch {
	case r.Signed == 0:
		return "no checkpoint: FROM has none"
	case r.Signed <= r.Before && r.Before < r.After: // the tail is of the generation that was there
		return fmt.Sprintf("no checkpoint: FROM's newest has %d leaves", r.Signed)
	case r.Signed < r.After:
		return fmt.Sprintf("FROM's checkpoint of %d leaves, which lacks the last ones", r.Signed)
	}
	return fmt.Sprintf("FROM's checkpoint of %d leaves", r.Signed)
}

// logTail is the command log tail.
func logTail(ctx context.Context, w *world, args []string) (err error) {
	f := new(backupFlags)
	set := f.set(w, "log tail", tailUsage, "store")
	if err := parseFlags(set, args); err != nil {
		return err
	}
	if set.NArg() != 1 {
		return fmt.Errorf("%w: want FROM, behind the flags (see -help)", errUsage)
	}
	st, err := open.OpenExisting(ctx, cmp.Or(f.Store, f.file()))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	rows, end, err := f.copy(ctx, w, set.Arg(0))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	all, err := tail.Copy(ctx, st, rows)
	for _, r := range all {
		fmt.Fprintf(w.stdout, "range %d: %d batches with %d entries, from %d to %d leaves, checked against %s\n", r.Range, r.Batches, r.Entries, r.Before, r.After, checkedAgainst(r))
	}
	if err == nil && len(all) == 0 {
		fmt.Fprintln(w.stdout, "FROM has nothing that the store lacks.")
	}
	return err
}

// copy opens another copy: a store by what OpenExisting takes, or a backup.
func (f *backupFlags) copy(ctx context.Context, w *world, name string) (rows tail.Rows, end func() error, err error) {
	if info, err := os.Stat(name); strings.HasPrefix(name, "s3://") || err == nil && info.IsDir() {
		folder, err := f.folder(w, strings.TrimRight(name, "/"))
		if err != nil {
			return nil, nil, err
		}
		return func(ctx context.Context, each func(store.Row) error) error {
			return backup.Rows(ctx, folder, nil, open.Schema(), each)
		}, func() error { return nil }, nil
	}
	other, err := open.OpenExisting(ctx, name)
	if err != nil {
		return nil, nil, err
	}
	return other.Export, other.Close, nil
}
