package netclient

import (
	"bytes"
	"strings"

	"cloister/enclave/internal/secret"
)

// Check tells whether mail can be handed in with these settings by senders at address.
// loop is what Config.Loopback will be. Errors are *Error.
func (s MailServer) Check(loop bool, address string) error {
	if !isAddress(address) {
		return fail(Refused, "the sender's address is malformed")
	}
	return s.checkAllowed(loop)
}

func (s *MailServer) checkAllowed(loop bool) error {
	host := strings.ToLower(s.Host)
	switch {
	case !IsHost(host) || s.Port == 0 || s.Security > Plain:
		return fail(Refused, "the mail server's settings are malformed")
	case s.Security == Plain && !(loop && IsLoopback(host)):
		return fail(Refused, "mail goes out over TLS only")
	case len(s.User) > maxUser || strings.ContainsAny(s.User, "\x00\r\n") || !isPassword(s.Password):
		return fail(Refused, "the mail server's user or password is malformed")
	}
	return nil
}

// Check tells whether text messages can be handed in with these settings. loop is
// what Config.Loopback will be. Errors are *Error.
func (g Gateway) Check(loop bool) error {
	if err := CheckURL(g.URL, loop); err != nil {
		return err
	}
	return g.checkAllowed()
}

func (g *Gateway) checkAllowed() error {
	switch {
	case len(g.User) > maxUser || !visible(g.User) || strings.Contains(g.User, ":") || !isPassword(g.Password):
		return fail(Refused, "the gateway's user or password is malformed")
	case g.From == "" || len(g.From) > maxSender || !visible(g.From):
		return fail(Refused, "the gateway's sender is malformed")
	}
	return nil
}

func isPassword(s secret.Secret) (ok bool) {
	s.Use(func(b []byte) { ok = len(b) <= maxPassword && !bytes.ContainsAny(b, "\x00\r\n") })
	return ok
}

// CheckURL tells whether Exchange would go to a URL, and that it leads to no machine's own
// loopback unless that is allowed. loop is what Config.Loopback will be. Errors are
// *Error.
func CheckURL(text string, loop bool) error {
	to, err := parseURL(text)
	switch {
	case err != nil:
		return err
	case loop && IsLoopback(to.host):
		return nil
	case !to.secure:
		return fail(Refused, "the URL must begin with https://")
	case IsLoopback(to.host):
		return fail(Refused, "the URL leads to this machine")
	}
	return nil
}
