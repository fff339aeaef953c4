package login

import "cloister/enclave/internal/fault"

// InvalidPasscode is the one answer to a passcode that is unknown, expired, locked or wrong.
// Clients look for the texts here.
func InvalidPasscode() *fault.Error {
	return fault.New(fault.InvalidArgument, "Invalid OTP code")
}

// TooManyPasscodes is the answer to a request for one passcode too many.
func TooManyPasscodes() *fault.Error {
	return fault.WithCode(fault.InvalidArgument, "MAX_OTP_INITIATED", "Max number of OTPs have been initiated")
}

// OAuthDisallowed is the answer where the organization has switched OAuth off.
func OAuthDisallowed() *fault.Error {
	return fault.New(fault.PermissionDenied, "OAUTH disallowed")
}

// InvalidVerificationToken is the one answer to a token that is malformed, forged,
// unknown, of another organization or used up.
func InvalidVerificationToken(field string) *fault.Error {
	return fault.Field(field, "invalid verification token")
}

// ExpiredVerificationToken is the answer to a genuine token that has expired, or that was issued
// before the time that the enclave can vouch for.
func ExpiredVerificationToken(field string) *fault.Error {
	return fault.Field(field, "verification token has expired")
}

// errOIDC makes the error about an identity token.
func errOIDC(field, why string) *fault.Error {
	e := fault.Field(field, "invalid OIDC token: %s", why)
	e.Name = "INVALID_OIDC_TOKEN"
	return e
}

// NoIssuerKey is the answer to an identity token for which its issuer has no key.
func NoIssuerKey(field string) *fault.Error { return errOIDC(field, "the issuer has no key for it") }

// NoIssuer is the answer to an identity token of an issuer that the enclave may not ask.
func NoIssuer(field string) *fault.Error {
	return errOIDC(field, "iss must be an https URL at a public name")
}

// IssuerAway is the answer where an issuer could not be asked for its keys. why is in our own
// words.
func IssuerAway(why string) *fault.Error {
	return fault.New(fault.Unavailable, "the OIDC token's issuer could not be asked for its keys: %s; try again", why)
}
