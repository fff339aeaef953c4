package organization

import (
	"net/netip"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
)

// featureWords say what a feature does once it is on, and what ends once it is off.
var featureWords = map[FeatureName]struct{ on, off string }{
	"FEATURE_NAME_EMAIL_AUTH":     {"Whoever reads the mail at a user's address can log in as that user, by a key that is mailed there.", "Nobody logs in by a mailed key any more."},
	"FEATURE_NAME_OTP_EMAIL_AUTH": {"Whoever reads the mail at a user's address can log in as that user, by a code that is mailed there.", "Nobody logs in by a mailed code any more, unless by the auth proxy."},
	"FEATURE_NAME_SMS_AUTH":       {"Whoever reads the messages to a user's phone number can log in as that user.", "Nobody logs in by a text message any more, unless by the auth proxy."},
	"FEATURE_NAME_EMAIL_RECOVERY": {"Whoever reads the mail at a user's address can give that user a new passkey. For members of the root quorum that needs FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY too.",
		"Users who have lost their credentials cannot recover by mail any more."},
	"FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY": {"Whoever reads the mail of members of the root quorum can give them new passkeys, as soon as FEATURE_NAME_EMAIL_RECOVERY is on.",
		"Members of the root quorum who have lost their credentials cannot recover by mail any more."},
	org.FeatureStrictLog:    {"Replies wait until the witnesses of the log have signed.", "Replies no longer wait for the witnesses of the log: a false history would be found out later."},
	org.FeatureDecodedVotes: {"An approval counts only if it names what the approver was shown.", "An approval counts even if the approver does not say what he was shown."},
	user.FeatureOrigins:     {"Passkeys can be created and used at these pages only.", "Passkeys can be created and used at every page of their domain."},
	org.FeatureWebhook:      {"Every change of an activity is sent to this address, of sub-organizations too.", "Changes of activities are no longer sent to this address."},
	org.FeatureApprovalMails: {"Whoever can approve is told of waiting activities by mail. The mails lead to the page named here, if there is one: whoever runs it sees what its visitors do.",
		"Nobody is told of waiting activities by mail any more."},
	org.FeatureAddressBook: {"Approvers see these names instead of addresses that they do not know.", "Approvers see no names of addresses any more."},
	FeatureFrozen:          {"", "The organization signs and exports again. Credentials that were revoked in the time that was lost are good again: look at the users first."},
}

// waysIn are the features by which whoever has a user's address or number can act as that user.
var waysIn = []FeatureName{"FEATURE_NAME_EMAIL_AUTH", "FEATURE_NAME_OTP_EMAIL_AUTH", "FEATURE_NAME_SMS_AUTH", "FEATURE_NAME_EMAIL_RECOVERY", "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY"}

// explain shows what a feature is now and would be, and warns of what it makes less safe.
func (in *SetOrganizationFeature) explain(tx *org.Tx, o *show.Object) error {
	rec, err := tx.Organization()
	if err != nil {
		return err
	}
	before, on := rec.Features[string(in.Name)]
	activity.ExplainMeaning(o, featureWords[in.Name].on)
	if in.Name == org.FeatureAddressBook {
		return explainAddressBook(o, before, in.Value)
	}
	if in.Name == user.FeatureOrigins {
		explainOrigins(o, before, on, strings.Split(in.Value, ","))
		return nil
	}
	c := activity.ExplainChanges(o)
	c.Bool("on", on, true)
	if in.Value != "" || before != "" {
		c.Text("value", before, in.Value)
	}
	if !c.Changed {
		return nil
	}
	switch {
	case in.Name == org.FeatureWebhook, in.Name == org.FeatureApprovalMails:
		if in.Value != "" {
			o.Warn(show.DataLeaves)
		}
	case slices.Contains(waysIn, in.Name):
		return explainWaysIn(tx, o, rec, string(in.Name))
	}
	return nil
}

// explainWaysIn lists the members of the root quorum as whom somebody could act once a feature is on, and warns.
func explainWaysIn(tx *org.Tx, o *show.Object, rec *org.Organization, name string) error {
	then := *rec
	then.Features = FeaturesOf(rec)
	then.Features[name] = ""
	contact := login.Email
	if name == "FEATURE_NAME_SMS_AUTH" {
		contact = login.SMS
	}
	text := func(u *org.User) string {
		if contact == login.SMS {
			return u.Phone
		}
		return u.Email
	}
	root, err := user.ExplainRootUsers(tx, o, rec,
		func(u *org.User) bool {
			return text(u) != "" && len(user.WaysIn(&then, u, contact)) > len(user.WaysIn(rec, u, contact))
		},
		func(entry *show.Object, u *org.User) { entry.Text("contact", text(u)) })
	user.WarnOfCredential(o, root || name == "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY")
	return err
}

// explain shows what ends with a feature.
func (in *RemoveOrganizationFeature) explain(tx *org.Tx, o *show.Object) error {
	rec, err := tx.Organization()
	if err != nil {
		return err
	}
	if words := featureWords[in.Name].off; words != "" {
		activity.ExplainMeaning(o, words)
	}
	before, on := rec.Features[string(in.Name)]
	switch in.Name {
	case FeatureFrozen:
		o.Warn(show.RulesDenyGone)
		return nil
	case org.FeatureAddressBook:
		return explainAddressBook(o, before, "[]")
	case user.FeatureOrigins:
		explainOrigins(o, before, on, nil)
		return nil
	}
	c := activity.ExplainChanges(o)
	c.Bool("on", on, false)
	if before != "" {
		c.Text("value", before, "")
	}
	if on && (in.Name == org.FeatureStrictLog || in.Name == org.FeatureDecodedVotes) {
		o.Warn(show.RulesDenyGone)
	}
	return nil
}

// explainAddressBook shows which names come and which go.
func explainAddressBook(o *show.Object, from, to string) error {
	var before []activity.AddressName
	if from != "" {
		before, _ = activity.ReadAddressBook("value", from) // one that today's rules refuse has no names
	}
	after, err := activity.ReadAddressBook("value", to)
	if err != nil {
		return err
	}
	only := func(key string, these, without []activity.AddressName) {
		list := o.List(key)
		for _, e := range these {
			if !slices.Contains(without, e) {
				entry := list.Object()
				entry.Text("name", e.Name)
				entry.Text("address", e.Address)
			}
		}
	}
	only("added", after, before)
	only("removed", before, after)
	return nil
}

// everyOrigin stands for all pages at which a passkey can be used where there is no list.
const everyOrigin = "every page of the domain"

// explainOrigins compares the pages at which passkeys are good, and warns of more. Nil is no list.
func explainOrigins(o *show.Object, before string, on bool, after []string) {
	from := []string{everyOrigin}
	if on {
		from = trimEach(strings.Split(before, ","))
	}
	if after = trimEach(after); len(after) == 0 {
		after = []string{everyOrigin}
	}
	if more := activity.ExplainChanges(o).Texts("origins", from, after); more && on {
		o.Warn(show.RulesDenyGone)
	}
}

func trimEach(all []string) (out []string) {
	for _, s := range all {
		out = append(out, strings.TrimSpace(s))
	}
	return out
}

func (in *UpdateAllowedOrigins) explain(tx *org.Tx, o *show.Object) error {
	rec, err := tx.Organization()
	if err != nil {
		return err
	}
	before, on := rec.Features[user.FeatureOrigins]
	activity.ExplainMeaning(o, featureWords[user.FeatureOrigins].on)
	explainOrigins(o, before, on, in.AllowedOrigins)
	return nil
}

// explain shows which networks requests may come from, before and after, and warns if it becomes more.
func (in *SetAllowlist) explain(tx *org.Tx, o *show.Object) error {
	key := strings.ToLower(activity.TextOf(in.PublicKey))
	old, err := explainAllowlistOf(tx, o, key)
	if err != nil {
		return err
	}
	onError := activity.TextOf(in.OnEvaluationError)
	if onError == "" {
		onError = onErrorDeny
	}
	return explainAllowlist(tx, o, key, old, &org.Allowlist{Enabled: activity.IsOn(in.Enabled), Rules: in.rules, OnError: onError})
}

func (in *RemoveAllowlist) explain(tx *org.Tx, o *show.Object) error {
	key := strings.ToLower(activity.TextOf(in.PublicKey))
	old, err := explainAllowlistOf(tx, o, key)
	if err != nil {
		return err
	}
	return explainAllowlist(tx, o, key, old, nil)
}

// explainAllowlistOf shows whose list it is, and finds it.
func explainAllowlistOf(tx *org.Tx, o *show.Object, key string) (*org.Allowlist, error) {
	if key != "" {
		o.Text("publicKey", key)
		for _, curve := range user.Curves() {
			c, err := tx.Credential(string(curve), key)
			if err != nil {
				return nil, err
			}
			if c != nil {
				if _, _, err := activity.ExplainUser(tx, o, "user", c.User.String()); err != nil {
					return nil, err
				}
				break
			}
		}
	}
	return tx.Allowlist(key)
}

// explainAllowlist compares two lists, of which either may be nil. The list of a key counts in the place of the organization's, while that
// is on and unless it is empty.
func explainAllowlist(tx *org.Tx, o *show.Object, key string, before, after *org.Allowlist) error {
	all, err := tx.Allowlist("")
	if err != nil {
		return err
	}
	on := all != nil && all.Enabled
	effective := func(a *org.Allowlist) *org.Allowlist {
		if key != "" && (a == nil || len(a.Rules) == 0) {
			return all
		}
		return a
	}
	from, to := effective(before), effective(after)
	if key == "" {
		on = from != nil && from.Enabled
	}
	c := activity.ExplainChanges(o)
	if key == "" {
		c.Bool("on", on, to != nil && to.Enabled)
		c.Text("ifAddressUnknown", onErrorOf(from), onErrorOf(to))
	}
	c.Texts("networks", networkTexts(from), networkTexts(to))
	if !on {
		return nil // nothing is refused now
	}
	if to == nil || key == "" && (!to.Enabled || to.OnError == onErrorAllow && from.OnError != onErrorAllow) ||
		slices.ContainsFunc(to.Rules, func(r org.AllowlistRule) bool { return !covered(r.CIDR, from.Rules) }) {
		o.Warn(show.RulesDenyGone)
	}
	return nil
}

func onErrorOf(a *org.Allowlist) string {
	if a == nil {
		return ""
	}
	return a.OnError
}

func networkTexts(a *org.Allowlist) []string {
	if a == nil {
		return nil
	}
	return activity.MapList(a.Rules, func(r *org.AllowlistRule) string {
		if r.Label == "" {
			return r.CIDR
		}
		return r.CIDR + " (" + r.Label + ")"
	})
}

// covered tells whether a network is within one of others.
func covered(cidr string, rules []org.AllowlistRule) bool {
	p, err := netip.ParsePrefix(cidr)
	return err == nil && slices.ContainsFunc(rules, func(r org.AllowlistRule) bool {
		q, err := netip.ParsePrefix(r.CIDR)
		return err == nil && q.Bits() <= p.Bits() && q.Contains(p.Addr())
	})
}

// explain shows to whom events would be sent.
func (in *CreateWebhookEndpoint) explain(o *show.Object) {
	activity.ExplainWord(o, "name", in.Name)
	activity.ExplainWord(o, "url", in.URL)
	activity.ExplainMeaning(o, "Changes of activities are sent to this address, of sub-organizations too.")
	o.Warn(show.DataLeaves)
}

func explainEndpoint(o *show.Object, e *org.WebhookEndpoint) {
	activity.ExplainName(o, e.Name)
	o.Text("url", e.URL)
	o.Bool("on", !e.Inactive)
}

// explain compares an endpoint, and warns if events go to another address, or go out again.
func (in *UpdateWebhookEndpoint) explain(tx *org.Tx, o *show.Object) error {
	id, err := org.ParseID(in.EndpointID)
	if err != nil {
		return nil // Run refuses it
	}
	e, err := tx.WebhookEndpoint(id)
	if e == nil || err != nil {
		return err
	}
	c := activity.ExplainChanges(o)
	name, url, on := e.Name, e.URL, !e.Inactive
	if text := activity.TextOf(in.Name); text != "" {
		name = text
	}
	if text := activity.TextOf(in.URL); text != "" {
		url = text
	}
	activity.Set(&on, in.IsActive)
	c.Name(e.Name, name)
	c.Text("url", e.URL, url)
	c.Bool("on", !e.Inactive, on)
	if url != e.URL || on && e.Inactive {
		o.Warn(show.DataLeaves)
	}
	return nil
}

func explainEndpointRecord(tx *org.Tx, o *show.Object, id string) error {
	_, err := activity.ExplainRecord(o, "webhookEndpoint", id, tx.WebhookEndpoint, explainEndpoint)
	return err
}

// explain shows the sub-organization that would be made, and who decides in it.
func (in *CreateSubOrganization) explain(o *show.Object) {
	activity.ExplainWord(o, "name", in.SubOrganizationName)
	o.Uint("threshold", uint64(in.RootQuorumThreshold))
	list := o.List("rootUsers")
	for i := range in.RootUsers {
		in.RootUsers[i].ExplainNew(list.Object())
	}
	features := o.List("features")
	for _, name := range waysIn {
		if _, on := in.features()[string(name)]; on {
			features.Plain(string(name))
		}
	}
	activity.ExplainMeaning(o, "A new organization, in which these users decide. Nobody here gets rights in it, nor they here.")
	o.Warn(show.CredentialAdded)
}

func (in *CreateOrganization) explain(o *show.Object) {
	activity.ExplainWord(o, "name", in.OrganizationName)
	in.root().ExplainNew(o.List("rootUsers").Object())
	activity.ExplainMeaning(o, "A new organization of its own, whose use is charged to this one. Its root user decides alone in it.")
	o.Warn(show.CredentialAdded)
}

// explainEnd shows what is lost with the organization.
func explainEnd(tx *org.Tx, o *show.Object) error {
	rec, err := tx.Organization()
	if err != nil {
		return err
	}
	activity.ExplainMeaning(o, "The organization ends for good, with all its keys.")
	child := o.Object("organization")
	activity.ExplainName(child, rec.Name)
	child.Uint("wallets", uint64(rec.Wallets))
	child.Uint("privateKeys", uint64(rec.PrivateKeys))
	child.Uint("secrets", uint64(rec.Secrets))
	child.Uint("users", uint64(rec.Users))
	o.Warn(show.KeyDeleted)
	return nil
}

func (in *UpdateOrganizationName) explain(tx *org.Tx, o *show.Object) error {
	rec, err := tx.Organization()
	if err == nil {
		activity.ExplainChanges(o).Name(rec.Name, in.OrganizationName)
	}
	return err
}

// explainHistory tells what an export of the history gives away.
func explainHistory(o *show.Object) {
	activity.ExplainMeaning(o, "Whoever asked for this may read the whole history of the organization: every request with its votes and results, and every record. Keys in it stay encrypted.")
	o.Warn(show.DataLeaves)
}
