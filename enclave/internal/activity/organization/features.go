package organization

import (
	"fmt"
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/user"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/webauthn"
	"cloister/shared/internet"
)

// FeatureSwitches are the kinds that turn features on and off.
var FeatureSwitches = activity.Family{
	activity.Kind[SetOrganizationFeature, Features]{Name: "SET_ORGANIZATION_FEATURE", RootQuorum: true, Run: setOrganizationFeature,
		Explain: func(tx *org.Tx, in *SetOrganizationFeature, o *show.Object) error { return in.explain(tx, o) }},
	activity.Kind[RemoveOrganizationFeature, Features]{Name: "REMOVE_ORGANIZATION_FEATURE", RootQuorum: true, Run: removeOrganizationFeature,
		Explain: func(tx *org.Tx, in *RemoveOrganizationFeature, o *show.Object) error { return in.explain(tx, o) }},
	// It sets the feature WEBAUTHN_ORIGINS, which no policy can grant.
	activity.Kind[UpdateAllowedOrigins, activity.Nothing]{Name: "UPDATE_ALLOWED_ORIGINS", Resource: "CONFIG", Action: "UPDATE", RootQuorum: true, Run: updateAllowedOrigins,
		Explain: func(tx *org.Tx, in *UpdateAllowedOrigins, o *show.Object) error { return in.explain(tx, o) }},
}

// FeatureName is the interface's name of a feature.
type FeatureName string

// switches are the features without a value.
var switches = []FeatureName{
	"FEATURE_NAME_EMAIL_AUTH", "FEATURE_NAME_OTP_EMAIL_AUTH", "FEATURE_NAME_SMS_AUTH", "FEATURE_NAME_EMAIL_RECOVERY", "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY",
	org.FeatureStrictLog, org.FeatureDecodedVotes, // our own: the interface has no such features
}

// futures are features of the interface that are not implemented.
var futures = []FeatureName{"FEATURE_NAME_SOLANA_RENT_PREFUND_ENABLED", "FEATURE_NAME_SWAP_CONFIG", "FEATURE_NAME_EARN_CONFIG"}

// FeatureFrozen is our own: an organization whose log was recovered has it until its root quorum removes it, and
// signs and exports nothing until then. Credentials that were revoked in the lost time are active again: the root quorum
// reviews them first.
const FeatureFrozen FeatureName = "FEATURE_NAME_SIGNING_FROZEN"

// Frozen reports whether an organization waits for its root quorum after a recovery. recovered is Tx.Recovered.
func Frozen(o *org.Organization, recovered uint32) bool { return o.Recovered < recovered }

// Valid reports whether n is a feature of the interface, live or not, or FeatureFrozen.
func (n FeatureName) Valid() bool {
	return n == FeatureFrozen || n == org.FeatureApprovalMails || n == org.FeatureAddressBook || n == user.FeatureOrigins || n == org.FeatureWebhook || n == user.FeatureAuthProxy || slices.Contains(switches, n) || slices.Contains(futures, n)
}

// SetOrganizationFeature turns a feature on, or gives it another value.
type SetOrganizationFeature struct {
	Name  FeatureName `json:"name" rule:"required"`
	Value string      `json:"value" rule:"present"`
}

func (in *SetOrganizationFeature) Check() error {
	switch {
	case slices.Contains(switches, in.Name):
		if in.Value != "" {
			return fault.Field("value", "feature takes no value: %s", in.Name)
		}
		return nil
	case in.Name == user.FeatureOrigins:
		return checkOrigins("value", in.Value)
	case in.Name == org.FeatureWebhook:
		return checkWebhook("value", in.Value)
	case in.Name == org.FeatureApprovalMails:
		return checkDashboard("value", in.Value, true)
	case in.Name == org.FeatureAddressBook:
		_, err := activity.ReadAddressBook("value", in.Value)
		return err
	case in.Name == user.FeatureAuthProxy:
		return errAuthProxyFeature()
	case in.Name == FeatureFrozen:
		return fault.Field("name", "%s is there after a recovery alone", FeatureFrozen)
	}
	return activity.Unimplemented("set_organization_feature", string(in.Name))
}

func errAuthProxyFeature() error {
	return fault.Field("name", "FEATURE_NAME_AUTH_PROXY is set and removed by enable_auth_proxy and disable_auth_proxy only")
}

// maxFeature bounds the value of a feature in bytes.
const maxFeature = 16 << 10

// checkOrigins refuses a list of origins that does not parse.
func checkOrigins(field, list string) error {
	if len(list) > maxFeature {
		return fault.Field(field, "invalid origins: more than %d bytes", maxFeature)
	}
	if _, err := webauthn.ParseOrigins(list); err != nil {
		return fault.Field(field, "invalid origins: %s", err)
	}
	return nil
}

// checkWebhook accepts https URLs of public destinations. A name may resolve to any address: the host's sender checks the
// address again. Loopback passes; checkReceiver decides about it.
func checkWebhook(field, text string) error {
	u, ok := activity.ParseURL(text)
	if ok && isLoopback(u) {
		return nil
	}
	if !ok || u.Scheme != "https" {
		return errNotHTTPS(field)
	}
	host := strings.ToLower(u.Hostname())
	if ip, err := netip.ParseAddr(host); err == nil {
		if !internet.Public(ip) {
			return fault.Field(field, "invalid webhook URL: destination is not public")
		}
		return nil
	}
	if !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || strings.HasSuffix(host, ".local") || strings.HasSuffix(host, ".internal") {
		return fault.Field(field, "invalid webhook URL: destination is not public")
	}
	return nil
}

func errNotHTTPS(field string) error {
	return fault.Field(field, "invalid webhook URL: must be https, without user and fragment")
}

// isLoopback reports whether the URL's host is an address of the host machine itself.
func isLoopback(u *url.URL) bool {
	ip, err := netip.ParseAddr(u.Hostname())
	return err == nil && u.Scheme == "http" && ip.IsLoopback()
}

// checkReceiver is the part of checkWebhook that depends on the enclave's configuration.
func checkReceiver(tx *activity.Tx, field, text string) error {
	if u, ok := activity.ParseURL(text); ok && isLoopback(u) && !tx.Loopback {
		return errNotHTTPS(field)
	}
	return nil
}

// maxDashboard bounds the URL of a dashboard in bytes.
const maxDashboard = 512

// checkDashboard accepts nothing, and the https URL of a dashboard, at any address: only its readers' browsers go there.
func checkDashboard(field, text string, loopback bool) error {
	if text == "" || len(text) <= maxDashboard && login.CheckURL(text, loopback) {
		return nil
	}
	return fault.Field(field, "invalid dashboard URL: must be empty or https, of at most %d bytes, without user and fragment", maxDashboard)
}

// checkApprovalMails is the part of checkDashboard that depends on the enclave's configuration and on the organization. Users of a
// sub-organization are end users, whose messages lead where the parent says.
func checkApprovalMails(tx *activity.Tx, field, text string) error {
	o, err := tx.Organization()
	if err == nil && text != "" && !o.Parent.Zero() {
		err = fault.Field(field, "must be empty in a sub-organization: its mails lead to the dashboard that its parent names")
	}
	if err != nil {
		return err
	}
	return checkDashboard(field, text, tx.Loopback)
}

// Feature is a feature that is on.
type Feature struct {
	Name  FeatureName `json:"name"`
	Value string      `json:"value,omitempty"`
}

// Features are all features that are on, after a change.
type Features struct {
	Features []Feature `json:"features"`
}

func setOrganizationFeature(tx *activity.Tx, in *SetOrganizationFeature) (*Features, error) {
	if in.Name == org.FeatureWebhook {
		if err := checkReceiver(tx, "value", in.Value); err != nil {
			return nil, err
		}
	}
	if in.Name == org.FeatureApprovalMails {
		if err := checkApprovalMails(tx, "value", in.Value); err != nil {
			return nil, err
		}
	}
	return changeFeatures(tx, func(m map[string]string) error {
		m[string(in.Name)] = in.Value
		return nil
	})
}

func changeFeatures(tx *activity.Tx, change func(map[string]string) error) (*Features, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	o := *old
	o.Features, o.UpdatedMs = FeaturesOf(old), tx.NowMs
	if err := change(o.Features); err != nil {
		return nil, err
	}
	return featuresOn(&o), tx.PutOrganization(&o)
}

func featuresOn(o *org.Organization) *Features {
	r := &Features{make([]Feature, 0, len(o.Features))}
	for _, name := range slices.Sorted(maps.Keys(o.Features)) {
		r.Features = append(r.Features, Feature{FeatureName(name), o.Features[name]})
	}
	return r
}

// FeaturesOf returns a copy of the features that are on, for a change.
func FeaturesOf(o *org.Organization) map[string]string {
	if o.Features == nil {
		return map[string]string{}
	}
	return maps.Clone(o.Features)
}

// RemoveOrganizationFeature turns a feature off.
type RemoveOrganizationFeature struct {
	Name FeatureName `json:"name" rule:"required"`
}

func (in *RemoveOrganizationFeature) Check() error {
	if in.Name == user.FeatureAuthProxy {
		return errAuthProxyFeature()
	}
	return nil
}

func removeOrganizationFeature(tx *activity.Tx, in *RemoveOrganizationFeature) (*Features, error) {
	if in.Name == FeatureFrozen {
		return resumeSigning(tx)
	}
	return changeFeatures(tx, func(m map[string]string) error {
		if _, on := m[string(in.Name)]; !on {
			return errNotSet(in.Name)
		}
		delete(m, string(in.Name))
		return nil
	})
}

func errNotSet(name FeatureName) error { return fault.Field("name", "feature is not set: %s", name) }

// resumeSigning removes FeatureFrozen: the organization signs again.
func resumeSigning(tx *activity.Tx) (*Features, error) {
	old, err := tx.Organization()
	if err != nil {
		return nil, err
	}
	if !Frozen(old, tx.Recovered) {
		return nil, errNotSet(FeatureFrozen)
	}
	o := *old
	o.Recovered, o.UpdatedMs = tx.Recovered, tx.NowMs
	return featuresOn(&o), tx.PutOrganization(&o)
}

// UpdateAllowedOrigins is the older way to set the feature WEBAUTHN_ORIGINS.
type UpdateAllowedOrigins struct {
	AllowedOrigins []string `json:"allowedOrigins" rule:"required"`
}

func (in *UpdateAllowedOrigins) Check() error {
	if len(in.AllowedOrigins) == 0 {
		return fault.Field("allowedOrigins", "must have at least 1 element")
	}
	for i, o := range in.AllowedOrigins {
		field := fmt.Sprintf("allowedOrigins.%d", i)
		if strings.Contains(o, ",") {
			return fault.Field(field, "invalid origins: a comma in one")
		}
		if err := checkOrigins(field, o); err != nil {
			return err
		}
	}
	return checkOrigins("allowedOrigins", strings.Join(in.AllowedOrigins, ","))
}

func updateAllowedOrigins(tx *activity.Tx, in *UpdateAllowedOrigins) (*activity.Nothing, error) {
	_, err := changeFeatures(tx, func(m map[string]string) error {
		m[user.FeatureOrigins] = strings.Join(in.AllowedOrigins, ",")
		return nil
	})
	return &activity.Nothing{}, err
}
