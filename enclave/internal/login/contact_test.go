package login_test

import (
	"strings"
	"testing"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/login"
)

func TestCheckContact(t *testing.T) {
	const email, fqdn, phone, kind = "INVALID_EMAIL", "INVALID_FQDN", "invalid phone number", "unknown type"
	for _, c := range []struct {
		t       login.ContactType
		contact string
		why     string
	}{
		{login.Email, "user@example.com", ""}, {login.Email, "First.Last+tag@sub.example.co.uk", ""}, {login.Email, "a~?b@example.com", ""},
		{login.Email, "", email}, {login.Email, "user", email}, {login.Email, "@example.com", email}, {login.Email, "user@", email}, {login.Email, "a b@example.com", email}, {login.Email, "a@b@example.com", email},
		{login.Email, "zoë@example.com", email}, {login.Email, "a@example.com\r\nBcc: b@example.com", email}, {login.Email, "a@example.com\r\nBcc:b", fqdn}, {login.Email, "a\r\n@example.com", email}, {login.Email, "<a@example.com>", email}, {login.Email, ".a@example.com", email},
		{login.Email, "a..b@example.com", email}, {login.Email, strings.Repeat("a", 65) + "@example.com", email}, {login.Email, "a@" + strings.Repeat("a.", 200) + "com", email}, {login.Email, strings.Repeat("a@", 1<<20), email},
		{login.Email, "a@b\xff.com", fqdn}, {login.Email, "a\xff@b.com", email}, {login.Email, "a\ufffd@b.com", email},
		{login.Email, "a@example", fqdn}, {login.Email, "a@-example.com", fqdn}, {login.Email, "a@exa_mple.com", fqdn}, {login.Email, "a@example..com", fqdn}, {login.Email, "a@exämple.com", fqdn}, {login.Email, "a@" + strings.Repeat("a", 64) + ".com", fqdn},
		{login.Email, "a@[127.0.0.1]", fqdn}, {login.Email, "a@.com", fqdn}, {login.Email, "a@example.com.", fqdn}, {login.Email, "a@ex ample.com", fqdn},
		{login.SMS, "+15005550006", ""}, {login.SMS, "+4915112345678", ""}, {login.SMS, "+123456789012345", ""},
		{login.SMS, "", phone}, {login.SMS, "15005550006", phone}, {login.SMS, "+05005550006", phone}, {login.SMS, "+1 500 555 0006", phone}, {login.SMS, "+1234567890123456", phone}, {login.SMS, "+123", phone}, {login.SMS, "+1500555000a", phone},
		{login.SMS, "+１５００５５５０００６", phone}, {login.SMS, "+15005550006\n", phone}, {login.SMS, "+" + strings.Repeat("1", 1<<20), phone}, {login.SMS, "user@example.com", phone},
		{"", "user@example.com", kind}, {"OTP_TYPE_FAX", "+15005550006", kind},
	} {
		err := login.CheckContact("contact", c.t, c.contact)
		switch e := fault.Of(err); {
		case c.why == "" && err != nil, c.why != "" && e == nil:
			t.Errorf("%s %.40q: %v", c.t, c.contact, err)
		case c.why == "":
		case e.Name != c.why && !strings.Contains(e.Message, c.why), len(e.Violations) != 1 || e.Violations[0].Field != "contact":
			t.Errorf("%s %.40q: %+v", c.t, c.contact, e)
		case c.t == login.Email && !strings.Contains(e.Message, "invalid email address"):
			t.Errorf("%s %.40q: %+v", c.t, c.contact, e)
		}
	}
}

func TestContactKey(t *testing.T) {
	if login.ContactKey(login.Email, "USER@Example.COM") != "user@example.com" || login.ContactKey(login.SMS, "+1500") != "+1500" {
		t.Error("addresses are compared without regard to case")
	}
	for contact, want := range map[string]bool{"user@example.com": true, "User@example.com": false, "+19999999999": false} {
		if login.Sandbox(login.Email, contact) != want {
			t.Error(contact)
		}
	}
	if !login.Sandbox(login.SMS, "+19999999999") || login.Sandbox(login.SMS, "user@example.com") || login.Sandbox("", "user@example.com") || !login.SandboxPasscode.Matches("000000") {
		t.Error("the sandbox's contacts")
	}
}
