package activity_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/org"
	"cloister/sim/authenticator"
)

// saidByIntent are the kinds of which approvers see the intent alone, each with the reason why it says all.
var saidByIntent = map[string]string{
	"APPROVE_ACTIVITY": "a vote never waits for votes",
	"REJECT_ACTIVITY":  "a vote never waits for votes",

	"INIT_OTP":                 "the intent has the address or number that a code goes to, and the code alone gives nobody anything",
	"INIT_OTP_AUTH":            "the intent has the address or number that a code goes to; OTP_AUTH tells who is logged in by it",
	"VERIFY_OTP":               "a code becomes a token about an address; what uses the token tells who is logged in",
	"CREATE_READ_ONLY_SESSION": "it is for whoever asks and lets nobody do anything",
	"INIT_IMPORT_SECRETS":      "it makes public keys and names nobody",

	"CREATE_WALLET":                  "a new wallet by its name and paths: nothing is there before",
	"CREATE_FIAT_ON_RAMP_CREDENTIAL": "the intent has the provider and the account's ids: nothing is there before",
	"INIT_FIAT_ON_RAMP":              "the intent has the address, the coin and the amount of a page to buy at",

	"ACTIVATE_BILLING_TIER": "the intent has the plan's id, and the change gives nobody rights",
	"SET_PAYMENT_METHOD":    "the intent has the payment method and its holder",
	"UPDATE_PAYMENT_METHOD": "the intent has the address that invoices go to",
	"DELETE_PAYMENT_METHOD": "the intent has the payment method",

	"SPARK_SIGN_FROST":                "nobody here can read what is signed, and UNREAD says so",
	"SPARK_PREPARE_TRANSFER":          "nobody here can read what is signed, and UNREAD says so",
	"SPARK_CLAIM_TRANSFER":            "nobody here can read what is signed, and UNREAD says so",
	"SPARK_PREPARE_LIGHTNING_RECEIVE": "nobody here can read what is signed, and UNREAD says so",
}

// A new kind shows approvers what it changes, or there is a reason why its intent does.
func TestEveryKindIsExplained(t *testing.T) {
	seen := map[string]bool{}
	for _, typ := range slices.Sorted(maps.Keys(kinds.Live)) {
		v := kinds.Live[typ]
		why := saidByIntent[v.Kind.Name]
		if v.Explained() == (why != "") {
			t.Errorf("%s: explained is %t, and the list of kinds that need none says %q", typ, v.Explained(), why)
		}
		seen[v.Kind.Name] = true
	}
	for name := range saidByIntent {
		if !seen[name] {
			t.Errorf("%s is no kind", name)
		}
	}
}

// Whatever changes who may do what is shown by names, as it is and as it would be, with exactly its warnings.
func TestChangesOfRights(t *testing.T) {
	w := activitytest.New(t)
	people := w.People("alice", "bob")
	alice, bob, root := people[0], people[1], w.User.String()
	feature := func(name, value string) object { return object{"name": "FEATURE_NAME_" + name, "value": value} }
	// with sets features of the organization for one case.
	with := func(features map[string]string) func() {
		return func() {
			w.Alter(func(tx *org.Tx) {
				o, err := tx.Organization()
				w.Must(err)
				changed := *o
				changed.Features = features
				w.Must(tx.PutOrganization(&changed))
			})
		}
	}
	none := with(nil)
	setUser := func(id string, change func(*org.User)) {
		w.Alter(func(tx *org.Tx) {
			u := *w.UserOf(id)
			change(&u)
			w.Must(tx.PutUser(&u))
		})
	}
	setUser(root, func(u *org.User) { u.Email, u.Phone = "root@example.org", "+15550001" })
	setUser(alice, func(u *org.User) { u.Email, u.EmailVerified = "alice@example.org", true })

	key, tokenKey := w.FreshP256(), activitytest.SomeP256
	admins := w.Run("CREATE_USER_TAG", object{"userTagName": "admins", "userIds": []any{alice}})["userTagId"]
	interns := w.Run("CREATE_USER_TAG", object{"userTagName": "interns", "userIds": []any{}})["userTagId"]
	idle := w.Run("CREATE_USER_TAG", object{"userTagName": "lunch", "userIds": []any{}})["userTagId"]
	hot := w.Run("CREATE_PRIVATE_KEY_TAG", object{"privateKeyTagName": "hot", "privateKeyIds": []any{}})["privateKeyTagId"]
	policy := func(name, effect, consensus, condition string) any {
		return w.Run("CREATE_POLICY_V3", object{"policyName": name, "effect": "EFFECT_" + effect, "consensus": consensus, "condition": condition, "notes": ""})["policyId"]
	}
	policy("admins pay", "ALLOW", "approvers.any(u, u.tags.contains('"+strings.ToUpper(admins.(string))+"'))", "activity.kind == 'CREATE_WALLET'")
	policy("no interns", "DENY", "approvers.any(u, u.tags.contains('"+interns.(string)+"'))", "")
	policy("hot keys", "ALLOW", "", "private_key.tags.contains('"+hot.(string)+"') && activity.kind == 'SIGN_TRANSACTION'")
	policy("carol alone", "ALLOW", "approvers.any(u, u.alias == 'Carol' || u.email == 'carol@example.org')", "activity.kind == 'CREATE_WALLET'")
	policy("vault", "ALLOW", "approvers.any(u, u.id == '"+bob+"')", "wallet.label == 'vault' && activity.action == 'SIGN'")
	wallet := w.Run("CREATE_WALLET", object{"walletName": "treasury", "accounts": []any{activitytest.EthAccount(0)}})["walletId"]
	account := ""
	walletID, err := org.ParseID(wallet.(string))
	w.Must(err)
	w.Must(w.Tx().EachAccount(walletID, 0, func(a *org.Account) bool { account = a.ID().String(); return true }))
	private := activitytest.List(w.Run("CREATE_PRIVATE_KEYS", object{"privateKeys": []any{object{"privateKeyName": "spare", "curve": "CURVE_SECP256K1", "privateKeyTags": []any{}, "addressFormats": []any{}}}}), "privateKeyIds")[0]
	mfa := func(user string, order int, typ string) object {
		return object{"userId": user, "mfaPolicyName": "second " + typ, "condition": "activity.action == 'SIGN'", "order": order, "requiredAuthenticationMethods": []any{object{"any": []any{object{"type": "AUTHENTICATION_TYPE_" + typ}}}}}
	}
	mfaPolicy := w.Run("CREATE_MFA_POLICY", mfa(bob, 5, "API_KEY"))["mfaPolicyId"]
	endpoint := w.Run("CREATE_WEBHOOK_ENDPOINT", object{"url": "https://hooks.example.org/a", "name": "audit"})["endpointId"]
	invitation := activitytest.List(w.Run("CREATE_INVITATIONS", object{"invitations": []any{object{"receiverUserName": "dora", "receiverUserEmail": "dora@example.org", "receiverUserTags": []any{admins}, "accessType": "ACCESS_TYPE_ALL", "senderUserId": alice}}}), "invitationIds")[0]
	_, passkey := w.NewPasskey(authenticator.None)
	bobsKey := w.UserOf(bob).APIKeys[0]
	networks := func(cidrs ...string) []any {
		var all []any
		for _, c := range cidrs {
			all = append(all, object{"cidr": c})
		}
		return all
	}
	allowed := func(enabled bool, cidrs ...string) func() {
		return func() { w.Run("SET_IP_ALLOWLIST", object{"enabled": enabled, "rules": networks(cidrs...)}) }
	}
	removed := func() {
		w.Alter(func(tx *org.Tx) { tx.DeleteAllowlist("") })
	}
	enabledProxy := func() { none(); w.Run("ENABLE_AUTH_PROXY", object{}) }
	secret := w.NewID()
	w.Alter(func(tx *org.Tx) {
		w.Must(tx.PutSecret(&org.Secret{ID: secret, Name: "api token", Properties: []org.Property{{Key: "for", Value: "exchange"}}}))
	})
	credential := w.NewID()
	w.Alter(func(tx *org.Tx) {
		w.Must(tx.PutOAuth2Credential(&org.OAuth2Credential{ID: credential, Provider: "OAUTH2_PROVIDER_X", ClientID: "our-client"}))
	})

	const control, gone, added, rootAdded = "CONTROL_CHANGE DANGER", "RULES_DENY_GONE DANGER", "CREDENTIAL_ADDED WARN", "CREDENTIAL_ADDED DANGER"
	both := func(codes ...string) string { return strings.Join(codes, ", ") }
	isRoot, isNot := `"root":true`, `"root":false`
	newKey := []any{object{"apiKeyName": "k", "publicKey": key}}
	for _, c := range []struct {
		before        func() // or nil
		typ           string
		params        object
		warnings, has string
	}{
		// Users, by what policies know them.
		{nil, "CREATE_API_ONLY_USERS", object{"apiOnlyUsers": []any{object{"userName": "eve", "userTags": []any{}, "apiKeys": newKey}}}, added, `"name":{"text":"eve","source":"REQUESTER"},"credentials":[{"type":"API_KEY"`},
		{nil, "CREATE_API_ONLY_USERS", object{"apiOnlyUsers": []any{object{"userName": "eve", "userTags": []any{admins}, "apiKeys": newKey}}}, both(control, added), `"readBy":[{"name":"admins pay","nameSource":"ORGANIZATION","effect":"EFFECT_ALLOW"}]`},
		{nil, "CREATE_API_ONLY_USERS", object{"apiOnlyUsers": []any{object{"userName": "carol", "userTags": []any{idle}, "apiKeys": newKey}}}, both(control, added), `"readBy":[{"name":"carol alone"`},
		{nil, "UPDATE_USER_NAME", object{"userId": bob, "userName": "eve"}, "", `"before":{"name":"bob","nameSource":"ORGANIZATION"},"after":{"name":"eve"}`},
		{nil, "UPDATE_USER_NAME", object{"userId": bob, "userName": "Carol"}, control, `"readBy":[{"name":"carol alone"`},
		{nil, "UPDATE_USER_NAME", object{"userId": root, "userName": "eve"}, "", isRoot},
		{nil, "UPDATE_USER_EMAIL", object{"userId": root, "userEmail": "eve@example.org"}, "", `Nobody can log in or recover the user by it now`},
		{with(map[string]string{"FEATURE_NAME_OTP_EMAIL_AUTH": ""}), "UPDATE_USER_EMAIL", object{"userId": root, "userEmail": "eve@example.org"}, rootAdded, `"waysIn":"log-in by a mailed code"`},
		{nil, "UPDATE_USER_EMAIL", object{"userId": alice, "userEmail": "eve@example.org"}, added, `"before":{"email":"alice@example.org","emailVerified":true},"after":{"email":"eve@example.org","emailVerified":false}`},
		{nil, "UPDATE_USER_EMAIL", object{"userId": alice, "userEmail": ""}, "", `"after":{"email":""`},
		{nil, "UPDATE_USER_PHONE_NUMBER", object{"userId": root, "userPhoneNumber": "+15559999"}, "", `"phone":"+15559999"`},
		{with(map[string]string{"FEATURE_NAME_EMAIL_RECOVERY": ""}), "UPDATE_USER_EMAIL", object{"userId": root, "userEmail": "eve@example.org"}, "", isRoot},
		{with(map[string]string{"FEATURE_NAME_EMAIL_RECOVERY": "", "FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY": ""}), "UPDATE_USER_EMAIL", object{"userId": root, "userEmail": "eve@example.org"}, rootAdded, `"waysIn":"recovery by mail"`},
		{nil, "UPDATE_USER", object{"userId": root, "userEmail": "eve@example.org"}, rootAdded, `"email":"eve@example.org"`},
		{with(map[string]string{"FEATURE_NAME_SMS_AUTH": ""}), "UPDATE_USER_PHONE_NUMBER", object{"userId": root, "userPhoneNumber": "+15559999"}, rootAdded, isRoot},
		{none, "UPDATE_USER_EMAIL", object{"userId": bob, "userEmail": "carol@example.org"}, control, `"readBy":[{"name":"carol alone"`},
		{nil, "UPDATE_USER", object{"userId": bob, "userTagIds": []any{admins}}, control, `"added":{"tags":[{"tag":{"id":"` + admins.(string) + `","name":"admins"`},
		{nil, "UPDATE_USER", object{"userId": alice, "userTagIds": []any{idle}}, control, `"removed":{"tags":[{"tag":{"id":"` + admins.(string) + `"`},
		{with(map[string]string{"FEATURE_NAME_SMS_AUTH": "", "FEATURE_NAME_EMAIL_AUTH": ""}), "UPDATE_USER", object{"userId": root, "userName": "Carol", "userEmail": "carol@example.org", "userPhoneNumber": "+15559999", "userTagIds": []any{admins}},
			both(rootAdded, control), `"newPhone":{"waysIn":"log-in by a code in a text message"`},
		{none, "DELETE_API_KEYS", object{"userId": bob, "apiKeyIds": []any{bobsKey.ID.String()}}, "", `"name":"` + bobsKey.Name + `","nameSource":"ORGANIZATION"`},

		// Tags that policies name.
		{nil, "UPDATE_USER_TAG", object{"userTagId": admins, "addUserIds": []any{bob}, "removeUserIds": []any{}}, control, `"tag":{"id":"` + admins.(string) + `","name":"admins","nameSource":"ORGANIZATION"},"readBy":[{"name":"admins pay"`},
		{nil, "UPDATE_USER_TAG", object{"userTagId": admins, "newUserTagName": "bosses", "addUserIds": []any{}, "removeUserIds": []any{}}, "", `"newName":{"text":"bosses"`},
		{nil, "UPDATE_USER_TAG", object{"userTagId": interns, "addUserIds": []any{}, "removeUserIds": []any{bob}}, gone, `"removed":[{"user":{"id":"` + bob + `","name":"bob"`},
		{nil, "UPDATE_USER_TAG", object{"userTagId": idle, "addUserIds": []any{root}, "removeUserIds": []any{}}, "", isRoot},
		{nil, "CREATE_USER_TAG", object{"userTagName": "new", "userIds": []any{bob}}, "", `"added":[{"user":{"id":"` + bob + `","name":"bob"`},
		{nil, "DELETE_USER_TAGS", object{"userTagIds": []any{admins, interns}}, both(control, gone), `"removed":[{"user":{"id":"` + alice + `","name":"alice"`},
		{nil, "UPDATE_PRIVATE_KEY_TAG", object{"privateKeyTagId": hot, "addPrivateKeyIds": []any{private}, "removePrivateKeyIds": []any{}}, control, `"added":[{"privateKey":{"id":"` + private + `","name":"spare"`},
		{nil, "DELETE_PRIVATE_KEY_TAGS", object{"privateKeyTagIds": []any{hot}}, control, `"name":"hot keys"`},
		{nil, "CREATE_PRIVATE_KEY_TAG", object{"privateKeyTagName": "cold", "privateKeyIds": []any{private}}, "", `"name":"spare"`},
		{nil, "CREATE_PRIVATE_KEYS_V2", object{"privateKeys": []any{object{"privateKeyName": "n", "curve": "CURVE_SECP256K1", "privateKeyTags": []any{hot}, "addressFormats": []any{}}}}, control, `"name":"hot"`},
		{nil, "UPDATE_WALLET", object{"walletId": wallet, "walletName": "vault"}, control, `"before":{"name":"treasury","nameSource":"ORGANIZATION"},"after":{"name":"vault"}`},
		{nil, "UPDATE_WALLET", object{"walletId": wallet, "walletName": "pocket"}, "", `"after":{"name":"pocket"}`},
		{nil, "UPDATE_WALLET_ACCOUNT_NAME", object{"walletAccountId": account, "name": "main"}, "", `"after":{"name":"main"}`},
		{nil, "CREATE_WALLET_ACCOUNTS", object{"walletId": wallet, "accounts": []any{activitytest.EthAccount(1)}}, "", `"name":"treasury"`},

		// Log-ins for somebody.
		{nil, "CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": tokenKey, "userId": bob}, added, `"user":{"id":"` + bob + `","name":"bob","nameSource":"ORGANIZATION","root":false}`},
		{nil, "CREATE_READ_WRITE_SESSION_V2", object{"targetPublicKey": tokenKey}, rootAdded, `"name":"Root","nameSource":"ORGANIZATION","root":true`},
		{nil, "CREATE_READ_WRITE_SESSION", object{"targetPublicKey": tokenKey, "email": "alice@example.org"}, added, `"name":"alice"`},
		{nil, "STAMP_LOGIN", object{"publicKey": key}, rootAdded, isRoot},
		{nil, "EMAIL_AUTH_V3", object{"email": "root@example.org", "targetPublicKey": tokenKey, "emailCustomization": object{"appName": "x"}}, rootAdded, isRoot},
		{nil, "INIT_USER_EMAIL_RECOVERY_V2", object{"email": "alice@example.org", "targetPublicKey": tokenKey, "emailCustomization": object{"appName": "x"}}, added, isNot},
		{nil, "RECOVER_USER", object{"userId": root, "authenticator": passkey}, rootAdded, `"type":"PASSKEY"`},
		{nil, "CREATE_INVITATIONS", object{"invitations": []any{object{"receiverUserName": "eve", "receiverUserEmail": "eve@example.org", "receiverUserTags": []any{}, "accessType": "ACCESS_TYPE_ALL", "senderUserId": bob}}}, added, `"invitedBy":{"id":"` + bob + `","name":"bob"`},
		{nil, "DELETE_INVITATION", object{"invitationId": invitation}, "", `"name":"dora","nameSource":"ORGANIZATION","email":"dora@example.org"`},
		{nil, "ACCEPT_INVITATION_V2", object{"invitationId": invitation, "userId": invitation, "authenticator": passkey}, both(control, added), `"name":"admins pay"`},
		{nil, "INIT_IMPORT_WALLET", object{"userId": alice}, "", `"name":"alice"`},
		{nil, "CREATE_SESSION_PROFILE", object{"sessionProfileName": "till", "scope": "activity.kind == 'CREATE_WALLET'"}, "", `"scope":"activity.kind == 'CREATE_WALLET'"`},
		{nil, "CREATE_OAUTH2_CREDENTIAL", object{"provider": "OAUTH2_PROVIDER_X", "clientId": "c", "encryptedClientSecret": "00"}, "OTHER_PARTIES INFO", `"provider":"OAUTH2_PROVIDER_X"`},
		{nil, "UPDATE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": credential.String(), "provider": "OAUTH2_PROVIDER_X", "clientId": "theirs", "encryptedClientSecret": "00"}, control, `"clientId":"our-client"},"after":{"provider":"OAUTH2_PROVIDER_X","clientId":"theirs"}`},
		{nil, "UPDATE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": credential.String(), "provider": "OAUTH2_PROVIDER_X", "clientId": "our-client", "encryptedClientSecret": "00"}, "", `client secret is replaced`},
		{nil, "DELETE_OAUTH2_CREDENTIAL", object{"oauth2CredentialId": credential.String()}, "", `"clientId":"our-client"`},

		// Second factors.
		{nil, "CREATE_MFA_POLICY", mfa(alice, 1, "API_KEY"), "", `"required":[{"anyOf":[{"type":"AUTHENTICATION_TYPE_API_KEY"}]}]`},
		{nil, "CREATE_MFA_POLICY", mfa(bob, 1, "API_KEY"), gone, `"behind":[{"name":"second API_KEY"`},
		{nil, "CREATE_MFA_POLICY", mfa(bob, 9, "API_KEY"), "", `"order":"9"`},
		{nil, "UPDATE_MFA_POLICY", object{"userId": bob, "mfaPolicyId": mfaPolicy, "condition": "false"}, gone, `"after":{"name":"second API_KEY","condition":"false","order":"5"`},
		{nil, "UPDATE_MFA_POLICY", object{"userId": bob, "mfaPolicyId": mfaPolicy, "mfaPolicyName": "renamed"}, "", `"after":{"name":"renamed"`},
		{nil, "DELETE_MFA_POLICY", object{"userId": bob, "mfaPolicyId": mfaPolicy}, gone, `"policy":{"name":"second API_KEY"`},

		// Features.
		{none, "SET_ORGANIZATION_FEATURE", feature("EMAIL_AUTH", ""), rootAdded, `"rootUsers":[{"id":"` + root + `","name":"Root","nameSource":"ORGANIZATION","contact":"root@example.org"}]`},
		{nil, "SET_ORGANIZATION_FEATURE", feature("SMS_AUTH", ""), rootAdded, `"contact":"+15550001"`},
		{nil, "SET_ORGANIZATION_FEATURE", feature("EMAIL_RECOVERY", ""), added, `"before":{"on":false},"after":{"on":true}`},
		{nil, "SET_ORGANIZATION_FEATURE", feature("ROOT_USER_EMAIL_RECOVERY", ""), rootAdded, "new passkeys"},
		{with(map[string]string{"FEATURE_NAME_EMAIL_AUTH": ""}), "SET_ORGANIZATION_FEATURE", feature("EMAIL_AUTH", ""), "", `"before":{"on":true},"after":{"on":true}`},
		{nil, "REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_EMAIL_AUTH"}, "", `"before":{"on":true},"after":{"on":false}`},
		{none, "SET_ORGANIZATION_FEATURE", feature("DECODED_VOTES", ""), "", "only if it names"},
		{with(map[string]string{"FEATURE_NAME_DECODED_VOTES": "", "FEATURE_NAME_STRICT_LOG": ""}), "REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_DECODED_VOTES"}, gone, "does not say what he was shown"},
		{nil, "REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_STRICT_LOG"}, gone, "witnesses"},
		{nil, "REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_SIGNING_FROZEN"}, gone, "signs and exports again"},
		{none, "SET_ORGANIZATION_FEATURE", feature("WEBHOOK", "https://eve.example.org"), "DATA_LEAVES WARN", `"value":"https://eve.example.org"`},
		{nil, "SET_ORGANIZATION_FEATURE", feature("APPROVAL_MAILS", "https://eve.example.org"), "DATA_LEAVES WARN", `by mail`},
		{nil, "SET_ORGANIZATION_FEATURE", feature("APPROVAL_MAILS", ""), "", `by mail`},
		{nil, "SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", "https://a.example.org"), "", `"before":{"origins":[{"value":"every page of the domain"}]},"after":{"origins":[{"value":"https://a.example.org"}]}`},
		{with(map[string]string{"FEATURE_NAME_WEBAUTHN_ORIGINS": "https://a.example.org"}), "SET_ORGANIZATION_FEATURE", feature("WEBAUTHN_ORIGINS", "https://a.example.org,https://eve.example.org"), gone, `"value":"https://eve.example.org"`},
		{nil, "UPDATE_ALLOWED_ORIGINS", object{"allowedOrigins": []any{"https://eve.example.org"}}, gone, `"before":{"origins":[{"value":"https://a.example.org"}]}`},
		{nil, "UPDATE_ALLOWED_ORIGINS", object{"allowedOrigins": []any{"https://a.example.org"}}, "", ""},
		{nil, "REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_WEBAUTHN_ORIGINS"}, gone, `"after":{"origins":[{"value":"every page of the domain"}]}`},
		{with(map[string]string{"FEATURE_NAME_ADDRESS_BOOK": `[{"name":"Payroll","address":"0x000000000000000000000000000000000000dEaD"}]`}), "REMOVE_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_ADDRESS_BOOK"}, "", `"removed":[{"name":"Payroll"`},

		// Where requests may come from.
		{none, "SET_IP_ALLOWLIST", object{"enabled": true, "rules": networks("10.0.0.0/24")}, "", `"before":{"on":false`},
		{allowed(true, "10.0.0.0/24"), "SET_IP_ALLOWLIST", object{"enabled": true, "rules": networks("10.0.0.0/25")}, "", `"networks":[{"value":"10.0.0.0/25"}]`},
		{nil, "SET_IP_ALLOWLIST", object{"enabled": true, "rules": networks("10.0.0.0/24", "203.0.113.0/24")}, gone, `"value":"203.0.113.0/24"`},
		{nil, "SET_IP_ALLOWLIST", object{"enabled": false, "rules": networks("10.0.0.0/24")}, gone, `"after":{"on":false`},
		{nil, "SET_IP_ALLOWLIST", object{"enabled": true, "rules": networks("10.0.0.0/24"), "onEvaluationError": "ALLOW"}, gone, `"ifAddressUnknown":"ALLOW"`},
		{nil, "SET_IP_ALLOWLIST", object{"publicKey": bobsKey.PublicKey, "rules": networks("203.0.113.0/24")}, gone, `"name":"bob"`},
		{nil, "SET_IP_ALLOWLIST", object{"publicKey": bobsKey.PublicKey, "rules": networks("10.0.0.7/32")}, "", `"networks":[{"value":"10.0.0.0/24"}]},"after":{"networks":[{"value":"10.0.0.7/32"}]}`},
		{nil, "REMOVE_IP_ALLOWLIST", object{}, gone, `"after":{"on":false`},
		{allowed(false, "10.0.0.0/24"), "REMOVE_IP_ALLOWLIST", object{}, "", ""},

		// Where data go, and what ends.
		{removed, "CREATE_WEBHOOK_ENDPOINT", object{"url": "https://eve.example.org", "name": "eve"}, "DATA_LEAVES WARN", `"url":{"text":"https://eve.example.org","source":"REQUESTER"}`},
		{nil, "UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint, "url": "https://eve.example.org"}, "DATA_LEAVES WARN", `"url":"https://hooks.example.org/a","on":true},"after":{"name":"audit","url":"https://eve.example.org"`},
		{nil, "UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint, "isActive": false}, "", `"after":{"name":"audit","url":"https://hooks.example.org/a","on":false}`},
		{nil, "DELETE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint}, "", `"name":"audit","nameSource":"ORGANIZATION","url":"https://hooks.example.org/a"`},
		{nil, "EXPORT_HISTORY", object{}, "DATA_LEAVES WARN", "whole history"},
		{nil, "EXPORT_SECRETS", object{"secrets": []any{object{"secretId": secret.String(), "targetPublicKey": tokenKey, "encryptionSuite": "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"}}}, "KEY_LEAVES DANGER", `"name":"api token","nameSource":"ORGANIZATION","properties":[{"name":"for","value":"exchange"}]`},
		{nil, "DELETE_SECRETS", object{"secretIds": []any{secret.String()}}, "KEY_DELETED DANGER", `"name":"api token"`},
		{nil, "UPDATE_ORGANIZATION_NAME", object{"organizationName": "Acme"}, "", `"before":{"name":"Top","nameSource":"ORGANIZATION"},"after":{"name":"Acme"}`},
		{nil, "DELETE_ORGANIZATION", object{"organizationId": w.ID.String()}, "KEY_DELETED DANGER", `"wallets":"1","privateKeys":"1"`},
		{nil, "CREATE_SUB_ORGANIZATION_V8", object{"subOrganizationName": "Kid", "rootQuorumThreshold": 1, "disableEmailAuth": true, "rootUsers": []any{object{"userName": "eve", "userEmail": "eve@example.org", "apiKeys": []any{}, "authenticators": []any{}, "oauthProviders": []any{}}}}, added, `"features":["FEATURE_NAME_OTP_EMAIL_AUTH","FEATURE_NAME_SMS_AUTH","FEATURE_NAME_EMAIL_RECOVERY","FEATURE_NAME_ROOT_USER_EMAIL_RECOVERY"]`},

		// The auth proxy.
		{none, "ENABLE_AUTH_PROXY", object{}, rootAdded, `"rootUsers":[{"id":"` + root + `","name":"Root"`},
		{enabledProxy, "UPDATE_AUTH_PROXY_CONFIG", object{"sendFromEmailSenderName": "Acme"}, "", `"senderName":"Acme"`},
		{nil, "UPDATE_AUTH_PROXY_CONFIG", object{"allowedAuthMethods": []any{"email"}}, "", `"methods":[{"value":"email"}]`},
		{nil, "UPDATE_AUTH_PROXY_CONFIG", object{"allowedAuthMethods": []any{"google"}}, rootAdded, `"methods":[{"value":"google"}]`},
		{nil, "UPDATE_AUTH_PROXY_CONFIG", object{"allowedOrigins": []any{"https://eve.example.org"}}, gone, `"before":{"origins":[{"value":"*"}]`},
		{nil, "UPDATE_AUTH_PROXY_CONFIG", object{"emailCustomizationParams": object{"magicLinkTemplate": "https://eve.example.org/#%s"}}, rootAdded, `"magicLink":"https://eve.example.org/#%s"`},
		{nil, "UPDATE_AUTH_PROXY_CONFIG", object{"sessionExpirationSeconds": 86400}, gone, `"sessionSeconds":"900"`},
		{nil, "UPDATE_USER_EMAIL", object{"userId": root, "userEmail": "eve@example.org"}, rootAdded, `"waysIn":"log-in by the auth proxy"`},
		{nil, "DISABLE_AUTH_PROXY", object{}, "", `"policy":{"id":"`},

		// What is not there is shown by its id, and nothing is claimed of it.
		{nil, "UPDATE_USER_EMAIL", object{"userId": activitytest.SomeID, "userEmail": "eve@example.org"}, "", `"user":{"id":"` + activitytest.SomeID + `"}`},
		{nil, "UPDATE_USER_TAG", object{"userTagId": activitytest.SomeID, "addUserIds": []any{bob}, "removeUserIds": []any{}}, "", `"tag":{"id":"` + activitytest.SomeID + `"}`},
		{nil, "DELETE_WEBHOOK_ENDPOINT", object{"endpointId": activitytest.SomeID}, "", `"webhookEndpoint":{"id":"` + activitytest.SomeID + `"}`},
	} {
		if c.before != nil {
			c.before()
		}
		d, err := documentOf(w, c.typ, c.params)
		if err != nil {
			t.Errorf("%s %v: %v", c.typ, c.params, err)
			continue
		}
		read := readDocument(t, d)
		if read.Kind != "ORGANIZATION_CHANGE" || read.Readable != "FULL" || read.codes() != c.warnings || !strings.Contains(string(d.Text()), c.has) {
			t.Errorf("%s: %s, warnings %q, want %q and %s: %s", c.typ, read.Readable, read.codes(), c.warnings, c.has, d.Text())
		}
	}
}

// What concerns log-ins by tokens and codes, secrets, and customers' programs is shown by names too.
func TestChangesByRecords(t *testing.T) {
	w := activitytest.New(t)
	bob := w.People("bob")[0]
	w.Identity(bob, "https://issuer.example", "me", "web")
	key := w.FreshP256()
	app, set, op, live, next, manifest, code := w.NewID(), w.NewID(), w.NewID(), w.NewID(), w.NewID(), w.NewID(), w.NewID()
	w.Alter(func(tx *org.Tx) {
		u := *w.UserOf(bob)
		u.Phone = "+15550002"
		w.Must(tx.PutUser(&u))
		w.Must(tx.PutPasscode(&org.Passcode{ID: code, Type: "OTP_TYPE_SMS", Contact: u.Phone, Code: "123456"}))
		w.Must(tx.PutTVCOperator(&org.TVCOperator{ID: op, Name: "olga", PublicKey: activitytest.SomePair}))
		w.Must(tx.PutTVCOperatorSet(&org.TVCOperatorSet{ID: set, Name: "approvers", Operators: []org.ID{op}, Threshold: 1}))
		w.Must(tx.PutTVCApp(&org.TVCApp{ID: app, Name: "payroll", ManifestSet: set, ShareSet: set, Live: live}))
		w.Must(tx.PutTVCDeployment(&org.TVCDeployment{ID: live, App: app, Image: "registry.example.com/old"}))
		w.Must(tx.PutTVCDeployment(&org.TVCDeployment{ID: next, App: app, Manifest: manifest, Image: "registry.example.com/new"}))
		w.Must(tx.PutTVCManifest(&org.TVCManifest{ID: manifest, Deployment: next}))
		w.Must(tx.PutGasConfig(&org.GasConfig{ID: w.NewID(), TreeLimit: 5_000_000, WindowMinutes: 60, Enabled: true}))
		w.Must(tx.PutOnRampCredential(&org.OnRampCredential{ID: code, Provider: "FIAT_ON_RAMP_PROVIDER_MOONPAY", PublishableKey: "pk_ours"}))
	})
	token := w.NewIssuer("https://issuer.example").Token("me", "web", activitytest.BoundTo(key))
	signature := strings.Repeat("00", 64)
	const isBob = `"name":"bob","nameSource":"ORGANIZATION","root":false`
	for _, c := range []struct {
		typ                     string
		params                  object
		readable, warnings, has string
	}{
		{"OAUTH_LOGIN", object{"oidcToken": token, "publicKey": key}, "FULL", "CREDENTIAL_ADDED WARN", isBob},
		{"OAUTH", object{"oidcToken": token, "targetPublicKey": activitytest.SomeP256}, "FULL", "CREDENTIAL_ADDED WARN", `"identity":{"issuer":"https://issuer.example","subject":"me","audience":"web"}`},
		{"OTP_AUTH", object{"otpId": code.String(), "otpCode": "123456", "targetPublicKey": activitytest.SomeP256}, "FULL", "CREDENTIAL_ADDED WARN", isBob},
		{"IMPORT_SECRETS", object{"secrets": []any{object{"name": "token", "secretPayload": activitytest.SomeBundle, "targetPublicKey": activitytest.SomeP256, "encryptionSuite": "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"}}},
			"PARTIAL", "KEY_ENTERS WARN", `"reason":"ENCRYPTED"`},
		{"UPSERT_GAS_USAGE_CONFIG", object{"orgWindowLimitUsd": "500", "subOrgWindowLimitUsd": "1", "windowDurationMinutes": "60"}, "FULL", "", `"before":{"on":true,"usdOfAll":"5","usdOfEachSubOrganization":"0","minutes":"60","paysForNewSolanaAccounts":false},"after":{"on":true,"usdOfAll":"500"`},
		{"UPDATE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": code.String(), "onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "publishableApiKey": "pk_theirs", "encryptedSecretApiKey": "00"}, "FULL", "OTHER_PARTIES INFO", `"publishableApiKey":"pk_theirs"`},
		{"DELETE_FIAT_ON_RAMP_CREDENTIAL", object{"fiatOnrampCredentialId": code.String()}, "FULL", "", `"publishableApiKey":"pk_ours"`},
		{"CREATE_TVC_APP", object{"name": "vault", "quorumPublicKey": activitytest.SomePair, "manifestSetId": set.String(), "shareSetParams": object{"name": "holders", "threshold": 2, "newOperators": []any{object{"name": "new", "publicKey": activitytest.SomePair}}, "existingOperatorIds": []any{op.String()}}, "enableDebugModeDeployments": true},
			"FULL", "KEY_LEAVES DANGER", `"manifestSet":{"id":"` + set.String() + `","name":"approvers","nameSource":"ORGANIZATION","threshold":"1","operators":[{"operator":{"id":"` + op.String() + `","name":"olga"`},
		{"UPDATE_TVC_APP_LIVE_DEPLOYMENT", object{"deploymentId": next.String()}, "FULL", "", `"liveNow":{"id":"` + live.String() + `","image":"registry.example.com/old"`},
		{"DELETE_TVC_DEPLOYMENT", object{"deploymentId": next.String()}, "FULL", "", `"app":{"id":"` + app.String() + `","name":"payroll"`},
		{"DELETE_TVC_APP_AND_DEPLOYMENTS", object{"appId": app.String()}, "FULL", "", `"images":[`},
		{"CREATE_TVC_MANIFEST_APPROVALS", object{"manifestId": manifest.String(), "approvals": []any{object{"operatorId": op.String(), "signature": signature}}}, "FULL", "", `"name":"olga"`},
	} {
		d, err := documentOf(w, c.typ, c.params)
		if err != nil {
			t.Errorf("%s: %v", c.typ, err)
			continue
		}
		if read := readDocument(t, d); read.Readable != c.readable || read.codes() != c.warnings || !strings.Contains(string(d.Text()), c.has) {
			t.Errorf("%s: %s, warnings %q, want %q and %s: %s", c.typ, read.Readable, read.codes(), c.warnings, c.has, d.Text())
		}
		if strings.Contains(string(d.Text()), "123456") {
			t.Errorf("%s shows the code: %s", c.typ, d.Text())
		}
	}
}

// A policy that allows too much is warned of, whoever has to approve and however its condition is written.
func TestBroadPolicies(t *testing.T) {
	w := activitytest.New(t)
	eve := "approvers.any(user, user.id == '" + w.User.String() + "')"
	for _, c := range []struct{ condition, consensus, warnings string }{
		{"(true)", "", "RULES_BROAD DANGER"}, {"1 == 1", "approvers.count() >= 0", "RULES_BROAD DANGER"}, {"", eve, "RULES_BROAD DANGER"}, {"activity.action == 'SIGN'", "", "RULES_BROAD DANGER"},
		{"activity.resource == 'POLICY'", eve, "RULES_BROAD DANGER"},
		{"activity.action == 'SIGN' && wallet.id == '" + activitytest.SomeID + "'", eve, ""}, {"activity.kind == 'CREATE_WALLET'", "", ""}, {"eth.tx.value < 5 && wallet.id == 'w'", "", ""},
	} {
		for _, params := range []object{
			{"policyName": "x", "effect": "EFFECT_ALLOW", "condition": c.condition, "consensus": c.consensus, "notes": ""},
			{"policies": []any{object{"policyName": "x", "effect": "EFFECT_ALLOW", "condition": c.condition, "consensus": c.consensus, "notes": ""}}},
		} {
			typ := "CREATE_POLICIES"
			if params["policies"] == nil {
				typ = "CREATE_POLICY_V3"
			}
			d, err := documentOf(w, typ, params)
			if err != nil {
				t.Fatal(err)
			}
			if codes := readCodes(t, d); codes != c.warnings {
				t.Errorf("%s when %q by %q: %q", typ, c.condition, c.consensus, codes)
			}
		}
		// One that is there, and allows from now on.
		id := w.Run("CREATE_POLICY_V3", object{"policyName": "y", "effect": "EFFECT_DENY", "condition": c.condition, "consensus": c.consensus, "notes": ""})["policyId"]
		d, err := documentOf(w, "UPDATE_POLICY_V2", object{"policyId": id, "policyEffect": "EFFECT_ALLOW"})
		if err != nil {
			t.Fatal(err)
		}
		if codes := strings.TrimPrefix(strings.ReplaceAll(readCodes(t, d), "RULES_DENY_GONE DANGER", ""), ", "); strings.TrimSuffix(codes, ", ") != c.warnings {
			t.Errorf("update when %q by %q: %q", c.condition, c.consensus, codes)
		}
		w.Run("DELETE_POLICY", object{"policyId": id})
	}
}

// What concerns many is bounded, and the rest is counted.
func TestExplanationsAreBounded(t *testing.T) {
	w := activitytest.New(t)
	w.Limits.Users, w.Limits.Policies = 200, 200
	var names []string
	for i := range 60 {
		names = append(names, "user "+strings.Repeat("x", i+1))
	}
	var ids []any
	for _, id := range w.People(names...) {
		ids = append(ids, id)
	}
	tag := w.Run("CREATE_USER_TAG", object{"userTagName": "all", "userIds": ids})["userTagId"].(string)
	for i := range 30 {
		w.Run("CREATE_POLICY_V3", object{"policyName": "p" + strings.Repeat("p", i), "effect": "EFFECT_ALLOW", "consensus": "approvers.any(u, u.tags.contains('" + tag + "'))", "condition": "activity.kind == 'CREATE_WALLET'", "notes": ""})
	}
	d, err := documentOf(w, "DELETE_USER_TAGS", object{"userTagIds": []any{tag}})
	if err != nil {
		t.Fatal(err)
	}
	if text := string(d.Text()); !strings.Contains(text, `"readByMore":"10"`) || !strings.Contains(text, `"removedMore":"40"`) || strings.Count(text, `"effect"`) != 20 || readCodes(t, d) != "CONTROL_CHANGE DANGER" {
		t.Errorf("%s", text)
	}
	// Many users with one tag: its policies are listed once.
	var many []any
	for i := range 100 {
		many = append(many, object{"userName": "n" + strings.Repeat("n", i), "userTags": []any{tag}, "apiKeys": []any{object{"apiKeyName": "k", "publicKey": w.FreshP256()}}})
	}
	if d, err = documentOf(w, "CREATE_API_ONLY_USERS", object{"apiOnlyUsers": many}); err != nil {
		t.Fatal(err)
	}
	if read := readDocument(t, d); strings.Count(string(d.Text()), `"readBy"`) != 1 || !strings.Contains(read.codes(), "CONTROL_CHANGE DANGER") {
		t.Errorf("%s: %.3000s", read.codes(), d.Text())
	}
}
