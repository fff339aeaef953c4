package laptop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"cloister/attestation"
	"cloister/attestation/tlog"
	"cloister/shared/wire"
)

// LogTerms are what the manifest of a data directory says of its logs; nil: nothing. Without a manifest, no enclave has
// booted on the directory yet.
func (d *Dir) LogTerms() (terms *attestation.LogTerms, booted bool, err error) {
	b, err := os.ReadFile(d.file(fileManifest))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	m, err := attestation.ParseManifest(b)
	if err != nil {
		return nil, false, err
	}
	return m.Log, true, nil
}

// askAgain is the pause between questions about an enclave's logs. A boot waits for witnesses that do not know them yet.
const askAgain = 50 * time.Millisecond

// FollowLogs asks the enclave at an address for its logs until it serves, and tells known of each and of its next
// generation at least once: what operators of witnesses do by hand. An enclave that has no logs, or is not there, is asked again. It returns when ctx ends,
// and with an error when known does or a log's key cannot be read.
func FollowLogs(ctx context.Context, address string, known func(*tlog.Key) error) error {
	return new(Dir).FollowLogs(ctx, address, known)
}

// FollowLogs reaches the enclave in the directory's way.
func (d *Dir) FollowLogs(ctx context.Context, address string, known func(*tlog.Key) error) error {
	for {
		serving, err := d.askLogs(ctx, address, known)
		if serving || err != nil || !Pause(ctx, askAgain) {
			return err
		}
	}
}

// askLogs asks at one connection until that ends.
func (d *Dir) askLogs(ctx context.Context, address string, known func(*tlog.Key) error) (serving bool, err error) {
	e, err := d.DialEnclave(ctx, address)
	if err != nil {
		return false, nil
	}
	defer e.Close()
	for {
		r, err := e.ask(ctx, "status", nil, nil)
		if err != nil || r.Status != 200 {
			return false, nil
		}
		var s struct {
			State string `json:"state"`
			Logs  []struct {
				VKey     string `json:"vkey"`
				NextVKey string `json:"nextVkey"` // empty without witnesses
			} `json:"logs"`
		}
		if err := json.Unmarshal(r.Body, &s); err != nil {
			return false, fmt.Errorf("status: %w", err)
		}
		for _, l := range s.Logs {
			keys := []string{l.VKey}
			if l.NextVKey != "" {
				keys = append(keys, l.NextVKey)
			}
			for _, vkey := range keys {
				k, err := tlog.ParseKey(vkey) // whose name is the log's origin
				if err == nil {
					err = known(k)
				}
				if err != nil {
					return false, fmt.Errorf("the logs of the enclave: %w", err)
				}
			}
		}
		if s.State == wire.StateServing.String() || !Pause(ctx, askAgain) {
			return true, nil
		}
	}
}
