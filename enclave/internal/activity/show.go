package activity

import (
	"encoding/hex"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// Document is what approvers are shown of a waiting activity, decoded from the body in its newest entry. It depends on the
// entry, on the organization's records and on the operator's list of tokens alone, and on the second in which the activity was made. A *fault.Error reports that
// today's rules refuse an old body. Of an activity that is over it is only right if ShowsBytes, and with the names of today.
func (t Table) Document(tx *org.Tx, e *org.Entry, tokens *show.Tokens) (d show.Document, err error) {
	_, version, in, err := t.Reread(e)
	if err != nil {
		return d, err
	}
	tellInitiator(in, e)
	known, err := knownTo(tx)
	if err != nil {
		return d, err
	}
	known.Tokens, known.Now = tokens, time.Unix(int64(e.CreatedMs/1000), 0)
	v := show.New(known)
	kind, err := version.show(tx, v, known, in)
	if err == nil {
		err = v.Err()
	}
	if err != nil {
		return d, err
	}
	v.Title(titleOf(version.Kind.Name))
	return v.Document(show.Header{
		OrganizationID: tx.ID.String(), ActivityID: e.Activity.String(), Type: e.Type, Fingerprint: string(AppendFingerprint(nil, e.Fingerprint)), Kind: kind,
	}), nil
}

// knownTo is what documents take from an organization's records, whatever is signed.
func knownTo(tx *org.Tx) (*show.Known, error) {
	known := &show.Known{
		OwnNames: func() ([]string, error) { return keyNames(tx) },
		UserName: func(text string) (string, error) {
			id, err := org.ParseID(text)
			if err != nil {
				return "", nil
			}
			u, err := tx.User(id)
			if u == nil || err != nil {
				return "", err
			}
			return u.Name, nil
		},
	}
	known.Own = func(address string) (show.Ownership, error) {
		owner, ok, err := tx.ByAddress(chain.MatchKey(address))
		if !ok || err != nil {
			return show.NotOwn, err
		}
		outside, err := keyOutside(tx, owner, known.Signer.Address)
		if outside {
			return show.OwnKeyOutside, err
		}
		return show.Own, err
	}
	if err := addressBook(tx, known); err != nil {
		return nil, err
	}
	return known, tx.EachInterface(func(i *org.Interface) bool {
		source := &show.Source{From: show.FromInterface, Record: i.ID.String(), Contract: i.Address}
		if !i.MadeBy.Zero() {
			source.MadeBy = i.MadeBy.String()
		}
		known.Entries = append(known.Entries, show.Entry{Name: i.Label, Address: i.Address, From: show.FromInterface, Source: source})
		return true
	})
}

// keyOutside tells whether an own key was imported or exported, so that others may have it. Accounts of the signer's own wallet are left
// out: whoever has the words of that has the signer's key, too. Of a wallet of which one account's key was exported all accounts count:
// that account may have been deleted and made again.
func keyOutside(tx *org.Tx, owner org.Owner, signer string) (bool, error) {
	if owner.No == 0 {
		k, err := tx.PrivateKey(owner.ID)
		return k != nil && (k.Imported || k.Exported), err
	}
	w, err := tx.Wallet(owner.ID)
	if w == nil || err != nil {
		return false, err
	}
	if !w.Imported && !w.Exported {
		return w.KeysOut, nil
	}
	if signer == "" {
		return true, nil
	}
	by, ok, err := tx.ByAddress(chain.MatchKey(signer))
	return !ok || by.No == 0 || by.ID != owner.ID, err
}

// keyNames are the names of wallets and private keys.
func keyNames(tx *org.Tx) (all []string, err error) {
	err = tx.EachWallet(func(w *org.Wallet) bool {
		all = append(all, w.Name)
		return true
	})
	if err != nil {
		return nil, err
	}
	err = tx.EachPrivateKey(func(k *org.PrivateKey) bool {
		all = append(all, k.Name)
		return true
	})
	return all, err
}

// Title is what an activity does in words, from its type alone: the title of its document says more.
func (t Table) Title(typ string) string {
	v := t[typ]
	if v == nil {
		return ""
	}
	return titleOf(v.Kind.Name)
}

// ShowsBytes reports whether approvers of a type are shown what its body says: a transaction or another payload. Of every other
// type they are shown a difference to records, which are other ones as soon as the activity is over.
func (t Table) ShowsBytes(typ string) bool {
	v := t[typ]
	return v != nil && v.showsBytes
}

// AppendDecoded adds to the JSON of an activity, which ends with its brace, what approvers are shown of it, and the digest
// by which a vote can name that. An old body that today's rules refuse is not decoded: only the root quorum can end such an
// activity.
func (t Table) AppendDecoded(dst []byte, tx *org.Tx, e *org.Entry, tokens *show.Tokens) ([]byte, error) {
	d, err := t.Document(tx, e, tokens)
	if fault.Of(err) != nil {
		return dst, nil
	}
	if err != nil {
		return dst, err
	}
	digest := d.Digest()
	dst = append(append(dst[:len(dst)-1], `,"decoded":`...), d.Text()...)
	return append(hex.AppendEncode(append(dst, `,"decodedDigest":"`...), digest[:]), '"', '}'), nil
}

// organizationChange is the kind of documents about what signs nothing.
const organizationChange = "ORGANIZATION_CHANGE"

func (k Kind[I, R]) show(tx *org.Tx, v *show.View, known *show.Known, in *Intent, masked bool) (kind string, err error) {
	newest := in.newest.(*I)
	if k.Show != nil {
		return k.Show(tx, newest, v, known)
	}
	var explain func(*show.Object) error
	if k.Explain != nil {
		explain = func(o *show.Object) error { return k.Explain(tx, newest, o) }
	}
	return showIntent(v, in, masked, k.Action == keys.ActionSign, explain)
}

// showIntent shows a kind without a payload of its own: what it explains, and the intent as it was sent.
func showIntent(v *show.View, in *Intent, masked, signs bool, explain func(*show.Object) error) (kind string, err error) {
	o := v.Part()
	if explain != nil {
		if err := explain(o); err != nil {
			return "", err
		}
	}
	if signs { // and what, nothing says
		o.Warn(show.UnreadPart)
		v.MarkPartial()
	}
	sent := AppendShape(nil, in.sent)
	if masked {
		sent = strictjson.AppendMasked(nil, in.sent)
	}
	members, ok := strictjson.Raw(sent).Object()
	if !ok {
		return "", errors.New("an intent is no object")
	}
	showMembers(o.List("intent"), members)
	return organizationChange, nil
}

// ciphertexts are the members of intents that only the enclave can read. Explain says so where it matters.
var ciphertexts = []string{"encryptedBundle", "encryptedOtpBundle"}

// showMembers shows the members of an intent as it was sent, by their names.
func showMembers(list *show.List, members map[string]strictjson.Raw) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(ciphertexts, name) {
			showValue(list.Entry(name), members[name])
		}
	}
}

func showValue(o *show.Object, raw strictjson.Raw) {
	if text, ok := raw.Text(); ok {
		o.Text("value", text)
		return
	}
	if members, ok := raw.Object(); ok {
		showMembers(o.List("members"), members)
		return
	}
	if items, ok := raw.Array(); ok {
		list := o.List("items")
		for _, item := range items {
			showValue(list.Object(), item)
		}
		return
	}
	switch literal := string(raw); literal {
	case "true", "false":
		o.Bool("value", literal == "true")
	case "null":
	default:
		o.Text("value", literal) // a number
	}
}

// spelling are words of the names of kinds that are not written in small letters.
var spelling = map[string]string{
	"api": "API", "ip": "IP", "mfa": "MFA", "otp": "OTP", "tvc": "TVC", "eth": "Ethereum", "sol": "Solana", "oauth": "OAuth", "oauth2": "OAuth 2.0", "7702": "(EIP-7702)",
	"fiat": "fiat", "spark": "Spark", "email": "e-mail",
}

// titles are those of kinds whose names do not say what they do.
var titles = map[string]string{
	"STAMP_LOGIN": "Start a session by a key", "CREATE_READ_ONLY_SESSION": "Start a session that only reads", "CREATE_READ_WRITE_SESSION": "Start a session by a new key",
	"EMAIL_AUTH": "Mail a key that logs in", "INIT_USER_EMAIL_RECOVERY": "Mail a key that recovers a user", "RECOVER_USER": "Recover a user by a new passkey",
	"OAUTH": "Log in by an identity", "OAUTH_LOGIN": "Log in by an identity", "OTP_AUTH": "Log in by a code", "OTP_LOGIN": "Log in by a proven address",
	"INIT_OTP": "Send a code", "INIT_OTP_AUTH": "Send a code", "VERIFY_OTP": "Check a code", "OAUTH2_AUTHENTICATE": "Get a token of a provider",
	"INIT_IMPORT_WALLET": "Begin to import a wallet", "INIT_IMPORT_PRIVATE_KEY": "Begin to import a private key", "INIT_IMPORT_SECRETS": "Begin to import secrets",
	"CREATE_SUB_ORGANIZATION": "Create sub-organization", "DELETE_SUB_ORGANIZATION": "Delete sub-organization",
	"EXPORT_HISTORY": "Export the whole history", "UPDATE_ALLOWED_ORIGINS": "Set where passkeys are good", "UPSERT_GAS_USAGE_CONFIG": "Set the limits of sponsored gas",
}

// titleOf makes words of the name of a kind: CREATE_API_KEYS is "Create API keys".
func titleOf(name string) string {
	if title := titles[name]; title != "" {
		return title
	}
	words := strings.Split(strings.ToLower(name), "_")
	for i, w := range words {
		if s := spelling[w]; s != "" {
			words[i] = s
		}
	}
	text := strings.Join(words, " ")
	return strings.ToUpper(text[:1]) + text[1:]
}

// ExplainUser shows the user with an id as a member: who it is, and whether he is of the root quorum.
func ExplainUser(tx *org.Tx, o *show.Object, key, text string) (u *org.User, root bool, err error) {
	child := o.Object(key)
	child.Text("id", text)
	id, err := org.ParseID(text)
	if err != nil {
		return nil, false, nil // Run refuses it
	}
	if u, err = tx.User(id); u == nil || err != nil {
		return nil, false, err
	}
	organization, err := tx.Organization()
	if err != nil {
		return nil, false, err
	}
	root = organization.Root(id)
	ExplainName(child, u.Name)
	child.Bool("root", root)
	return u, root, nil
}

// ExplainUsers shows users by their ids.
func ExplainUsers(tx *org.Tx, list *show.List, ids []org.ID) error {
	for _, id := range ids {
		o := list.Object()
		o.Plain("userId", id.String())
		u, err := tx.User(id)
		if err != nil {
			return err
		}
		if u != nil {
			ExplainName(o, u.Name)
		}
	}
	return nil
}

// ExplainWord shows a text that the asker chose.
func ExplainWord(o *show.Object, key, text string) {
	if text == "" {
		return
	}
	child := o.Object(key)
	child.Text("text", text)
	child.Plain("source", show.FromRequester)
}
