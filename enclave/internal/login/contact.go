package login

import (
	"strings"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/strictjson"
)

// A ContactType says how to reach somebody.
type ContactType string

// The types.
const (
	Email ContactType = "OTP_TYPE_EMAIL"
	SMS   ContactType = "OTP_TYPE_SMS"
	// WhatsApp reaches a telephone number by a message of WhatsApp.
	WhatsApp ContactType = "OTP_TYPE_WHATSAPP"
)

// Valid tells whether the type is known.
func (t ContactType) Valid() bool { return t == Email || t.IsPhone() }

// Address is the type of the address alone: SMS for both ways to a telephone number, which is one contact.
func (t ContactType) Address() ContactType {
	if t == WhatsApp {
		return SMS
	}
	return t
}

// IsPhone tells whether the address is a telephone number.
func (t ContactType) IsPhone() bool { return t.Address() == SMS }

// CheckContact tells whether a contact is plausible: an e-mail address of the everyday form, or
// a telephone number in E.164. Errors are *fault.Error about field.
func CheckContact(field string, t ContactType, contact string) error {
	switch {
	case t.IsPhone() && strictjson.IsE164(contact), t == Email && isEmail(contact):
		return nil
	case t.IsPhone():
		return fault.Field(field, "invalid phone number: must be like +15551234567")
	case t != Email:
		return fault.Field(field, "unknown type of contact")
	}
	e := fault.Field(field, "invalid email address")
	e.Name = "INVALID_EMAIL"
	// If the address is good with another domain, its own domain is wrong.
	at := strings.LastIndexByte(contact, '@')
	if at > 0 && at < len(contact)-1 && len(contact) <= maxContact && isEmail(contact[:at]+"@example.com") {
		e = fault.Field(field, "invalid email address: not a domain name")
		e.Name = "INVALID_FQDN"
	}
	return e
}

// ContactKey is equal for equal contacts: case does not matter in e-mail addresses.
func ContactKey(t ContactType, contact string) string {
	if t == Email {
		return strings.ToLower(contact)
	}
	return contact
}

// The sandbox's contacts and their code. Nothing is sent to them.
const (
	sandboxEmail    = "user@example.com"
	sandboxPhone    = "+19999999999"
	SandboxPasscode = Passcode("000000")
)

// Sandbox tells whether a contact is the sandbox's, for organizations that have one.
func Sandbox(t ContactType, contact string) bool {
	return t == Email && contact == sandboxEmail || t.IsPhone() && contact == sandboxPhone
}

func isEmail(s string) bool { return len(s) <= maxContact && strictjson.IsEmail(s) }
