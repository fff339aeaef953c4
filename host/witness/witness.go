// Package witness brings a log's checkpoints to its witnesses, by the protocol of C2SP tlog-witness
// (https://c2sp.org/tlog-witness), and hands on what they sign.
//
// What it promises:
//
//   - A checkpoint goes to all witnesses at once. One that is slow holds up nobody, and gets the newest when it is free:
//     what lies between is never sent to it.
//   - A witness that has seen less or more than was thought is asked again from there, once.
//   - Of an answer only the line in the name and key id of its witness is handed on, at most one for each checkpoint.
//     Nothing is verified: the enclave does that, and believes nobody else.
//   - What comes in is bounded, and redirects are not followed.
package witness

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"cloister/attestation/tlog"
	"cloister/shared/wire"
)

// Pauses before a witness is asked again that failed: the first, doubled with each failure up to the longest.
const (
	firstPause = 10 * time.Millisecond
	longPause  = time.Second
)

// A Cosignature is the line that a witness gave for a checkpoint. It may be anything.
type Cosignature struct {
	Witness string // its name in the policy
	Size    uint64 // of the checkpoint
	Line    string // as it stands in a note, with its newline
}

// Options of a Client. All are needed.
type Options struct {
	// Policy names the witnesses, each with the URL of its submission prefix.
	Policy *tlog.Policy
	// Transport may be shared by the clients of several logs; see NewTransport.
	Transport http.RoundTripper
	Timeout   time.Duration // for an answer, connecting included
	// Cosigned gets what the witnesses sign, as it comes: from several goroutines, one for each witness. Until it returns its
	// witness is sent nothing.
	Cosigned func(Cosignature)
	Now      func() time.Time
	Pause    func(context.Context, time.Duration) // waits for d or until the context ends
}

// NewTransport speaks HTTP/1.1 on connections that it keeps, without proxy; witnesses of https are verified by the roots, nil
// for those of the system.
func NewTransport(roots *x509.CertPool) *http.Transport {
	speaks := new(http.Protocols)
	speaks.SetHTTP1(true)
	return &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, Protocols: speaks, DisableCompression: true,
		MaxResponseHeaderBytes: maxHeader, MaxIdleConnsPerHost: 64, IdleConnTimeout: 90 * time.Second,
	}
}

// A Client brings the checkpoints of one log to its witnesses.
type Client struct {
	options   Options
	witnesses []*witness // in the order of the policy

	mu sync.Mutex // one Send at a time
}

// New checks the options. Nothing is sent until Run runs.
func New(o Options) (*Client, error) {
	if o.Timeout <= 0 {
		return nil, errors.New("witnesses: there is no time for an answer")
	}
	c := &Client{options: o}
	keys, urls := o.Policy.Witnesses()
	for i, k := range keys {
		u, err := url.Parse(urls[i])
		switch {
		case err != nil:
			return nil, fmt.Errorf("witnesses: the URL of %s cannot be read", k.Name())
		case urls[i] == "":
			return nil, fmt.Errorf("witnesses: the policy says no URL of %s", k.Name())
		case u.Scheme != "https" && u.Scheme != "http", u.Host == "", u.User != nil, u.RawQuery != "", u.Fragment != "", u.ForceQuery:
			return nil, fmt.Errorf("witnesses: the URL of %s is not http:// or https://, a host and a path", k.Name())
		}
		c.witnesses = append(c.witnesses, &witness{
			options: &c.options, key: k, url: strings.TrimSuffix(urls[i], "/") + "/add-checkpoint", newest: make(chan *checkpoint, 1),
			client: &http.Client{Transport: o.Transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
			status: Status{Witness: k.Name()},
		})
	}
	return c, nil
}

// Run sends until ctx ends, and returns when nothing is on its way any more.
func (c *Client) Run(ctx context.Context) {
	var all sync.WaitGroup
	for _, w := range c.witnesses {
		all.Go(func() { w.run(ctx) })
	}
	all.Wait()
}

// Send gives the newest checkpoint, as the log signed it, to every witness, and returns at once. prove gives the consistency
// proof from an old size to it, as tree.Nodes does; it is not asked about an old size of nothing, or of all. It is
// asked from several goroutines at once, each about another size: a witness that is far behind holds up no other.
func (c *Client) Send(signed []byte, prove func(old uint64) ([]wire.Hash, error)) error {
	head, err := ParseSigned(signed)
	if err != nil {
		return err
	}
	n := &checkpoint{size: head.Size, signed: bytes.Clone(signed), prove: prove, proofs: map[uint64]*proof{}}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, w := range c.witnesses {
		select {
		case <-w.newest: // never sent
		default:
		}
		w.newest <- n
	}
	return nil
}

// ParseSigned reads a checkpoint as the log signed it, and verifies nothing.
func ParseSigned(signed []byte) (head tlog.Checkpoint, err error) {
	if len(signed) > tlog.MaxNote {
		return head, fmt.Errorf("witnesses: a checkpoint of %d bytes", len(signed))
	}
	text, _, ok := bytes.Cut(signed, []byte("\n\n"))
	if !ok {
		return head, errors.New("witnesses: a checkpoint that nobody has signed")
	}
	if head, err = tlog.ParseCheckpoint(string(text) + "\n"); err != nil {
		return head, fmt.Errorf("witnesses: %w", err)
	}
	return head, nil
}

// A Status is how a witness does, by its own account.
type Status struct {
	Witness string
	Size    uint64        // of the newest checkpoint that it signed, or says that it did
	Signed  time.Time     // when it last did; zero: not since New
	Took    time.Duration // from sending to that
	Err     error         // why it did not sign what it was sent last; nil: it did, or was sent nothing
	Other   bool          // because what it has seen is not the beginning of that
}

// Statuses are those of all witnesses, in the order of the policy.
func (c *Client) Statuses() []Status {
	all := make([]Status, len(c.witnesses))
	for i, w := range c.witnesses {
		all[i] = w.current()
	}
	return all
}

// A checkpoint is one that is sent. Witnesses that have the same size share a proof.
type checkpoint struct {
	size   uint64
	signed []byte
	prove  func(uint64) ([]wire.Hash, error)

	mu     sync.Mutex
	proofs map[uint64]*proof // by old size
}

// A proof is made once.
type proof struct {
	mu     sync.Mutex
	hashes []wire.Hash // nil: not made
}

func (c *checkpoint) proof(old uint64) ([]wire.Hash, error) {
	if old == 0 || old == c.size {
		return nil, nil
	}
	c.mu.Lock()
	p := c.proofs[old]
	if p == nil {
		p = new(proof)
		c.proofs[old] = p
	}
	c.mu.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.hashes != nil {
		return p.hashes, nil
	}
	hashes, err := c.prove(old)
	if err != nil {
		return nil, fmt.Errorf("a proof from %d to %d leaves: %w", old, c.size, err)
	}
	if len(hashes) > maxProof {
		return nil, fmt.Errorf("a proof from %d to %d leaves has %d hashes", old, c.size, len(hashes))
	}
	p.hashes = hashes
	return hashes, nil
}
