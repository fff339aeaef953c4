package activitytest

import (
	"encoding/json"
	"maps"
	"strings"

	"cloister/enclave/internal/activity/apitest"
)

// NotP256 is G of secp256k1, whose x is not that of a P-256 point.
const NotP256 = "0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798"

// API is the description of the interface.
var API = apitest.Load()

// ownIntents are those of types that the description does not have.
var ownIntents = map[string]map[string]any{
	"ACTIVITY_TYPE_RESEND_WEBHOOK_DELIVERIES": {"endpointId": SomeID, "deliveryIds": []any{SomeID + "/7/0"}},
}

// SampleIntent makes a sample intent of an activity type.
func SampleIntent(typ string) map[string]any {
	if own := ownIntents[typ]; own != nil {
		return maps.Clone(own)
	}
	return Sample(API.Activities[typ].IntentType)
}

// Sample makes a value of a described type with every member set, except that members which
// are not live are empty.
func Sample(typ string) map[string]any {
	m := map[string]any{}
	for name, notation := range API.Types[typ] {
		f := apitest.Parse(notation)
		rule := API.Rules[typ][name]
		switch {
		case name == "oauthProviders" && strings.HasPrefix(rule, "dive"):
			m[name] = []any{}
			continue
		case strings.HasSuffix(name, "emplateId"), name == "captchaEnabled":
			continue
		case (name == "verificationToken" || name == "clientSignature") && !strings.HasPrefix(typ, "OtpLogin"), typ == "OauthProviderParamsV2" && name == "oidcToken":
			continue
		case name == "manifestSetId", name == "shareSetId", typ == "CreateTvcOperatorIntent" && name == "walletName": // alternatives: only one may be set
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
			v = SomeID
		case f.Base == "string" && strings.Contains(rule, "email"):
			v = "someone@example.org"
		case f.Base == "string":
			v = "Some text"
		case strings.HasPrefix(f.Base, "@"):
			v = Sample(f.Base[1:])
		case strings.HasPrefix(f.Base, "="):
			v = f.Base[1:]
		case strings.HasPrefix(f.Base, "#"):
			v = API.Enums[f.Base[1:]][0]
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

// SomeKey is the public key of 2 on secp256k1.
const SomeKey = "02c6047f9441ed7d6d3045406e95c07cd85c778e4b8cef3ca7abac09b95c709ee5"

// SomeP256 is the generator of P-256.
const SomeP256 = "036b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c296"

// SomeBundle is well formed, but no key opens it.
const SomeBundle = `{"encappedPublic":"046b17d1f2e12c4247f8bce6e563a440f277037d812deb33a0f4a13945d898c2964fe342e2fe1a7f9b8ee7eb4a7c0f9e162bce33576b315ececbb6406837bf51f5","ciphertext":"000102030405060708090a0b0c0d0e0f10"}`

// someToken has the form of an identity token.
const someToken = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJodHRwczovL2lzc3Vlci5leGFtcGxlIiwic3ViIjoicyIsImF1ZCI6ImEifQ.c2lnbmF0dXJl"

// sparkSignature is by the private key of SomeKey, 2, of leaf "leaf", transfer SomeID and 129 zeros.
const sparkSignature = "b8ec3d60898d49136bcfdc61b2e46a3c8045fedc70246a6ae33f81c4d87747aa1efd4ac11ad2383b1f7ffe575cde4ca34b40da6e7481c9dd5f96853cdc962430"

// sparkOperators are two operators.
var sparkOperators = []any{map[string]any{"operatorId": "one", "encryptionPublicKey": SomeKey},
	map[string]any{"operatorId": "two", "encryptionPublicKey": NotP256}}

func signingLeaf(id string) map[string]any {
	return map[string]any{"signingLeaf": map[string]any{"leafId": id}}
}

// SomeID is an id of no object.
const SomeID = "6ba7b810-9dad-41d1-80b4-00c04fd430c8"

// SomePair are the public keys of an operator of customers' programs: those of a seed of 32 ones.
const SomePair = "04b6073617064dbdeafab9eb1bf18df518333cdba81cd054d2becdc38db524591d41541e3212d4ef0b79a72376a33b492cd70c1036b145510c74fcf2a6a1e7c90604b89622860bcc34be5526dff1d1f6a6df9bfaaae33f62a5a26c3d2ea271d0b0dbae57d73fdda1cfc5c136c1e433ee957a9ca654ee255105a6df6f9bbac0385e88"

var samples = map[string]any{
	"orgWindowLimitUsd": "12.5", "subOrgWindowLimitUsd": "1", "windowDurationMinutes": "60", "rentPrefundEnabled": false,
	"fingerprint": "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
	"apiKeyName":  "A key", "publicKey": SomeP256, "curveType": "API_KEY_CURVE_P256", "expirationSeconds": "3600",
	"userEmail": "someone@example.org", "userPhoneNumber": "+15551234567",
	"path": "m/44'/60'/0'/0/0", "addressFormat": "ADDRESS_FORMAT_ETHEREUM", "addressFormats": []any{"ADDRESS_FORMAT_ETHEREUM", "ADDRESS_FORMAT_COMPRESSED"},
	"curve": "CURVE_SECP256K1", "mnemonicLength": json.Number("12"), "rootQuorumThreshold": json.Number("1"),
	"walletId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "userId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8", "privateKeyId": "6ba7b810-9dad-41d1-80b4-00c04fd430c8",
	"walletIds": []any{"6ba7b810-9dad-41d1-80b4-00c04fd430c8"}, "apiKeyIds": []any{"6ba7b810-9dad-41d1-80b4-00c04fd430c8"},
	"id": "c29tZQ", "rawId": "c29tZQ", "credentialId": "c29tZQ", "clientDataJson": "c29tZQ", "attestationObject": "c29tZQ",
	"targetPublicKey": SomeP256, "encryptedBundle": SomeBundle, "secretPayload": SomeBundle, "secretId": SomeID, "secretIds": []any{SomeID}, "paymentEmail": "payer@example.org", "instanceSizeCpus": json.Number("0"), "instanceSizeRam": json.Number("0"), "numSecrets": json.Number("2"), "unsignedTransaction": "0x00ff", "payload": "0x00ff", "payloads": []any{"00", "0x01"}, "challenge": "Y2g", "name": "A name",
	"condition": "true", "consensus": "true", "time": "true", "policyCondition": "true", "policyConsensus": "true", "scope": "true",
	"Selector.subject": "activity.type", "SelectorV2.subject": "activity.type",
	"SetOrganizationFeatureIntent.name": "FEATURE_NAME_SMS_AUTH", "SetOrganizationFeatureIntent.value": "", "RemoveOrganizationFeatureIntent.name": "FEATURE_NAME_SMS_AUTH",
	"allowedOrigins": []any{"https://example.org"}, "threshold": json.Number("1"), "order": json.Number("7"),
	"AuthenticationMethodParams.type": "AUTHENTICATION_TYPE_SESSION", "AuthenticationMethodParams.id": SomeID,
	"cidr": "10.0.0.0/24", "onEvaluationError": "DENY", "rules": []any{map[string]any{"cidr": "10.0.0.0/24", "label": "Office"}},
	"sponsor": false, "from": SomeAddress, "to": SomeAddress, "data": "0x00ff", "EthSendTransactionIntent.value": "7", "EthCallParams.value": "7", "nonce": "7", "gasLimit": "21000",
	"maxFeePerGas": "7", "maxPriorityFeePerGas": "7", "deadline": "7", "gasStationNonce": "7", "signWiths": []any{SomeSolana}, "signedTransaction": SignedTransfer,
	"SolSendTransactionIntent.unsignedTransaction": solanaTransfer, "SolSendTransactionIntentV2.unsignedTransaction": solanaTransfer, "recentBlockhash": SomeSolana,
	"sessionProfileId": SomeID, "otpLength": json.Number("9"), "otpType": "OTP_TYPE_EMAIL", "contact": "someone@example.org", "logoUrl": "https://example.org/logo.png",
	"magicLinkTemplate": "https://example.org/#%s", "templateVariables": `{"some":"text"}`, "templateId": "", "template": "{{ .OtpCode }}",
	"InitOtpIntent.expirationSeconds": "600", "InitOtpIntentV2.expirationSeconds": "600", "InitOtpIntentV3.expirationSeconds": "600", "InitOtpAuthIntentV3.expirationSeconds": "600",
	"oidcToken": someToken, "authCode": "abc", "redirectUri": "https://example.org/back", "codeVerifier": strings.Repeat("v", 43), "clientId": "client", "oauth2CredentialId": SomeID,
	"bearerTokenTargetPublicKey": SomeP256, "fiatOnrampCredentialId": SomeID, "projectId": "project", "publishableApiKey": "pk_test", "encryptedSecretApiKey": "abc", "encryptedPrivateApiKey": "abc",
	"SetPaymentMethodIntent.number": "4242424242424242", "cvv": "123", "expiryMonth": "12", "expiryYear": "2030", "cardHolderEmail": "payer@example.org", "paymentMethodId": "pm_1",
	"InitFiatOnRampIntent.onrampProvider": "FIAT_ON_RAMP_PROVIDER_MOONPAY", "InitFiatOnRampIntent.walletAddress": "0x000000000000000000000000000000000000dEaD",
	"InitFiatOnRampIntent.network": "FIAT_ON_RAMP_BLOCKCHAIN_NETWORK_BASE", "cryptoCurrencyCode": "FIAT_ON_RAMP_CRYPTO_CURRENCY_USDC", "fiatCurrencyAmount": "25.50",
	"InitFiatOnRampIntent.paymentMethod": "FIAT_ON_RAMP_PAYMENT_METHOD_PAYPAL", "countryCode": "US", "countrySubdivisionCode": "NY", "urlForSignature": "https://buy.moonpay.com?apiKey=pk_test",
	"allowedAuthMethods": []any{"email", "social"}, "enabledSocialProviders": []any{"google"}, "socialLinkingClientIds": []any{"client-1"},
	"oauthClientIds": map[string]any{"google": "client-1"}, "oauthRedirectUrl": "https://example.org/back",
	"SmsCustomizationParams.template": "Code {{ .OtpCode }}",
	"otpExpirationSeconds":            json.Number("120"), "verificationTokenExpirationSeconds": json.Number("120"), "sessionExpirationSeconds": json.Number("120"),
	"url": "https://example.org/hook", "eventType": "ACTIVITY_UPDATES", "filtersJson": "{}",
	"derivation": map[string]any{"staticDeposit": map[string]any{"index": json.Number("0")}}, "SparkSignatureRequest.message": strings.Repeat("0a", 32), "verifyingKey": SomeKey,
	"SparkFrostCommitment.id": strings.Repeat("00", 31) + "01", "hiding": SomeKey, "binding": SomeKey, "adaptorPublicKey": SomeKey,
	"oldLeafDerivation": signingLeaf("old"), "newLeafDerivation": signingLeaf("new"), "transferId": SomeID, "receiverPublicKey": SomeKey,
	"refundSignature": "00ff", "directRefundSignature": "00ff", "directFromCpfpRefundSignature": "00ff", "operatorRecipients": sparkOperators,
	"SparkTransferPackage.threshold": json.Number("2"), "SparkClaimPackage.threshold": json.Number("2"), "SparkLightningReceivePackage.threshold": json.Number("2"),
	"leafId": "leaf", "ciphertext": strings.Repeat("00", 129), "senderSignature": sparkSignature, "senderIdentityPublicKey": SomeKey,
	"smartContractAddress": "0x000000000000000000000000000000000000dEaD", "smartContractInterface": `[{"type":"receive"}]`,
	"quorumPublicKey": SomePair, "TvcOperatorParams.publicKey": SomePair, "enableEgress": false, "TvcOperatorSetParams.threshold": json.Number("2"),
	"appId": SomeID, "pivotContainerImageUrl": "registry.example.com/app@sha256:" + strings.Repeat("0a", 32), "pivotPath": "/app", "expectedPivotDigest": strings.Repeat("0a", 32),
	"CreateTvcDeploymentIntent.nonce": json.Number("7"), "healthCheckPort": json.Number("8080"), "publicIngressPort": json.Number("8081"), "replicas": json.Number("2"),
	"TvcManifestApproval.signature": strings.Repeat("0a", 64), "QuorumKeyShareApprovalBundle.signature": strings.Repeat("0a", 64), "ephemeralPublicKeyHex": SomePair,
	"reEncryptedShareHex": strings.Repeat("0a", 130), "CreateTvcQuorumKeyIntent.threshold": json.Number("2"), "operatorEncryptKeys": []any{SomePair[:130], SomePair[130:]},
	"attestationDocB64": "AAAA", "manifestB64": "e30=", "operatorEncryptKey": SomePair[:130], "operatorSignKey": SomePair[130:], "appQuorumKey": SomePair,
}
