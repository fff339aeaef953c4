package main

import "io"

// Outside is the world outside of the enclave, as the tests see it.
type Outside struct{ Inbox, SMTP, SMS, Issuer, XToken, DiscordToken string }

// StartOutside starts it as the flags say.
func StartOutside(args ...string) (Outside, func(), error) {
	o, err := parse(args, func(string) (string, bool) { return "", false }, io.Discard)
	if err != nil {
		return Outside{}, nil, err
	}
	out, err := o.startOutside()
	if err != nil {
		return Outside{}, nil, err
	}
	return Outside{out.inbox, out.smtp, out.sms, out.issuer, out.providerX.Token, out.providerDiscord.Token}, out.stop, nil
}

// The usual addresses.
const (
	InboxAddr     = defaultInboxAddr
	InboxSMTPAddr = defaultInboxSMTPAddr
)

// Gateway is who may send text messages.
var Gateway = gateway
