package script

import (
	"bytes"
	"cmp"
	"context"
	"crypto/ecdh"
	"crypto/ed25519"
	"crypto/hpke"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"

	"cloister/attestation/request"
	"cloister/sim/laptop"
	"cloister/sim/passcode"
)

// A Target is where scripts are played.
type Target struct {
	URL    string // of the public interface
	Client *http.Client
	Now    func() time.Time
}

// An Organization is one that a script has to itself.
type Organization struct {
	ID, UserID string
	Key        laptop.KeyPair // of the root user
}

// maxReply bounds a reply, in bytes.
const maxReply = 4 << 20

// Run plays the script. The error names the line and what was not as it says.
func (s *Script) Run(ctx context.Context, t Target, o Organization) error {
	p := &play{target: t, names: &names{values: map[string]string{"organization": o.ID, "user": o.UserID}, now: t.Now}, keys: map[string]laptop.KeyPair{}}
	if err := p.add("root", o.Key); err != nil {
		return err
	}
	for i, st := range s.steps {
		if err := p.step(ctx, st); err != nil {
			return fmt.Errorf("%s:%d: %w", s.Name, st.line, err)
		}
		// What nobody looks at must have succeeded.
		last := i+1 == len(s.steps) || s.steps[i+1].words[0] != "->"
		if asks(st) && last && p.status != http.StatusOK {
			return fmt.Errorf("%s:%d: status %d: %s", s.Name, st.line, p.status, p.reply)
		}
	}
	return nil
}

func asks(st step) bool {
	switch st.words[0] {
	case "submit", "query", "post", "again":
		return true
	}
	return false
}

type names struct {
	values map[string]string
	now    func() time.Time
	last   int64
}

func (n *names) has(name string) bool   { _, ok := n.values[name]; return ok }
func (n *names) set(name, value string) { n.values[name] = value }

var anyName = regexp.MustCompile(`\$\{([^}]*)\}`)

// fill puts values in the place of names.
func (n *names) fill(text string) (string, error) {
	var failed error
	filled := anyName.ReplaceAllStringFunc(text, func(m string) string {
		name := m[2 : len(m)-1]
		if v, ok := n.values[name]; ok {
			return v
		}
		if ago, ok := strings.CutPrefix(name, "now"); ok {
			v, err := n.moment(ago)
			if err != nil {
				failed = err
			}
			return v
		}
		failed = fmt.Errorf("nothing is named %q yet", name)
		return m
	})
	return filled, failed
}

// fillJSON is fill where values stand in strings.
func (n *names) fillJSON(text string) (string, error) {
	escaped := &names{values: map[string]string{}, now: n.now, last: n.last}
	for name, v := range n.values {
		b, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		escaped.values[name] = string(b[1 : len(b)-1])
	}
	filled, err := escaped.fill(text)
	n.last = escaped.last
	return filled, err
}

// moment is the time in milliseconds, so much ago or ahead; never twice the same.
func (n *names) moment(ago string) (string, error) {
	if ago != "" {
		d, err := time.ParseDuration(ago)
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(n.now().Add(d).UnixMilli(), 10), nil
	}
	n.last = max(n.now().UnixMilli(), n.last+1)
	return strconv.FormatInt(n.last, 10), nil
}

type play struct {
	target Target
	names  *names
	keys   map[string]laptop.KeyPair

	path   string
	sent   []byte
	status int
	reply  []byte
}

func (p *play) add(name string, k laptop.KeyPair) error {
	private, err := ecdhKey(k)
	if err != nil {
		return err
	}
	p.keys[name] = k
	p.names.set(name+".public", k.PublicKey)
	p.names.set(name+".point", hex.EncodeToString(private.PublicKey().Bytes()))
	return nil
}

func ecdhKey(k laptop.KeyPair) (*ecdh.PrivateKey, error) {
	b, err := hex.DecodeString(k.PrivateKey)
	if err != nil {
		return nil, err
	}
	return ecdh.P256().NewPrivateKey(b)
}

func (p *play) step(ctx context.Context, st step) error {
	words := make([]string, len(st.words))
	for i, w := range st.words {
		if words[i] = w; i < 2 || st.words[0] == "open" && i == len(st.words)-1 {
			continue // names to set
		}
		var err error
		if words[i], err = p.names.fill(w); err != nil {
			return err
		}
	}
	switch words[0] {
	case "key":
		k, err := laptop.NewKey()
		if err != nil {
			return err
		}
		return p.add(words[1], k)
	case "submit", "query", "post":
		o, err := step{words: words}.whose(2)
		if err != nil {
			return err
		}
		return p.ask(ctx, st, o)
	case "again":
		o, err := step{words: words}.whose(1)
		if err != nil {
			return err
		}
		return p.send(ctx, o.as)
	case "->":
		return p.expect(st)
	case "seal":
		return p.seal(words[1], words[2], strings.Join(words[3:], " "))
	case "open":
		bundle, err := p.names.fill(words[1])
		if err != nil {
			return err
		}
		return p.open(bundle, words[2], strings.Join(words[3:], " "))
	}
	return verify(words[1], words[2:])
}

func (p *play) ask(ctx context.Context, st step, o whose) error {
	body, err := p.names.fillJSON(st.body)
	if err != nil {
		return err
	}
	organization, err := p.names.fill(o.in)
	if err != nil {
		return err
	}
	what := st.words[1]
	switch st.words[0] {
	case "post":
		p.path, p.sent = what, []byte(strings.TrimRight(body, "\n"))
	case "submit":
		now, err := p.names.moment("")
		if err != nil {
			return err
		}
		p.path = "/public/v1/submit/" + request.Operation(what)
		if p.sent, err = json.Marshal(struct {
			Type         string          `json:"type"`
			TimestampMs  string          `json:"timestampMs"`
			Organization string          `json:"organizationId"`
			Parameters   json.RawMessage `json:"parameters"`
		}{what, now, organization, json.RawMessage(body)}); err != nil {
			return err
		}
	case "query":
		p.path, p.sent = "/public/v1/query/"+what, request.WithOrganization([]byte(cmp.Or(body, "{}")), organization)
	}
	return p.send(ctx, o.as)
}

func (p *play) send(ctx context.Context, as string) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, p.target.URL+p.path, bytes.NewReader(p.sent))
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	if as != "nobody" {
		k, ok := p.keys[as]
		if !ok {
			return fmt.Errorf("no key is named %q", as)
		}
		key, err := request.ParseKey(k.PrivateKey)
		if err != nil {
			return err
		}
		if err := key.Set(r.Header, p.sent); err != nil {
			return err
		}
	}
	a, err := p.target.Client.Do(r)
	if err != nil {
		return err
	}
	defer a.Body.Close()
	p.status = a.StatusCode
	p.reply, err = io.ReadAll(io.LimitReader(a.Body, maxReply))
	return err
}

// expect holds the last reply against a pattern.
func (p *play) expect(st step) error {
	want, err := strconv.Atoi(st.words[1])
	if err != nil {
		return err
	}
	if p.status != want {
		return fmt.Errorf("status %d, want %d: %s", p.status, want, p.reply)
	}
	if st.body == "" {
		return nil
	}
	var pattern, got any
	if err := json.Unmarshal([]byte(st.body), &pattern); err != nil {
		return err
	}
	if err := json.Unmarshal(p.reply, &got); err != nil {
		return fmt.Errorf("the reply is no JSON: %s", p.reply)
	}
	if err := match(pattern, got, len(st.words) == 3, p.names); err != nil {
		return fmt.Errorf("the reply %w\n%s", joinPath(err), p.reply)
	}
	return nil
}

// info is what HPKE binds in this interface.
var info = []byte("turnkey_hpke")

// inner is the signed part of a bundle.
func inner(bundle string, into any) error {
	var outer struct {
		Data string `json:"data"`
	}
	if err := json.Unmarshal([]byte(bundle), &outer); err != nil {
		return errors.New("not a bundle")
	}
	b, err := hex.DecodeString(outer.Data)
	if err != nil || json.Unmarshal(b, into) != nil {
		return errors.New("not a bundle")
	}
	return nil
}

// seal encrypts text as a client does to whom an import bundle was given.
func (p *play) seal(name, bundle, text string) error {
	var target struct {
		Public string `json:"targetPublic"`
	}
	if err := inner(bundle, &target); err != nil {
		return err
	}
	point, err := hex.DecodeString(target.Public)
	if err != nil {
		return err
	}
	sealed, err := passcode.Seal(point, []byte(text))
	p.names.set(name, sealed)
	return err
}

// open decrypts an export bundle with a key of the script.
func (p *play) open(bundle, key, want string) error {
	k, ok := p.keys[key]
	if !ok {
		return fmt.Errorf("no key is named %q", key)
	}
	var sealed struct {
		Encapped   string `json:"encappedPublic"`
		Ciphertext string `json:"ciphertext"`
	}
	if err := inner(bundle, &sealed); err != nil {
		return err
	}
	enc, errE := hex.DecodeString(sealed.Encapped)
	ciphertext, errC := hex.DecodeString(sealed.Ciphertext)
	private, errK := ecdhKey(k)
	if err := errors.Join(errE, errC, errK); err != nil {
		return err
	}
	to, err := hpke.NewDHKEMPrivateKey(private)
	if err != nil {
		return err
	}
	r, err := hpke.NewRecipient(enc, to, hpke.HKDFSHA256(), hpke.AES256GCM(), info)
	if err != nil {
		return err
	}
	got, err := r.Open(append(bytes.Clone(enc), private.PublicKey().Bytes()...), ciphertext)
	if err != nil {
		return fmt.Errorf("the bundle does not open: %w", err)
	}
	if m := wholeName.FindStringSubmatch(want); m != nil && !p.names.has(m[1]) {
		p.names.set(m[1], string(got))
		return nil
	}
	if want, err = p.names.fill(want); err != nil {
		return err
	}
	if want != string(got) {
		return errors.New("the bundle holds something else")
	}
	return nil
}

// verify checks a signature: public key, what was signed, r, s.
func verify(scheme string, texts []string) error {
	var b [4][]byte
	for i := range b {
		var err error
		if b[i], err = hex.DecodeString(strings.TrimPrefix(texts[i], "0x")); err != nil {
			return fmt.Errorf("%q is no hex", texts[i])
		}
	}
	ok := false
	switch scheme {
	case "secp256k1":
		k, err := secp256k1.ParsePubKey(b[0])
		if err != nil {
			return err
		}
		var r, s secp256k1.ModNScalar
		if r.SetByteSlice(b[2]) || s.SetByteSlice(b[3]) {
			return errors.New("a number of the signature is too large")
		}
		ok = ecdsa.NewSignature(&r, &s).Verify(b[1], k)
	case "ed25519":
		ok = len(b[0]) == ed25519.PublicKeySize && ed25519.Verify(b[0], b[1], append(b[2], b[3]...))
	}
	if !ok {
		return errors.New("the signature is not that of the key")
	}
	return nil
}
