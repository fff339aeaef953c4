package crash_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"os"

	"cloister/shared/wire"
)

// ledger is what one client knows for sure: a file, synced to disk before each
// body is sent and after each answer has come.
type ledger struct{ file *os.File }

// line is a line of a ledger: a body that will be sent, or the answer to it.
type line struct {
	Body         string  `json:"body,omitempty"` // this line says that it will be sent
	Organization string  `json:"organization,omitempty"`
	Op           string  `json:"op,omitempty"`
	N            int     `json:"n"`                 // pairs body and answer
	Answer       *answer `json:"answer,omitempty"`  // this line says that it is acknowledged
	Refused      string  `json:"refused,omitempty"` // this line says that it is refused for good
}

// answer is what a client was told, of which nothing may ever change.
type answer struct {
	ID          string          `json:"id"`
	Fingerprint string          `json:"fingerprint"`
	Type        string          `json:"type"`
	Status      string          `json:"status"`
	Result      json.RawMessage `json:"result"`
	AppProofs   json.RawMessage `json:"appProofs,omitempty"`
	CreatedAt   json.RawMessage `json:"createdAt"`
}

// same compares two answers byte for byte.
func (a *answer) same(b *answer) bool {
	return a.ID == b.ID && a.Fingerprint == b.Fingerprint && a.Type == b.Type && a.Status == b.Status &&
		bytes.Equal(a.Result, b.Result) && bytes.Equal(a.AppProofs, b.AppProofs) && bytes.Equal(a.CreatedAt, b.CreatedAt)
}

// made is what activities make.
type made struct {
	WalletID, SubOrganizationID string
	Addresses, UserIDs          []string
}

// made is what the activity made.
func (a *answer) made() (m made, err error) {
	var results map[string]made
	err = json.Unmarshal(a.Result, &results)
	for _, one := range results {
		m = one
	}
	if err == nil && len(results) != 1 {
		err = fmt.Errorf("%d results", len(results))
	}
	return m, err
}

func newLedger(name string) (*ledger, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY|os.O_APPEND, 0o600)
	return &ledger{f}, err
}

// write adds a line and returns when it is on disk.
func (l *ledger) write(e line) error {
	b, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := l.file.Write(append(b, '\n')); err != nil {
		return err
	}
	return l.file.Sync()
}

// record is one body and what became of it.
type record struct {
	line
	fingerprint wire.Hash
	answer      *answer
	refused     string
}

// read reads a ledger from disk.
func read(name string) ([]*record, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var all []*record
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var e line
		if err := json.Unmarshal(in.Bytes(), &e); err != nil {
			return nil, fmt.Errorf("ledger %s: %w", name, err)
		}
		switch {
		case e.Body != "" && e.N == len(all):
			all = append(all, &record{line: e, fingerprint: sum([]byte(e.Body))})
		case e.N < len(all) && e.Answer != nil:
			all[e.N].answer = e.Answer
		case e.N < len(all) && e.Refused != "":
			all[e.N].refused = e.Refused
		default:
			return nil, fmt.Errorf("ledger %s: line %d makes no sense", name, e.N)
		}
	}
	return all, in.Err()
}
