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
// today's rules refuse an old body.
func (t Table) Document(tx *org.Tx, e *org.Entry, tokens *show.Tokens) (d show.Document, err error) {
	_, version, in, err := t.Reread(e)
	if err != nil {
		return d, err
	}
	known := &show.Known{Tokens: tokens, Now: time.Unix(int64(e.CreatedMs/1000), 0), Own: func(address string) (bool, error) {
		_, ok, err := tx.ByAddress(chain.MatchKey(address))
		return ok, err
	}}
	if err := addressBook(tx, known); err != nil {
		return d, err
	}
	err = tx.EachInterface(func(i *org.Interface) bool {
		known.Entries = append(known.Entries, show.Entry{Name: i.Label, Address: i.Address, From: show.FromOrganization})
		return true
	})
	if err != nil {
		return d, err
	}
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

// Title is what an activity does in words, from its type alone: the title of its document says more.
func (t Table) Title(typ string) string {
	v := t[typ]
	if v == nil {
		return ""
	}
	return titleOf(v.Kind.Name)
}

// AppendDecoded adds to the JSON of a waiting activity, which ends with its brace, what approvers are shown of it, and the digest
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

// titleOf makes words of the name of a kind: CREATE_API_KEYS is "Create API keys".
func titleOf(name string) string {
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
	showUser(child, u)
	child.Bool("root", root)
	return u, root, nil
}

func showUser(o *show.Object, u *org.User) {
	o.Text("name", u.Name)
	o.Plain("nameSource", show.FromOrganization)
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
			showUser(o, u)
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
