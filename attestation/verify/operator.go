package main

import (
	"bytes"
	"cmp"
	"crypto/ecdh"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/shared/commandline"
)

// An operatorKey is the file of an operator's two P-256 keys: one signs approvals and submissions of shares,
// the other decrypts the operator's share. There are two because one key should not serve two purposes.
type operatorKey struct {
	Format    int    `json:"format"`    // 1
	PublicKey string `json:"publicKey"` // compressed, hex; of Sign
	ShareKey  string `json:"shareKey"`  // compressed, hex; of Share
	Sign      string `json:"sign"`      // 32 bytes, hex
	Share     string `json:"share"`     // 32 bytes, hex

	sign  *ecdsa.PrivateKey
	share *ecdh.PrivateKey
}

// An operatorCommand is a command of operators, with the flags that it takes. Other flags are refused, so that nobody
// thinks that something was compared.
type operatorCommand struct {
	run      func(*operatorFlags) error
	takes    string // names of flags, separated by blanks
	believes bool   // it also takes the flags of a policy
}

var operatorCommands = map[string]operatorCommand{
	"operator-key":    {newOperatorKey, "out", false},
	"manifest":        {canonicalManifest, "manifest after recover policy", false},
	"approve":         {approve, "key manifest yes", false},
	"nonce":           {newNonce, "", false},
	"shares":          {checkShares, "key shares", true},
	"share":           {giveShare, "key shares setup nonce", true},
	"program-key":     {newProgramKey, "out", false},
	"program-approve": {approveProgram, "key manifest yes", false},
	"program-share":   {giveProgramShare, "key shares setup manifest simulator-root allow-debug", false},
}

const operatorUsage = `usage of the operators' commands:

  cloister-verify operator-key -out KEY         make a key file (mode 0600); prints its public half for genesis
  cloister-verify manifest -manifest DRAFT      write a manifest in its one encoding; -policy FILE puts the text of a
                                                tlog-policy into its "log"
  cloister-verify manifest -after M             write the manifest that comes after M, which asks for nothing that is done once;
                                                with -recover FILE, the last line of cloister-host log heads, it recovers from
                                                there; with -policy FILE these witnesses cosign it; either way
                                                its log's generation is one higher
  cloister-verify approve -key KEY -manifest M  show a manifest and sign it once "yes" is typed (or -yes); prints the approval
  cloister-verify nonce                         draw a nonce for a setup document
  cloister-verify shares -key KEY -shares S …   check that a share set was made in the expected image and holds a share for KEY
                                                with -operators FILE also that it is shared among these and nobody else
  cloister-verify share -key KEY -shares S -nonce N -setup D -operators M …
                                                check a waiting enclave in every respect and encrypt the share to it; prints the submission

Of customers' programs:

  cloister-verify program-key -out KEY          make a key file (mode 0600); prints the 130 bytes that name the operator
  cloister-verify program-approve -key KEY -manifest M
                                                show a program's manifest and sign it once "yes" is typed (or -yes); prints the signature
  cloister-verify program-share -key KEY -shares BOX -setup D -manifest M
                                                check an enclave that waits for shares against this manifest in every respect, open
                                                the share of BOX (hex) and encrypt it to the enclave; prints what is posted

What is expected of an image: -release FILE, -measurements FILE or -pcr0, -pcr1 and -pcr2.

`

type operatorFlags struct {
	options
	in             *input
	stdout, stderr io.Writer
	now            func() time.Time

	out, key, manifest, after, recover, logPolicy, shares, setup, nonce string
	yes                                                                 bool
}

func runOperator(name string, args []string, in *input, stdout, stderr io.Writer, now func() time.Time) int {
	o := &operatorFlags{options: options{pcrs: make(map[int]string)}, in: in, stdout: stdout, stderr: stderr, now: now}
	f := commandline.NewFlags("cloister-verify "+name, operatorUsage, stdout, nil)
	f.StringVar(&o.out, "out", "", "`file` for the new key; must not exist")
	f.StringVar(&o.key, "key", "", "`file` of operator-key")
	f.StringVar(&o.manifest, "manifest", "", "manifest `file`")
	f.StringVar(&o.after, "after", "", "`file` with the manifest in force, for the one after it")
	f.StringVar(&o.recover, "recover", "", "`file` with where ranges go on, for the manifest after the one in force")
	f.StringVar(&o.logPolicy, "policy", "", "`file` with the policy of witnesses, for the draft of a manifest")
	f.StringVar(&o.shares, "shares", "", "`file` with the attested share set, or with genesis' reply that holds it")
	f.StringVar(&o.setup, "setup", "", "`file` with the enclave's answer to setup-document")
	f.StringVar(&o.nonce, "nonce", "", "`hex` that the setup document was asked for with")
	f.BoolVar(&o.yes, "yes", false, "sign without asking")
	own := map[string]bool{}
	f.VisitAll(func(f *flag.Flag) { own[f.Name] = true })
	o.beliefs(f)
	command := operatorCommands[name]
	if err := commandline.Parse(f, args); err != nil {
		return program.Misuse(err, stderr)
	}
	err := checkEmpty(args)
	if f.NArg() > 0 {
		err = cmp.Or(err, errors.New("arguments that belong to no flag"))
	}
	f.Visit(func(f *flag.Flag) {
		if !slices.Contains(strings.Fields(command.takes), f.Name) && (own[f.Name] || !command.believes) {
			err = cmp.Or(err, fmt.Errorf("%s does not take -%s, and would not look at it", name, f.Name))
		}
	})
	if err != nil {
		return program.Misuse(commandline.Wrong(f, err), stderr)
	}
	return verdict(command.run(o), stderr)
}

func newOperatorKey(o *operatorFlags) error {
	if o.out == "" {
		return fmt.Errorf("%w: want -out", errUnreadable)
	}
	k := operatorKey{Format: 1}
	var err error
	if k.sign, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	if k.share, err = ecdh.P256().GenerateKey(rand.Reader); err != nil {
		return err
	}
	s, err := k.sign.Bytes()
	if err != nil {
		return err
	}
	k.Sign, k.Share = hex.EncodeToString(s), hex.EncodeToString(k.share.Bytes())
	if k.PublicKey, k.ShareKey, err = k.public(); err != nil {
		return err
	}
	raw, err := json.MarshalIndent(k, "", "  ")
	if err != nil {
		return err
	}
	f, err := os.OpenFile(o.out, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("%w: %w", errUnreadable, err)
	}
	_, err = f.Write(append(raw, '\n'))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return printJSON(o.stdout, map[string]string{"publicKey": k.PublicKey, "shareKey": k.ShareKey})
}

func (k *operatorKey) public() (sign, share string, err error) {
	b, err := k.sign.PublicKey.Bytes()
	if err != nil {
		return "", "", err
	}
	short := func(p []byte) string { return hex.EncodeToString(append([]byte{2 | p[64]&1}, p[1:33]...)) }
	return short(b), short(k.share.PublicKey().Bytes()), nil
}

func (o *operatorFlags) readKey() (*operatorKey, error) {
	raw, err := o.in.read(o.key, maxSettings)
	if err != nil {
		return nil, err
	}
	k := new(operatorKey)
	err = json.Unmarshal(raw, k)
	signs, signsErr := hex.DecodeString(k.Sign)
	opens, opensErr := hex.DecodeString(k.Share)
	var signErr, shareErr error
	k.sign, signErr = ecdsa.ParseRawPrivateKey(elliptic.P256(), signs)
	k.share, shareErr = ecdh.P256().NewPrivateKey(opens)
	if k.Format != 1 || errors.Join(err, signsErr, opensErr, signErr, shareErr) != nil {
		return nil, fmt.Errorf("%s: no operator's key", o.key)
	}
	sign, share, err := k.public()
	if err != nil || sign != k.PublicKey || share != k.ShareKey {
		return nil, fmt.Errorf("%s: public and private keys do not fit", o.key)
	}
	return k, nil
}

// canonicalManifest writes the canonical form of a draft, or of the manifest that follows the one in force.
func canonicalManifest(o *operatorFlags) error {
	if (o.after == "") == (o.manifest == "") || o.recover != "" && o.after == "" {
		return fmt.Errorf("%w: want -manifest, or -after and with it perhaps -recover", errUnreadable)
	}
	m, err := new(attestation.Manifest), error(nil)
	if o.after != "" {
		m, err = o.nextManifest()
	} else {
		err = o.readDraft(o.manifest, m)
	}
	if err != nil {
		return err
	}
	if o.logPolicy != "" {
		if m.Log == nil {
			return fmt.Errorf("%s: it has no \"log\" that a policy belongs to", cmp.Or(o.manifest, o.after))
		}
		text, err := o.in.read(o.logPolicy, attestation.MaxManifest)
		if err != nil {
			return err
		}
		m.Log.Policy = string(text)
	}
	if m.Log != nil && o.after != "" && (o.logPolicy != "" || o.recover != "") { // the new terms are for a new generation
		m.Log.Generation = m.Log.FirstGeneration() + 1
	}
	out, err := m.Encode()
	if err != nil {
		return err
	}
	_, err = o.stdout.Write(out)
	return err
}

// nextManifest returns the manifest that follows the one in force: the same without one-time members, and with -recover.
func (o *operatorFlags) nextManifest() (*attestation.Manifest, error) {
	raw, err := o.in.read(o.after, attestation.MaxManifest)
	if err != nil {
		return nil, err
	}
	m, err := attestation.ParseManifest(raw)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", o.after, err)
	}
	hash := attestation.Hash(raw)
	m.Predecessor, m.Nonce = hex.EncodeToString(hash[:]), m.Nonce+1
	m.RotateRootSecret, m.RotateStorageKey, m.ForgetStorageKey, m.AdoptLog, m.Recover, m.SigningAfterRecovery = false, false, false, false, nil, ""
	if o.recover != "" {
		err = o.readDraft(o.recover, &m.Recover)
	}
	return m, err
}

// readDraft reads JSON in any order and with any blanks, without unknown members.
func (o *operatorFlags) readDraft(name string, into any) error {
	raw, err := o.in.read(name, attestation.MaxManifest)
	if err != nil {
		return err
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// approve shows the manifest before it signs the approval.
func approve(o *operatorFlags) error {
	k, err := o.readKey()
	if err != nil {
		return err
	}
	raw, err := o.in.read(o.manifest, attestation.MaxManifest)
	if err != nil {
		return err
	}
	m, err := attestation.ParseManifest(raw)
	if err != nil {
		return err
	}
	hash := attestation.Hash(raw)
	if err := printJSON(o.stderr, m); err != nil {
		return err
	}
	if m.Log != nil { // in JSON the policy is one long line
		fmt.Fprintf(o.stderr, "%s\n%s\n", m.Log, m.Log.Policy)
	}
	fmt.Fprintf(o.stderr, "operators: %s\n", m.Operators)
	for i := range m.Recover {
		fmt.Fprintf(o.stderr, "recover: %s\n", &m.Recover[i])
	}
	if m.Drill {
		fmt.Fprintln(o.stderr, "drill: for a copy of the deployment that is thrown away")
	}
	fmt.Fprintf(o.stderr, "SHA-256 %x\n", hash)
	if err := o.confirm(); err != nil {
		return err
	}
	a, err := attestation.ApproveManifest(k.sign, hash)
	if err != nil {
		return err
	}
	return printJSON(o.stdout, a)
}

// confirm asks the operator to confirm what was shown, unless -yes.
func (o *operatorFlags) confirm() error {
	if o.yes {
		return nil
	}
	fmt.Fprint(o.stderr, "Type yes to approve it: ")
	line, err := io.ReadAll(io.LimitReader(o.in.stdin, 16))
	if err != nil || strings.TrimSpace(string(line)) != "yes" {
		return errors.New("not approved")
	}
	return nil
}

func newNonce(o *operatorFlags) error {
	var n [attestation.SetupNonceSize]byte
	_, _ = rand.Read(n[:]) // it never fails
	_, err := fmt.Fprintf(o.stdout, "%x\n", n)
	return err
}

// readShares returns the verified set, its bytes, and the place of the operator in it.
func (o *operatorFlags) readShares(k *operatorKey, p attestation.Policy) (*attestation.ShareSet, []byte, int, error) {
	raw, err := o.in.read(o.shares, maxSettings)
	if err != nil {
		return nil, nil, 0, err
	}
	var reply struct {
		Shares json.RawMessage `json:"shares"`
	}
	if err := json.Unmarshal(raw, &reply); err == nil && len(reply.Shares) > 0 {
		raw = reply.Shares
	}
	s, err := attestation.VerifyShares(raw, p)
	if err != nil {
		return nil, nil, 0, err
	}
	set, err := s.Encode()
	if err != nil {
		return nil, nil, 0, err
	}
	place := s.Operator(k.PublicKey)
	if place == 0 || s.Operators.ShareKeys[place-1] != k.ShareKey {
		return nil, nil, 0, errors.New("share set: it holds no share for this key")
	}
	return s, set, place, nil
}

func checkShares(o *operatorFlags) error {
	p, err := o.policy(o.in, o.now)
	if err != nil {
		return err
	}
	k, err := o.readKey()
	if err != nil {
		return err
	}
	s, set, place, err := o.readShares(k, p)
	if err != nil {
		return err
	}
	if p.Operators.Named() && !s.Operators.Equal(p.Operators) {
		return errors.New("share set: shared among others than the operators that you named")
	}
	share, err := s.Open(place, k.share)
	clear(share)
	if err != nil {
		return err
	}
	line(o.stdout, "deployment", s.Deployment)
	line(o.stdout, "quorum key", s.QuorumPublicKey)
	line(o.stdout, "share set", fmt.Sprintf("%x", attestation.ShareSetDigest(set)))
	line(o.stdout, "operators", fmt.Sprintf("%d of %d; this key is operator %d", s.Operators.Threshold, len(s.Shares), place))
	for _, public := range s.Operators.PublicKeys {
		line(o.stdout, "", public)
	}
	_, err = fmt.Fprintln(o.stdout, "VERIFIED: share set")
	return err
}

// giveShare writes the operator's share for an enclave. It decrypts the share only after the enclave is verified.
func giveShare(o *operatorFlags) error {
	p, err := o.policy(o.in, o.now)
	if err != nil {
		return err
	}
	k, err := o.readKey()
	if err != nil {
		return err
	}
	nonce, err := hex.DecodeString(o.nonce)
	if err != nil || len(nonce) != attestation.SetupNonceSize {
		return errors.New("-nonce is not 32 bytes of hex")
	}
	raw, err := o.in.read(o.setup, attestation.MaxReply)
	if err != nil {
		return err
	}
	answer, err := attestation.ParseSetupAnswer(raw)
	if err != nil {
		return err
	}
	s, err := attestation.VerifySetup(*answer, [attestation.SetupNonceSize]byte(nonce), p)
	if err != nil {
		return err
	}
	set, raw, place, err := o.readShares(k, p)
	if err != nil {
		return err
	}
	if set.QuorumPublicKey != s.Manifest.QuorumPublicKey {
		return errors.New("the share set is of another secret than the enclave's manifest")
	}
	share, err := set.Open(place, k.share)
	defer clear(share)
	if err != nil {
		return err
	}
	out, err := s.Submit(raw, place, share, k.sign)
	if err != nil {
		return err
	}
	fmt.Fprintf(o.stderr, "enclave verified: manifest %x, version %s, nonce %d; share of operator %d\n", s.ManifestHash, s.Manifest.Version, s.Manifest.Nonce, place)
	return printJSON(o.stdout, out)
}

func printJSON(w io.Writer, v any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(v)
}
