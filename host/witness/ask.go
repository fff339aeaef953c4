package witness

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"cloister/attestation/tlog"
	"cloister/shared/wire"
)

// Bounds of what crosses, in bytes but for the proof.
const (
	maxProof  = 63 // hashes
	maxAnswer = 64 << 10
	maxHeader = 16 << 10
)

// A witness is one that the policy names, and what is known of it.
type witness struct {
	options *Options
	key     *tlog.Key
	url     string
	client  *http.Client
	newest  chan *checkpoint // that it was not sent

	mu     sync.Mutex
	status Status
}

func (w *witness) current() Status {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.status
}

// run sends it the newest checkpoint whenever there is one and it is free, until it has signed that.
func (w *witness) run(ctx context.Context) {
	var c *checkpoint
	pause := time.Duration(0)
	for {
		if c == nil {
			select {
			case <-ctx.Done():
				return
			case c = <-w.newest:
			}
		}
		line, err := w.submitCheckpoint(ctx, c)
		if err == nil {
			w.options.Cosigned(Cosignature{w.key.Name(), c.size, line})
			c, pause = nil, 0
			continue
		}
		pause = min(max(2*pause, firstPause), longPause)
		w.options.Pause(ctx, pause)
		select {
		case <-ctx.Done():
			return
		case c = <-w.newest:
		default: // the same once more
		}
	}
}

// submitCheckpoint asks for a cosignature, from the size that the witness is thought to have, and once more from the one that it says.
func (w *witness) submitCheckpoint(ctx context.Context, c *checkpoint) (line string, err error) {
	began := w.options.Now()
	known := w.current().Size
	old := known
	if old > c.size {
		old = 0 // it has more than this, or had: it says so again
	}
	said, line, err := w.ask(ctx, c, old)
	if said != nil {
		if known = *said; known <= c.size && known != old {
			said, line, err = w.ask(ctx, c, known)
		}
	}
	if said != nil {
		known, err = *said, fmt.Errorf("it says that it has signed %d leaves; the checkpoint has %d", *said, c.size)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.status.Size, w.status.Err, w.status.Other = known, err, errors.Is(err, errOther)
	if err == nil {
		w.status.Size, w.status.Signed = c.size, w.options.Now()
		w.status.Took = w.status.Signed.Sub(began)
	}
	return line, err
}

// ask sends one request: said is the size from which the witness wants to be asked.
func (w *witness) ask(ctx context.Context, c *checkpoint, old uint64) (said *uint64, line string, err error) {
	proof, err := c.proof(old)
	if err != nil {
		return nil, "", err
	}
	status, answer, err := w.post(ctx, body(old, proof, c.signed))
	switch {
	case err != nil:
		return nil, "", err
	case status == http.StatusConflict:
		size, err := parseSize(answer)
		if err != nil {
			return nil, "", err
		}
		return &size, "", nil
	case status == http.StatusUnprocessableEntity && old > 0:
		return nil, "", fmt.Errorf("%w: it answered with status %d", errOther, status)
	case status != http.StatusOK:
		return nil, "", statusError(status)
	}
	line, err = lineOf(w.key, answer)
	return nil, line, err
}

func body(old uint64, proof []wire.Hash, signed []byte) []byte {
	b := fmt.Appendf(nil, "old %d\n", old)
	for _, h := range proof {
		b = append(base64.StdEncoding.AppendEncode(b, h[:]), '\n')
	}
	return append(append(b, '\n'), signed...)
}

// post gives status and body of the answer. Errors do not hold the address.
func (w *witness) post(ctx context.Context, body []byte) (status int, answer []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	// Sent twice it does the same, so that a connection which the witness has just closed is no failure. The header itself
	// stays here.
	r.Header["Idempotency-Key"] = []string{}
	r.Header.Set("Content-Type", "text/plain; charset=utf-8")
	a, err := w.client.Do(r)
	if err != nil {
		if outer, ok := errors.AsType[*url.Error](err); ok {
			err = outer.Err
		}
		return 0, nil, err
	}
	defer a.Body.Close()
	answer, err = io.ReadAll(io.LimitReader(a.Body, maxAnswer+1))
	if err == nil && len(answer) > maxAnswer {
		err = fmt.Errorf("an answer of more than %d bytes", maxAnswer)
	}
	return a.StatusCode, answer, err
}

// errOther: what a witness has seen is not the beginning of what it is shown.
var errOther = errors.New("it has seen other leaves")

// parseSize reads the body of a conflict: a number in its one form, and a newline.
func parseSize(answer []byte) (uint64, error) {
	text, ok := strings.CutSuffix(string(answer), "\n")
	size, err := strconv.ParseUint(text, 10, 63)
	if !ok || err != nil || strconv.FormatUint(size, 10) != text {
		return 0, fmt.Errorf("%w, and does not say how many", errOther)
	}
	return size, nil
}

// lineOf finds the first line in a key's name and key id that is as long as its cosignatures are.
func lineOf(k *tlog.Key, answer []byte) (string, error) {
	prefix := "— " + k.Name() + " "
	for line := range strings.Lines(string(answer)) {
		text, ok := strings.CutPrefix(line, prefix)
		if !ok {
			continue
		}
		raw, err := base64.StdEncoding.Strict().DecodeString(strings.TrimSuffix(text, "\n"))
		if err == nil && len(raw) == cosignature && binary.BigEndian.Uint32(raw) == k.KeyHash() {
			return prefix + base64.StdEncoding.EncodeToString(raw) + "\n", nil
		}
	}
	return "", errors.New("it answered without a cosignature by its key")
}

// cosignature is the length of one of type 0x04: key id, time, Ed25519 signature.
const cosignature = 4 + 8 + 64
