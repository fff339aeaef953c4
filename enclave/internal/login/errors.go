package login

import "cloister/enclave/internal/fault"

// The texts that clients look for stand here with the codes they were seen under.

// InvalidPasscode is the one answer to a passcode that is unknown, expired,
// locked or wrong.
func InvalidPasscode() *fault.Error {
	return fault.New(fault.InvalidArgument, "Invalid OTP code")
}

// TooManyPasscodes is the answer to a request for one more.
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

// ExpiredVerificationToken is the answer to a genuine token whose time is over, or
// that was issued before what the enclave can vouch for.
func ExpiredVerificationToken(field string) *fault.Error {
	return fault.Field(field, "verification token has expired")
}

// refusal is why something was refused, for those who may know.
type refusal string

func (r refusal) Error() string { return string(r) }

// errOIDC makes the error about an identity token.
func errOIDC(field, why string) *fault.Error {
	e := fault.Field(field, "invalid OIDC token: %s", why)
	e.Name = "INVALID_OIDC_TOKEN"
	return e
}

// NoIssuerKey is the answer to an identity token for which its issuer has no key.
func NoIssuerKey(field string) *fault.Error { return errOIDC(field, "the issuer has no key for it") }

// NoIssuer is the answer to an identity token of an issuer that may not be asked.
func NoIssuer(field string) *fault.Error {
	return errOIDC(field, "iss must be an https URL at a public name")
}

// IssuerAway is the answer where an issuer could not be asked for its keys: why says
// what happened, in words of ours.
func IssuerAway(why string) *fault.Error {
	return fault.New(fault.Unavailable, "the OIDC token's issuer could not be asked for its keys: %s; try again", why)
}
