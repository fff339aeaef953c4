package activity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/apitest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
)

// liveTypes are what this release answers; every other type of the interface is
// UNIMPLEMENTED.
var liveTypes = strings.Fields(`
	CREATE_USERS CREATE_USERS_V2 CREATE_USERS_V3 CREATE_USERS_V4
	CREATE_SUB_ORGANIZATION CREATE_SUB_ORGANIZATION_V2 CREATE_SUB_ORGANIZATION_V3 CREATE_SUB_ORGANIZATION_V4
	CREATE_SUB_ORGANIZATION_V5 CREATE_SUB_ORGANIZATION_V6 CREATE_SUB_ORGANIZATION_V7 CREATE_SUB_ORGANIZATION_V8
	DELETE_SUB_ORGANIZATION CREATE_ORGANIZATION CREATE_ORGANIZATION_V2 DELETE_ORGANIZATION UPDATE_ORGANIZATION_NAME UPDATE_ROOT_QUORUM
	SET_ORGANIZATION_FEATURE REMOVE_ORGANIZATION_FEATURE UPDATE_ALLOWED_ORIGINS
	CREATE_POLICY CREATE_POLICY_V2 CREATE_POLICY_V3 CREATE_POLICIES UPDATE_POLICY UPDATE_POLICY_V2 DELETE_POLICY DELETE_POLICIES
	CREATE_MFA_POLICY UPDATE_MFA_POLICY DELETE_MFA_POLICY SET_IP_ALLOWLIST REMOVE_IP_ALLOWLIST CREATE_SESSION_PROFILE
	INIT_OTP INIT_OTP_V2 INIT_OTP_V3 VERIFY_OTP VERIFY_OTP_V2 OTP_LOGIN OTP_LOGIN_V2 INIT_OTP_AUTH INIT_OTP_AUTH_V2 INIT_OTP_AUTH_V3 OTP_AUTH
	EMAIL_AUTH EMAIL_AUTH_V2 EMAIL_AUTH_V3 INIT_USER_EMAIL_RECOVERY INIT_USER_EMAIL_RECOVERY_V2 RECOVER_USER
	OAUTH OAUTH_LOGIN OAUTH2_AUTHENTICATE CREATE_OAUTH2_CREDENTIAL UPDATE_OAUTH2_CREDENTIAL DELETE_OAUTH2_CREDENTIAL
	CREATE_FIAT_ON_RAMP_CREDENTIAL UPDATE_FIAT_ON_RAMP_CREDENTIAL DELETE_FIAT_ON_RAMP_CREDENTIAL INIT_FIAT_ON_RAMP
	ACTIVATE_BILLING_TIER SET_PAYMENT_METHOD SET_PAYMENT_METHOD_V2 UPDATE_PAYMENT_METHOD DELETE_PAYMENT_METHOD
	STAMP_LOGIN CREATE_READ_ONLY_SESSION CREATE_READ_WRITE_SESSION CREATE_READ_WRITE_SESSION_V2
	CREATE_SMART_CONTRACT_INTERFACE DELETE_SMART_CONTRACT_INTERFACE
	CREATE_WALLET CREATE_WALLET_ACCOUNTS UPDATE_WALLET DELETE_WALLETS UPDATE_WALLET_ACCOUNT_NAME DELETE_WALLET_ACCOUNTS
	CREATE_PRIVATE_KEYS CREATE_PRIVATE_KEYS_V2 DISABLE_PRIVATE_KEY DELETE_PRIVATE_KEYS
	CREATE_API_KEYS CREATE_API_KEYS_V2 DELETE_API_KEYS UPDATE_USER_NAME
	CREATE_API_ONLY_USERS UPDATE_USER UPDATE_USER_EMAIL UPDATE_USER_PHONE_NUMBER DELETE_USERS
	CREATE_OAUTH_PROVIDERS CREATE_OAUTH_PROVIDERS_V2 DELETE_OAUTH_PROVIDERS
	CREATE_AUTHENTICATORS CREATE_AUTHENTICATORS_V2 DELETE_AUTHENTICATORS
	CREATE_USER_TAG UPDATE_USER_TAG DELETE_USER_TAGS CREATE_PRIVATE_KEY_TAG UPDATE_PRIVATE_KEY_TAG DELETE_PRIVATE_KEY_TAGS
	CREATE_INVITATIONS DELETE_INVITATION ACCEPT_INVITATION ACCEPT_INVITATION_V2
	SIGN_RAW_PAYLOAD SIGN_RAW_PAYLOAD_V2 SIGN_RAW_PAYLOADS SIGN_TRANSACTION SIGN_TRANSACTION_V2
	ETH_SEND_RAW_TRANSACTION ETH_SEND_TRANSACTION ETH_SEND_TRANSACTION_V2 SOL_SEND_TRANSACTION SOL_SEND_TRANSACTION_V2
	SPARK_SIGN_FROST SPARK_PREPARE_TRANSFER SPARK_CLAIM_TRANSFER SPARK_PREPARE_LIGHTNING_RECEIVE
	ETH_UNDELEGATE_7702 UPSERT_GAS_USAGE_CONFIG
	INIT_IMPORT_WALLET IMPORT_WALLET INIT_IMPORT_PRIVATE_KEY IMPORT_PRIVATE_KEY EXPORT_WALLET EXPORT_WALLET_ACCOUNT EXPORT_PRIVATE_KEY
	INIT_IMPORT_SECRETS IMPORT_SECRETS EXPORT_SECRETS DELETE_SECRETS
	ENABLE_AUTH_PROXY DISABLE_AUTH_PROXY UPDATE_AUTH_PROXY_CONFIG
	CREATE_WEBHOOK_ENDPOINT UPDATE_WEBHOOK_ENDPOINT DELETE_WEBHOOK_ENDPOINT
	CREATE_TVC_APP CREATE_TVC_OPERATOR CREATE_TVC_QUORUM_KEY CREATE_TVC_DEPLOYMENT DELETE_TVC_DEPLOYMENT RESTORE_TVC_DEPLOYMENT DELETE_TVC_APP_AND_DEPLOYMENTS
	CREATE_TVC_MANIFEST_APPROVALS POST_TVC_QUORUM_KEY_SHARE RE_ENCRYPT_TVC_QUORUM_KEY_SHARE UPDATE_TVC_APP_LIVE_DEPLOYMENT
	APPROVE_ACTIVITY REJECT_ACTIVITY
	EXPORT_HISTORY RESEND_WEBHOOK_DELIVERIES`)

// own are the types that the published interface does not have.
var own = []string{"ACTIVITY_TYPE_EXPORT_HISTORY", "ACTIVITY_TYPE_RESEND_WEBHOOK_DELIVERIES"}

func TestEveryTypeIsLiveOrUnimplemented(t *testing.T) {
	n := 0
	for _, o := range activitytest.API.Operations {
		if o.Kind != "submit" {
			if activity.KnownOp(o.Name) {
				t.Errorf("%s is a submit operation", o.Name)
			}
			continue
		}
		n++
		if !activity.KnownOp(o.Name) || !activity.KnownType(o.Type) || activity.OpOf(o.Type) != o.Name {
			t.Errorf("%s %s is unknown", o.Name, o.Type)
		}
		v, err := kinds.Live.Lookup(o.Name, o.Type)
		if slices.Contains(liveTypes, strings.TrimPrefix(o.Type, "ACTIVITY_TYPE_")) {
			if err != nil || v.Type != o.Type || v.Kind.Op != o.Name {
				t.Errorf("%s: %v", o.Type, err)
			}
		} else if activitytest.Code(err) != fault.Unimplemented || err.Error() != activity.NotLive(o.Name).Error() {
			t.Errorf("%s: %v", o.Type, err)
		}
		if _, err := kinds.Live.Lookup("create_wallets", o.Type); activitytest.Code(err) != fault.NotFound {
			t.Errorf("unknown path: %v", err)
		}
		for _, other := range []string{"update_wallet", "sign_transaction"} {
			if _, err := kinds.Live.Lookup(other, o.Type); o.Name != other && activitytest.Code(err) != fault.InvalidArgument {
				t.Errorf("%s at %s: %v", o.Type, other, err)
			}
		}
	}
	if n != len(activitytest.API.Activities) || n != 169 {
		t.Errorf("%d types in the list, %d in the description", n, len(activitytest.API.Activities))
	}
	for typ := range kinds.Live {
		if !slices.Contains(liveTypes, strings.TrimPrefix(typ, "ACTIVITY_TYPE_")) {
			t.Errorf("%s is live unlisted", typ)
		}
	}
}

// The server and browser SDKs 8.x have another name for a type, which the type's own path takes and no other.
func TestNameOfUndelegationInSDKs(t *testing.T) {
	const sent = "ACTIVITY_TYPE_ETH_UNDELEGATE7702"
	if v, err := kinds.Live.Lookup("eth_undelegate_7702", sent); err != nil || v.Type != "ACTIVITY_TYPE_ETH_UNDELEGATE_7702" {
		t.Errorf("%v, %v", v, err)
	}
	if _, err := kinds.Live.Lookup("eth_send_transaction", sent); activitytest.Code(err) != fault.InvalidArgument {
		t.Error(err)
	}
	if activity.KnownType(sent) || activity.OpOf(sent) != "" {
		t.Error("it is a type of its own")
	}
}

func TestUnknownTypesAreRefused(t *testing.T) {
	for _, typ := range []string{"", "CREATE_WALLET", "ACTIVITY_TYPE_CREATE_WALLET_V2", "ACTIVITY_TYPE_CREATE_WALLET_V1", "activity_type_create_wallet", "ACTIVITY_TYPE_CREATE_USERS_V5", "ACTIVITY_TYPE_CREATE_USERS_V1"} {
		if _, err := kinds.Live.Lookup("create_wallet", typ); activitytest.Code(err) != fault.InvalidArgument {
			t.Errorf("%q: %v", typ, err)
		}
		if activity.KnownType(typ) {
			t.Errorf("%q is known", typ)
		}
	}
}

func TestNamesFollowTheDescription(t *testing.T) {
	for typ, v := range kinds.Live {
		if slices.Contains(own, typ) {
			continue
		}
		a := activitytest.API.Activities[typ]
		if v.IntentKey != a.Intent || v.ResultKey != a.Result && !v.Kind.Vote { // a vote answers with what it is about
			t.Errorf("%s: %s and %s, want %s and %s", typ, v.IntentKey, v.ResultKey, a.Intent, a.Result)
		}
		path := "/public/v1/submit/" + v.Kind.Op
		if a.Path == "" && activitytest.API.Endpoints[path].Op == "" { // it is ours to name
			continue
		}
		if a.Path != path {
			t.Errorf("%s: %s, want %s", typ, path, a.Path)
		}
		if _, ok := activitytest.API.Endpoints[a.Path].ActivityTypes[typ]; !ok {
			t.Errorf("%s does not belong to %s", typ, a.Path)
		}
	}
}

const otpTypes = "required,oneof=OTP_TYPE_SMS OTP_TYPE_EMAIL OTP_TYPE_WHATSAPP"

// excused are rules that cannot be meant as they stand: keys are no UUIDs, and a
// contact is removed by an empty text, not by leaving it out.
var excused = map[string]string{
	"UserParams.apiKeys": "dive",
	// What the documents say of the type, and Check holds that the ids are distinct.
	"InitOtpIntent.otpType": otpTypes, "InitOtpIntentV2.otpType": otpTypes, "InitOtpIntentV3.otpType": otpTypes,
	"InitOtpAuthIntent.otpType": otpTypes, "InitOtpAuthIntentV2.otpType": otpTypes, "InitOtpAuthIntentV3.otpType": otpTypes,
	"DeleteSecretsIntent.secretIds": "required,min=1,max=32,dive,uuid",
	// Empty is a value of these, and names are names everywhere.
	"CreatePolicyIntentV3.notes": "present", "SetOrganizationFeatureIntent.value": "present",
	"CreateSessionProfileIntent.sessionProfileName": "required,label,label_length", "CreateOrganizationIntent.organizationName": "required,label,label_length",
	"CreatePolicyIntent.policyName": "required,label,label_length", "CreatePolicyIntentV2.policyName": "required,label,label_length",
	"SetPaymentMethodIntent.cardHolderName": "required,label,label_length", "SetPaymentMethodIntentV2.cardHolderName": "required,label,label_length",
	"UpdateUserEmailIntent.userEmail": "present,omitempty,email,email_ext", "UpdateUserPhoneNumberIntent.userPhoneNumber": "present,omitempty,e164",
}

// ownMembers are members of ours in types of the interface. Clients that do not know them leave them out.
var ownMembers = []string{"ApproveActivityIntent.decodedDigest: not in the description", "RejectActivityIntent.reason: not in the description"}

func TestShapesFollowTheDescription(t *testing.T) {
	left := maps.Clone(excused)
	for typ, v := range kinds.Live {
		if slices.Contains(own, typ) {
			continue
		}
		intent, result := v.Shapes()
		mine := maps.Clone(excused) // several types may share a shape
		wrongs := activitytest.API.Request(activitytest.API.Activities[typ].IntentType, intent, mine)
		maps.DeleteFunc(left, func(where, _ string) bool { _, unused := mine[where]; return !unused })
		for _, wrong := range wrongs {
			if !slices.Contains(ownMembers, wrong) {
				t.Errorf("%s: %s", typ, wrong)
			}
		}
		if v.Kind.Vote {
			continue
		}
		for _, wrong := range activitytest.API.Response(activitytest.API.Activities[typ].ResultType, result) {
			t.Errorf("%s: %s", typ, wrong)
		}
	}
	if len(left) > 0 {
		t.Errorf("excuses that nothing needs: %v", left)
	}
}

func TestTheComparisonFindsMistakes(t *testing.T) {
	type none struct{}
	type extra struct {
		UserID   string `json:"userId" rule:"required,uuid"`
		UserName string `json:"userName" rule:"required,label,label_length"`
		More     string `json:"more"`
	}
	type other struct {
		UserID   string `json:"userId" rule:"uuid"`
		UserName *int32 `json:"userName" rule:"required,label,label_length"`
	}
	for _, c := range []struct {
		shape any
		n     int
	}{{none{}, 2}, {extra{}, 1}, {other{}, 3}} {
		if got := activitytest.API.Request("UpdateUserNameIntent", reflect.TypeOf(c.shape), nil); len(got) != c.n {
			t.Errorf("%T: %q", c.shape, got)
		}
	}
}

// policyNames are resource and action of the kinds, as policies know them.
var policyNames = map[string]string{
	"CREATE_USERS": "USER CREATE", "CREATE_API_ONLY_USERS": "USER CREATE", "UPDATE_USER": "USER UPDATE", "UPDATE_USER_NAME": "USER UPDATE",
	"UPDATE_USER_EMAIL": "USER UPDATE", "UPDATE_USER_PHONE_NUMBER": "USER UPDATE", "DELETE_USERS": "USER DELETE",
	"CREATE_OAUTH_PROVIDERS": "CREDENTIAL CREATE", "DELETE_OAUTH_PROVIDERS": "CREDENTIAL DELETE",
	"CREATE_AUTHENTICATORS": "CREDENTIAL CREATE", "DELETE_AUTHENTICATORS": "CREDENTIAL DELETE",
	"CREATE_USER_TAG": "USER CREATE", "UPDATE_USER_TAG": "USER UPDATE", "DELETE_USER_TAGS": "USER DELETE",
	"CREATE_PRIVATE_KEY_TAG": "PRIVATE_KEY CREATE", "UPDATE_PRIVATE_KEY_TAG": "PRIVATE_KEY UPDATE", "DELETE_PRIVATE_KEY_TAGS": "PRIVATE_KEY DELETE",
	"CREATE_INVITATIONS": "INVITATION CREATE", "DELETE_INVITATION": "INVITATION DELETE", "ACCEPT_INVITATION": "INVITATION UPDATE",
	"CREATE_SUB_ORGANIZATION": "ORGANIZATION CREATE", "DELETE_SUB_ORGANIZATION": "ORGANIZATION DELETE",
	"CREATE_ORGANIZATION": " ", "DELETE_ORGANIZATION": "ORGANIZATION DELETE",
	"UPDATE_ORGANIZATION_NAME": " ", "UPDATE_ROOT_QUORUM": " ", "SET_ORGANIZATION_FEATURE": " ", "REMOVE_ORGANIZATION_FEATURE": " ",
	"UPDATE_ALLOWED_ORIGINS": "CONFIG UPDATE", "SET_IP_ALLOWLIST": "CONFIG UPDATE", "REMOVE_IP_ALLOWLIST": "CONFIG DELETE",
	"CREATE_POLICY": "POLICY CREATE", "CREATE_POLICIES": "POLICY CREATE", "UPDATE_POLICY": "POLICY UPDATE", "DELETE_POLICY": "POLICY DELETE", "DELETE_POLICIES": "POLICY DELETE",
	"CREATE_MFA_POLICY": "MFA_POLICY CREATE", "UPDATE_MFA_POLICY": "MFA_POLICY UPDATE", "DELETE_MFA_POLICY": "MFA_POLICY DELETE",
	"CREATE_SESSION_PROFILE":          "SESSION_PROFILE CREATE",
	"CREATE_SMART_CONTRACT_INTERFACE": "SMART_CONTRACT_INTERFACE CREATE", "DELETE_SMART_CONTRACT_INTERFACE": "SMART_CONTRACT_INTERFACE DELETE",
	"UPDATE_WALLET_ACCOUNT_NAME": "WALLET UPDATE", "DELETE_WALLET_ACCOUNTS": "WALLET DELETE",
	"DISABLE_PRIVATE_KEY": "PRIVATE_KEY DELETE", "DELETE_PRIVATE_KEYS": "PRIVATE_KEY DELETE",
	"CREATE_WALLET": "WALLET CREATE", "CREATE_WALLET_ACCOUNTS": "WALLET CREATE", "UPDATE_WALLET": "WALLET UPDATE", "DELETE_WALLETS": "WALLET DELETE",
	"CREATE_PRIVATE_KEYS": "PRIVATE_KEY CREATE", "CREATE_API_KEYS": "CREDENTIAL CREATE", "DELETE_API_KEYS": "CREDENTIAL DELETE",
	"SIGN_RAW_PAYLOAD": "PRIVATE_KEY SIGN", "SIGN_RAW_PAYLOADS": "PRIVATE_KEY SIGN", "SIGN_TRANSACTION": "PRIVATE_KEY SIGN",
	"ETH_UNDELEGATE_7702": "PRIVATE_KEY SIGN", "UPSERT_GAS_USAGE_CONFIG": "SPONSORSHIP UPDATE",
	"ETH_SEND_RAW_TRANSACTION": "PRIVATE_KEY SIGN", "ETH_SEND_TRANSACTION": "PRIVATE_KEY SIGN", "SOL_SEND_TRANSACTION": "PRIVATE_KEY SIGN",
	"SPARK_SIGN_FROST": "PRIVATE_KEY SIGN", "SPARK_PREPARE_TRANSFER": "PRIVATE_KEY SIGN", "SPARK_CLAIM_TRANSFER": "PRIVATE_KEY SIGN", "SPARK_PREPARE_LIGHTNING_RECEIVE": "PRIVATE_KEY SIGN",
	"INIT_IMPORT_WALLET": "WALLET IMPORT", "IMPORT_WALLET": "WALLET IMPORT", "INIT_IMPORT_PRIVATE_KEY": "PRIVATE_KEY IMPORT", "IMPORT_PRIVATE_KEY": "PRIVATE_KEY IMPORT",
	"EXPORT_WALLET": "WALLET EXPORT", "EXPORT_WALLET_ACCOUNT": "WALLET EXPORT", "EXPORT_PRIVATE_KEY": "PRIVATE_KEY EXPORT",
	"INIT_IMPORT_SECRETS": "SECRET IMPORT", "IMPORT_SECRETS": "SECRET IMPORT", "EXPORT_SECRETS": "SECRET EXPORT", "DELETE_SECRETS": "SECRET DELETE",
	"STAMP_LOGIN": "AUTH CREATE", "CREATE_READ_ONLY_SESSION": "AUTH CREATE", "CREATE_READ_WRITE_SESSION": "AUTH CREATE",
	"INIT_OTP": "OTP CREATE", "VERIFY_OTP": "OTP VERIFY", "OTP_LOGIN": "AUTH CREATE", "INIT_OTP_AUTH": "AUTH CREATE", "OTP_AUTH": "AUTH CREATE",
	"EMAIL_AUTH": "AUTH CREATE", "INIT_USER_EMAIL_RECOVERY": "RECOVERY CREATE", "RECOVER_USER": "RECOVERY UPDATE",
	"OAUTH": "AUTH CREATE", "OAUTH_LOGIN": "AUTH CREATE", "OAUTH2_AUTHENTICATE": "AUTH CREATE",
	"CREATE_OAUTH2_CREDENTIAL": "AUTH CREATE", "UPDATE_OAUTH2_CREDENTIAL": "AUTH UPDATE", "DELETE_OAUTH2_CREDENTIAL": "AUTH DELETE",
	"CREATE_FIAT_ON_RAMP_CREDENTIAL": "ON_RAMP_CREDENTIALS CREATE", "UPDATE_FIAT_ON_RAMP_CREDENTIAL": "ON_RAMP_CREDENTIALS UPDATE", "DELETE_FIAT_ON_RAMP_CREDENTIAL": "ON_RAMP_CREDENTIALS DELETE",
	"INIT_FIAT_ON_RAMP":     "FIAT_TRANSACTION CREATE",
	"ACTIVATE_BILLING_TIER": "SUBSCRIPTION CREATE", "SET_PAYMENT_METHOD": "PAYMENT_METHOD UPDATE", "UPDATE_PAYMENT_METHOD": "PAYMENT_METHOD UPDATE", "DELETE_PAYMENT_METHOD": "PAYMENT_METHOD DELETE",
	"ENABLE_AUTH_PROXY": "AUTH_PROXY CREATE", "DISABLE_AUTH_PROXY": "AUTH_PROXY DELETE", "UPDATE_AUTH_PROXY_CONFIG": "AUTH_PROXY UPDATE",
	"CREATE_WEBHOOK_ENDPOINT": "WEBHOOK_ENDPOINT CREATE", "UPDATE_WEBHOOK_ENDPOINT": "WEBHOOK_ENDPOINT UPDATE", "DELETE_WEBHOOK_ENDPOINT": "WEBHOOK_ENDPOINT DELETE", "RESEND_WEBHOOK_DELIVERIES": "WEBHOOK_ENDPOINT UPDATE",
	"CREATE_TVC_APP": "TVC_APP CREATE", "CREATE_TVC_OPERATOR": "TVC_OPERATOR CREATE", "CREATE_TVC_QUORUM_KEY": "TVC_QUORUM_KEY CREATE",
	"CREATE_TVC_DEPLOYMENT": "TVC_DEPLOYMENT CREATE", "DELETE_TVC_DEPLOYMENT": "TVC_DEPLOYMENT DELETE", "RESTORE_TVC_DEPLOYMENT": "TVC_DEPLOYMENT UPDATE", "DELETE_TVC_APP_AND_DEPLOYMENTS": "TVC_APP DELETE",
	"CREATE_TVC_MANIFEST_APPROVALS": "TVC_DEPLOYMENT UPDATE", "POST_TVC_QUORUM_KEY_SHARE": "TVC_DEPLOYMENT UPDATE", "RE_ENCRYPT_TVC_QUORUM_KEY_SHARE": "TVC_QUORUM_KEY ENCRYPT", "UPDATE_TVC_APP_LIVE_DEPLOYMENT": "TVC_APP UPDATE",
	"EXPORT_HISTORY": " ", "APPROVE_ACTIVITY": " ", "REJECT_ACTIVITY": " ", // decided by no policy
}

func TestPolicyNames(t *testing.T) {
	for typ, v := range kinds.Live {
		if got := v.Kind.Resource + " " + v.Kind.Action; policyNames[v.Kind.Name] != got {
			t.Errorf("%s: %s", typ, got)
		}
	}
}

// 2·G of secp256k1
// G of P-256

// secretsOf are what intents hold in clear that is good for one use. Tokens are not
// among it: they are results too, which whoever may read the activity sees there.
var secretsOf = map[string][]string{
	"ACTIVITY_TYPE_VERIFY_OTP":          {"otpCode"},
	"ACTIVITY_TYPE_OTP_AUTH":            {"otpCode"},
	"ACTIVITY_TYPE_OAUTH2_AUTHENTICATE": {"authCode", "codeVerifier"},
}

func TestSamplesAreTakenAndRepeated(t *testing.T) {
	for typ, v := range kinds.Live {
		want := activitytest.SampleIntent(typ)
		in, err := v.Decode(activitytest.JSON(want))
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(v.AppendIntent(nil, in), &got); err != nil {
			t.Fatal(err)
		}
		var plain map[string]any
		json.Unmarshal(activitytest.JSON(want), &plain)
		for _, name := range secretsOf[typ] {
			if plain[name] == nil {
				t.Errorf("%s has no %s", typ, name)
			}
			plain[name] = "[masked]"
		}
		if v.Secret() != (len(secretsOf[typ]) > 0) {
			t.Errorf("%s holds secrets: %t", typ, v.Secret())
		}
		if !reflect.DeepEqual(got, map[string]any{v.IntentKey: plain}) {
			t.Errorf("%s repeats %s for %s", typ, activitytest.JSON(got), activitytest.JSON(want))
		}
		// snake_case is read, camelCase is repeated.
		snaked, err := v.Decode([]byte(snakeKeys(string(activitytest.JSON(want)))))
		if err != nil || string(v.AppendIntent(nil, snaked)) != string(v.AppendIntent(nil, in)) {
			t.Errorf("%s in snake_case: %v", typ, err)
		}
	}
}

func snakeKeys(s string) string {
	var b strings.Builder
	parts := strings.Split(s, `"`)
	for i, p := range parts {
		if i > 0 {
			b.WriteByte('"')
		}
		if i%2 == 1 && i+1 < len(parts) && strings.HasPrefix(parts[i+1], ":") {
			for _, r := range p {
				if r >= 'A' && r <= 'Z' {
					b.WriteByte('_')
					r += 'a' - 'A'
				}
				b.WriteRune(r)
			}
			continue
		}
		b.WriteString(p)
	}
	return b.String()
}

// mutate calls visit with every change that must be refused of one member of m
// in place, at any depth, and undoes it.
func mutate(typ string, m map[string]any, path string, visit func(what string)) {
	m["unheardOf"] = true
	visit(path + ": unknown member")
	delete(m, "unheardOf")
	for name, notation := range activitytest.API.Types[typ] {
		old, ok := m[name]
		if !ok {
			continue
		}
		f := apitest.Parse(notation)
		at := path + "." + name
		if f.Required && !f.List && !strings.HasPrefix(activitytest.API.Rules[typ][name], "omitempty") {
			delete(m, name)
			visit(at + ": missing")
			m[name] = nil
			visit(at + ": null")
		}
		m[name] = []any{map[string]any{}}
		if f.List {
			m[name] = map[string]any{}
		}
		visit(at + ": another type")
		m[name] = old
		values := []any{old}
		if f.List {
			values = old.([]any)
			if len(values) == 0 {
				continue
			}
			if strings.HasPrefix(activitytest.API.Rules[typ][name], "required") {
				m[name] = []any{}
				visit(at + ": empty")
				m[name] = old
			}
		}
		for i, value := range values {
			inner, isObject := value.(map[string]any)
			if isObject {
				mutate(f.Base[1:], inner, at, visit)
				continue
			}
			bad := map[string]any{"bool": "yes", "int32": "one", "uint32": "one", "string": 7}[f.Base]
			if f.Base[0] == '#' {
				bad = activitytest.API.Enums[f.Base[1:]][0] + "X"
			}
			put := func(x any) {
				m[name] = x
				if f.List {
					l := slices.Clone(values)
					l[i] = x
					m[name] = l
				}
			}
			put(bad)
			visit(fmt.Sprintf("%s: %v", at, bad))
			if strings.Contains(activitytest.API.Rules[typ][name], "uuid") {
				for _, bad := range []string{"x", "6ba7b8109dad41d180b400c04fd430c8", "6BA7B810-9DAD-41D1-80B4-00C04FD430C8", " 6ba7b810-9dad-41d1-80b4-00c04fd430c8"} {
					put(bad)
					visit(fmt.Sprintf("%s: %q", at, bad))
				}
			}
			if strings.Contains(activitytest.API.Rules[typ][name], "label") {
				for _, bad := range []string{" x", "x ", "a\nb", "a\x00b", strings.Repeat("ä", 256)} {
					put(bad)
					visit(fmt.Sprintf("%s: %q", at, bad))
				}
				put(strings.Repeat("ä", 255))
			}
			m[name] = old
		}
	}
}

func TestMutatedSamplesAreRefused(t *testing.T) {
	n := 0
	for typ, v := range kinds.Live {
		intent := activitytest.API.Activities[typ].IntentType
		m := activitytest.SampleIntent(typ)
		mutate(intent, m, intent, func(what string) {
			n++
			_, err := v.Decode(activitytest.JSON(m))
			if activitytest.Code(err) != fault.InvalidArgument {
				t.Errorf("%s: %v", what, err)
			}
		})
		if _, err := v.Decode(activitytest.JSON(m)); err != nil {
			t.Errorf("%s: the sample was not put back: %v", typ, err)
		}
	}
	if n < 500 {
		t.Errorf("%d mutations", n)
	}
	t.Logf("%d mutated intents refused", n)
}

func TestGenerateAppProofsInsideOfParameters(t *testing.T) {
	for typ, v := range kinds.Live {
		for _, c := range []struct {
			value any
			want  bool
		}{{true, true}, {false, false}, {nil, false}} {
			m := activitytest.SampleIntent(typ)
			m["generateAppProofs"] = c.value
			in, err := v.Decode(activitytest.JSON(m))
			if err != nil {
				t.Errorf("%s: %v", typ, err)
				continue
			}
			if in.WantsProofs != c.want || strings.Contains(string(v.AppendIntent(nil, in)), "generateAppProofs") {
				t.Errorf("%s: %v", typ, c.value)
			}
		}
		m := activitytest.SampleIntent(typ)
		m["generateAppProofs"] = "yes"
		if _, err := v.Decode(activitytest.JSON(m)); activitytest.Code(err) != fault.InvalidArgument {
			t.Errorf("%s: %v", typ, err)
		}
	}
}

func TestErrorsHaveOneType(t *testing.T) {
	for _, v := range kinds.Live {
		for _, bad := range []string{"", "null", "[]", "{", `{"a":1,"a":1}`, "{}x", `"x"`} {
			_, err := v.Decode([]byte(bad))
			if e := new(fault.Error); !errors.As(err, &e) || e.Code != fault.InvalidArgument {
				t.Errorf("%s %q: %v", v.Type, bad, err)
			}
		}
	}
}

// What the compiler does not see of a declaration is seen at the start.
func TestTablesThatPanic(t *testing.T) {
	type intent struct{}
	type other struct{}
	run := func(*activity.Tx, *intent) (*intent, error) { return nil, nil }
	same := func(*other) intent { return intent{} }
	good := activity.Kind[intent, intent]{Name: "UPDATE_POLICY", Run: run, Older: []activity.Older{activity.Upgrade(same)}}
	if n := len(activity.NewTable(activity.Family{good})); n != 2 {
		t.Errorf("%d versions", n)
	}
	astray, misshapen, unknown, oneTooMany := good, good, good, good
	astray.Older = []activity.Older{activity.Upgrade(func(*intent) other { return other{} })}
	misshapen.Older = []activity.Older{activity.Downgrade(activity.Upgrade(same), func(*other) *intent { return nil })}
	unknown.Name = "UPDATE_NOTHING"
	oneTooMany.Older = append(slices.Clone(good.Older), good.Older...)
	for name, families := range map[string][]activity.Family{
		"listed twice in a family": {{good, good}}, "listed in two families": {{good}, {good}}, "no type of the interface": {{unknown}},
		"a version too many": {{oneTooMany}}, "an intent that becomes another's": {{astray}}, "a result that comes of another's": {{misshapen}},
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("%s: no panic", name)
				}
			}()
			activity.NewTable(families...)
		}()
	}
}

// These are all types that take a verification token. A new one belongs here, in what
// TestBoundTokens… tell of it, and in enclave/README.md.
func TestTypesThatTakeAToken(t *testing.T) {
	want := []string{"CREATE_SUB_ORGANIZATION_V7", "CREATE_SUB_ORGANIZATION_V8", "OTP_LOGIN", "OTP_LOGIN_V2", "UPDATE_USER_EMAIL", "UPDATE_USER_PHONE_NUMBER"}
	var got []string
	for typ, v := range kinds.Live {
		intent, _ := v.Shapes()
		if _, takes := intent.FieldByName("VerificationToken"); takes {
			got = append(got, strings.TrimPrefix(typ, "ACTIVITY_TYPE_"))
		}
	}
	slices.Sort(got)
	if !slices.Equal(got, want) {
		t.Errorf("%v", got)
	}
}
