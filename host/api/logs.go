package api

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"cloister/host/tiles"
	"cloister/shared/wire"

	"github.com/gorilla/mux"
)

// LogsPath is where operators read how logs and their witnesses do, as {"logs": [LogStatus]}.
const LogsPath = "/logz"

// A LogStatus is how the log of a range does, as this host sees it since it was started.
type LogStatus struct {
	Range        uint16       `json:"range"`
	Origin       string       `json:"origin"`
	Generation   uint32       `json:"generation"`
	Quorum       int          `json:"quorum"`               // how many witnesses it takes
	Size         uint64       `json:"size"`                 // leaves in the newest checkpoint
	CosignedSize uint64       `json:"cosignedSize"`         // and in the newest with a quorum
	CosignedAt   *time.Time   `json:"cosignedAt,omitempty"` // when it had that
	Witnesses    []LogWitness `json:"witnesses"`            // in the order of the policy
}

// A LogWitness is how a witness does.
type LogWitness struct {
	Name         string     `json:"name"`
	Size         uint64     `json:"size"`               // leaves that it has cosigned, by its own account
	SignedAt     *time.Time `json:"signedAt,omitempty"` // when it last did
	OwingSeconds float64    `json:"owingSeconds"`       // how long it has owed a cosignature
	Error        string     `json:"error,omitempty"`    // why
}

func (a *API) logStatuses(w http.ResponseWriter, _ *http.Request) {
	all := []LogStatus{}
	if a.options.Logs != nil {
		for _, s := range a.options.Logs() {
			one := LogStatus{Range: uint16(s.Range), Origin: s.Origin, Generation: s.Generation, Quorum: s.Quorum, Size: s.Size, CosignedSize: s.Cosigned, CosignedAt: at(s.CosignedAt), Witnesses: []LogWitness{}}
			for _, w := range s.Witnesses {
				of := LogWitness{Name: w.Witness, Size: w.Size, SignedAt: at(w.Signed), OwingSeconds: w.Owing.Seconds()}
				if w.Err != nil {
					of.Error = clip(w.Err.Error())
				}
				one.Witnesses = append(one.Witnesses, of)
			}
			all = append(all, one)
		}
	}
	body, err := json.Marshal(map[string][]LogStatus{"logs": all})
	if err != nil {
		panic(err) // strings, numbers and times always encode
	}
	write(w, http.StatusOK, body)
}

// at is a time, nil if there is none.
func at(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// maxReading bounds the questions for public logs that are under way, each of which may read the store; readingWait is what one
// may take.
const (
	maxReading  = 8
	readingWait = 20 * time.Second
)

// How long caches may keep what is read of a log: a tile never changes.
var (
	cacheTile       = []string{"public, max-age=31536000, immutable"}
	cacheCheckpoint = []string{"public, max-age=2"}
)

const (
	octets = "application/octet-stream"
	plain  = "text/plain; charset=utf-8"
)

// addLogs adds /log/, and what C2SP tlog-tiles has below /log/RANGE.
func (a *API) addLogs(r *mux.Router) {
	get := func(path, kind string, cache []string, read func(context.Context, *http.Request) ([]byte, error)) {
		r.Handle(path, a.reads(kind, cache, read)).Methods(http.MethodGet, http.MethodHead)
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

// rangeOf is the range in a path, in its one form.
func rangeOf(r *http.Request) (wire.Range, error) {
	text := mux.Vars(r)["range"]
	n, err := strconv.ParseUint(text, 10, 16)
	if err != nil || n >= wire.MaxRanges || strconv.FormatUint(n, 10) != text {
		return 0, tiles.ErrNone
	}
	return wire.Range(n), nil
}

// reads makes the handler of something that is read of a log.
func (a *API) reads(kind string, cache []string, read func(context.Context, *http.Request) ([]byte, error)) http.HandlerFunc {
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

// A PublicLog is one that everybody can read.
type PublicLog struct {
	Range      uint16 `json:"range"`
	Origin     string `json:"origin"`
	VKey       string `json:"vkey,omitempty"` // what its checkpoints verify by, as an enclave says; absent while none says so
	Generation uint32 `json:"generation"`
	Size       uint64 `json:"size"` // of its checkpoint
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
