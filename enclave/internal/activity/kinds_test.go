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
	"cloister/enclave/internal/activity/apitest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
)

var api = apitest.Load()

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
	CREATE_FIAT_ON_RAMP_CREDENTIAL UPDATE_FIAT_ON_RAMP_CREDENTIAL DELETE_FIAT_ON_RAMP_CREDENTIAL
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
	INIT_IMPORT_WALLET IMPORT_WALLET INIT_IMPORT_PRIVATE_KEY IMPORT_PRIVATE_KEY EXPORT_WALLET EXPORT_WALLET_ACCOUNT EXPORT_PRIVATE_KEY
	ENABLE_AUTH_PROXY DISABLE_AUTH_PROXY UPDATE_AUTH_PROXY_CONFIG
	CREATE_WEBHOOK_ENDPOINT UPDATE_WEBHOOK_ENDPOINT DELETE_WEBHOOK_ENDPOINT
	APPROVE_ACTIVITY REJECT_ACTIVITY`)

func code(err error) fault.Code {
	if e := fault.Of(err); e != nil {
		return e.Code
	}
	return 0
}

func TestEveryTypeIsLiveOrUnimplemented(t *testing.T) {
	n := 0
	for _, o := range api.Operations {
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
		} else if code(err) != fault.Unimplemented || err.Error() != "UNIMPLEMENTED: "+o.Name {
			t.Errorf("%s: %v", o.Type, err)
		}
		if _, err := kinds.Live.Lookup("create_wallets", o.Type); code(err) != fault.NotFound {
			t.Errorf("unknown path: %v", err)
		}
		for _, other := range []string{"update_wallet", "sign_transaction"} {
			if _, err := kinds.Live.Lookup(other, o.Type); o.Name != other && code(err) != fault.InvalidArgument {
				t.Errorf("%s at %s: %v", o.Type, other, err)
			}
		}
	}
	if n != len(api.Activities) || n != 162 {
		t.Errorf("%d types in the list, %d in the description", n, len(api.Activities))
	}
	for typ := range kinds.Live {
		if !slices.Contains(liveTypes, strings.TrimPrefix(typ, "ACTIVITY_TYPE_")) {
			t.Errorf("%s is live unlisted", typ)
		}
	}
}

func TestUnknownTypesAreRefused(t *testing.T) {
	for _, typ := range []string{"", "CREATE_WALLET", "ACTIVITY_TYPE_CREATE_WALLET_V2", "ACTIVITY_TYPE_CREATE_WALLET_V1", "activity_type_create_wallet", "ACTIVITY_TYPE_CREATE_USERS_V5", "ACTIVITY_TYPE_CREATE_USERS_V1"} {
		if _, err := kinds.Live.Lookup("create_wallet", typ); code(err) != fault.InvalidArgument {
			t.Errorf("%q: %v", typ, err)
		}
		if activity.KnownType(typ) {
			t.Errorf("%q is known", typ)
		}
	}
}

func TestNamesFollowTheDescription(t *testing.T) {
	for typ, v := range kinds.Live {
		a := api.Activities[typ]
		if v.IntentKey != a.Intent || v.ResultKey != a.Result && !v.Kind.Vote { // a vote answers with what it is about
			t.Errorf("%s: %s and %s, want %s and %s", typ, v.IntentKey, v.ResultKey, a.Intent, a.Result)
		}
		path := "/public/v1/submit/" + v.Kind.Op
		if a.Path == "" && api.Endpoints[path].Op == "" { // it is ours to name
			continue
		}
		if a.Path != path {
			t.Errorf("%s: %s, want %s", typ, path, a.Path)
		}
		if _, ok := api.Endpoints[a.Path].ActivityTypes[typ]; !ok {
			t.Errorf("%s does not belong to %s", typ, a.Path)
		}
	}
}

// excused are rules that cannot be meant as they stand: keys are no UUIDs, and a
// contact is removed by an empty text, not by leaving it out.
var excused = map[string]string{
	"UserParams.apiKeys": "dive",
	// Empty is a value of these, and names are names everywhere.
	"CreatePolicyIntentV3.notes": "present", "SetOrganizationFeatureIntent.value": "present",
	"CreateSessionProfileIntent.sessionProfileName": "required,label,label_length", "CreateOrganizationIntent.organizationName": "required,label,label_length",
	"CreatePolicyIntent.policyName": "required,label,label_length", "CreatePolicyIntentV2.policyName": "required,label,label_length",
	"UpdateUserEmailIntent.userEmail": "present,omitempty,email,email_ext", "UpdateUserPhoneNumberIntent.userPhoneNumber": "present,omitempty,e164",
}

func TestShapesFollowTheDescription(t *testing.T) {
	left := maps.Clone(excused)
	for typ, v := range kinds.Live {
		intent, result := v.Shapes()
		mine := maps.Clone(excused) // several types may share a shape
		wrongs := api.Request(api.Activities[typ].IntentType, intent, mine)
		maps.DeleteFunc(left, func(where, _ string) bool { _, unused := mine[where]; return !unused })
		for _, wrong := range wrongs {
			t.Errorf("%s: %s", typ, wrong)
		}
		if v.Kind.Vote {
			continue
		}
		for _, wrong := range api.Response(api.Activities[typ].ResultType, result) {
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
		if got := api.Request("UpdateUserNameIntent", reflect.TypeOf(c.shape), nil); len(got) != c.n {
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
	"ETH_SEND_RAW_TRANSACTION": "PRIVATE_KEY SIGN", "ETH_SEND_TRANSACTION": "PRIVATE_KEY SIGN", "SOL_SEND_TRANSACTION": "PRIVATE_KEY SIGN",
	"INIT_IMPORT_WALLET": "WALLET IMPORT", "IMPORT_WALLET": "WALLET IMPORT", "INIT_IMPORT_PRIVATE_KEY": "PRIVATE_KEY IMPORT", "IMPORT_PRIVATE_KEY": "PRIVATE_KEY IMPORT",
	"EXPORT_WALLET": "WALLET EXPORT", "EXPORT_WALLET_ACCOUNT": "WALLET EXPORT", "EXPORT_PRIVATE_KEY": "PRIVATE_KEY EXPORT",
	"STAMP_LOGIN": "AUTH CREATE", "CREATE_READ_ONLY_SESSION": "AUTH CREATE", "CREATE_READ_WRITE_SESSION": "AUTH CREATE",
	"INIT_OTP": "OTP CREATE", "VERIFY_OTP": "OTP VERIFY", "OTP_LOGIN": "AUTH CREATE", "INIT_OTP_AUTH": "AUTH CREATE", "OTP_AUTH": "AUTH CREATE",
	"EMAIL_AUTH": "AUTH CREATE", "INIT_USER_EMAIL_RECOVERY": "RECOVERY CREATE", "RECOVER_USER": "RECOVERY UPDATE",
	"OAUTH": "AUTH CREATE", "OAUTH_LOGIN": "AUTH CREATE", "OAUTH2_AUTHENTICATE": "AUTH CREATE",
	"CREATE_OAUTH2_CREDENTIAL": "AUTH CREATE", "UPDATE_OAUTH2_CREDENTIAL": "AUTH UPDATE", "DELETE_OAUTH2_CREDENTIAL": "AUTH DELETE",
	"CREATE_FIAT_ON_RAMP_CREDENTIAL": "ON_RAMP_CREDENTIALS CREATE", "UPDATE_FIAT_ON_RAMP_CREDENTIAL": "ON_RAMP_CREDENTIALS UPDATE", "DELETE_FIAT_ON_RAMP_CREDENTIAL": "ON_RAMP_CREDENTIALS DELETE",
	"ENABLE_AUTH_PROXY": "AUTH_PROXY CREATE", "DISABLE_AUTH_PROXY": "AUTH_PROXY DELETE", "UPDATE_AUTH_PROXY_CONFIG": "AUTH_PROXY UPDATE",
	"CREATE_WEBHOOK_ENDPOINT": "WEBHOOK_ENDPOINT CREATE", "UPDATE_WEBHOOK_ENDPOINT": "WEBHOOK_ENDPOINT UPDATE", "DELETE_WEBHOOK_ENDPOINT": "WEBHOOK_ENDPOINT DELETE",
	"APPROVE_ACTIVITY": " ", "REJECT_ACTIVITY": " ", // decided by no policy
}

func TestPolicyNames(t *testing.T) {
	for typ, v := range kinds.Live {
		if got := v.Kind.Resource + " " + v.Kind.Action; policyNames[v.Kind.Name] != got {
			t.Errorf("%s: %s", typ, got)
		}
	}
}

// sample makes a value of a described type with every member set, those that
// are not live left empty.
func sample(typ string) map[string]any {
	m := map[string]any{}
	for name, notation := range api.Types[typ] {
		f := apitest.Parse(notation)
		rule := api.Rules[typ][name]
		switch {
		case name == "oauthProviders" && strings.HasPrefix(rule, "dive"):
			m[name] = []any{}
			continue
		case strings.HasSuffix(name, "emplateId"), name == "captchaEnabled":
			continue
		case (name == "verificationToken" || name == "clientSignature") && !strings.HasPrefix(typ, "OtpLogin"), typ == "OauthProviderParamsV2" && name == "oidcToken":
			continue
		}
		var v any
		switch {
		case samples[typ+"."+name] != nil:
			v = samples[typ+"."+name]
		case samples[name] != nil:
			v = samples[name]
		case f.Base == "bool":
			v = true
		case f.Base == "string" && strings.Contains(rule, "uuid"):
			v = someID
		case f.Base == "string" && strings.Contains(rule, "email"):
			v = "someone@example.org"
		case f.Base == "string":
			v = "Some text"
		case strings.HasPrefix(f.Base, "@"):
			v = sample(f.Base[1:])
		case strings.HasPrefix(f.Base, "="):
			v = f.Base[1:]
		case strings.HasPrefix(f.Base, "#"):
			v = api.Enums[f.Base[1:]][0]
		default:
			panic(typ + "." + name)
		}
		if _, isList := v.([]any); f.List && !isList {
			v = []any{v}
		}
		m[name] = v
	}
	return m
}

const someKey = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"  // 2·G of secp256k1
const someP256 = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296" // G of P-256

// someBundle is of the right form and opens with nothing.
const someBundle = `{"encappedPublic":"046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5","ciphertext":"000102030405060708090a0b0c0d0e0f10"}`

// someToken is an identity token by its form.
const someToken = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3ViIjoicyIsImF1ZCI6ImEifQ.c2lnbmF0dXJl"

const someID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"

var samples = map[string]any{
	"fingerprint": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"apiKeyName":  "A key", "publicKey": someP256, "curveType": "API_KEY_CURVE_P256", "expirationSeconds": "3600",
	"userEmail": "someone@example.org", "userPhoneNumber": "+15551234567",
	"path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM", "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM", "ADDRESS_FORMAT_COMPRESSED"},
	"curve": "CURVE_SECP256K1", "mnemonicLength": json.Number("12"), "rootQuorumThreshold": json.Number("1"),
	"walletId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "userId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "privateKeyId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
	"walletIds": []any{"6ba7b810-9dad-41d1-80b4-00c04fd430c8"}, "apiKeyIds": []any{"6ba7b810-9dad-41d1-80b4-00c04fd430c8"},
	"id": "c29tZQ", "rawId": "c29tZQ", "credentialId": "c29tZQ", "clientDataJson": "c29tZQ", "attestationObject": "c29tZQ",
	"targetPublicKey": someP256, "encryptedBundle": someBundle, "unsignedTransaction": "0x00ff", "payload": "0x00ff", "payloads": []any{"00", "0x01"}, "challenge": "Y2g", "name": "A name",
	"condition": "true", "consensus": "true", "time": "true", "policyCondition": "true", "policyConsensus": "true", "scope": "true",
	"Selector.subject": "activity.type", "SelectorV2.subject": "activity.type",
	"SetOrganizationFeatureIntent.name": "FEATURE_NAME_SMS_AUTH", "SetOrganizationFeatureIntent.value": "", "RemoveOrganizationFeatureIntent.name": "FEATURE_NAME_SMS_AUTH",
	"allowedOrigins": []any{"https://example.org"}, "threshold": json.Number("1"), "order": json.Number("7"),
	"AuthenticationMethodParams.type": "AUTHENTICATION_TYPE_SESSION", "AuthenticationMethodParams.id": someID,
	"cidr": "10.0.0.0/24", "onEvaluationError": "DENY", "rules": []any{map[string]any{"cidr": "10.0.0.0/24", "label": "Office"}},
	"sponsor": false, "from": someAddress, "to": someAddress, "data": "0x00ff", "EthSendTransactionIntent.value": "7", "EthCallParams.value": "7", "nonce": "7", "gasLimit": "21000",
	"maxFeePerGas": "7", "maxPriorityFeePerGas": "7", "deadline": "7", "gasStationNonce": "7", "signWiths": []any{someSolana}, "signedTransaction": signedTransfer,
	"SolSendTransactionIntent.unsignedTransaction": solanaTransfer, "SolSendTransactionIntentV2.unsignedTransaction": solanaTransfer, "recentBlockhash": someSolana,
	"sessionProfileId": someID, "otpLength": json.Number("9"), "otpType": "OTP_TYPE_EMAIL", "contact": "someone@example.org", "logoUrl": "https://example.org/logo.png",
	"magicLinkTemplate": "https://example.org/#%s", "templateVariables": `{"some":"text"}`, "templateId": "", "template": "{{ .OtpCode }}",
	"InitOtpIntent.expirationSeconds": "600", "InitOtpIntentV2.expirationSeconds": "600", "InitOtpIntentV3.expirationSeconds": "600", "InitOtpAuthIntentV3.expirationSeconds": "600",
	"oidcToken": someToken, "authCode": "abc", "redirectUri": "https://example.org/back", "codeVerifier": strings.Repeat("v", 43), "clientId": "client", "oauth2CredentialId": someID,
	"bearerTokenTargetPublicKey": someP256, "fiatOnrampCredentialId": someID, "projectId": "project", "publishableApiKey": "pk_test", "encryptedSecretApiKey": "abc", "encryptedPrivateApiKey": "abc",
	"allowedAuthMethods": []any{"email", "social"}, "enabledSocialProviders": []any{"google"}, "socialLinkingClientIds": []any{"client-1"},
	"oauthClientIds": map[string]any{"google": "client-1"}, "oauthRedirectUrl": "https://example.org/back",
	"SmsCustomizationParams.template": "Code {{ .OtpCode }}",
	"otpExpirationSeconds":            json.Number("120"), "verificationTokenExpirationSeconds": json.Number("120"), "sessionExpirationSeconds": json.Number("120"),
	"url": "https://example.org/hook", "eventType": "ACTIVITY_UPDATES", "filtersJson": "{}",
	"smartContractAddress": "0x000000000000000000000000000000000000dEaD", "smartContractInterface": `[{"type":"receive"}]`,
}

func text(v any) []byte {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return b
}

// secretsOf are what intents hold in clear that is good for one use. Tokens are not
// among it: they are results too, which whoever may read the activity sees there.
var secretsOf = map[string][]string{
	"ACTIVITY_TYPE_VERIFY_OTP":          {"otpCode"},
	"ACTIVITY_TYPE_OTP_AUTH":            {"otpCode"},
	"ACTIVITY_TYPE_OAUTH2_AUTHENTICATE": {"authCode", "codeVerifier"},
}

func TestSamplesAreTakenAndRepeated(t *testing.T) {
	for typ, v := range kinds.Live {
		want := sample(api.Activities[typ].IntentType)
		in, err := v.Decode(text(want))
		if err != nil {
			t.Errorf("%s: %v", typ, err)
			continue
		}
		var got map[string]any
		if err := json.Unmarshal(v.AppendIntent(nil, in), &got); err != nil {
			t.Fatal(err)
		}
		var plain map[string]any
		json.Unmarshal(text(want), &plain)
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
			t.Errorf("%s repeats %s for %s", typ, text(got), text(want))
		}
		// snake_case is read, camelCase is repeated.
		snaked, err := v.Decode([]byte(snakeKeys(string(text(want)))))
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
	for name, notation := range api.Types[typ] {
		old, ok := m[name]
		if !ok {
			continue
		}
		f := apitest.Parse(notation)
		at := path + "." + name
		if f.Required && !f.List && !strings.HasPrefix(api.Rules[typ][name], "omitempty") {
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
			if strings.HasPrefix(api.Rules[typ][name], "required") {
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
				bad = api.Enums[f.Base[1:]][0] + "X"
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
			if strings.Contains(api.Rules[typ][name], "uuid") {
				for _, bad := range []string{"x", "6ba7b8109dad41d180b400c04fd430c8", "6BA7B810-9DAD-41D1-80B4-00C04FD430C8", " 6ba7b810-9dad-41d1-80b4-00c04fd430c8"} {
					put(bad)
					visit(fmt.Sprintf("%s: %q", at, bad))
				}
			}
			if strings.Contains(api.Rules[typ][name], "label") {
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
		intent := api.Activities[typ].IntentType
		m := sample(intent)
		mutate(intent, m, intent, func(what string) {
			n++
			_, err := v.Decode(text(m))
			if code(err) != fault.InvalidArgument {
				t.Errorf("%s: %v", what, err)
			}
		})
		if _, err := v.Decode(text(m)); err != nil {
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
			m := sample(api.Activities[typ].IntentType)
			m["generateAppProofs"] = c.value
			in, err := v.Decode(text(m))
			if err != nil {
				t.Errorf("%s: %v", typ, err)
				continue
			}
			if in.WantsProofs != c.want || strings.Contains(string(v.AppendIntent(nil, in)), "generateAppProofs") {
				t.Errorf("%s: %v", typ, c.value)
			}
		}
		m := sample(api.Activities[typ].IntentType)
		m["generateAppProofs"] = "yes"
		if _, err := v.Decode(text(m)); code(err) != fault.InvalidArgument {
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
	good := activity.Kind[intent, intent]{Name: "UPDATE_POLICY", Run: run, Older: []activity.Older{{Intent: activity.Upgrade(same)}}}
	if n := len(activity.NewTable(activity.Family{good})); n != 2 {
		t.Errorf("%d versions", n)
	}
	astray, misshapen, unknown, oneTooMany := good, good, good, good
	astray.Older = []activity.Older{{Intent: activity.Upgrade(func(*intent) other { return other{} })}}
	misshapen.Older = []activity.Older{{Intent: activity.Upgrade(same), Result: activity.Downgrade(func(*other) *intent { return nil })}}
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
