package monitor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/attestation/tlog"
)

// Timeouts of the comparison with witnesses. The log grows during it, so that a head may lag.
const (
	witnessPatience = 10 * time.Second // for a witness's reply
	headPauses      = 5                // how many pauses a head may lag
	headPause       = time.Second
)

// witnesses asks each witness how much of the log it has seen, and reports a witness that has seen more than the host
// shows: the leaves between are hidden, or have no quorum.
func (m *Monitor) witnesses(ctx context.Context) error {
	if m.options.Witnesses == nil {
		return nil
	}
	policy, err := tlog.ParsePolicy(m.boot.Manifest.Log.Policy)
	if err != nil {
		return err
	}
	signed, err := signedByLog(m.state.Checkpoint)
	if err != nil {
		return err
	}
	keys, urls := policy.Witnesses()
	sizes, errs := make([]uint64, len(keys)), make([]error, len(keys))
	var asked sync.WaitGroup
	for i, url := range urls {
		asked.Go(func() { sizes[i], errs[i] = m.size(ctx, url, signed) })
	}
	asked.Wait()
	if err := ctx.Err(); err != nil {
		return err
	}
	most := uint64(0)
	for i, k := range keys {
		switch {
		case errors.Is(errs[i], errForgot):
			m.emit(Event{Kind: KindForgot, Alert: true, Witness: k.Name(), Text: errs[i].Error()})
		case errs[i] != nil:
			m.emit(Event{Kind: KindAway, Witness: k.Name(), Text: errs[i].Error()})
		}
		m.metrics.witness(k.Name(), sizes[i], errs[i] == nil)
		most = max(most, sizes[i])
	}
	at, err := m.waitForHead(ctx, most)
	if err != nil {
		return err
	}
	for i, k := range keys {
		if sizes[i] > at.Size {
			m.emit(Event{Kind: KindAhead, Alert: true, Log: at.Origin, Size: at.Size, Witness: k.Name(),
				Text: fmt.Sprintf("the witness has seen %d leaves, and the newest head that is shown has %d", sizes[i], at.Size)})
		}
	}
	return nil
}

// waitForHead waits for a head of a size, for at most headPauses, and returns the newest one.
func (m *Monitor) waitForHead(ctx context.Context, size uint64) (at tlog.Checkpoint, err error) {
	for n := 0; ; n++ {
		at, err = checkpointOf(m.state.Checkpoint)
		if err != nil || at.Size >= size || n == headPauses {
			return at, err
		}
		if err := m.options.Pause(ctx, headPause); err != nil {
			return at, err
		}
		if err := m.recheckNewest(ctx); err != nil {
			return at, err
		}
	}
}

// signedByLog returns a cosigned checkpoint with the log's signature alone.
func signedByLog(note string) ([]byte, error) {
	text, lines, ok := strings.Cut(note, "\n\n")
	line, _, lf := strings.Cut(lines, "\n")
	if !ok || !lf {
		return nil, errors.New("monitor: a head without signatures")
	}
	return []byte(text + "\n\n" + line + "\n"), nil
}

// errForgot is the error for a witness that does not remember the log.
var errForgot = errors.New("it does not remember the log")

// size asks a witness how much it has seen: to a request for a first cosignature (old 0) it replies 409 and its size.
func (m *Monitor) size(ctx context.Context, url string, signed []byte) (uint64, error) {
	ctx, cancel := context.WithTimeout(ctx, witnessPatience)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+"/add-checkpoint", bytes.NewReader(append([]byte("old 0\n\n"), signed...)))
	if err != nil {
		return 0, err
	}
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	a, err := m.options.Witnesses.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	defer a.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(a.Body, 64<<10))
	switch {
	case err != nil:
		return 0, err
	case a.StatusCode == http.StatusOK:
		return 0, fmt.Errorf("%w: it signed a head as the first that it sees", errForgot)
	case a.StatusCode == http.StatusNotFound:
		return 0, fmt.Errorf("%w: it answers that it does not know it", errForgot)
	case a.StatusCode != http.StatusConflict:
		return 0, fmt.Errorf("it answers with status %d", a.StatusCode)
	}
	text, ok := strings.CutSuffix(string(answer), "\n")
	size, err := strconv.ParseUint(text, 10, 63)
	if !ok || err != nil || strconv.FormatUint(size, 10) != text {
		return 0, errors.New("it does not say what it has seen")
	}
	return size, nil
}
