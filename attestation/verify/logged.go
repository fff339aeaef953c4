package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/attestation"
	"cloister/shared/commandline"
)

// errRecovered is the error for a proof that holds in a log which may have lost entries that were shown.
var errRecovered = errors.New("name the generation with -known-generation once you know what became of that")

// logOptions is the command line of `cloister-verify log`.
type logOptions struct {
	options
	proof   string
	age     time.Duration
	known   map[string]uint32
	want    attestation.Expectation // what the entry must be
	request string                  // the file with the request's body
}

const logUsage = `usage: cloister-verify log -log-proof FILE -boot-proof FILE [flags]

Checks that an entry stands in the log, and that witnesses have cosigned it.

`

func parseLogFlags(args []string, stdout io.Writer) (*logOptions, error) {
	o := &logOptions{options: options{pcrs: make(map[int]string), kept: true}, known: make(map[string]uint32)}
	f := commandline.NewFlags("cloister-verify log", logUsage, stdout, nil)
	f.StringVar(&o.proof, "log-proof", "", "`file` with a get_log_proof reply; - for stdin")
	f.Func("boot-proof", "`file` with the boot proof of its live key, or a get_boot_proof reply (repeatable)", list(&o.boots))
	f.Func("app-proof", "`file` with app proofs or a submit reply: they must be among those that came of the entry (repeatable)", list(&o.apps))
	o.beliefs(f)
	f.StringVar(&o.want.OrganizationID, "organization", "", "`id` that the entry must be of")
	f.StringVar(&o.want.ActivityID, "activity", "", "`id` that the entry must be of")
	f.StringVar(&o.want.Fingerprint, "fingerprint", "", "sha256:`hex` of the request that the entry must be of")
	f.StringVar(&o.request, "body", "", "`file` with the exact request body, from which the fingerprint is taken")
	f.DurationVar(&o.age, "max-checkpoint-age", 0, "oldest checkpoint, by the witnesses' clocks")
	f.Func("known-generation", "`NAME/DEPLOYMENT/RANGE/GENERATION`, the newest log of a range that you know: an older one is refused (repeatable)", o.setOrigin)
	return o, parse(f, args, o.check)
}

// setOrigin sets a known generation from the origin of a log.
func (o *logOptions) setOrigin(origin string) error {
	at := strings.LastIndexByte(origin, '/')
	if at < 0 {
		return errors.New("no origin of a log")
	}
	generation, err := strconv.ParseUint(origin[at+1:], 10, 32)
	if err != nil || generation == 0 {
		return errors.New("no generation at its end")
	}
	o.known[origin[:at]] = uint32(generation)
	return nil
}

func (o *logOptions) check(rest []string) error {
	if o.proof == "" || len(o.boots) == 0 {
		return errors.New("nothing to verify: give -log-proof and -boot-proof")
	}
	if o.request != "" && o.want.Fingerprint != "" {
		return errors.New("-body and -fingerprint both name a request")
	}
	if o.proof == "-" && (o.request == "-" || slices.Contains(slices.Concat(o.apps, o.boots), "-")) {
		return errors.New("only one file can be stdin")
	}
	return o.options.check(rest)
}

func runLog(args []string, in *input, stdout, stderr io.Writer, now func() time.Time) int {
	o, err := parseLogFlags(args, stdout)
	if err != nil {
		return program.Misuse(err, stderr)
	}
	policy, err := o.policy(in, now)
	if err != nil {
		fmt.Fprintln(stderr, "cloister-verify:", err)
		return exitUsage
	}
	policy.KnownGenerations, policy.MaxCheckpointAge = o.known, o.age
	if o.age != 0 && policy.Now.IsZero() {
		policy.Now = now()
	}
	return verdict(o.verify(in, policy, stdout), stderr)
}

// verify verifies the proof, and prints nothing before all is verified.
func (o *logOptions) verify(in *input, policy attestation.Policy, out io.Writer) error {
	raw, err := in.read(o.proof, attestation.MaxReply)
	if err != nil {
		return err
	}
	reply, err := attestation.ParseReply(raw)
	if err != nil {
		return fmt.Errorf("%s: %w", o.proof, err)
	}
	if reply.LogProof == nil {
		return fmt.Errorf("%s: no log proof found", o.proof)
	}
	found, err := o.read(in)
	if err != nil {
		return err
	}
	found.replies = append(found.replies, reply)
	at := slices.IndexFunc(found.boots, func(b attestation.BootProof) bool { return b.EphemeralPublicKeyHex == reply.LogProof.LogKey.PublicKey })
	if at < 0 {
		return errors.New("no boot proof of the live key that names the log's key")
	}
	boot, err := attestation.VerifyBootProof(found.boots[at], policy)
	if err != nil {
		return err
	}
	entry, err := attestation.VerifyLogProof(reply.LogProof.LogProof, reply.LogProof.LogKey, boot)
	if err != nil {
		return err
	}
	if err := reply.CheckLogged(entry); err != nil {
		return err
	}
	if o.request != "" {
		body, err := in.read(o.request, attestation.MaxPayload)
		if err != nil {
			return err
		}
		o.want.Fingerprint = attestation.Fingerprint(body)
	}
	if err := o.want.CheckLogged(entry); err != nil {
		return fmt.Errorf("the entry is another than the expected one: %w", err)
	}
	apps := 0
	for _, r := range found.replies {
		if len(r.AppProofs) == 0 {
			continue
		}
		if _, err := attestation.VerifyAppProofs(r.AppProofs, found.boots, policy, attestation.Expectation{}); err != nil {
			return err
		}
		for i, a := range r.AppProofs {
			if !entry.States(a) {
				return fmt.Errorf("app proof %d did not come of the entry", i+1)
			}
		}
		apps += len(r.AppProofs)
	}
	printBoot(out, boot, o.released)
	printLogged(out, entry, apps)
	return o.conclude(out, entry)
}

func (o *logOptions) conclude(out io.Writer, e *attestation.LoggedEntry) error {
	if !e.Boot.Pinned {
		return errUnpinned
	}
	if err := e.CheckHistory(); err != nil {
		return fmt.Errorf("%w; %w", err, errRecovered)
	}
	fmt.Fprintf(out, "VERIFIED: %s, %s\n", e.Facts.Mode, e.History())
	return nil
}

func printLogged(w io.Writer, e *attestation.LoggedEntry, apps int) {
	f := e.Facts
	fmt.Fprintf(w, "Logged proof: the entry stands in a log that witnesses had cosigned by %s.\n", stamp(e.Time))
	line(w, "log", fmt.Sprintf("%q, leaf %d of %d", e.Origin, e.Index, e.Checkpoint.Size))
	line(w, "", e.History())
	line(w, "witnesses", fmt.Sprintf("%q", e.Signers()))
	line(w, "mode", e.Wait())
	line(w, "organization", fmt.Sprintf("%q, entry %d of %d by then", attestation.UUID(f.Organization), f.Seq, e.Opening.Count))
	line(w, "activity", fmt.Sprintf("%q, %q, %q", attestation.UUID(f.Activity), f.Type, f.Status))
	line(w, "request", fmt.Sprintf("sha256:%x", f.Fingerprint))
	line(w, "decided", fmt.Sprintf("%s, in boot %d", stamp(time.UnixMilli(int64(min(f.TimeMs, 1<<53-1))).UTC()), f.Boot))
	line(w, "app proofs", fmt.Sprintf("%d came of it, of which %d are among those given", len(f.Proofs), apps))
}
