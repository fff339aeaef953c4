package laptop

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/attestation/request"
	"cloister/shared/wire"
)

// A HostClient speaks to the enclave at the boot endpoint, as an operator's command would.
type HostClient struct {
	conn     *wire.Conn
	patience time.Duration
}

// DialEnclave connects to an enclave at tcp://HOST:PORT or unix:PATH.
func DialEnclave(ctx context.Context, address string) (*HostClient, error) {
	return new(Dir).DialEnclave(ctx, address)
}

func dial(ctx context.Context, address string) (net.Conn, error) {
	network, where := "tcp", strings.TrimPrefix(address, "tcp://")
	if path, ok := strings.CutPrefix(address, "unix:"); ok {
		network, where = "unix", path
	}
	return new(net.Dialer).DialContext(ctx, network, where)
}

// DialEnclave connects to an enclave in the directory's way.
func (d *Dir) DialEnclave(ctx context.Context, address string) (*HostClient, error) {
	way := d.Dial
	if way == nil {
		way = dial
	}
	nc, err := way(ctx, address)
	if err != nil {
		return nil, err
	}
	if err := wire.WriteHello(nc, wire.Hello{Role: wire.RoleCalls}, time.Now().Add(5*time.Second)); err != nil {
		_ = nc.Close()
		return nil, err
	}
	return &HostClient{conn: wire.NewConn(nc, wire.Options{Role: wire.RoleCalls, Side: wire.SideHost}), patience: cmp.Or(d.Patience, patience)}, nil
}

// Close ends the connection.
func (d *HostClient) Close() { _ = d.conn.Close() }

// busy is what the enclave says while the store is not there yet, as after a crash of the
// database, or nobody has taken the range. Every boot operation may then be asked again.
const busy = "try again"

// patience is how long a boot operation is asked again where a directory does not say.
const patience = 15 * time.Second

// Call asks one boot operation; a refusal is an error with the enclave's words.
// While the store is still recovering it asks again.
func (d *HostClient) Call(ctx context.Context, op string, body []byte, head []wire.Header, into any) error {
	for deadline := time.Now().Add(d.patience); ; {
		r, err := d.ask(ctx, op, body, head)
		switch {
		case err != nil:
			return err
		case r.Status == 503 && bytes.Contains(r.Body, []byte(busy)) && time.Now().Before(deadline) && Pause(ctx, 200*time.Millisecond):
			continue
		case r.Status != 200:
			return fmt.Errorf("%s: %s", op, refusalText(r.Body))
		case into == nil:
			return nil
		}
		return json.Unmarshal(r.Body, into)
	}
}

// refusalText is what a refusal says, with its code: a line for people.
func refusalText(body []byte) string {
	var r struct{ Message, TurnkeyErrorCode string }
	switch err := json.Unmarshal(body, &r); {
	case err != nil || r.Message == "":
		return string(body)
	case r.TurnkeyErrorCode == "":
		return r.Message
	}
	return r.Message + " (" + r.TurnkeyErrorCode + ")"
}

// Pause waits and tells whether there is still time.
func Pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}

// AwaitOK gets a URL again until that is answered with 200.
func AwaitOK(ctx context.Context, url string) error {
	for {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return err
		}
		a, err := http.DefaultClient.Do(r)
		if err == nil {
			_ = a.Body.Close()
			if a.StatusCode == http.StatusOK {
				return nil
			}
			err = errors.New(a.Status)
		}
		if !Pause(ctx, 20*time.Millisecond) {
			return fmt.Errorf("%w: %w", ctx.Err(), err)
		}
	}
}

func (d *HostClient) ask(ctx context.Context, op string, body []byte, head []wire.Header) (r wire.Reply, err error) {
	return d.send(ctx, &wire.Call{Endpoint: wire.EndpointBoot, Op: op, Body: body, Head: head, WithinMs: 60_000})
}

func (d *HostClient) send(ctx context.Context, call *wire.Call) (r wire.Reply, err error) {
	b, err := wire.Marshal(call)
	if err != nil {
		return r, err
	}
	kind, answer, err := d.conn.Ask(ctx, wire.KindCall, b)
	if err != nil {
		return r, fmt.Errorf("asking the enclave: %w", err)
	}
	if kind != wire.KindReply {
		return r, errors.New("the enclave did not answer")
	}
	return r, wire.Unmarshal(answer, &r)
}

// PublicKeys are the public keys that clients pin, in the exact text forms.
type PublicKeys struct {
	Signer         string `json:"signer"`
	Session        string `json:"session"`
	OTP            string `json:"otp"`
	FetcherEncrypt string `json:"fetcherEncrypt"`
	OnRamp         string `json:"onRamp"`
	OTPLegacy      string `json:"otpLegacy"`
	SignerPair     string `json:"signerPair"`
}

// KeyPair is a P-256 API key in hex: compressed point and scalar.
type KeyPair = request.KeyPair

// Credentials is what a newcomer needs to go on.
type Credentials struct {
	APIURL             string            `json:"apiUrl"`
	AuthProxyURL       string            `json:"authProxyUrl"`
	OrganizationID     string            `json:"organizationId"`
	RootUserID         string            `json:"rootUserId"`
	AuthProxyConfigID  string            `json:"authProxyConfigId"`
	RootAPIKey         KeyPair           `json:"rootApiKey"`
	Keys               PublicKeys        `json:"keys"`
	AttestationRootPEM string            `json:"attestationRootPem"`
	ManifestSHA256     string            `json:"manifestSha256"`
	PCRs               map[string]string `json:"pcrs"`
	// EarlierManifests are the hashes of the manifests of this directory's earlier boots, newest first, at most MaxEarlier: proofs
	// that were kept from then are true still. Who believes one of them no more takes it out of the file.
	EarlierManifests []string `json:"earlierManifestsSha256,omitempty"`
	// InboxURL and IdentityProviderURL are there only if both were started.
	InboxURL            string `json:"inboxUrl,omitempty"`
	IdentityProviderURL string `json:"identityProviderUrl,omitempty"`
}

// ReadCredentials reads those that an earlier boot wrote; nil if none did.
func (d *Dir) ReadCredentials() (*Credentials, error) {
	b, err := os.ReadFile(d.file(fileCredentials))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	c := new(Credentials)
	if err == nil {
		err = json.Unmarshal(b, c)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", d.file(fileCredentials), err)
	}
	return c, nil
}

// MaxEarlier bounds Credentials.EarlierManifests.
const MaxEarlier = 64

// listEarlier gives the manifests that were before the one that is booted under now.
func (before *Credentials) listEarlier(now string) (all []string) {
	for _, one := range append([]string{before.ManifestSHA256}, before.EarlierManifests...) {
		if one != "" && one != now && !slices.Contains(all, one) && len(all) < MaxEarlier {
			all = append(all, one)
		}
	}
	return all
}

// Boot leads a waiting enclave from hello to serving. On the first start of a
// data directory that includes genesis, manifest and the first organization.
func (d *Dir) Boot(ctx context.Context, address string, more int) (*Credentials, error) {
	e, err := d.DialEnclave(ctx, address)
	if err != nil {
		return nil, err
	}
	defer e.Close()
	before, err := d.ReadCredentials()
	if err != nil {
		return nil, err
	}
	if before == nil {
		before = new(Credentials)
	}
	admission, err := d.key(fileAdmissionKey)
	if err != nil {
		return nil, fmt.Errorf("admission key: %w", err)
	}
	b, pcrs, err := d.bootFirst(ctx, e, admission)
	if err != nil {
		return nil, err
	}
	root, err := d.ModuleRoot()
	if err != nil {
		return nil, err
	}
	c := &Credentials{APIURL: d.APIURL, AuthProxyURL: d.AuthProxyURL, Keys: b.Keys,
		AttestationRootPEM: root.PEM(), ManifestSHA256: b.ManifestSHA256, PCRs: pcrs, EarlierManifests: before.listEarlier(b.ManifestSHA256),
		InboxURL: d.InboxURL, IdentityProviderURL: d.IdentityProviderURL}
	if err := d.first(ctx, e, admission, c); err != nil {
		return nil, fmt.Errorf("first organization: %w", err)
	}
	if before.OrganizationID != "" && before.OrganizationID != c.OrganizationID {
		return nil, fmt.Errorf("the store has lost organization %s of %s, and %s was made in its place: put the store back as it was", before.OrganizationID, d.CredentialsFile(), c.OrganizationID)
	}
	if d.AuthProxy {
		if err := d.enableProxy(ctx, e, c); err != nil {
			return nil, fmt.Errorf("enabling the auth proxy: %w", err)
		}
		if c.AuthProxyConfigID, err = d.proxyConfig(ctx, e, c); err != nil {
			return nil, fmt.Errorf("looking for the auth proxy: %w", err)
		}
	}
	if err := d.makeOrganizations(ctx, e, admission, more); err != nil {
		return nil, fmt.Errorf("making organizations: %w", err)
	}
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return nil, err
	}
	return c, writeSecret(d.file(fileCredentials), append(text, '\n'))
}

// Join leads one more enclave of a deployment that was booted before from hello to serving.
func (d *Dir) Join(ctx context.Context, address string) error {
	e, err := d.DialEnclave(ctx, address)
	if err != nil {
		return err
	}
	defer e.Close()
	admission, err := d.key(fileAdmissionKey)
	if err != nil {
		return fmt.Errorf("admission key: %w", err)
	}
	_, _, err = d.bootFirst(ctx, e, admission)
	return err
}

// AdmissionKey stamps what makes first organizations, and plans.
func (d *Dir) AdmissionKey() (KeyPair, error) { return d.key(fileAdmissionKey) }

// begun is what an enclave answers to its manifest.
type begun struct {
	ManifestSHA256 string     `json:"manifestSha256"`
	Keys           PublicKeys `json:"keys"`
}

// bootFirst takes an enclave through genesis and manifest.
func (d *Dir) bootFirst(ctx context.Context, e *HostClient, admission KeyPair) (b begun, pcrs map[string]string, err error) {
	var g struct {
		QuorumPublicKey string `json:"quorumPublicKey"`
	}
	var ranges []byte
	if d.Ranges > 1 {
		ranges = fmt.Appendf(nil, `{"ranges":%d}`, d.Ranges)
	}
	if err := e.Call(ctx, "genesis", ranges, nil, &g); err != nil {
		return b, nil, err
	}
	manifest, pcrs, err := d.manifest(g.QuorumPublicKey, admission.PublicKey)
	if err != nil {
		return b, nil, fmt.Errorf("manifest: %w", err)
	}
	body, err := json.Marshal(map[string]string{"manifest": base64.StdEncoding.EncodeToString(manifest), "configuration": base64.StdEncoding.EncodeToString(d.Configuration)})
	if err != nil {
		return b, nil, err
	}
	if err := writeSecret(d.file(fileConfiguration), d.Configuration); err != nil {
		return b, nil, fmt.Errorf("configuration: %w", err)
	}
	return b, pcrs, e.Call(ctx, "manifest", body, nil, &b)
}

// manifest is the data directory's manifest, written anew with a higher nonce
// when program, configuration or witnesses are not those that it names.
func (d *Dir) manifest(quorum, admission string) ([]byte, map[string]string, error) {
	sum, err := Digest()
	if err != nil {
		return nil, nil, err
	}
	ms := Measurements(sum)
	pcrs := map[string]string{}
	for i := range ms {
		pcrs[strconv.Itoa(i)] = hex.EncodeToString(ms[i][:])
	}
	m := attestation.Manifest{
		Format: 1, Kind: attestation.KindSimulator, Application: attestation.Application, Version: "development", ApplicationDigest: sum,
		DeploymentLabel: "simulator", Owner: "development", Nonce: 1, PCRs: attestation.Measurements{PCR0: pcrs["0"], PCR1: pcrs["1"], PCR2: pcrs["2"]},
		QuorumPublicKey: quorum, AdmissionKey: admission, SeedSource: attestation.SeedDevelopmentFile,
		Freshness: attestation.Freshness{Mode: attestation.FreshSinceBoot}, MinKeyringEpoch: 1,
	}
	if len(d.Configuration) > 0 {
		sum := sha256.Sum256(d.Configuration)
		m.ConfigurationSHA256 = hex.EncodeToString(sum[:])
	}
	if m.Log = d.Log; m.Log == nil {
		if m.Log, _, err = d.LogTerms(); err != nil {
			return nil, nil, err
		}
	}
	if m.Drill = d.Drill; d.Drill {
		m.Log = nil
	}
	if m.Log != nil {
		m.Freshness.Mode = attestation.FreshWitnessed
	}
	old, err := os.ReadFile(d.file(fileManifest))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	if err == nil {
		was, err := attestation.ParseManifest(old)
		if err != nil {
			return nil, nil, err
		}
		m.Nonce = was.Nonce
		if same, err := m.Encode(); err == nil && bytes.Equal(same, old) {
			return old, pcrs, nil
		}
		m.Nonce++
	}
	b, err := m.Encode()
	if err != nil {
		return nil, nil, err
	}
	return b, pcrs, writeSecret(d.file(fileManifest), b)
}

// key is a P-256 key kept in a file, made when absent.
func (d *Dir) key(name string) (KeyPair, error) {
	b, err := d.readOrMake(name, func() ([]byte, error) {
		k, err := NewKey()
		return []byte(k.PrivateKey), err
	})
	if err != nil {
		return KeyPair{}, err
	}
	private := strings.TrimSpace(string(b))
	k, err := request.ParseKey(private)
	if err != nil {
		return KeyPair{}, err
	}
	return KeyPair{PublicKey: k.Public(), PrivateKey: private}, nil
}

func NewKey() (KeyPair, error) { return request.NewKeyPair(rand.Reader) }

// Stamp is the X-Stamp header over body by a key.
func Stamp(k KeyPair, body []byte) ([]wire.Header, error) {
	key, err := request.ParseKey(k.PrivateKey)
	if err != nil {
		return nil, err
	}
	value, err := key.Stamp(body)
	if err != nil {
		return nil, err
	}
	return []wire.Header{{Name: request.HeaderStamp, Value: value}}, nil
}

// pending is an admission, kept before it is sent, so that a crash ends with one organization and its key.
type pending struct {
	RootAPIKey KeyPair         `json:"rootApiKey"`
	Body       json.RawMessage `json:"body"`
}

func newPending(name string, now time.Time) (*pending, error) {
	k, err := NewKey()
	if err != nil {
		return nil, err
	}
	body, err := json.Marshal(map[string]any{
		"organizationName": name, "rootUserName": "Root user", "timestampMs": strconv.FormatInt(now.UnixMilli(), 10),
		"rootApiKey": map[string]string{"apiKeyName": "Root API key", "publicKey": k.PublicKey, "curveType": "API_KEY_CURVE_P256"},
	})
	return &pending{k, body}, err
}

func (p *pending) send(ctx context.Context, e *HostClient, admission KeyPair) (made Organization, err error) {
	made.RootAPIKey = p.RootAPIKey
	head, err := Stamp(admission, p.Body)
	if err != nil {
		return made, err
	}
	err = e.Call(ctx, "create_organization", p.Body, head, &made)
	return made, err
}

// NewOrganization makes an organization of the top level, with the admission key.
func (d *HostClient) NewOrganization(ctx context.Context, admission KeyPair, name string, now time.Time) (Organization, error) {
	p, err := newPending(name, now)
	if err != nil {
		return Organization{}, err
	}
	return p.send(ctx, d, admission)
}

// first makes the root organization, or finds the one made before.
func (d *Dir) first(ctx context.Context, e *HostClient, admission KeyPair, c *Credentials) error {
	b, err := d.readOrMake(fileFirst, func() ([]byte, error) {
		p, err := newPending("Root organization", d.now())
		if err != nil {
			return nil, err
		}
		return json.Marshal(p)
	})
	if err != nil {
		return err
	}
	p := new(pending)
	if err := json.Unmarshal(b, p); err != nil {
		return err
	}
	made, err := p.send(ctx, e, admission)
	c.OrganizationID, c.RootUserID, c.RootAPIKey = made.OrganizationID, made.RootUserID, made.RootAPIKey
	return err
}

// An Organization is one of the top level with its root user, as organizations.json lists those made for tests.
type Organization struct {
	OrganizationID string  `json:"organizationId"`
	RootUserID     string  `json:"rootUserId"`
	RootAPIKey     KeyPair `json:"rootApiKey"`
}

// Organizations are those of organizations.json, none if there is no such file.
func (d *Dir) Organizations() (all []Organization, err error) {
	b, err := os.ReadFile(d.file(fileOrganizations))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &all)
	}
	return all, err
}

// makeOrganizations makes organizations for tests, many at a time, until the file lists as many as asked for.
func (d *Dir) makeOrganizations(ctx context.Context, e *HostClient, admission KeyPair, want int) error {
	have, err := d.Organizations()
	if err != nil || len(have) >= want {
		return err
	}
	n, first := want-len(have), len(have)+1
	type result struct {
		organization Organization
		err          error
	}
	results := make(chan result, n)
	slots := make(chan struct{}, 64)
	for i := range n {
		slots <- struct{}{}
		go func() {
			defer func() { <-slots }()
			made, err := e.NewOrganization(ctx, admission, fmt.Sprintf("Test organization %d", first+i), d.now())
			results <- result{made, err}
		}()
	}
	for range n {
		r := <-results
		if r.err != nil {
			return r.err
		}
		have = append(have, r.organization)
	}
	b, err := json.Marshal(have)
	if err != nil {
		return err
	}
	return writeSecret(d.file(fileOrganizations), b)
}
