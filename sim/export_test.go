package main

import (
	"bytes"
	"context"
	"io"
	"os/exec"
	"strings"

	"cloister/attestation"
	"cloister/sim/witness"
)

// Outside is the world outside of the enclave, as the tests see it.
type Outside struct{ Inbox, SMTP, SMS, Issuer, XToken, DiscordToken string }

// StartOutside starts it as the flags say.
func StartOutside(args ...string) (Outside, func(), error) {
	o, err := parse("run", args, func(string) (string, bool) { return "", false }, io.Discard)
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

// HostCommand is how the host is started beside an enclave.
func HostCommand(env map[string]string, enclave string, args ...string) (*exec.Cmd, error) {
	o, err := parse("run", args, func(name string) (string, bool) { v, ok := env[name]; return v, ok }, io.Discard)
	if err != nil {
		return nil, err
	}
	return o.hostCommand(enclave), nil
}

// Dispatch is the whole program.
func Dispatch(ctx context.Context, stdout, stderr io.Writer, environ []string, args ...string) int {
	return dispatch(ctx, args, environ, stdout, stderr)
}

// Flags are the names of all flags.
func Flags() (all []string) {
	var help bytes.Buffer
	_, _ = parse("run", []string{"-help"}, func(string) (string, bool) { return "", false }, &help)
	for line := range strings.Lines(help.String()) {
		if name, ok := strings.CutPrefix(line, "  -"); ok {
			all = append(all, strings.Fields(name)[0])
		}
	}
	return all
}

// LockDir locks a data directory.
var LockDir = lockDir

// LastLine remembers the last line of what is written to it.
type LastLine = lastLine

// NewLastLine passes on what it remembers.
func NewLastLine(to io.Writer) *LastLine { return &LastLine{to: to} }

// Mute ends the passing on.
func (l *LastLine) Mute() { l.mute() }

// Reason is what that says that went wrong.
func (l *LastLine) Reason() string { return l.reason() }

// CheckStore judges the store that flags name.
func CheckStore(ctx context.Context, args ...string) error {
	o, err := parse("run", args, func(string) (string, bool) { return "", false }, io.Discard)
	if err != nil {
		return err
	}
	return o.checkStore(ctx)
}

// StartWitnesses starts the witnesses as the flags say.
func StartWitnesses(args ...string) (witness.Locals, *attestation.LogTerms, error) {
	o, err := parse("run", args, func(string) (string, bool) { return "", false }, io.Discard)
	if err != nil {
		return nil, nil, err
	}
	return o.startWitnesses()
}

// Drill is the command drill.
func Drill(ctx context.Context, args ...string) error {
	return runDrill(ctx, args, io.Discard, io.Discard)
}
