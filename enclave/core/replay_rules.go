package core

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"cloister/attestation"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/bundle"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/stamp"
	"cloister/enclave/internal/strictjson"
	"cloister/shared/tvc"
)

// A replayRule describes what of a kind's activities cannot be recomputed.
type replayRule struct {
	// results are members of the result that are drawn, or made with a secret.
	results []string
	// draws are the collections in whose records drawnMembers are.
	draws string
	// sends means that the kind's sends contain a secret.
	sends bool
	// taken means that the kind is not run, since its effect depends on a secret or on an external
	// service. It may then change the records of these collections.
	taken string
	// refuses is the one failure of a taken kind that needs a key to detect. Any other is recomputed.
	refuses *fault.Error
	// asked extracts the part of the first of results that is computed nevertheless.
	asked func(string) string
	// verified means that results are verified with public keys: activity.Kind has Verify, or
	// the records suffice.
	verified bool
}

// replayRules are the rules of the kinds that draw more than ids, use secrets or external services. A kind
// without a rule is recomputed whole. The letters are those of package org's collections.
var replayRules = map[string]replayRule{
	"CREATE_WALLET":           {results: []string{"addresses"}, draws: "Eab", verified: true},
	"CREATE_WALLET_ACCOUNTS":  {results: []string{"addresses"}, draws: "ab", verified: true},
	"CREATE_PRIVATE_KEYS":     {results: []string{"address"}, draws: "Fb", verified: true},
	"CREATE_SUB_ORGANIZATION": {results: []string{"addresses", "address"}, draws: "EabF", verified: true},

	"CREATE_TVC_OPERATOR":   {results: []string{"encryptPublicKey", "signPublicKey"}, draws: "Eabn", verified: true},
	"CREATE_TVC_QUORUM_KEY": {results: []string{"quorumPublicKey"}, draws: "s", verified: true},

	"RE_ENCRYPT_TVC_QUORUM_KEY_SHARE": {taken: "t", refuses: keys.ErrShare, verified: true},

	"SIGN_RAW_PAYLOAD":  {results: []string{"r", "s", "v"}, verified: true},
	"SIGN_RAW_PAYLOADS": {results: []string{"r", "s", "v"}, verified: true},
	"SIGN_TRANSACTION":  {results: []string{"signedTransaction"}, verified: true},

	"SPARK_SIGN_FROST":                {taken: " ", refuses: keys.ErrOwnVerifyingKey, verified: true},
	"SPARK_CLAIM_TRANSFER":            {taken: " ", refuses: keys.ErrNoLeafKey, verified: true},
	"SPARK_PREPARE_TRANSFER":          {results: []string{"encryptedPackage", "transferUserSignature", "publicKey"}, verified: true},
	"SPARK_PREPARE_LIGHTNING_RECEIVE": {results: []string{"encryptedPackage", "paymentHash"}, verified: true},

	"EXPORT_WALLET":           {results: []string{"exportBundle"}},
	"EXPORT_WALLET_ACCOUNT":   {results: []string{"exportBundle"}},
	"EXPORT_PRIVATE_KEY":      {results: []string{"exportBundle"}},
	"INIT_IMPORT_WALLET":      {results: []string{"importBundle"}, draws: "P"},
	"INIT_IMPORT_PRIVATE_KEY": {results: []string{"importBundle"}, draws: "P"},
	"IMPORT_WALLET":           {taken: "DEabcP"},
	"IMPORT_PRIVATE_KEY":      {taken: "DFbP"},
	"INIT_IMPORT_SECRETS":     {results: []string{"enclaveTargetMessages"}, draws: "P", verified: true},
	"IMPORT_SECRETS":          {draws: "m"},
	"EXPORT_SECRETS":          {results: []string{"secretPayloads"}},

	"ETH_SEND_TRANSACTION":     {taken: "huz", verified: true},
	"ETH_UNDELEGATE_7702":      {taken: "hu", verified: true},
	"ETH_SEND_RAW_TRANSACTION": {taken: "hu", verified: true},
	"SOL_SEND_TRANSACTION":     {taken: " ", verified: true},

	"UPSERT_GAS_USAGE_CONFIG": {draws: "Y"},

	"STAMP_LOGIN":               {results: []string{"session"}, asked: claimsOf},
	"CREATE_READ_ONLY_SESSION":  {results: []string{"session"}, asked: claimsOf},
	"CREATE_READ_WRITE_SESSION": {taken: "BC"},
	"EMAIL_AUTH":                {taken: "BC"},
	"INIT_USER_EMAIL_RECOVERY":  {taken: "BC"},
	"INIT_OTP":                  {results: []string{"otpEncryptionTargetBundle"}, draws: "i", sends: true},
	"INIT_OTP_AUTH":             {draws: "i", sends: true},
	"VERIFY_OTP":                {taken: "ijkB"},
	"OTP_AUTH":                  {taken: "ijBC"},
	"OTP_LOGIN":                 {taken: "kBC"},
	"OAUTH":                     {taken: "BC"},
	"OAUTH_LOGIN":               {taken: "BC"},
	"OAUTH2_AUTHENTICATE":       {taken: " "},
	"CREATE_OAUTH2_CREDENTIAL":  {taken: "DR"},
	"UPDATE_OAUTH2_CREDENTIAL":  {taken: "DR"},
	"ENABLE_AUTH_PROXY":         {taken: "BCDHT"},

	"CREATE_FIAT_ON_RAMP_CREDENTIAL": {taken: "S"},
	"UPDATE_FIAT_ON_RAMP_CREDENTIAL": {taken: "S"},
	"ACTIVATE_BILLING_TIER":          {taken: "V"},
	"SET_PAYMENT_METHOD":             {taken: "V"},
	"UPDATE_PAYMENT_METHOD":          {taken: "V"},
	"DELETE_PAYMENT_METHOD":          {taken: "V"},
	"INIT_FIAT_ON_RAMP":              {results: []string{"onRampUrl", "onRampUrlSignature"}, asked: onramp.CutSignature},
}

// tokenMay are collections that kinds may change which are run, except for requests with a token in body or stamp: then they are taken.
var tokenMay = map[string]string{
	"CREATE_OAUTH_PROVIDERS":   "BC",
	"CREATE_USERS":             "BCD",
	"CREATE_API_ONLY_USERS":    "BCD",
	"CREATE_SUB_ORGANIZATION":  "Ddefk",
	"ACCEPT_INVITATION":        "BCDI",
	"UPDATE_USER":              "BCD",
	"UPDATE_USER_EMAIL":        "Bk",
	"UPDATE_USER_PHONE_NUMBER": "Bk",
	"RECOVER_USER":             "BC",
	"STAMP_LOGIN":              "BCk",
}

// A ReplayKind is how far completed activities of a kind are replayed. Refused, rejected and waiting ones
// are always recomputed.
type ReplayKind struct {
	Name  string // without ACTIVITY_TYPE_ and version
	Grade ReplayGrade
	// Results are the members of the result that are taken as recorded, or verified with public keys.
	Results []string
	// Records are the collections in whose records members are, by package org's letters; for a taken kind
	// those that it may change.
	Records string
	// Token are the collections that it may change if a token came in the body or the stamp: then it is taken.
	Token string
}

// ReplayKinds are all kinds, by name.
func ReplayKinds() []ReplayKind {
	var all []ReplayKind
	for _, v := range kinds.Live {
		name := v.Kind.Name
		if slices.ContainsFunc(all, func(k ReplayKind) bool { return k.Name == name }) {
			continue
		}
		rule, ruled := replayRules[name]
		k := ReplayKind{Name: name, Grade: ReplayRecomputed, Results: rule.results, Records: strings.TrimSpace(rule.draws + rule.taken), Token: tokenMay[name]}
		switch {
		case rule.verified:
			k.Grade = ReplayVerified
		case rule.taken != "":
			k.Grade = ReplayTaken
		case ruled:
			k.Grade = ReplaySealed
		}
		all = append(all, k)
	}
	slices.SortFunc(all, func(a, b ReplayKind) int { return strings.Compare(a.Name, b.Name) })
	return all
}

// drawnMembers are the members of records, by their CBOR numbers, that are drawn, sealed, or derived
// from such.
var drawnMembers = map[byte][]uint64{
	'E': {3, 11}, // entropy and passphrase, sealed
	'F': {4, 5, 6},
	'a': {6, 7}, // address and public key: wallet.CheckKeys compares them
	'P': {4, 6, 7},
	'Y': {6, 7, 10, 11},
	'i': {4, 7, 8},
	'm': {1},
	'n': {3},
	's': {2, 4},
	'k': {3},
}

// never are the collections that only the engine writes: waiting activities, and passkeys' counters.
const never = "LMN"

// metered are the collections in which the engine counts an activity's use of its plan, before it runs.
const metered = "VW"

// perform is activity.Version.Run for a replay.
func (r *Replay) perform(v *activity.Version, tx *activity.Tx, in *activity.Intent) ([]byte, error) {
	s := r.step
	rule, ruled := replayRules[v.Kind.Name]
	switch {
	case rule.verified:
		s.grade = ReplayVerified
	case ruled:
		s.grade = ReplaySealed
	}
	token := hasToken(s.main.Entry.Body) || s.main.Entry.Votes[0].Scheme == stamp.AttestedP256.String()
	taken := rule.taken != ""
	if rule.refuses != nil && s.main.Entry.Status == org.StatusFailed {
		if f, err := faultOf(s.main.Entry.Failure); err == nil && f.Message == rule.refuses.Message {
			return nil, rule.refuses
		}
		taken = false
	}
	if taken || token && tokenMay[v.Kind.Name] != "" {
		if !rule.verified {
			s.grade = ReplayTaken
		}
		return s.useRecordedResult(v, tx, in)
	}
	tx.Boot = r.terms[term{tx.ID[0], s.main.Entry.Boot}]
	tx.Opened, tx.Recovered = s.opener(), signingSince(tx.ID, s.main.Entry.Writes)
	if tx.Parent != nil {
		tx.ParentVault = activity.VaultOf(blindVault{})
	}
	tx.Vault, tx.Bundles, tx.PasscodeTargets, tx.Providers = activity.VaultOf(blindVault{}), r.bundles, r.bundles, noProviders{}
	if more := tx.NewOrganization; more != nil {
		tx.NewOrganization = func() (*activity.Tx, error) {
			child, err := more()
			if err == nil {
				child.Vault, child.Recovered = activity.VaultOf(blindVault{}), 0
				if h := r.histories[child.ID]; h != nil && len(h.entries) > 0 {
					child.Recovered = signingSince(child.ID, h.entries[0].Entry.Writes)
				}
			}
			return child, err
		}
	}
	tx.StoredEvents = s.storedEvents
	if v.Kind.Name != "CREATE_TVC_DEPLOYMENT" {
		return v.Run(tx, in)
	}
	tx.Capabilities.Programs = s.platform()
	result, err := v.Run(tx, in)
	if f := fault.Of(err); f != nil && f.Message == activity.NoPrograms().Message {
		err = s.unseen(f)
	}
	return result, err
}

// signingSince returns the generation of the log, after a recovery, in which an organization may sign as of recorded
// writes; 0 if they do not change the organization.
func signingSince(id org.ID, writes []org.Write) uint32 {
	t := org.Begin(id, org.NewState(), 0)
	t.Put(writes...)
	o, err := t.Organization()
	if err != nil || o == nil {
		return 0
	}
	return o.Recovered
}

// platform reconstructs the platform for programs from a deployment's recorded manifest, nil if there is none: the measured
// configuration has it, and is not in the history.
func (s *replayed) platform() (p *program.Platform) {
	t := org.Begin(s.main.Organization, org.NewState(), 0)
	t.Put(s.main.Entry.Writes...)
	_ = t.EachTVCDeployment(func(d *org.TVCDeployment) bool {
		if m, err := t.TVCManifest(d.Manifest); err == nil && m != nil {
			if parsed, err := tvc.ParseManifest(m.Bytes); err == nil {
				p = &program.Platform{Bases: []program.Base{{Name: d.Version, Enclave: parsed.Enclave}}}
			}
		}
		return true
	})
	return p
}

// unseen returns the recorded failure of a deployment if the history cannot explain it: it is about
// the configuration, or about the image.
func (s *replayed) unseen(computed *fault.Error) error {
	f, err := faultOf(s.main.Entry.Failure)
	if err == nil && (f.Name == program.Invalid("").Name || len(f.Violations) == 1 && f.Violations[0].Field == "qosVersion") {
		return f
	}
	return computed
}

// opener replaces the decryption of imported secrets. All succeed, unless the entry's failure names one that did not.
func (s *replayed) opener() func() (secret.Secret, error) {
	n, shut := 0, -1
	if f, err := faultOf(s.main.Entry.Failure); err == nil && len(f.Violations) == 1 {
		if _, err := fmt.Sscanf(f.Violations[0].Field, "secrets.%d.secretPayload", &shut); err != nil {
			shut = -1
		}
	}
	return func() (secret.Secret, error) {
		if n++; n-1 == shut {
			return secret.Secret{}, bundle.ErrOpen
		}
		return blindVault{}.Open(org.ID{}, nil)
	}
}

// hasToken reports whether a body contains a token of an external issuer, or of the enclave's own token key.
func hasToken(body []byte) bool {
	return bytes.Contains(body, []byte(`"oidcToken":"`)) || bytes.Contains(body, []byte(`"verificationToken":"`))
}

// spendAgain counts the recorded cost of a sponsored transaction against the windows anew. The cost itself is in no
// other record: it depends on the prices in the enclave's configuration.
func (s *replayed) spendAgain(tx *activity.Tx, in *activity.Intent) error {
	p := in.Payer()
	if p == nil || p.SponsoredBy() == nil {
		return nil
	}
	top, err := tx.Top()
	if err != nil {
		return err
	}
	e := s.main.Entry
	if e.Status == org.StatusFailed {
		return s.refuseAgain(tx, top, p.SponsoredBy())
	}
	spends := org.Begin(top.ID, org.NewState(), tx.NowMs) // with the recorded spends alone
	writes := e.Writes
	if top.ID != tx.ID {
		writes = nil
		if up := s.replay.histories[e.Other]; up != nil && e.Other == top.ID && e.OtherSeq < uint64(len(up.entries)) {
			writes = up.entries[e.OtherSeq].Entry.Writes
		}
	}
	for _, w := range writes {
		if w.Key[0] == spent {
			spends.Put(w)
		}
	}
	var micro, count uint64
	if err := spends.EachGasSpend(tx.NowMs, func(g *org.GasSpend) { micro, count = g.Micro, count+1 }); err != nil {
		return err
	}
	if count != 1 {
		return s.windowsFinding("1 cost of a sponsored transaction", fmt.Sprint(count))
	}
	tx.RecoveredMs = s.replay.recovered[tx.ID[0]]
	if err = wallet.SpendGas(tx, top, p.SponsoredBy(), micro); fault.Of(err) != nil {
		err = s.windowsFinding("refused ("+fault.Of(err).Message+")", "completed")
	}
	return err
}

// refuseAgain checks a recorded refusal because of a recovery, which no other record names. From then on the windows count
// as used up in the replay, too.
func (s *replayed) refuseAgain(tx *activity.Tx, top *org.Tx, c *org.GasConfig) error {
	recorded, err := faultOf(s.main.Entry.Failure)
	if err != nil {
		return s.finding("failure", err.Error())
	}
	if tx.RecoveredMs = wallet.RecoveryIn(recorded.Message); tx.RecoveredMs == 0 {
		return nil
	}
	f := fault.Of(wallet.SpendGas(tx, top, c, 0))
	switch {
	case f == nil:
		return s.windowsFinding("not refused because of that recovery", recorded.Message)
	case f.Message != recorded.Message:
		return s.windowsFinding(f.Message, recorded.Message)
	case tx.RecoveredMs < s.replay.recovered[tx.ID[0]]:
		return s.windowsFinding("refused because of a later recovery", recorded.Message)
	}
	s.replay.recovered[tx.ID[0]] = tx.RecoveredMs
	return nil
}

// checkWindows is the check of the windows in a ReplayFinding.
const checkWindows = "spending windows"

func (s *replayed) windowsFinding(want, got string) error {
	return &ReplayFinding{Organization: s.main.Organization, Seq: s.main.Seq, Check: checkWindows, Want: want, Got: got}
}

// spent is the collection whose records spendAgain computes.
const spent = 'y'

// useRecordedResult applies the recorded changes in place of the activity's function.
func (s *replayed) useRecordedResult(v *activity.Version, tx *activity.Tx, in *activity.Intent) ([]byte, error) {
	e := s.main.Entry
	if e.Other == s.parent && !s.parent.Zero() && tx.Parent == nil {
		return nil, activity.ErrNeedsParent
	}
	may := replayRules[v.Kind.Name].taken + tokenMay[v.Kind.Name]
	before := tx.Tx
	put := func(t *org.Tx) error {
		counted := false
		for _, w := range e.Writes {
			switch c := w.Key[0]; {
			case strings.IndexByte(never, c) >= 0:
				counted = true // the next write is the engine's
			case c == spent:
				continue // spendAgain has counted
			case c == 'A':
				if counted {
					continue
				}
				kept, err := keepPending(before, w)
				if err != nil {
					return s.finding("writes: the organization's record", err.Error())
				}
				t.Put(kept)
			case strings.IndexByte(metered, c) >= 0 && strings.IndexByte(may, c) < 0:
				continue // the engine has counted
			case c == 'B' && strings.IndexByte(may, c) < 0:
				continue // the engine records that a credential has stamped
			case strings.IndexByte(may, c) < 0:
				return s.finding("writes", fmt.Sprintf("a record of collection %c, which %s does not touch", c, v.Type))
			default:
				t.Put(w)
			}
		}
		return nil
	}
	if e.Status == org.StatusFailed {
		if err := s.spendAgain(tx, in); err != nil {
			return nil, err
		}
		f, err := faultOf(e.Failure)
		if err != nil {
			return nil, s.finding("failure", err.Error())
		}
		if len(e.Writes) > 0 {
			var bad error
			tx.ChangeDespiteRefusal(func(t *org.Tx) { bad = put(t) })
			if bad != nil {
				return nil, bad
			}
		}
		return nil, f
	}
	return v.Take(tx, func() ([]byte, error) {
		if err := s.spendAgain(tx, in); err != nil {
			return nil, err
		}
		if err := put(tx.Tx); err != nil {
			return nil, err
		}
		if up := s.replay.histories[e.Other]; up != nil && tx.Parent != nil && tx.Parent.ID == e.Other && e.OtherSeq < uint64(len(up.entries)) {
			for _, w := range up.entries[e.OtherSeq].Entry.Writes {
				// A token of the parent was spent, or the parent's account has sent; all else follows from the child's users.
				if w.Key[0] == 'k' || strings.IndexByte(may, w.Key[0]) >= 0 && w.Key[0] == 'z' {
					tx.Parent.Put(w)
				}
			}
		}
		if v.Kind.Name == "CREATE_SUB_ORGANIZATION" {
			child, err := tx.NewOrganization()
			if err != nil {
				return nil, err
			}
			if h := s.replay.histories[child.ID]; h != nil && h.next == 0 {
				child.Put(h.entries[0].Entry.Writes...)
			}
		}
		for _, send := range e.Sends {
			if send.Kind != org.SendWebhook && send.Kind != org.SendUsage { // those are added by the engine
				tx.Sends = append(tx.Sends, send)
			}
		}
		return e.Result, checkMember(e.Result, v.ResultKey)
	})
}

func (s *replayed) finding(check, got string) *ReplayFinding {
	return &ReplayFinding{Organization: s.main.Organization, Seq: s.main.Seq, Check: check, Got: got}
}

// checkMember requires a result with one member.
func checkMember(result []byte, key string) error {
	var m map[string]strictjson.Raw
	if err := strictjson.Decode(result, &m); err != nil {
		return err
	}
	if len(m) != 1 || m[key] == nil {
		return fmt.Errorf("a result without %s, or with more", key)
	}
	return nil
}

// keepPending returns a recorded organization record with the engine's present counts. The
// rest may differ in counts, features and the time of the change only.
func keepPending(tx *org.Tx, w org.Write) (org.Write, error) {
	o, err := tx.Organization()
	if err != nil {
		return w, err
	}
	t := org.Begin(tx.ID, org.NewState(), tx.NowMs)
	t.Put(w)
	n, err := t.Organization()
	if err != nil || n == nil || o == nil {
		return w, errors.Join(err, errors.New("it is gone"))
	}
	changed := *n
	changed.Pending = o.Pending
	same := *o
	same.Users, same.Wallets, same.PrivateKeys, same.Policies, same.Children = n.Users, n.Wallets, n.PrivateKeys, n.Policies, n.Children
	same.Tags, same.UpdatedMs, same.Features, same.Invitations = n.Tags, n.UpdatedMs, n.Features, n.Invitations
	a, err := organizationRecord(tx, &changed)
	if err != nil {
		return w, err
	}
	b, err := organizationRecord(tx, &same)
	if err == nil && !bytes.Equal(a.Value, b.Value) {
		err = errors.New("it changes in more than counts")
	}
	return a, err
}

func organizationRecord(tx *org.Tx, o *org.Organization) (org.Write, error) {
	t := org.Begin(tx.ID, org.NewState(), tx.NowMs)
	if err := t.PutOrganization(o); err != nil {
		return org.Write{}, err
	}
	ws, err := t.Writes()
	if err == nil && len(ws) != 1 {
		err = errors.New("an organization of several records")
	}
	if err != nil {
		return org.Write{}, err
	}
	return ws[0], nil
}

// faultOf parses a recorded failure.
func faultOf(body []byte) (*fault.Error, error) {
	var b struct {
		Code    int32            `json:"code"`
		Message string           `json:"message"`
		Details []strictjson.Raw `json:"details"`
		Name    string           `json:"turnkeyErrorCode"`
	}
	if err := strictjson.Decode(body, &b); err != nil {
		return nil, err
	}
	f := &fault.Error{Code: fault.Code(b.Code), Name: b.Name, Message: b.Message}
	for _, d := range b.Details {
		var v struct {
			Type       string `json:"@type"`
			Violations []struct {
				Field       string `json:"field"`
				Description string `json:"description"`
			} `json:"fieldViolations"`
		}
		if err := strictjson.Decode(d, &v, strictjson.AllowUnknown()); err != nil {
			return nil, err
		}
		for _, x := range v.Violations {
			f.Violations = append(f.Violations, fault.Violation{Field: x.Field, Description: x.Description})
		}
	}
	return f, nil
}

// adopt copies the members that an entry's kind draws from the recorded to the computed entry, and checks them.
// own means that it is a vote's own entry, which draws only its vote.
func (s *replayed) adopt(computed *org.Entry, of *Recorded, own bool) error {
	recorded := of.Entry
	finding := func(check, want, got string) error {
		return &ReplayFinding{Organization: of.Organization, Seq: of.Seq, Check: check, Want: want, Got: got}
	}
	if h := s.replay.histories[of.Organization]; recorded.Boot < h.boot {
		return finding("boot", fmt.Sprintf("%d or more", h.boot), fmt.Sprint(recorded.Boot))
	}
	computed.Boot = recorded.Boot
	if own {
		return nil
	}
	v := kinds.Live[s.main.Entry.Type]
	if v == nil {
		return finding("type", "one of the interface's", s.main.Entry.Type)
	}
	rule := replayRules[v.Kind.Name]
	if err := adoptResult(computed, recorded, &rule); err != nil {
		return finding("result", string(computed.Result), string(recorded.Result))
	}
	if err := s.replay.adoptWrites(computed, of, rule.draws); err != nil {
		return finding("writes", "", err.Error())
	}
	if rule.sends && len(computed.Sends) == len(recorded.Sends) {
		for i := range computed.Sends {
			computed.Sends[i].Content = recorded.Sends[i].Content
		}
	}
	if err := s.adoptProofs(computed, of); err != nil {
		return finding("app proofs", "", err.Error())
	}
	return nil
}

// adoptResult copies the drawn members of a result.
func adoptResult(computed, recorded *org.Entry, rule *replayRule) error {
	if len(rule.results) == 0 || len(computed.Result) == 0 {
		return nil
	}
	a, made, err := skeleton(computed.Result, rule.results)
	if err != nil {
		return err
	}
	b, got, err := skeleton(recorded.Result, rule.results)
	if err != nil {
		return err
	}
	if !bytes.Equal(a, b) || len(made) != len(got) {
		return errors.New("another result")
	}
	if rule.asked != nil && len(made) > 0 && rule.asked(made[0]) != rule.asked(got[0]) {
		return errors.New("another session, or page")
	}
	computed.Result = recorded.Result
	return nil
}

// claimsOf returns a token without its signature, which another key made.
func claimsOf(token string) string { return token[:max(strings.LastIndexByte(token, '.'), 0)] }

// skeleton returns JSON text without the values of some members, which are texts or lists of texts, and those values.
func skeleton(text []byte, members []string) (out []byte, values []string, err error) {
	masked := false // the next value is left out
	depth := 0      // of lists inside of that value
	for i := 0; i < len(text); {
		c := text[i]
		if c != '"' {
			if masked {
				switch c {
				case '[':
					depth++
				case ']':
					depth--
				}
				if depth == 0 && (c == ']' || c == '{') {
					masked = false
				}
			}
			out = append(out, c)
			i++
			continue
		}
		end := i + 1
		for end < len(text) && text[end] != '"' {
			if text[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(text) {
			return nil, nil, errors.New("no JSON")
		}
		token := text[i : end+1]
		i = end + 1
		key := i < len(text) && text[i] == ':'
		switch {
		case key:
			masked = slices.Contains(members, string(token[1:len(token)-1]))
			out = append(out, token...)
		case masked:
			values = append(values, string(token[1:len(token)-1]))
			if depth == 0 {
				masked = false
			}
		default:
			out = append(out, token...)
		}
	}
	return out, values, nil
}

// adoptWrites copies the drawn members of records.
func (r *Replay) adoptWrites(computed *org.Entry, of *Recorded, draws string) error {
	recorded := of.Entry
	if err := org.OmitNotBefore(computed.Writes, recorded.Writes); err != nil {
		return err
	}
	if draws == "" || len(computed.Writes) != len(recorded.Writes) {
		return nil
	}
	for i := range computed.Writes {
		a, b := &computed.Writes[i], &recorded.Writes[i]
		if len(b.Key) == 0 || len(a.Key) == 0 || a.Key[0] != b.Key[0] || strings.IndexByte(draws, a.Key[0]) < 0 || (a.Value == nil) != (b.Value == nil) {
			continue
		}
		const behind = 16 + 8 // after the hash of an address: its owner
		if a.Key[0] == 'b' && len(a.Key) == len(b.Key) && len(a.Key) > behind && bytes.Equal(a.Key[len(a.Key)-behind:], b.Key[len(b.Key)-behind:]) {
			a.Key = b.Key // wallet.CheckKeys verifies the owner
			continue
		}
		if !bytes.Equal(a.Key, b.Key) || a.Value == nil {
			continue
		}
		value, err := org.TakeMembers(a.Value, b.Value, drawnMembers[a.Key[0]])
		if err != nil {
			return err
		}
		a.Value = value
		if err := r.learnTerm(term{of.Organization[0], recorded.Boot}, *b); err != nil {
			return err
		}
	}
	return nil
}

// learnTerm learns the boot id of a term from a record that has it.
func (r *Replay) learnTerm(of term, w org.Write) error {
	id, ok, err := w.BootOf()
	if !ok || err != nil {
		return err
	}
	if known, ok := r.terms[of]; ok && known != id {
		return errors.New("a record of another run of the enclave")
	}
	r.terms[of] = id
	return nil
}

// adoptProofs compares recorded app proofs with computed ones: they must have a live key's signature, and be
// the same but for their time, their freshness and the state that they name.
func (s *replayed) adoptProofs(computed *org.Entry, of *Recorded) error {
	recorded := of.Entry
	if len(computed.Proofs) == len(recorded.Proofs)+1 { // an earlier release made none of what is shown
		computed.Proofs = slices.DeleteFunc(computed.Proofs, func(p org.Proof) bool {
			_, c, err := attestation.ParsePayload(string(p.Payload))
			return err == nil && c.Type() == attestation.TypeDecoded
		})
	}
	if len(computed.Proofs) != len(recorded.Proofs) {
		return nil // the comparison reports it
	}
	for i := range computed.Proofs {
		at, got, err := attestation.ParsePayload(string(recorded.Proofs[i].Payload))
		if err != nil {
			return err
		}
		_, want, err := attestation.ParsePayload(string(computed.Proofs[i].Payload))
		if err != nil {
			return err
		}
		if ms := uint64(at.UnixMilli()); ms < recorded.TimeMs || ms > recorded.TimeMs+60_000 {
			return errors.New("a proof of another time than the entry")
		}
		if err := adoptClaim(want, got, of, s.own.Root); err != nil {
			return err
		}
		text, err := attestation.EncodePayload(at, want)
		if err != nil {
			return err
		}
		if !bytes.Equal(text, recorded.Proofs[i].Payload) {
			return fmt.Errorf("would have been %s, is recorded as %s", shorten(string(text)), shorten(string(recorded.Proofs[i].Payload)))
		}
		p := &recorded.Proofs[i]
		if err := attestation.VerifyAppProofSignature(attestation.AppProof{Scheme: attestation.Scheme, PublicKey: hex.EncodeToString(p.Key), ProofPayload: string(p.Payload), Signature: hex.EncodeToString(p.Signature)}); err != nil {
			return err
		}
		computed.Proofs[i] = recorded.Proofs[i]
	}
	return nil
}

// adoptClaim copies the members of a claim that cannot be computed. root is that of the tree before the transaction.
func adoptClaim(want, got attestation.Claim, of *Recorded, root org.Hash) error {
	fresh := got.Fresh()
	if fresh == nil || fresh.BootNumber != fmt.Sprint(of.Entry.Boot) {
		return errors.New("a proof of another boot than the entry")
	}
	switch w := want.(type) {
	case *attestation.PolicyOutcome:
		g, ok := got.(*attestation.PolicyOutcome)
		if !ok {
			return errors.New("a proof of another type")
		}
		w.Freshness, w.OrganizationDataDigest = fresh, g.OrganizationDataDigest
		if root != (org.Hash{}) && g.OrganizationDataDigest != fmt.Sprintf("%x", root) {
			return errors.New("a proof of another state than before the step")
		}
	case *attestation.AddressDerivation:
		g, ok := got.(*attestation.AddressDerivation)
		if !ok {
			return errors.New("a proof of another type")
		}
		if !bytes.Contains(of.Entry.Result, []byte(`"`+g.Address+`"`)) {
			return errors.New("a proof of an address that the result does not have")
		}
		w.Freshness, w.Address = fresh, g.Address
	case *attestation.SignatureMade:
		g, ok := got.(*attestation.SignatureMade)
		if !ok {
			return errors.New("a proof of another type")
		}
		w.Freshness, w.PublicKey = fresh, g.PublicKey
	case *attestation.DecodedActivity:
		g, ok := got.(*attestation.DecodedActivity)
		if !ok {
			return errors.New("a proof of another type")
		}
		w.Freshness, w.DecodedDigest = fresh, g.DecodedDigest
	}
	return nil
}

// blindVault replaces the vault, whose data key a replay does not have.
type blindVault struct{}

// blindSecret is the size in bytes of its secrets: that of keys and of the longest mnemonics.
const blindSecret = 32

func (blindVault) Seal(org.ID, secret.Secret) ([]byte, error) { return make([]byte, blindSecret), nil }

func (blindVault) Open([16]byte, []byte) (secret.Secret, error) {
	return secret.From(bytes.Repeat([]byte{1}, blindSecret))
}

// errOutside is the error of a request whose activity needs external data that is not in the entry.
var errOutside = errors.New("it asks for what is not in the history")

// noProviders replaces the external services.
type noProviders struct{}

func (noProviders) Keys(string, string, func(*login.KeySet) bool) (*login.KeySet, error) {
	return nil, errOutside
}

// OnRampSession returns a dummy: the recorded page has the session.
func (noProviders) OnRampSession(func(string) (*login.Request, error)) (string, error) {
	return "recorded", nil
}

func (noProviders) Pay(*billing.Question) (*billing.Answer, error) { return nil, errOutside }

// Program always finds the program: a recorded failure is returned before.
func (noProviders) Program(*activity.Image) error { return nil }

func (noProviders) Exchange(*activity.Exchange) (*activity.Exchanged, error) { return nil, errOutside }

// addressIn returns an address within rules.
func addressIn(rules []org.AllowlistRule) string {
	for i := range rules {
		if p, err := netip.ParsePrefix(rules[i].CIDR); err == nil {
			return p.Addr().String()
		}
	}
	return ""
}
