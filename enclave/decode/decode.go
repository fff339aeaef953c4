// Package decode makes the document that approvers of an activity are shown, outside the enclave and with its own code: from
// the body that the activity's signers have signed, and from records that the document takes names and keys from. So whoever
// is to approve something need believe neither host nor dashboard that it is what he was shown. `cloister-verify decode` and
// the dashboard's page for it, compiled to WebAssembly, ask it.
//
// It lies below enclave/ because it must read a body as the enclave does, and nobody else may import the packages for that.
// The enclave does not link it. The package uses no clock, network or storage.
package decode

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/decoded"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// Limits of a question.
const (
	MaxRecords = 64       // texts
	MaxBytes   = 64 << 20 // of all texts together
	// MaxDifferences is how many differing places an answer names.
	MaxDifferences = 20
)

// A Question is an activity, and the records that its document takes keys and names from. All may come from the host: what
// is false in them gives another document than the enclave's, whose digest an approval names.
type Question struct {
	// Activity is the reply of get_activity, or the activity in it.
	Activity string `json:"activity"`
	// Records are replies of get_wallet_account, list_wallet_accounts (with includeWalletDetails), list_wallets, get_private_key,
	// list_private_keys, get_smart_contract_interface, list_smart_contract_interfaces, get_user, and get_organization_configs, of which the
	// address book counts. The account or key that signs must be among them, and all that the document speaks of: another account of the
	// organization with its wallet, an interface of a contract, who made its label. Where a document has such a label, the names of all
	// wallets and private keys count.
	Records []string `json:"records"`
	// Tokens is the operator's list of tokens, or the reply of list_known_tokens; empty: none is known.
	Tokens string `json:"tokens"`
}

// An Answer is the document that belongs to the body.
type Answer struct {
	// Document is its text; see show.Document and enclave/APPROVALS.md.
	Document json.RawMessage `json:"document"`
	// Digest is the document's, in hex, which an approval names as decodedDigest.
	Digest string `json:"digest"`
	// Shown tells whether the activity came with a document of its own to compare.
	Shown bool `json:"shown"`
	// Differences are places where the activity's own document, or its digest, is another, up to MaxDifferences. None: it is
	// the same to the byte, or Shown is false.
	Differences []string `json:"differences"`
}

// signs are the kinds that sign something. What another kind changes is shown as a difference to records that only the enclave
// has: its signature over the reply proves that.
var signs = activity.NewTable(wallet.Signing, wallet.Sending)

// names are the words of an activity that a document depends on, or that must fit its body.
type names struct {
	ID             string         `json:"id"`
	OrganizationID string         `json:"organizationId"`
	Type           string         `json:"type"`
	Fingerprint    string         `json:"fingerprint"`
	CreatedAt      timestamp      `json:"createdAt"`
	Votes          []vote         `json:"votes"`
	Decoded        strictjson.Raw `json:"decoded"`
	DecodedDigest  string         `json:"decodedDigest"`
}

type timestamp struct {
	Seconds string `json:"seconds"`
}

type vote struct {
	Message string `json:"message"`
}

// read reads a text of the interface, of which only some members matter.
func read(text string, into any) error {
	err := strictjson.Decode([]byte(text), into, strictjson.AllowUnknown(), strictjson.Within(strictjson.Limits{Depth: 64, Items: 100_000, Members: 1000, Values: 4_000_000}))
	if f := fault.Of(err); f != nil { // it speaks of requests
		return errors.New(strings.TrimPrefix(f.Message, "invalid request body: "))
	}
	return err
}

// Answer makes the document of a question. An error says in words why there is none: a reply that is none, a body that is not
// the one that the activity's fingerprint names, an activity that signs nothing, a signer that is not among the records.
func (q *Question) Answer() (*Answer, error) {
	size := len(q.Activity) + len(q.Tokens)
	for _, r := range q.Records {
		size += len(r)
	}
	if len(q.Records) > MaxRecords || size > MaxBytes {
		return nil, fmt.Errorf("at most %d texts with %d bytes in all", MaxRecords, MaxBytes)
	}
	n, err := readActivity(q.Activity)
	if err != nil {
		return nil, err
	}
	entry, organization, err := n.entry()
	if err != nil {
		return nil, err
	}
	tx := org.Begin(organization, org.NewState(), entry.CreatedMs)
	for i, text := range q.Records {
		if err := add(tx, text); err != nil {
			return nil, fmt.Errorf("record %d: %w", i+1, err)
		}
	}
	if err := wallet.CheckKeys(tx); err != nil {
		return nil, fmt.Errorf("records: %w", err)
	}
	tokens, err := readTokens(q.Tokens)
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	document, err := signs.Document(tx, entry, tokens)
	if err != nil {
		return nil, fmt.Errorf("decoding the body: %w", err)
	}
	if document.Kind() == wallet.NoSigner {
		return nil, errors.New("the account or private key that signs is not among the records: add the reply of get_wallet_account, list_wallet_accounts or get_private_key that has it")
	}
	digest := document.Digest()
	a := &Answer{Document: document.Text(), Digest: hex.EncodeToString(digest[:]), Shown: n.Decoded != nil, Differences: []string{}}
	if !a.Shown {
		return a, nil
	}
	var shown bytes.Buffer
	if err := json.Compact(&shown, n.Decoded); err != nil {
		return nil, errors.New("activity: decoded is not JSON")
	}
	if !bytes.Equal(shown.Bytes(), document.Text()) {
		compare(a, "decoded", strictjson.Raw(document.Text()), shown.Bytes())
		if len(a.Differences) == 0 { // the same members, in another order or otherwise escaped
			a.differs("decoded")
		}
	}
	if n.DecodedDigest != a.Digest {
		a.differs("decodedDigest")
	}
	return a, nil
}

func readActivity(text string) (n names, err error) {
	var reply struct {
		Activity strictjson.Raw `json:"activity"`
	}
	if err := read(text, &reply); err != nil {
		return n, fmt.Errorf("activity: %w", err)
	}
	if reply.Activity != nil {
		text = string(reply.Activity)
	}
	if err := read(text, &n); err != nil {
		return n, fmt.Errorf("activity: %w", err)
	}
	return n, nil
}

func readTokens(text string) (*show.Tokens, error) {
	if text == "" {
		return nil, nil
	}
	var reply struct {
		Tokens strictjson.Raw `json:"tokens"`
	}
	if read(text, &reply) == nil {
		text = string(reply.Tokens)
	}
	return decoded.ReadTokens([]byte(text))
}

// entry makes the activity's entry, as far as documents depend on it.
func (n *names) entry() (e *org.Entry, organization org.ID, err error) {
	if len(n.Votes) == 0 || n.Votes[0].Message == "" {
		return nil, organization, errors.New("activity: its first vote has no message, which is the body: either this is no reply of get_activity, or the body is shown to nobody")
	}
	body := []byte(n.Votes[0].Message)
	if got := string(activity.AppendFingerprint(nil, sha256.Sum256(body))); got != n.Fingerprint {
		return nil, organization, fmt.Errorf("activity: its fingerprint is %s, and that of the body %s", activity.Printable(n.Fingerprint), got)
	}
	var own struct {
		OrganizationID string `json:"organizationId"`
		Type           string `json:"type"`
	}
	if err := read(n.Votes[0].Message, &own); err != nil {
		return nil, organization, fmt.Errorf("body: %w", err)
	}
	if own.OrganizationID != n.OrganizationID || own.Type != n.Type {
		return nil, organization, errors.New("activity: it is of another type or organization than its body")
	}
	if signs[n.Type] == nil {
		return nil, organization, fmt.Errorf("an activity of type %s signs nothing: what it changes is shown beside records that only the enclave has, so rely on the signature of the reply", activity.Printable(n.Type))
	}
	id, err := org.ParseID(n.ID)
	if err != nil {
		return nil, organization, errors.New("activity: its id is none")
	}
	if organization, err = org.ParseID(n.OrganizationID); err != nil {
		return nil, organization, errors.New("activity: its organization's id is none")
	}
	seconds, err := strconv.ParseUint(n.CreatedAt.Seconds, 10, 40)
	if err != nil {
		return nil, organization, errors.New("activity: createdAt is no time")
	}
	return &org.Entry{Activity: id, Type: n.Type, Body: body, Fingerprint: sha256.Sum256(body), CreatedMs: seconds * 1000}, organization, nil
}

// records are the members of replies that have records.
type records struct {
	Account     *account       `json:"account"`
	Accounts    []account      `json:"accounts"`
	PrivateKey  *privateKey    `json:"privateKey"`
	PrivateKeys []privateKey   `json:"privateKeys"`
	Interface   *description   `json:"smartContractInterface"`
	Interfaces  []description  `json:"smartContractInterfaces"`
	Configs     *configs       `json:"configs"`
	Wallet      *walletRecord  `json:"wallet"`
	Wallets     []walletRecord `json:"wallets"`
	User        *user          `json:"user"`
	Users       []user         `json:"users"`
}

type walletRecord struct {
	ID           string `json:"walletId"`
	Name         string `json:"walletName"`
	Exported     bool   `json:"exported"`
	Imported     bool   `json:"imported"`
	KeysExported bool   `json:"keysExported"`
}

type user struct {
	ID   string `json:"userId"`
	Name string `json:"userName"`
}

type configs struct {
	Features []struct {
		Name  string `json:"name"`
		Value string `json:"value"`
	} `json:"features"`
}

type account struct {
	ID        string `json:"walletAccountId"`
	Wallet    string `json:"walletId"`
	Curve     string `json:"curve"`
	Path      string `json:"path"`
	Format    string `json:"addressFormat"`
	Address   string `json:"address"`
	PublicKey string `json:"publicKey"`
	// Details are those of the account's wallet.
	Details *walletRecord `json:"walletDetails"`
}

type privateKey struct {
	ID        string    `json:"privateKeyId"`
	Name      string    `json:"privateKeyName"`
	Exported  bool      `json:"exported"`
	Imported  bool      `json:"imported"`
	PublicKey string    `json:"publicKey"`
	Curve     string    `json:"curve"`
	Addresses []address `json:"addresses"`
}

type address struct {
	Format  string `json:"format"`
	Address string `json:"address"`
}

type description struct {
	ID      string `json:"smartContractInterfaceId"`
	Address string `json:"smartContractAddress"`
	Text    string `json:"smartContractInterface"`
	Type    string `json:"type"`
	Label   string `json:"label"`
	MadeBy  string `json:"createdBy"`
}

// add adds the records of a reply to those that a document may take something from.
func add(tx *org.Tx, text string) error {
	var r records
	if err := read(text, &r); err != nil {
		return err
	}
	if r.Account != nil {
		r.Accounts = append(r.Accounts, *r.Account)
	}
	if r.PrivateKey != nil {
		r.PrivateKeys = append(r.PrivateKeys, *r.PrivateKey)
	}
	if r.Interface != nil {
		r.Interfaces = append(r.Interfaces, *r.Interface)
	}
	if r.Wallet != nil {
		r.Wallets = append(r.Wallets, *r.Wallet)
	}
	if r.User != nil {
		r.Users = append(r.Users, *r.User)
	}
	if r.Configs != nil {
		if err := r.Configs.put(tx); err != nil {
			return err
		}
	}
	for i := range r.Wallets {
		if err := r.Wallets[i].put(tx); err != nil {
			return err
		}
	}
	for i := range r.Users {
		if err := r.Users[i].put(tx); err != nil {
			return err
		}
	}
	for i := range r.Accounts {
		if err := r.Accounts[i].put(tx); err != nil {
			return err
		}
	}
	for i := range r.PrivateKeys {
		if err := r.PrivateKeys[i].put(tx); err != nil {
			return err
		}
	}
	for i := range r.Interfaces {
		if err := r.Interfaces[i].put(tx); err != nil {
			return err
		}
	}
	return nil
}

func (c *configs) put(tx *org.Tx) error {
	o := &org.Organization{ID: tx.ID, Features: map[string]string{}}
	for _, f := range c.Features {
		if f.Name == org.FeatureAddressBook {
			if _, err := activity.ReadAddressBook("value", f.Value); err != nil {
				return errors.New(fault.Of(err).Message)
			}
			o.Features[f.Name] = f.Value
		}
	}
	return tx.PutOrganization(o)
}

func (w *walletRecord) put(tx *org.Tx) error {
	id, err := org.ParseID(w.ID)
	if err != nil {
		return errors.New("a wallet without walletId")
	}
	return tx.PutWallet(&org.Wallet{ID: id, Name: w.Name, Exported: w.Exported, Imported: w.Imported, KeysOut: w.KeysExported})
}

func (u *user) put(tx *org.Tx) error {
	id, err := org.ParseID(u.ID)
	if err != nil {
		return errors.New("a user without userId")
	}
	return tx.PutUser(&org.User{ID: id, Name: u.Name})
}

func (a *account) put(tx *org.Tx) error {
	id, err := org.ParseID(a.ID)
	of, err2 := org.ParseID(a.Wallet)
	if err := cmp.Or(err, err2); err != nil {
		return errors.New("an account without walletAccountId and walletId")
	}
	_, no := org.AccountNo(id)
	if no == 0 {
		return errors.New("an account whose walletAccountId is none")
	}
	if a.Details != nil {
		if err := a.Details.put(tx); err != nil {
			return err
		}
	}
	return tx.PutAccount(&org.Account{Wallet: of, No: no, Curve: a.Curve, Path: a.Path, Format: a.Format, Address: a.Address, PublicKey: a.PublicKey}, chain.MatchKey(a.Address))
}

func (k *privateKey) put(tx *org.Tx) error {
	id, err := org.ParseID(k.ID)
	if err != nil {
		return errors.New("a private key without privateKeyId")
	}
	rec := &org.PrivateKey{ID: id, Name: k.Name, Curve: k.Curve, PublicKey: k.PublicKey, Exported: k.Exported, Imported: k.Imported}
	for _, a := range k.Addresses {
		rec.Addresses = append(rec.Addresses, org.Address(a))
	}
	return tx.PutPrivateKey(rec, wallet.MatchesOf(rec))
}

func (d *description) put(tx *org.Tx) error {
	id, err := org.ParseID(d.ID)
	if err != nil {
		return errors.New("an interface without smartContractInterfaceId")
	}
	i := &org.Interface{ID: id, Address: d.Address, Type: d.Type, Label: d.Label}
	if d.MadeBy != "" {
		if i.MadeBy, err = org.ParseID(d.MadeBy); err != nil {
			return errors.New("an interface whose createdBy is no id")
		}
	}
	return wallet.PutInterface(tx, i, d.Text)
}

func (a *Answer) differs(at string) {
	if len(a.Differences) < MaxDifferences {
		a.Differences = append(a.Differences, at)
	}
}

// compare notes the places below at where another text stands than in the document.
func compare(a *Answer, at string, want, got strictjson.Raw) {
	if len(a.Differences) == MaxDifferences || bytes.Equal(want, got) {
		return
	}
	wantMembers, ok := want.Object()
	gotMembers, same := got.Object()
	if ok && same {
		all := make([]string, 0, len(wantMembers)+len(gotMembers))
		for name := range wantMembers {
			all = append(all, name)
		}
		for name := range gotMembers {
			all = append(all, name)
		}
		slices.Sort(all)
		for _, name := range slices.Compact(all) {
			compare(a, at+"."+activity.Printable(name), wantMembers[name], gotMembers[name])
		}
		return
	}
	wantItems, ok := want.Array()
	gotItems, same := got.Array()
	if ok && same {
		for i := range max(len(wantItems), len(gotItems)) {
			compare(a, at+"."+strconv.Itoa(i), itemAt(wantItems, i), itemAt(gotItems, i))
		}
		return
	}
	a.differs(at)
}

func itemAt(items []strictjson.Raw, i int) strictjson.Raw {
	if i < len(items) {
		return items[i]
	}
	return nil
}
