package api

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/host/tiles"
	"cloister/shared/wire"

	"github.com/gorilla/mux"
)

// LogsPath is the operator's path for the state of all logs, their witnesses and what enclaves wait for: {"logs": [LogStatus]}.
const LogsPath = "/logz"

// A LogStatus is the state of a range's log, as observed by this host since it started. If the enclave has given this host no
// checkpoint of the log, only Range, Origin, Generation and Enclave are set.
type LogStatus struct {
	Range        uint16       `json:"range"`
	Origin       string       `json:"origin"`
	Generation   uint32       `json:"generation"`
	Quorum       int          `json:"quorum"`               // number of cosignatures needed
	Size         uint64       `json:"size"`                 // leaves in the newest checkpoint
	CosignedSize uint64       `json:"cosignedSize"`         // leaves in the newest with a quorum
	CosignedAt   *time.Time   `json:"cosignedAt,omitempty"` // when the quorum was reached
	Witnesses    []LogWitness `json:"witnesses"`            // in the order of the policy
	// Enclave is the report of the enclave that owns the range, nil if there is none.
	Enclave *wire.LogStatus `json:"enclave,omitempty"`
}

// A LogWitness is the state of one witness of a log.
type LogWitness struct {
	Name         string     `json:"name"`
	Size         uint64     `json:"size"`               // leaves that it has cosigned, as it reports
	SignedAt     *time.Time `json:"signedAt,omitempty"` // time of its last cosignature
	OwingSeconds float64    `json:"owingSeconds"`       // for how long a cosignature has been missing
	Error        string     `json:"error,omitempty"`    // why it is missing
}

func (a *API) logStatuses(w http.ResponseWriter, r *http.Request) {
	all, reports := []LogStatus{}, logsOf(a.statuses(r.Context()))
	if a.options.Logs != nil {
		for _, s := range a.options.Logs() {
			one := LogStatus{Range: uint16(s.Range), Origin: s.Origin, Generation: s.Generation, Quorum: s.Quorum, Size: s.Size, CosignedSize: s.Cosigned, CosignedAt: optionalTime(s.CosignedAt), Witnesses: []LogWitness{}}
			for _, w := range s.Witnesses {
				of := LogWitness{Name: w.Witness, Size: w.Size, SignedAt: optionalTime(w.Signed), OwingSeconds: w.Owing.Seconds()}
				if w.Err != nil {
					of.Error = clip(w.Err.Error())
				}
				one.Witnesses = append(one.Witnesses, of)
			}
			if i := slices.IndexFunc(reports, func(l *wire.LogStatus) bool { return l.Origin == s.Origin }); i >= 0 {
				one.Enclave = reports[i]
				reports = slices.Delete(reports, i, i+1)
			}
			all = append(all, one)
		}
	}
	for _, l := range reports {
		all = append(all, LogStatus{Range: uint16(l.Range), Origin: l.Origin, Generation: l.Generation, Witnesses: []LogWitness{}, Enclave: l})
	}
	slices.SortStableFunc(all, func(a, b LogStatus) int { return int(a.Range) - int(b.Range) })
	body, err := json.Marshal(map[string][]LogStatus{"logs": all})
	if err != nil {
		panic(err) // strings, numbers and times always encode
	}
	write(w, http.StatusOK, body)
}

// logsOf returns the logs in the statuses of enclaves, in the order of ranges.
func logsOf(all []*status) (logs []*wire.LogStatus) {
	for _, s := range all {
		if s == nil {
			continue
		}
		for i := range s.logs {
			logs = append(logs, &s.logs[i])
		}
	}
	slices.SortStableFunc(logs, func(a, b *wire.LogStatus) int { return int(a.Range) - int(b.Range) })
	return logs
}

// maxDescribed is how many logs checkLogs describes, maxMissing how many witnesses DescribeLog names: all of a policy.
const (
	maxDescribed = 4
	maxMissing   = 16
)

// checkLogs describes the logs whose range is not served, for /readyz; the text is empty if there are none. serves reports
// whether the range of any other log is served.
func checkLogs(logs []*wire.LogStatus) (text string, serves bool) {
	var bad []string
	for _, l := range logs {
		if l.Serves() {
			serves = true
		} else {
			bad = append(bad, fmt.Sprintf("range %d %s", l.Range, DescribeLog(l)))
		}
	}
	if more := len(bad) - maxDescribed; more > 0 {
		bad = append(bad[:maxDescribed], fmt.Sprintf("and %d more", more))
	}
	return strings.Join(bad, "; "), serves
}

// DescribeLog says whether an enclave serves the range of a log, and if not, what is missing. It is the predicate of a
// sentence about the range.
func DescribeLog(l *wire.LogStatus) (text string) {
	switch l.State {
	case wire.LogUnwitnessed:
		return "is served, by a log without witnesses"
	case wire.LogServing:
		return "is served"
	case wire.LogWaiting:
		return fmt.Sprintf("starts: waits %s until no earlier enclave may serve", duration(l.WaitMs))
	case wire.LogStarting:
		text = fmt.Sprintf("starts: waits for %d witnesses to sign its first leaf", l.Quorum)
		if l.WaitMs > 0 {
			text += fmt.Sprintf(", and then %s until no earlier enclave may serve", duration(l.WaitMs))
		}
	case wire.LogStalled:
		text = fmt.Sprintf("is refused: for %s fewer than %d witnesses have signed", duration(l.UnwitnessedMs), l.Quorum)
	default:
		return "is in state " + clip(string(l.State))
	}
	switch {
	case len(l.Missing) > 0:
		names := []string{}
		for _, name := range l.Missing[:min(len(l.Missing), maxMissing)] {
			names = append(names, clip(name))
		}
		return text + "; missing: " + strings.Join(names, ", ")
	case l.State == wire.LogStalled:
		return text + "; no host has brought an answer"
	}
	return text
}

// duration returns a duration for people.
func duration(ms uint64) time.Duration {
	return (time.Duration(min(ms, 1<<40)) * time.Millisecond).Round(100 * time.Millisecond)
}

// optionalTime returns a pointer to t, nil for the zero time.
func optionalTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// Limits of requests for public logs: maxReading bounds those in flight, each of which may read the store; readingWait is the
// time limit of one.
const (
	maxReading  = 8
	readingWait = 20 * time.Second
)

// Cache-Control values of a log's resources: a tile never changes.
var (
	cacheTile       = []string{"public, max-age=31536000, immutable"}
	cacheCheckpoint = []string{"public, max-age=2"}
)

const (
	octets = "application/octet-stream"
	plain  = "text/plain; charset=utf-8"
)

// addLogs adds /log/, and the resources of C2SP tlog-tiles below /log/RANGE.
func (a *API) addLogs(r *mux.Router) {
	get := func(path, kind string, cache []string, read func(context.Context, *http.Request) ([]byte, error)) {
		r.Handle(path, a.logHandler(kind, cache, read)).Methods(http.MethodGet, http.MethodHead)
	}
	get("/log/", "application/json", cacheCheckpoint, a.publicLogs)
	get("/log/{range:[0-9]{1,2}}/checkpoint", plain, cacheCheckpoint, func(ctx context.Context, r *http.Request) ([]byte, error) {
		in, err := rangeOf(r)
		if err != nil {
			return nil, err
		}
		return a.options.Tiles.Checkpoint(ctx, in)
	})
	get("/log/{range:[0-9]{1,2}}/tile/{tile:.*}", octets, cacheTile, func(ctx context.Context, r *http.Request) ([]byte, error) {
		in, err := rangeOf(r)
		if err != nil {
			return nil, err
		}
		return a.options.Tiles.Tile(ctx, in, mux.Vars(r)["tile"])
	})
}

// rangeOf parses the range in a path. Only the canonical decimal form is accepted; errors are tiles.ErrNone.
func rangeOf(r *http.Request) (wire.Range, error) {
	text := mux.Vars(r)["range"]
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n >= wire.MaxRanges || strconv.FormatUint(n, 10) != text {
		return 0, tiles.ErrNone
	}
	return wire.Range(n), nil
}

// logHandler makes the handler of one resource of a log: kind is its Content-Type, cache its Cache-Control, read returns its bytes.
func (a *API) logHandler(kind string, cache []string, read func(context.Context, *http.Request) ([]byte, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if _, ok := a.admit(w, r); !ok {
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), readingWait)
		defer cancel()
		select {
		case a.reading <- struct{}{}:
			defer func() { <-a.reading }()
		case <-ctx.Done():
			refuse(w, http.StatusServiceUnavailable, codeUnavailable, "too many read logs: try again")
			return
		}
		b, err := read(ctx, r)
		switch {
		case errors.Is(err, tiles.ErrNone), errors.Is(err, tiles.ErrPath):
			refuse(w, http.StatusNotFound, codeNotFound, err.Error())
			return
		case err != nil:
			a.options.Log.Warn("log not read", "path", clip(r.URL.Path), "error", err)
			refuse(w, http.StatusServiceUnavailable, codeUnavailable, "the log cannot be read now: try again")
			return
		}
		h := w.Header()
		h["Content-Type"], h["Cache-Control"] = []string{kind}, cache
		h["Content-Length"] = []string{strconv.Itoa(len(b))}
		_, _ = w.Write(b)
	}
}

// A PublicLog is one log in the list at /log/.
type PublicLog struct {
	Range      uint16 `json:"range"`
	Origin     string `json:"origin"`
	VKey       string `json:"vkey,omitempty"` // verifies its checkpoints, as an enclave reports it; absent while none does
	Generation uint32 `json:"generation"`
	Size       uint64 `json:"size"` // leaves in its checkpoint
}

func (a *API) publicLogs(ctx context.Context, _ *http.Request) ([]byte, error) {
	logs, err := a.options.Tiles.Logs(ctx)
	if err != nil {
		return nil, err
	}
	keys := map[string]string{} // by origin
	for _, k := range a.askers {
		s, err := k.ask(ctx)
		if err != nil {
			continue
		}
		for _, l := range s.Logs {
			name, _, _ := strings.Cut(l.VKey, "+")
			keys[name] = l.VKey
		}
	}
	all := []PublicLog{}
	for _, l := range logs {
		all = append(all, PublicLog{uint16(l.Range), l.Origin, keys[l.Origin], l.Generation, l.Size})
	}
	return json.Marshal(map[string][]PublicLog{"logs": all})
}
