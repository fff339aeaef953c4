package matrix_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"github.com/mr-tron/base58"

	"cloister/sim/client"
	"cloister/sim/passcode"
)

// A maker makes the body of one operation on an organization, and first what it
// is about, so that whoever may do it gets it done. by is who will send it; self
// asks that it be about by's own user.
type maker struct {
	typ    string // the newest, without ACTIVITY_TYPE_
	params func(t *tenant, by *principal, self bool) object
}

const noID = "00000000-0000-4000-8000-000000000000"

// about is the user that a body is about.
func (t *tenant) about(by *principal, self bool) string {
	if !self {
		return t.second
	}
	if by.User == "" {
		return noID
	}
	return by.User
}

// member tells whether by is a user of t.
func (t *tenant) member(by *principal) bool {
	for _, p := range t.as {
		if p == by {
			return true
		}
	}
	return false
}

func list(xs ...any) []any { return append([]any{}, xs...) }

func mailedCode() object {
	return object{"otpType": "OTP_TYPE_EMAIL", "contact": "someone@example.org", "appName": "App"}
}

func mailedKey() object {
	return object{"email": "someone@example.org", "targetPublicKey": target(), "emailCustomization": object{"appName": "App"}}
}

func (t *tenant) user() string {
	r := t.do("CREATE_USERS_V4", client.Users(client.NewUser(t.name("Made"), client.NewKey())))
	return client.Text(r, "userIds", "0")
}

func (t *tenant) userTag() string {
	return client.Text(t.do("CREATE_USER_TAG", client.Tag(t.name("Tag"))), "userTagId")
}

func (t *tenant) keyTag() string {
	return client.Text(t.do("CREATE_PRIVATE_KEY_TAG", object{"privateKeyTagName": t.name("Tag"), "privateKeyIds": list()}), "privateKeyTagId")
}

func (t *tenant) policy() string {
	return client.Text(t.do("CREATE_POLICY_V3", t.newPolicy()), "policyId")
}

func (t *tenant) newPolicy() object {
	return client.Policy(t.name("Policy"), "ALLOW", "activity.resource == 'WALLET'", "approvers.any(u, u.id == '"+noID+"')")
}

func (t *tenant) newWallet() object { return client.Wallet(t.name("Wallet"), client.Ethereum) }

// wallet makes a wallet and answers its id and address.
func (t *tenant) wallet() (id, address string) {
	r := t.do("CREATE_WALLET", t.newWallet())
	return client.Text(r, "walletId"), client.Text(r, "addresses", "0")
}

// account makes a wallet and answers its account's id.
func (t *tenant) account() string {
	id, _ := t.wallet()
	return client.Text(t.look("list_wallet_accounts", object{"walletId": id}), "accounts", "0", "walletAccountId")
}

func (t *tenant) newKeys() object {
	return object{"privateKeys": list(object{"privateKeyName": t.name("Key"), "curve": "CURVE_SECP256K1", "privateKeyTags": list(), "addressFormats": list("ADDRESS_FORMAT_ETHEREUM")})}
}

func (t *tenant) privateKey() string {
	return client.Text(t.do("CREATE_PRIVATE_KEYS_V2", t.newKeys()), "privateKeys", "0", "privateKeyId")
}

func (t *tenant) newInvitation() object {
	n := t.n.Add(1)
	return object{"invitations": list(object{"receiverUserName": fmt.Sprintf("Guest %d", n), "receiverUserEmail": fmt.Sprintf("guest%d@example.com", n), "receiverUserTags": list(),
		"accessType": "ACCESS_TYPE_ALL", "senderUserId": t.root.User})}
}

func (t *tenant) newInterface() object {
	return object{"smartContractAddress": fmt.Sprintf("0x%040x", t.n.Add(1)), "type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": t.name("Interface"), "notes": "note",
		"smartContractInterface": `[{"type":"function","name":"transfer","inputs":[{"name":"to","type":"address"},{"name":"amount","type":"uint256"}],"outputs":[],"stateMutability":"nonpayable"}]`}
}

func (t *tenant) newMFA(user string) object {
	return object{"userId": user, "mfaPolicyName": t.name("MFA"), "condition": "activity.resource == 'NOTHING'", "order": t.n.Add(1), "notes": "note",
		"requiredAuthenticationMethods": list(object{"any": list(object{"type": "AUTHENTICATION_TYPE_PASSKEY"}, object{"type": "AUTHENTICATION_TYPE_API_KEY"})})}
}

func (t *tenant) newProfile() object {
	return object{"sessionProfileName": t.name("Profile"), "scope": "activity.resource == 'WALLET'", "expirationSeconds": "600", "notes": "note"}
}

// proxy sees to it that a top-level organization has an auth proxy, or has none.
func (t *tenant) proxy(on bool) {
	has := strings.Contains(fmt.Sprint(t.look("get_organization_configs", nil)), "AUTH_PROXY")
	switch {
	case t.parent != nil || has == on:
	case on:
		t.do("ENABLE_AUTH_PROXY", object{})
	default:
		t.do("DISABLE_AUTH_PROXY", object{})
	}
}

func allowlist(publicKey string) object {
	o := object{"enabled": false, "rules": list(object{"cidr": "192.0.2.0/24", "label": "office"}), "onEvaluationError": "ALLOW"}
	if publicKey != "" {
		delete(o, "enabled")
		o["publicKey"] = publicKey
	}
	return o
}

// look is a query of the root user, which must succeed.
func (t *tenant) look(op string, request object) object {
	r := t.ask(t.root, op, request)
	if r.Status != 200 {
		t.w.t.Errorf("fixture: %s: %v", op, r)
	}
	return r.JSON()
}

// point is a new P-256 public key, uncompressed.
func point() []byte {
	k, err := ecdh.P256().GenerateKey(rand.Reader)
	if err != nil {
		panic(err) // no randomness
	}
	return k.PublicKey().Bytes()
}

// target is one to encrypt an export to.
func target() string { return hex.EncodeToString(point()) }

const mnemonic = "legal winner thank year wave sausage worth useful legal winner thank yellow"

// sealed encrypts to an import target of the root user, if it is his, and
// otherwise to a key of nobody's: the bundle is looked at only once it is allowed.
func (t *tenant) sealed(what string, by *principal, self bool, plain string) string {
	to := point()
	if self && by.User == t.root.User {
		to = client.Target(client.Text(t.do("INIT_IMPORT_"+what, object{"userId": by.User}), "importBundle"))
	}
	return t.seal(to, plain)
}

func (t *tenant) seal(to []byte, plain string) string {
	sealed, err := passcode.Seal(to, []byte(plain))
	if err != nil {
		t.w.t.Error(err)
	}
	return sealed
}

// operatorKeys are two operators' of customers' programs.
var operatorKeys = [2]string{
	"04b6073617064dbdeafab9eb1bf18df518333cdba81cd054d2becdc38db524591d41541e3212d4ef0b79a72376a33b492cd70c1036b145510c74fcf2a6a1e7c906" +
		"04b89622860bcc34be5526dff1d1f6a6df9bfaaae33f62a5a26c3d2ea271d0b0dbae57d73fdda1cfc5c136c1e433ee957a9ca654ee255105a6df6f9bbac0385e88",
	"042fd6a3b2d4161044e5c5282b33af0ff38e328c12a0460b55f53ef582c45cc31d9ccb109da10a9ac6d1bc12cd86ec6182288c3fab040842673fd5db7bb8bab665" +
		"04e50530deea22bf3c7ae64b438515d3e5587006baa48ae67d9aa3fb3a45eacc19b868ae928a6d8793a92caf543368ea1a5fa18d2a33b1a84941fe79f7afd03e4a",
}

func (t *tenant) newApp() object {
	set := object{"name": "Set", "threshold": 2, "newOperators": list(object{"name": "One", "publicKey": operatorKeys[0]}, object{"name": "Two", "publicKey": operatorKeys[1]})}
	return object{"name": t.name("App"), "quorumPublicKey": operatorKeys[0], "manifestSetParams": set, "shareSetParams": set}
}

// app is one of a top-level organization's: others have none.
func (t *tenant) app() string {
	if t.parent != nil {
		return noID
	}
	return client.Text(t.do("CREATE_TVC_APP", t.newApp()), "appId")
}

const suite = "TRANSPORT_ENCRYPTION_SUITE_ENCLAVE_ENCRYPT_V1"

// newSecret is a secret, encrypted to an import target that the root user has asked for.
func (t *tenant) newSecret(name, key, value string) object {
	r := t.do("INIT_IMPORT_SECRETS", object{"encryptionSuite": suite, "numSecrets": 1})
	to := client.Target(client.Text(r, "enclaveTargetMessages", "0"))
	return object{"name": name, "secretPayload": t.seal(to, "a secret"), "targetPublicKey": hex.EncodeToString(to), "encryptionSuite": suite, "staticProperties": list(object{"key": key, "value": value})}
}

func (t *tenant) secret() string {
	return client.Text(t.do("IMPORT_SECRETS", object{"secrets": list(t.newSecret(t.name("Secret"), "env", "prod"))}), "secretIds", "0")
}

// solana is the address of an account of the tenant's.
func (t *tenant) solana() string {
	return client.Text(t.do("CREATE_WALLET", client.Wallet(t.name("Solana"), client.Solana)), "addresses", "0")
}

// solanaTransfer pays five lamports from an account to another, its blockhash left
// open.
func solanaTransfer(from string) string {
	key, err := base58.Decode(from)
	if err != nil || len(key) != 32 {
		return "no address: " + from
	}
	tx := append([]byte{1}, make([]byte, 64)...)
	tx = append(append(tx, 1, 0, 1, 3), key...)
	tx = append(append(tx, strings.Repeat("\x09", 32)...), make([]byte, 64)...) // to; the System program; the blockhash
	return hex.EncodeToString(append(tx, 1, 2, 2, 0, 1, 12, 2, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0))
}

// identityToken is one by its form, of an issuer that nobody may have asked.
const identityToken = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovLzEwLjAuMC4xIiwic3ViIjoicyIsImF1ZCI6ImEifQ.c2lnbmF0dXJl"

// fixed is a body that is the same for everybody.
func fixed(params func(t *tenant) object) func(*tenant, *principal, bool) object {
	return func(t *tenant, _ *principal, _ bool) object { return params(t) }
}

// vote is a yes or no to an activity that by may vote on only if self is asked for.
func vote(t *tenant, by *principal, self bool) object {
	consent := ""
	if self && t.member(by) {
		consent = by.User
	}
	return object{"fingerprint": t.pending(consent)}
}

// submits are the operations that change something.
var submits = map[string]maker{
	// sessions
	"stamp_login":              {"STAMP_LOGIN", fixed(func(*tenant) object { return object{"publicKey": client.NewKey().PublicKey} })},
	"create_read_only_session": {"CREATE_READ_ONLY_SESSION", fixed(func(*tenant) object { return object{} })},
	"create_read_write_session": {"CREATE_READ_WRITE_SESSION_V2", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "targetPublicKey": target()}
	}},

	// users
	"create_users": {"CREATE_USERS_V4", fixed(func(t *tenant) object { return client.Users(client.NewUser(t.name("Made"), client.NewKey())) })},
	"create_api_only_users": {"CREATE_API_ONLY_USERS", fixed(func(t *tenant) object {
		return object{"apiOnlyUsers": list(object{"userName": t.name("Made"), "userTags": list(), "apiKeys": list(object{"apiKeyName": "key", "publicKey": client.NewKey().PublicKey})})}
	})},
	"update_user": {"UPDATE_USER", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "userName": t.name("Renamed")}
	}},
	"update_user_name": {"UPDATE_USER_NAME", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "userName": t.name("Renamed")}
	}},
	"update_user_email": {"UPDATE_USER_EMAIL", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "userEmail": fmt.Sprintf("user%d@example.com", t.n.Add(1))}
	}},
	"update_user_phone_number": {"UPDATE_USER_PHONE_NUMBER", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "userPhoneNumber": fmt.Sprintf("+4930%07d", t.n.Add(1))}
	}},
	"delete_users": {"DELETE_USERS", fixed(func(t *tenant) object { return object{"userIds": list(t.user())} })},

	// credentials
	"create_api_keys": {"CREATE_API_KEYS_V2", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "apiKeys": list(t.expiring())}
	}},
	"delete_api_keys": {"DELETE_API_KEYS", func(t *tenant, by *principal, self bool) object {
		user := t.about(by, self)
		if self && !t.member(by) {
			return object{"userId": user, "apiKeyIds": list(noID)}
		}
		r := t.do("CREATE_API_KEYS_V2", object{"userId": user, "apiKeys": list(t.expiring())})
		return object{"userId": user, "apiKeyIds": list(client.Text(r, "apiKeyIds", "0"))}
	}},
	"create_authenticators": {"CREATE_AUTHENTICATORS_V2", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "authenticators": list(t.newPasskey())}
	}},
	"delete_authenticators": {"DELETE_AUTHENTICATORS", func(t *tenant, by *principal, self bool) object {
		user := t.about(by, self)
		if self && !t.member(by) {
			return object{"userId": user, "authenticatorIds": list(noID)}
		}
		return object{"userId": user, "authenticatorIds": list(t.spent(by, "authenticator", func() string { return t.authenticatorOf(user) }))}
	}},
	// An identity must have been proven by a token, which nobody can today: whoever
	// may do this is told that the claims prove nothing.
	"create_oauth_providers": {"CREATE_OAUTH_PROVIDERS_V2", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "oauthProviders": list(object{"providerName": "Provider", "oidcClaims": object{"iss": "https://issuer.example", "sub": "subject", "aud": "audience"}})}
	}},
	"delete_oauth_providers": {"DELETE_OAUTH_PROVIDERS", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "providerIds": list()}
	}},

	// Passcodes and keys by mail: whoever may is told that this deployment sends nothing,
	// or that the code or token is none.
	"init_otp":      {"INIT_OTP_V3", fixed(func(*tenant) object { return mailedCode() })},
	"verify_otp":    {"VERIFY_OTP_V2", fixed(func(*tenant) object { return object{"otpId": noID, "encryptedOtpBundle": "{}"} })},
	"init_otp_auth": {"INIT_OTP_AUTH_V3", fixed(func(*tenant) object { return mailedCode() })},
	"otp_auth": {"OTP_AUTH", fixed(func(*tenant) object {
		return object{"otpId": noID, "otpCode": "000000000", "targetPublicKey": target()}
	})},
	"otp_login": {"OTP_LOGIN", fixed(func(t *tenant) object {
		return object{"verificationToken": identityToken, "publicKey": client.NewKey().PublicKey}
	})},
	"email_auth":               {"EMAIL_AUTH_V3", fixed(func(*tenant) object { return mailedKey() })},
	"init_user_email_recovery": {"INIT_USER_EMAIL_RECOVERY_V2", fixed(func(*tenant) object { return mailedKey() })},
	"recover_user": {"RECOVER_USER", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "authenticator": object{"authenticatorName": "Recovered", "challenge": "Y2g",
			"attestation": object{"credentialId": "Y2g", "clientDataJson": "Y2g", "attestationObject": "Y2g", "transports": list()}}}
	}},
	// Identity tokens and credentials at providers: whoever may is told that the token's
	// issuer is at no public name, or that the secret is not encrypted to the enclave.
	"oauth": {"OAUTH", fixed(func(*tenant) object { return object{"oidcToken": identityToken, "targetPublicKey": target()} })},
	"oauth_login": {"OAUTH_LOGIN", fixed(func(t *tenant) object {
		return object{"oidcToken": identityToken, "publicKey": client.NewKey().PublicKey}
	})},
	"oauth2_authenticate": {"OAUTH2_AUTHENTICATE", fixed(func(*tenant) object {
		return object{"oauth2CredentialId": noID, "authCode": "code", "redirectUri": "https://app.example", "codeVerifier": strings.Repeat("v", 43), "nonce": "nonce"}
	})},
	"create_oauth2_credential": {"CREATE_OAUTH2_CREDENTIAL", fixed(func(*tenant) object {
		return object{"provider": "OAUTH2_PROVIDER_X", "clientId": "client", "encryptedClientSecret": "00"}
	})},
	"update_oauth2_credential": {"UPDATE_OAUTH2_CREDENTIAL", fixed(func(*tenant) object {
		return object{"oauth2CredentialId": noID, "provider": "OAUTH2_PROVIDER_X", "clientId": "client", "encryptedClientSecret": "00"}
	})},
	"delete_oauth2_credential": {"DELETE_OAUTH2_CREDENTIAL", fixed(func(*tenant) object { return object{"oauth2CredentialId": noID} })},
	"create_fiat_on_ramp_credential": {"CREATE_FIAT_ON_RAMP_CREDENTIAL", fixed(func(*tenant) object {
		return object{"onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "publishableApiKey": "pk", "encryptedSecretApiKey": "none"}
	})},
	"update_fiat_on_ramp_credential": {"UPDATE_FIAT_ON_RAMP_CREDENTIAL", fixed(func(*tenant) object {
		return object{"fiatOnrampCredentialId": noID, "onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "publishableApiKey": "pk", "encryptedSecretApiKey": "none"}
	})},
	"delete_fiat_on_ramp_credential": {"DELETE_FIAT_ON_RAMP_CREDENTIAL", fixed(func(*tenant) object { return object{"fiatOnrampCredentialId": noID} })},
	"init_fiat_on_ramp": {"INIT_FIAT_ON_RAMP", fixed(func(*tenant) object {
		return object{"onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "walletAddress": "0x000000000000000000000000000000000000dEaD", "network": "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BASE",
			"cryptoCurrencyCode": "FIAT_ON_RAMP_CRYPTO_CURRENCY_ETH"}
	})},
	"delete_payment_method": {"DELETE_PAYMENT_METHOD", fixed(func(*tenant) object { return object{"paymentMethodId": "pm_1"} })},
	"set_payment_method": {"SET_PAYMENT_METHOD_V2", fixed(func(*tenant) object {
		return object{"paymentMethodId": "pm_1", "cardHolderEmail": "payer@example.org", "cardHolderName": "Payer"}
	})},
	"update_payment_method": {"UPDATE_PAYMENT_METHOD", fixed(func(*tenant) object { return object{"paymentEmail": "bills@example.org"} })},
	"activate_billing_tier": {"ACTIVATE_BILLING_TIER", fixed(func(*tenant) object { return object{"productId": "self-hosted"} })},

	// tags
	"create_user_tag": {"CREATE_USER_TAG", fixed(func(t *tenant) object { return object{"userTagName": t.name("Tag"), "userIds": list(t.second)} })},
	"update_user_tag": {"UPDATE_USER_TAG", fixed(func(t *tenant) object {
		return object{"userTagId": t.once("user tag", t.userTag), "newUserTagName": t.name("Tag"), "addUserIds": list(), "removeUserIds": list()}
	})},
	"delete_user_tags": {"DELETE_USER_TAGS", func(t *tenant, by *principal, _ bool) object {
		return object{"userTagIds": list(t.spent(by, "user tag", t.userTag))}
	}},
	"create_private_key_tag": {"CREATE_PRIVATE_KEY_TAG", fixed(func(t *tenant) object {
		return object{"privateKeyTagName": t.name("Tag"), "privateKeyIds": list()}
	})},
	"update_private_key_tag": {"UPDATE_PRIVATE_KEY_TAG", fixed(func(t *tenant) object {
		return object{"privateKeyTagId": t.once("key tag", t.keyTag), "newPrivateKeyTagName": t.name("Tag"), "addPrivateKeyIds": list(), "removePrivateKeyIds": list()}
	})},
	"delete_private_key_tags": {"DELETE_PRIVATE_KEY_TAGS", func(t *tenant, by *principal, _ bool) object {
		return object{"privateKeyTagIds": list(t.spent(by, "key tag", t.keyTag))}
	}},

	// policies, quorum, features
	"create_policy":   {"CREATE_POLICY_V3", fixed((*tenant).newPolicy)},
	"create_policies": {"CREATE_POLICIES", fixed(func(t *tenant) object { return object{"policies": list(t.newPolicy(), t.newPolicy())} })},
	"update_policy": {"UPDATE_POLICY_V2", fixed(func(t *tenant) object {
		return object{"policyId": t.once("policy", t.policy), "policyName": t.name("Policy")}
	})},
	"delete_policy":            {"DELETE_POLICY", fixed(func(t *tenant) object { return object{"policyId": t.policy()} })},
	"delete_policies":          {"DELETE_POLICIES", fixed(func(t *tenant) object { return object{"policyIds": list(t.policy())} })},
	"export_history":           {"EXPORT_HISTORY", fixed(func(*tenant) object { return object{} })},
	"update_root_quorum":       {"UPDATE_ROOT_QUORUM", fixed(func(t *tenant) object { return object{"threshold": 1, "userIds": list(t.root.User)} })},
	"set_organization_feature": {"SET_ORGANIZATION_FEATURE", fixed(func(*tenant) object { return object{"name": "FEATURE_NAME_EMAIL_AUTH", "value": ""} })},
	"remove_organization_feature": {"REMOVE_ORGANIZATION_FEATURE", fixed(func(t *tenant) object {
		t.do("SET_ORGANIZATION_FEATURE", object{"name": "FEATURE_NAME_EMAIL_AUTH", "value": ""})
		return object{"name": "FEATURE_NAME_EMAIL_AUTH"}
	})},
	"update_organization_name": {"UPDATE_ORGANIZATION_NAME", fixed(func(t *tenant) object { return object{"organizationName": t.name("Renamed")} })},

	"update_allowed_origins": {"UPDATE_ALLOWED_ORIGINS", fixed(func(t *tenant) object { return object{"allowedOrigins": list("https://example.com")} })},

	// organizations
	"create_organization": {"CREATE_ORGANIZATION_V2", fixed(func(t *tenant) object {
		return object{"organizationName": t.name("Top"), "rootEmail": "root@example.com", "rootAuthenticator": t.newPasskey()}
	})},
	"delete_organization": {"DELETE_ORGANIZATION", fixed(func(t *tenant) object { return object{"organizationId": t.root.Organization} })},
	"create_sub_organization": {"CREATE_SUB_ORGANIZATION_V8", fixed(func(t *tenant) object {
		return client.SubOrganization(t.name("Sub"), client.NewRootUser("Root", client.NewKey()))
	})},
	"delete_sub_organization": {"DELETE_SUB_ORGANIZATION", fixed(func(*tenant) object { return object{"deleteWithoutExport": true} })},
	"create_invitations":      {"CREATE_INVITATIONS", fixed((*tenant).newInvitation)},
	"delete_invitation": {"DELETE_INVITATION", fixed(func(t *tenant) object {
		return object{"invitationId": client.Text(t.do("CREATE_INVITATIONS", t.newInvitation()), "invitationIds", "0")}
	})},
	"accept_invitation": {"ACCEPT_INVITATION_V2", fixed(func(t *tenant) object {
		id := client.Text(t.do("CREATE_INVITATIONS", t.newInvitation()), "invitationIds", "0")
		return object{"invitationId": id, "userId": id, "authenticator": t.newPasskey()}
	})},
	"create_smart_contract_interface": {"CREATE_SMART_CONTRACT_INTERFACE", fixed((*tenant).newInterface)},
	"delete_smart_contract_interface": {"DELETE_SMART_CONTRACT_INTERFACE", fixed(func(t *tenant) object {
		return object{"smartContractInterfaceId": t.contract()}
	})},
	"create_webhook_endpoint": {"CREATE_WEBHOOK_ENDPOINT", fixed(func(t *tenant) object {
		if ids := t.endpoints(); len(ids) > 5 { // there may be ten
			t.do("DELETE_WEBHOOK_ENDPOINT", object{"endpointId": ids[0]})
		}
		return t.newEndpoint()
	})},
	"update_webhook_endpoint": {"UPDATE_WEBHOOK_ENDPOINT", fixed(func(t *tenant) object {
		return object{"endpointId": t.endpoint(), "name": t.name("Endpoint")}
	})},
	"resend_webhook_deliveries": {"RESEND_WEBHOOK_DELIVERIES", fixed(func(t *tenant) object {
		endpoint := t.endpoint()
		t.do("UPDATE_WEBHOOK_ENDPOINT", object{"endpointId": endpoint}) // an event for it, if it has had none
		all := t.look("list_webhook_deliveries", object{"endpointId": endpoint})
		return object{"endpointId": endpoint, "deliveryIds": list(client.Text(all, "deliveries", "0", "deliveryId"))}
	})},
	"delete_webhook_endpoint": {"DELETE_WEBHOOK_ENDPOINT", fixed(func(t *tenant) object { return object{"endpointId": t.endpoint()} })},
	"set_ip_allowlist":        {"SET_IP_ALLOWLIST", fixed(func(*tenant) object { return allowlist("") })},
	"remove_ip_allowlist":     {"REMOVE_IP_ALLOWLIST", fixed(func(t *tenant) object { t.listed(); return object{} })},
	"enable_auth_proxy": {"ENABLE_AUTH_PROXY", fixed(func(t *tenant) object {
		t.proxy(false)
		return object{}
	})},
	"disable_auth_proxy": {"DISABLE_AUTH_PROXY", fixed(func(t *tenant) object {
		t.proxy(true)
		return object{}
	})},
	"update_auth_proxy_config": {"UPDATE_AUTH_PROXY_CONFIG", fixed(func(t *tenant) object {
		t.proxy(true)
		return object{"otpLength": 6}
	})},
	"create_session_profile": {"CREATE_SESSION_PROFILE", fixed((*tenant).newProfile)},
	"create_mfa_policy":      {"CREATE_MFA_POLICY", func(t *tenant, by *principal, self bool) object { return t.newMFA(t.about(by, self)) }},
	"update_mfa_policy": {"UPDATE_MFA_POLICY", func(t *tenant, by *principal, self bool) object {
		user, id := t.mfa(by, self)
		return object{"userId": user, "mfaPolicyId": id, "mfaPolicyName": t.name("MFA")}
	}},
	"delete_mfa_policy": {"DELETE_MFA_POLICY", func(t *tenant, by *principal, self bool) object {
		user, id := t.mfa(by, self)
		return object{"userId": user, "mfaPolicyId": id}
	}},

	// wallets and keys
	"create_wallet": {"CREATE_WALLET", fixed((*tenant).newWallet)},
	"create_wallet_accounts": {"CREATE_WALLET_ACCOUNTS", fixed(func(t *tenant) object {
		return object{"walletId": t.once("wallet", t.walletID), "accounts": list(client.Account("SECP256K1", fmt.Sprintf("m/44'/60'/0'/0/%d", t.n.Add(1)), "ETHEREUM"))}
	})},
	"update_wallet": {"UPDATE_WALLET", fixed(func(t *tenant) object {
		return object{"walletId": t.once("wallet", t.walletID), "walletName": t.name("Wallet")}
	})},
	"update_wallet_account_name": {"UPDATE_WALLET_ACCOUNT_NAME", fixed(func(t *tenant) object {
		return object{"walletAccountId": t.once("account", t.account), "name": t.name("Account")}
	})},
	"delete_wallets": {"DELETE_WALLETS", fixed(func(t *tenant) object { return object{"walletIds": list(t.walletID()), "deleteWithoutExport": true} })},
	"delete_wallet_accounts": {"DELETE_WALLET_ACCOUNTS", fixed(func(t *tenant) object {
		return object{"walletAccountIds": list(t.account()), "deleteWithoutExport": true}
	})},
	"create_private_keys": {"CREATE_PRIVATE_KEYS_V2", fixed((*tenant).newKeys)},
	"disable_private_key": {"DISABLE_PRIVATE_KEY", fixed(func(t *tenant) object { return object{"privateKeyId": t.privateKey()} })},
	"delete_private_keys": {"DELETE_PRIVATE_KEYS", fixed(func(t *tenant) object {
		return object{"privateKeyIds": list(t.privateKey()), "deleteWithoutExport": true}
	})},
	"sign_raw_payload": {"SIGN_RAW_PAYLOAD_V2", fixed(func(t *tenant) object {
		return object{"signWith": t.once("address", t.address), "payload": "hello", "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_SHA256"}
	})},
	"sign_raw_payloads": {"SIGN_RAW_PAYLOADS", fixed(func(t *tenant) object {
		return object{"signWith": t.once("address", t.address), "payloads": list("hello", "world"), "encoding": "PAYLOAD_ENCODING_TEXT_UTF8", "hashFunction": "HASH_FUNCTION_SHA256"}
	})},
	"sign_transaction": {"SIGN_TRANSACTION_V2", fixed(func(t *tenant) object {
		return object{"signWith": t.once("address", t.address), "type": "TRANSACTION_TYPE_ETHEREUM",
			"unsignedTransaction": "02df018080018252089400000000000000000000000000000000000000008080c0"}
	})},
	"eth_send_raw_transaction": {"ETH_SEND_RAW_TRANSACTION", fixed(func(*tenant) object {
		return object{"caip2": "eip155:1", "signedTransaction": "f86c098504a817c800825208943535353535353535353535353535353535353535880de0b6b3a76400008025a0" +
			"28ef61340bd939bc2195fe537567866003e1a15d3c71ff63e1590620aa636276a067cbe9d8997f761aecb703304b3800ccf555c9f3dc64214b297fb1966a3b6d83"} // EIP-155's
	})},
	"eth_send_transaction": {"ETH_SEND_TRANSACTION_V2", fixed(func(t *tenant) object {
		return object{"from": t.once("address", t.address), "caip2": "eip155:11155111", "calls": list(object{"to": "0x000000000000000000000000000000000000dEaD", "value": "1"})}
	})},
	"eth_undelegate_7702": {"ETH_UNDELEGATE_7702", fixed(func(t *tenant) object {
		return object{"from": t.once("address", t.address), "caip2": "eip155:11155111"}
	})},
	"upsert_gas_usage_config": {"UPSERT_GAS_USAGE_CONFIG", fixed(func(*tenant) object { return gasLimits })},
	"sol_send_transaction": {"SOL_SEND_TRANSACTION_V2", fixed(func(t *tenant) object {
		address := t.once("solana address", t.solana)
		return object{"unsignedTransaction": solanaTransfer(address), "signWiths": list(address), "caip2": "solana:devnet"}
	})},
	"spark_sign_frost": {"SPARK_SIGN_FROST", fixed(func(t *tenant) object {
		return object{"signWith": t.once("spark address", t.spark), "signatures": list(object{"derivation": leafKey("leaf"), "message": strings.Repeat("ab", 32), "verifyingKey": sparkKeys[0],
			"operatorCommitments": list(object{"id": strings.Repeat("00", 31) + "01", "hiding": sparkKeys[1], "binding": sparkKeys[2]})})}
	})},
	"spark_prepare_transfer": {"SPARK_PREPARE_TRANSFER", fixed(func(t *tenant) object {
		return object{"signWith": t.once("spark address", t.spark), "transfer": sparkGroup(object{"transferId": noID, "receiverPublicKey": sparkKeys[0],
			"leaves": list(object{"leafId": "leaf", "oldLeafDerivation": leafKey("leaf"), "newLeafDerivation": leafKey("new")})})}
	})},
	"spark_claim_transfer": {"SPARK_CLAIM_TRANSFER", fixed((*tenant).sparkClaim)},
	"spark_prepare_lightning_receive": {"SPARK_PREPARE_LIGHTNING_RECEIVE", fixed(func(t *tenant) object {
		return object{"signWith": t.once("spark address", t.spark), "lightningReceive": sparkGroup(object{})}
	})},
	"export_wallet": {"EXPORT_WALLET", fixed(func(t *tenant) object {
		return object{"walletId": t.once("wallet", t.walletID), "targetPublicKey": target()}
	})},
	"export_wallet_account": {"EXPORT_WALLET_ACCOUNT", fixed(func(t *tenant) object {
		return object{"address": t.once("address", t.address), "targetPublicKey": target()}
	})},
	"export_private_key": {"EXPORT_PRIVATE_KEY", fixed(func(t *tenant) object {
		return object{"privateKeyId": t.once("private key", t.privateKey), "targetPublicKey": target()}
	})},
	"init_import_wallet":      {"INIT_IMPORT_WALLET", func(t *tenant, by *principal, self bool) object { return object{"userId": t.about(by, self)} }},
	"init_import_private_key": {"INIT_IMPORT_PRIVATE_KEY", func(t *tenant, by *principal, self bool) object { return object{"userId": t.about(by, self)} }},

	"import_wallet": {"IMPORT_WALLET", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "walletName": t.name("Imported"), "accounts": list(), "encryptedBundle": t.sealed("WALLET", by, self, mnemonic)}
	}},
	"import_private_key": {"IMPORT_PRIVATE_KEY", func(t *tenant, by *principal, self bool) object {
		return object{"userId": t.about(by, self), "privateKeyName": t.name("Imported"), "curve": "CURVE_ED25519", "addressFormats": list(),
			"encryptedBundle": t.sealed("PRIVATE_KEY", by, self, "thirty-two bytes of a secret key")}
	}},
	"init_import_secrets": {"INIT_IMPORT_SECRETS", fixed(func(*tenant) object { return object{"encryptionSuite": suite, "numSecrets": 2} })},
	"import_secrets":      {"IMPORT_SECRETS", fixed(func(t *tenant) object { return object{"secrets": list(t.newSecret(t.name("Secret"), "env", "prod"))} })},
	"export_secrets": {"EXPORT_SECRETS", fixed(func(t *tenant) object {
		return object{"secrets": list(object{"secretId": t.once("secret", t.secret), "targetPublicKey": target(), "encryptionSuite": suite})}
	})},
	"delete_secrets": {"DELETE_SECRETS", fixed(func(t *tenant) object { return object{"secretIds": list(t.secret())} })},

	"create_tvc_app": {"CREATE_TVC_APP", fixed((*tenant).newApp)},
	"create_tvc_operator": {"CREATE_TVC_OPERATOR", fixed(func(t *tenant) object {
		return object{"walletName": t.name("Operators"), "path": "m/5527107'/0'/0'", "operatorName": "Operator"}
	})},
	"create_tvc_quorum_key": {"CREATE_TVC_QUORUM_KEY", fixed(func(*tenant) object {
		return object{"threshold": 2, "operatorEncryptKeys": list(operatorKeys[0][:130], operatorKeys[1][:130])}
	})},
	// No registry is asked for an app that there is none of.
	"create_tvc_deployment": {"CREATE_TVC_DEPLOYMENT", fixed(func(*tenant) object {
		return object{"appId": noID, "qosVersion": "cloister-1", "pivotContainerImageUrl": "localhost/app@sha256:" + strings.Repeat("00", 32), "pivotPath": "/app", "pivotArgs": list(),
			"expectedPivotDigest": strings.Repeat("00", 32), "healthCheckType": "TVC_HEALTH_CHECK_TYPE_HTTP", "healthCheckPort": 80, "publicIngressPort": 80}
	})},
	"create_tvc_manifest_approvals": {"CREATE_TVC_MANIFEST_APPROVALS", fixed(func(*tenant) object {
		return object{"manifestId": noID, "approvals": list(object{"operatorId": noID, "signature": strings.Repeat("00", 64)})}
	})},
	"post_tvc_quorum_key_share": {"POST_TVC_QUORUM_KEY_SHARE", fixed(func(*tenant) object {
		return object{"deploymentId": noID, "ephemeralPublicKeyHex": operatorKeys[0],
			"shareApprovalBundle": object{"operatorId": noID, "signature": strings.Repeat("00", 64), "reEncryptedShareHex": strings.Repeat("00", 130)}}
	})},
	"re_encrypt_tvc_quorum_key_share": {"RE_ENCRYPT_TVC_QUORUM_KEY_SHARE", fixed(func(*tenant) object {
		return object{"attestationDocB64": "AAAA", "manifestB64": "e30=", "deploymentId": noID, "appQuorumKey": operatorKeys[0], "operatorEncryptKey": operatorKeys[0][:130], "operatorSignKey": operatorKeys[0][130:]}
	})},
	"set_tvc_app_live_deployment":    {"UPDATE_TVC_APP_LIVE_DEPLOYMENT", fixed(func(*tenant) object { return object{"deploymentId": noID} })},
	"delete_tvc_deployment":          {"DELETE_TVC_DEPLOYMENT", fixed(func(*tenant) object { return object{"deploymentId": noID} })},
	"restore_tvc_deployment":         {"RESTORE_TVC_DEPLOYMENT", fixed(func(*tenant) object { return object{"deploymentId": noID} })},
	"delete_tvc_app_and_deployments": {"DELETE_TVC_APP_AND_DEPLOYMENTS", fixed(func(t *tenant) object { return object{"appId": t.app()} })},

	// votes
	"approve_activity": {"APPROVE_ACTIVITY", vote},
	"reject_activity":  {"REJECT_ACTIVITY", vote},
}

func (t *tenant) expiring() object {
	k := client.APIKey(t.name("Key"), client.NewKey())
	k["expirationSeconds"] = "86400"
	return k
}

// sparkKeys are points: 1, 2 and 3 times the base point of secp256k1.
var sparkKeys = []string{"0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798", "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5",
	"02f9308a019258c31049344f85f89d5229b531c845836f99b08601f113bce036f9"}

func leafKey(id string) object { return object{"signingLeaf": object{"leafId": id}} }

func sparkGroup(o object) object {
	o["threshold"] = 2
	o["operatorRecipients"] = list(object{"operatorId": "one", "encryptionPublicKey": sparkKeys[0]}, object{"operatorId": "two", "encryptionPublicKey": sparkKeys[1]})
	return o
}

func (t *tenant) sparkWallet() (address, public string) {
	id := client.Text(t.do("CREATE_WALLET", client.Wallet(t.name("Wallet"), client.Account("SECP256K1", "m/8797555'/0'/0'", "SPARK_MAINNET"))), "walletId")
	a := t.look("list_wallet_accounts", object{"walletId": id})
	return client.Text(a, "accounts", "0", "address"), client.Text(a, "accounts", "0", "publicKey")
}

func (t *tenant) spark() string { address, _ := t.sparkWallet(); return address }

// sparkClaim is of a leaf whose key, 3, somebody with the key 1 has encrypted to the account with 1 as the ephemeral key: what
// both have in common is the account's own point.
func (t *tenant) sparkClaim() object {
	address, public := t.sparkWallet()
	raw, _ := hex.DecodeString(public)
	to, err := secp256k1.ParsePubKey(raw)
	if err != nil {
		t.w.t.Error(err)
		return object{}
	}
	one := secp256k1.NewPrivateKey(new(secp256k1.ModNScalar).SetInt(1))
	point := one.PubKey().SerializeUncompressed()
	key, _ := hkdf.Key(sha256.New, append(bytes.Clone(point), to.SerializeUncompressed()...), nil, "", 32)
	block, _ := aes.NewCipher(key)
	aead, _ := cipher.NewGCMWithNonceSize(block, 16)
	sealed := aead.Seal(nil, make([]byte, 16), append(make([]byte, 31), 3), nil)
	box := slices.Concat(point, make([]byte, 16), sealed[32:], sealed[:32])
	hash := sha256.Sum256(slices.Concat([]byte("leaf"), []byte(noID), box))
	sig := ecdsa.Sign(one, hash[:])
	r, v := sig.R(), sig.S()
	return object{"signWith": address, "claim": sparkGroup(object{"transferId": noID, "senderIdentityPublicKey": sparkKeys[0],
		"leaves": list(object{"leafId": "leaf", "ciphertext": hex.EncodeToString(box), "senderSignature": r.String() + v.String()})})}
}

func (t *tenant) walletID() string { id, _ := t.wallet(); return id }
func (t *tenant) address() string  { _, a := t.wallet(); return a }

func (t *tenant) contract() string {
	return client.Text(t.do("CREATE_SMART_CONTRACT_INTERFACE", t.newInterface()), "smartContractInterfaceId")
}

func (t *tenant) newEndpoint() object {
	return object{"name": t.name("Endpoint"), "url": "https://example.org/hook", "subscriptions": list(object{"eventType": "ACTIVITY_UPDATES"})}
}

func (t *tenant) endpoints() (ids []string) {
	for _, e := range client.Get(t.look("list_webhook_endpoints", nil), "webhookEndpoints").([]any) {
		ids = append(ids, client.Text(e, "endpointId"))
	}
	return ids
}

// endpoint is one that is there.
func (t *tenant) endpoint() string {
	if ids := t.endpoints(); len(ids) > 0 {
		return ids[0]
	}
	return client.Text(t.do("CREATE_WEBHOOK_ENDPOINT", t.newEndpoint()), "endpointId")
}

// listed gives a top-level organization an allowlist that is not enabled.
func (t *tenant) listed() {
	if t.parent == nil {
		t.do("SET_IP_ALLOWLIST", allowlist(""))
	}
}

// mfa is a user and a policy of theirs that never applies.
func (t *tenant) mfa(by *principal, self bool) (user, id string) {
	if user = t.about(by, self); self && !t.member(by) {
		return user, noID
	}
	return user, t.spent(by, "MFA policy", func() string {
		return client.Text(t.do("CREATE_MFA_POLICY", t.newMFA(user)), "mfaPolicyId")
	})
}

// once makes something for an organization at its first use.
func (t *tenant) once(what string, make func() string) string {
	if t.made == nil {
		t.made = map[string]string{}
	}
	if t.made[what] == "" {
		t.made[what] = make()
	}
	return t.made[what]
}

// spent makes one thing for each member, and one for all others together: an
// organization may have ten tags.
func (t *tenant) spent(by *principal, what string, make func() string) string {
	if t.member(by) {
		return make()
	}
	return t.once(what, make)
}
