package core

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync"
	"time"

	"cloister/attestation"
	"cloister/enclave/core/internal/lifecycle"
	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
	"cloister/enclave/internal/tally"
	"cloister/shared/wire"
)

// control answers the calls to the boot endpoint, which wire.BootOperations lists. It does not trust the source of a
// call: genesis and manifest work once each, in that order; admission needs the admission key's
// stamp; the others return public data or carry the authority that they need.
func (c *Core) control(ctx context.Context, call *wire.Call, v *callState) ([]byte, error) {
	op := wire.BootOperationOf(call.Op)
	if op == nil {
		return nil, fault.New(fault.NotFound, "no such boot operation")
	}
	if err := lifecycle.Allows(op, v.state); err != nil {
		return nil, err
	}
	if do := bootHandlers[op.Name]; do != nil {
		return do(c, ctx, call, v)
	}
	return c.life.Operate(ctx, op, call.Body)
}

type bootHandler func(*Core, context.Context, *wire.Call, *callState) ([]byte, error)

// ignoringCall makes a handler of a function that does not need the call.
func ignoringCall(f func(*Core) ([]byte, error)) bootHandler {
	return func(c *Core, _ context.Context, _ *wire.Call, _ *callState) ([]byte, error) { return f(c) }
}

// bootHandlers has a handler for each of wire.BootOperations that is not in lifecycle.Operations.
var bootHandlers = map[string]bootHandler{
	wire.OpStatus:             ignoringCall(func(c *Core) ([]byte, error) { return c.life.Status(c.counters()) }),
	wire.OpRanges:             ignoringCall((*Core).rangeTable),
	wire.OpLogs:               ignoringCall((*Core).logStatuses),
	wire.OpTake:               movingRanges((*ranges.Ranges).Take),
	wire.OpGive:               movingRanges((*ranges.Ranges).Give),
	wire.OpRetire:             ignoringCall((*Core).retire),
	wire.OpKeys:               ignoringCall(func(c *Core) ([]byte, error) { return json.Marshal(c.serving.Public) }),
	wire.OpDiscoveryKeys:      (*Core).discoverKeys,
	wire.OpDiscoveryBootProof: (*Core).discoverBootProof,
	wire.OpIssuer:             issuer(discoveryOf),
	wire.OpIssuerKeys:         issuer(keySetOf),
	wire.OpWebhookKeys:        ignoringCall(func(c *Core) ([]byte, error) { return c.serving.webhooks.JWKS(), nil }),
	wire.OpCreateOrganization: (*Core).createOrganization,
	wire.OpPutPlans:           (*Core).putPlans,
}

// counters are the alarms, caches, batches and expensive operations, by name.
func (c *Core) counters() map[string]uint64 {
	m := map[string]uint64{"reply_bytes": uint64(c.replies.Given()), "log_proofs_waited_for": uint64(c.proofWaits.Given())}
	for k, n := range c.alarms.Counts() {
		m["alarm_"+k] = n
	}
	d := c.keys.Stats()
	m["derived_keys"], m["derived_key_hits"], m["derived_key_misses"] = uint64(d.Keys), d.Hits, d.Misses
	m["idle_collections"] = c.idle.Load()
	u := c.processorQueue.Stats()
	m["step_us"], m["steps_long"], m["steps_gave_way"] = uint64(u.Used.Microseconds()), u.Long, u.GaveWay
	m["steps_waited"], m["steps_waited_us"], m["steps_abandoned"] = u.Waits, uint64(u.Waited.Microseconds()), u.Abandons
	m["steps_longest_us"] = uint64(u.Longest.Microseconds())
	m["late_answers"], m["streams"] = c.host.LateAnswers(), c.host.Streams()
	for r, name := range resourceNames {
		m["refused_for_"+name] = c.meter().refused[r].Load()
	}
	m["calls_under_way"], m["refused_for_calls"] = uint64(c.callSlots.Given()), c.callsRefused.Load()
	m["refused_for_rates"] = c.meter().refused[resources].Load()
	maps.Copy(m, tally.Counts())
	if c.life.State() == wire.StateServing {
		maps.Copy(m, c.serving.Ranges.Stats())
	}
	return m
}

// movingRanges makes a handler that moves ranges and replies with the range table.
func movingRanges(do func(*ranges.Ranges, context.Context, []byte) error) bootHandler {
	return func(c *Core, ctx context.Context, call *wire.Call, _ *callState) ([]byte, error) {
		if err := do(c.serving.Ranges, ctx, call.Body); err != nil {
			return nil, err
		}
		return c.rangeTable()
	}
}

func (c *Core) retire() ([]byte, error) {
	c.serving.Ranges.Retire()
	return c.rangeTable()
}

// logStatuses returns the state of the log of each range. Unlike status it is not public: hosts show it to operators.
func (c *Core) logStatuses() ([]byte, error) {
	return json.Marshal(map[string][]wire.LogStatus{"logs": c.serving.Ranges.LogStatuses()})
}

// rangeTable returns the ranges that this enclave owns now, signed by its live key.
func (c *Core) rangeTable() ([]byte, error) {
	text, err := json.Marshal(c.serving.Ranges.Table(c.now()))
	if err != nil {
		return nil, err
	}
	sig, err := c.serving.Live.Sign(wire.TableText(string(text)))
	if err != nil {
		return nil, err
	}
	return json.Marshal(&wire.SignedTable{Table: string(text), PublicKey: c.serving.Live.PublicHex, Signature: hex.EncodeToString(sig)})
}

// keysFor is how long a keys document is used before another is signed.
const keysFor = time.Minute

// keysDocument is the current signed document of the public keys.
type keysDocument struct {
	mu   sync.Mutex
	body []byte
	at   time.Time
}

// discoverKeys returns the keys that clients pin, signed by the live key, and the boot
// proof that connects the live key with the module's root: clients need not trust the host.
func (c *Core) discoverKeys(ctx context.Context, _ *wire.Call, _ *callState) ([]byte, error) {
	s := c.serving
	if err := s.Ranges.Serving(ctx); err != nil {
		return nil, err
	}
	d := &s.keysDocument
	d.mu.Lock()
	defer d.mu.Unlock()
	now := c.cfg.Clock.Now()
	if d.body != nil && now.Sub(d.at) < keysFor {
		return d.body, nil
	}
	k := s.Public
	claim := &attestation.PublicKeys{Keys: attestation.Keys{Signer: k.Signer, SignerPair: k.SignerPair, Session: k.Session, OTP: k.OTP,
		OTPLegacy: k.OTPLegacy, FetcherEncrypt: k.FetcherEncrypt, OnRamp: k.OnRamp, Webhook: s.webhooks.PublicKey()}, AttestationRootSHA256: s.RootSHA256, Freshness: s.Freshness(s.Ranges.BootNumber())}
	p, err := s.Live.Prove(now, claim)
	if err != nil {
		return nil, err
	}
	doc := attestation.KeysDocument{Keys: claim.Keys, AttestationRootPEM: s.RootPEM, AppProof: attestation.AppProof{
		Scheme: attestation.Scheme, PublicKey: s.Live.PublicHex, ProofPayload: string(p.Payload), Signature: fmt.Sprintf("%x", p.Signature)}}
	if err := strictjson.Decode(s.BootProof(now), &doc.BootProof); err != nil {
		return nil, fmt.Errorf("reading the boot proof: %w", err)
	}
	body, err := json.Marshal(&doc)
	if err != nil {
		return nil, err
	}
	d.body, d.at = body, now
	return body, nil
}

// liveKeySize is a live key's length in bytes.
const liveKeySize = 130

// discoverBootProof returns the boot proof of a live key of the deployment, for clients
// with a signed reply. The body is the key in lower-case hex.
func (c *Core) discoverBootProof(ctx context.Context, call *wire.Call, _ *callState) ([]byte, error) {
	body := call.Body
	if len(body) != 2*liveKeySize || bytes.ContainsFunc(body, func(r rune) bool { return (r < '0' || r > '9') && (r < 'a' || r > 'f') }) {
		return nil, fault.New(fault.InvalidArgument, "the body is to be a live key: %d digits of lower-case hex", 2*liveKeySize)
	}
	if err := c.serving.Ranges.Serving(ctx); err != nil {
		return nil, err
	}
	proof, err := c.bootProof(ctx, string(body))
	if err != nil {
		return nil, err
	}
	if proof == nil {
		return nil, fault.New(fault.NotFound, "boot proof not found")
	}
	return append(append([]byte(`{"bootProof":`), proof...), '}'), nil
}

// keySetPath is the path, below the issuer's URL, at which the host serves the enclave's key set.
const keySetPath = "/.well-known/jwks.json"

// issuer makes a handler that returns a document for verifying the enclave's identity tokens.
func issuer(tell func(*activity.ServiceKeys) []byte) bootHandler {
	return ignoringCall(func(c *Core) ([]byte, error) {
		if c.serving.serviceKeys.Issuer == "" {
			return nil, fault.New(fault.NotFound, "this enclave issues no identity tokens")
		}
		return tell(c.serving.serviceKeys), nil
	})
}

// discoveryOf returns the discovery document of the issuer.
func discoveryOf(r *activity.ServiceKeys) []byte {
	return login.MarshalDiscovery(r.Issuer, strings.TrimSuffix(r.Issuer, "/")+keySetPath)
}

// keySetOf returns the issuer's key set.
func keySetOf(r *activity.ServiceKeys) []byte { return login.MarshalKeySet(r.Identities.Public()) }

// admission is the result of an admission.
type admission struct {
	OrganizationID string `json:"organizationId"`
	RootUserID     string `json:"rootUserId"`
	RootAPIKeyID   string `json:"rootApiKeyId"`
}

// admit verifies that the manifest's admission key has stamped a call.
func (c *Core) admit(call *wire.Call) (*stamp.Caller, error) {
	who, err := c.stamps.Verify(stampHead(call), call.Body)
	if err != nil {
		return nil, err
	}
	if who.Scheme() != stamp.P256 || who.PublicKey() != hex.EncodeToString(c.serving.admission) {
		return nil, fault.WithCode(fault.Unauthenticated, "PUBLIC_KEY_NOT_FOUND", "not the admission key that the manifest names")
	}
	if c.serving.Manifest.Drill {
		return nil, errDrill
	}
	return who, nil
}

// createOrganization creates a first organization, stamped by the manifest's admission key.
// A body that is sent again gets the same reply, from the organization's records.
func (c *Core) createOrganization(ctx context.Context, call *wire.Call, v *callState) ([]byte, error) {
	who, err := c.admit(call)
	if err != nil {
		return nil, err
	}
	in, err := organization.ParseFirst(who.Body())
	if err != nil {
		return nil, err
	}
	id := org.ID(c.serving.organizationID(who.Fingerprint()))
	out := admission{OrganizationID: id.String()}
	err = v.earlierAdmission(ctx, id, &out)
	if errors.Is(err, ledger.ErrNoOrganization) {
		if err := checkTime(c.now(), in.TimestampMs); err != nil {
			return nil, err
		}
		err = v.admitNew(ctx, id, in, org.Hash(who.Fingerprint()), &out)
	}
	if err != nil {
		return nil, err
	}
	if err := v.Wait(ctx); err != nil {
		return nil, err
	}
	return json.Marshal(&out)
}

// earlierAdmission fills in the result of an earlier admission with this body.
func (v *callState) earlierAdmission(ctx context.Context, id org.ID, out *admission) error {
	return v.WithLock(ctx, id, func(t *ledger.Locked) error {
		tx := t.Begin(v.core.now())
		rec, err := tx.Organization()
		if err != nil || len(rec.RootUsers) == 0 {
			return err
		}
		out.RootUserID = rec.RootUsers[0].String()
		u, err := tx.User(rec.RootUsers[0])
		if err != nil || u == nil || len(u.APIKeys) == 0 {
			return err
		}
		out.RootAPIKeyID = u.APIKeys[0].ID.String()
		return nil
	})
}

func (v *callState) admitNew(ctx context.Context, id org.ID, first *organization.FirstOrganization, fp org.Hash, out *admission) error {
	c, now := v.core, v.core.now()
	l, err := v.LedgerFor(ctx, id)
	if err != nil {
		return err
	}
	if first.TimestampMs <= l.RecoveryWatermark() { // the earlier one may have been decided in a time that was lost
		return errRecovered
	}
	child, err := l.NewChild(id, now)
	if err != nil {
		return err
	}
	tx := child.Tx()
	root, key, err := first.Make(&activity.Tx{Tx: tx, Recovered: l.LastRecovery(), Limits: c.cfg.Quotas, Vault: activity.VaultOf(c.vault(id, child.Key(), 1)), Rand: mixed{c}, Keys: c.keys})
	if err != nil {
		return err
	}
	out.RootUserID, out.RootAPIKeyID = root.String(), key.String()
	v.Batch, err = l.Create(child, &org.Entry{Fingerprint: fp, CreatedMs: now, TimeMs: now}, tx)
	return err
}
