package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/shared/commandline"
)

const (
	exitVerified  = 0
	exitRefused   = 1
	exitUsage     = commandline.ExitUsage
	exitUnpinned  = 3
	exitRecovered = 4
)

var program = commandline.Program{
	Name:  "cloister-verify",
	About: "cloister-verify checks what Cloister proves, offline, and does an operator's part of starting an enclave.",
	Commands: []commandline.Command{
		{Name: "proofs", About: "check boot proofs and app proofs; without a command it does the same"},
		{Name: "keys", About: "check a deployment's public keys, from a file or from where it runs"},
		{Name: "log", About: "check a logged proof"},
		{Name: "monitor", About: "watch every entry of an organization's ledger"},
		{Name: "policies", About: "say what is likely wrong with an organization's policies"},
		{Name: "decode", About: "make what approvers of an activity are shown, from the body that was signed"},
		{Name: "operator-key", About: "operators: make a key"},
		{Name: "manifest", About: "operators: write a manifest, or the one after it"},
		{Name: "approve", About: "operators: read a manifest and sign it"},
		{Name: "shares", About: "operators: check a set of shares of the root secret"},
		{Name: "nonce", About: "operators: draw a nonce for a waiting enclave"},
		{Name: "share", About: "operators: check a waiting enclave and give it a share"},
		{Name: "program-key", About: "operators of customers' programs: make a key"},
		{Name: "program-approve", About: "operators of customers' programs: read a manifest and sign it"},
		{Name: "program-share", About: "operators of customers' programs: check an enclave and give it a share"},
	},
	Notes: "Exit status: 0 verified; 1 refused; 2 called wrongly; 3 true, but not pinned; 4 true in a log that was recovered.\n",
}

// errUnpinned is the error for proofs that hold only under -unpinned or -allow-debug.
var errUnpinned = errors.New("true of some enclave, and nothing shows which program it runs for whom")

// run is the whole command. It calls now only if an age is bounded, and for the monitor. Only readFile touches
// the disk, besides operator-key and monitor, which write a file.
func run(args []string, stdin io.Reader, stdout, stderr io.Writer, readFile func(string) ([]byte, error), now func() time.Time) int {
	in := &input{stdin: stdin, readFile: readFile}
	args, done := program.Answer(args, stdout)
	if done {
		return exitVerified
	}
	if len(args) == 0 {
		program.Help(stderr)
		return exitUsage // a script whose arguments are missing must not take this for verified
	}
	if name := args[0]; !strings.HasPrefix(name, "-") {
		switch {
		case name == "proofs":
			args = args[1:]
		case name == "keys":
			return runKeys(args[1:], in, stdout, stderr, now)
		case name == "log":
			return runLog(args[1:], in, stdout, stderr, now)
		case name == "monitor":
			return runMonitor(args[1:], in, stdout, stderr, now)
		case name == "policies":
			return runPolicies(args[1:], in, stdout, stderr)
		case name == "decode":
			return runDecode(args[1:], in, stdout, stderr)
		case operatorCommands[name].run != nil:
			return runOperator(name, args[1:], in, stdout, stderr, now)
		default:
			return program.Misuse(program.Unknown(name), stderr)
		}
	}
	o, err := parseFlags(args, stdout)
	if err != nil {
		return program.Misuse(err, stderr)
	}
	policy, err := o.policy(in, now)
	if err != nil {
		fmt.Fprintln(stderr, "cloister-verify:", err)
		return exitUsage
	}
	found, err := o.read(in)
	if err == nil {
		err = o.verify(found, policy, stdout)
	}
	return verdict(err, stderr)
}

// verdict prints why something was refused, if it was, and returns the exit status.
func verdict(err error, stderr io.Writer) int {
	switch {
	case errors.Is(err, errUnpinned):
		fmt.Fprintln(stderr, "NOT PINNED:", err)
		return exitUnpinned
	case errors.Is(err, errRecovered):
		fmt.Fprintln(stderr, "RECOVERED:", err)
		return exitRecovered
	case errors.Is(err, errUnreadable):
		fmt.Fprintln(stderr, "cloister-verify:", err)
		return exitUsage
	case errors.Is(err, attestation.ErrNotAWS):
		fmt.Fprintf(stderr, "REFUSED: %v: add -credentials credentials.json\n", err)
		return exitRefused
	case err != nil:
		fmt.Fprintln(stderr, "REFUSED:", err)
		return exitRefused
	}
	return exitVerified
}

// proofs is the content of the files: app proofs by reply, and boot proofs.
type proofs struct {
	replies []*attestation.Reply
	boots   []attestation.BootProof
	apps    int
}

func (o *options) read(in *input) (proofs, error) {
	var p proofs
	for _, name := range slices.Concat(o.apps, o.boots) {
		raw, err := in.read(name, attestation.MaxReply)
		if err != nil {
			return p, err
		}
		r, err := attestation.ParseReply(raw)
		if err != nil {
			return p, fmt.Errorf("%s: %w", name, err)
		}
		p.replies = append(p.replies, r)
		p.boots = append(p.boots, r.BootProofs...)
		p.apps += len(r.AppProofs)
	}
	if p.apps == 0 && (len(o.apps) > 0 || o.expectsProof()) {
		return p, errors.New("no app proof found where one was expected")
	}
	if len(p.boots) == 0 {
		return p, errors.New("no boot proof found")
	}
	if o.body != "" {
		raw, err := in.read(o.body, attestation.MaxPayload)
		if err != nil {
			return p, err
		}
		o.all.Fingerprint = attestation.Fingerprint(raw)
	}
	return p, nil
}

// verify verifies all proofs before it prints anything: no words of success before a refusal.
func (o *options) verify(p proofs, policy attestation.Policy, out io.Writer) error {
	boots := make([]*attestation.Boot, 0, len(p.boots))
	for _, b := range p.boots {
		boot, err := attestation.VerifyBootProof(b, policy)
		if err != nil {
			return err
		}
		boots = append(boots, boot)
	}
	var all []*attestation.Proof
	for _, r := range p.replies {
		if len(r.AppProofs) == 0 {
			continue
		}
		got, err := attestation.VerifyAppProofs(r.AppProofs, p.boots, policy, o.all)
		if err != nil {
			return err
		}
		for i, proof := range got {
			if err := r.Expects(proof).Check(proof); err != nil {
				return fmt.Errorf("proof %d does not fit the activity beside it: %w", i+1, err)
			}
		}
		all = append(all, got...)
	}
	if err := o.checkOne(all); err != nil {
		return err
	}
	pinned := true
	for _, b := range boots {
		printBoot(out, b, o.released)
		pinned = pinned && b.Pinned
	}
	for i, proof := range all {
		printProof(out, i+1, proof)
	}
	if !pinned {
		return errUnpinned
	}
	fmt.Fprintf(out, "VERIFIED: %d boot proof(s), %d app proof(s)\n", len(boots), len(all))
	return nil
}

// checkOne requires that at least one proof is the one that the caller asked for. Its error is
// the last refusal.
func (o *options) checkOne(all []*attestation.Proof) error {
	if !o.expectsProof() {
		return nil
	}
	var err error
	for _, p := range all {
		if err = o.one.Check(p); err == nil {
			return nil
		}
	}
	if err == nil {
		err = errors.New("there is none")
	}
	return fmt.Errorf("no app proof says what was expected: %w", err)
}
