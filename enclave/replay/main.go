// Command cloister-replay holds an organization's exported history against the log and decides all of it
// again. It asks nobody, and needs no key of the deployment.
//
//	cloister-replay decide -live-key HEX [-live-key HEX …] [-witnesses FILE] [-limits TEXT] FILE …
//	cloister-replay kinds
//	cloister-replay fetch -credentials FILE [-api-url URL] -activity ID > FILE
//
// Each file is one organization's history: fetch writes what get_history answers to who has submitted an
// export_history that the root quorum has allowed. What a sub-organization decided by what its parent's records said takes the parent's
// file as well. Where live keys and witnesses are from, enclave/README.md says.
//
// It ends with 0 if every entry is what would have been decided, with 1 if one is not or the history is not
// what the log has, with 2 if it cannot tell.
package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"cloister/attestation/tlog"
	"cloister/enclave/core"
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/onramp"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/replay"
	"cloister/shared/commandline"
)

// What the process ends with.
const (
	exitSame      = 0
	exitDifferent = 1
	exitUnknown   = 2
)

var program = commandline.Program{
	Name:  "cloister-replay",
	About: "cloister-replay compares an organization's exported history with the log, and decides all of it again, without any key.",
	Commands: []commandline.Command{
		{Name: "decide", About: "decide histories again; without a command it does the same"},
		{Name: "fetch", About: "write the history that an export_history has allowed"},
		{Name: "kinds", About: "say how far each kind of activity is decided again"},
	},
	Notes: "Exit status: 0 every decision is the one that would have been made; 1 one is not, or the log has another history; 2 it cannot tell.\n",
}

const decideUsage = `usage: cloister-replay decide -live-key HEX [-live-key HEX ...] [-witnesses FILE] [flags] FILE ...

Each FILE is the history of one organization. What a sub-organization decided by records of its parent takes the
parent's file as well.

`

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

func run(args []string, out, problems io.Writer) int {
	args, done := program.Answer(args, out)
	if done {
		return exitSame
	}
	if len(args) == 0 {
		program.Help(problems)
		return exitUnknown
	}
	switch args[0] {
	case "fetch":
		return fetch(args[1:], out, problems)
	case "kinds":
		return listKinds(args[1:], out, problems)
	case "decide":
		args = args[1:]
	default:
		if !strings.HasPrefix(args[0], "-") {
			return program.Misuse(program.Unknown(args[0]), problems)
		}
	}
	var trust replay.Trust
	cfg := core.ReplayConfig{Rand: rand.Reader}
	f := commandline.NewFlags("cloister-replay decide", decideUsage, out, nil)
	f.Func("live-key", "public `key` of a boot, 260 hexadecimal digits, as cloister-verify shows it of a boot proof; again for each boot that gave a page", func(text string) error {
		b, err := hex.DecodeString(text)
		if err == nil && len(b) != 130 {
			err = errors.New("want 260 hexadecimal digits")
		}
		trust.LiveKeys = append(trust.LiveKeys, b)
		return err
	})
	witnesses := f.String("witnesses", "", "`file` with the witnesses of the manifest, its log's policy (tlog-policy)")
	noMail := f.Bool("no-mail", false, "the deployment's configuration names no mail server")
	noText := f.Bool("no-text", false, "nor a gateway for text messages")
	onRamps := f.String("on-ramps", string(onramp.MoonPay+" "+onramp.Coinbase), "the on-ramp `providers` that it names")
	f.BoolVar(&cfg.Loopback, "webhook-loopback", false, "webhooks could go to the enclave's own machine, a simulator")
	sandbox := f.Bool("sandbox", false, "it has the sandbox's contacts")
	f.TextVar(&cfg.Quotas, "limits", org.Limits{}, "the deployment's `limits`, as its enclave has them")
	if err := commandline.Parse(f, args); err != nil {
		return program.Misuse(err, problems)
	}
	unknown := func(err error) int {
		fmt.Fprintln(problems, "cloister-replay:", err)
		return exitUnknown
	}
	cfg.Capabilities = activity.Capabilities{Mail: !*noMail, Text: !*noText, WhatsApp: !*noText, Sandbox: *sandbox}
	for _, p := range strings.Fields(*onRamps) {
		cfg.Capabilities.OnRamps = append(cfg.Capabilities.OnRamps, onramp.Provider(p))
	}
	if f.NArg() == 0 || len(trust.LiveKeys) == 0 {
		return program.Misuse(commandline.Wrong(f, errors.New("want -live-key and FILE")), problems)
	}
	if *witnesses != "" {
		text, err := os.ReadFile(*witnesses)
		if err == nil {
			trust.Policy, err = tlog.ParsePolicy(string(text))
		}
		if err != nil {
			return unknown(err)
		}
	}
	var histories []*replay.History
	for _, name := range f.Args() {
		file, err := os.Open(name)
		if err != nil {
			return unknown(err)
		}
		h, err := replay.Read(file, trust)
		_ = file.Close()
		if err != nil {
			fmt.Fprintf(out, "%s: NOT the history that the log has: %v\n", name, err)
			return exitDifferent
		}
		describe(out, name, h)
		histories = append(histories, h)
	}
	report, err := replay.Run(context.Background(), cfg, histories...)
	if report != nil {
		table(out, report)
	}
	if finding, ok := errors.AsType[*core.ReplayFinding](err); ok {
		fmt.Fprintf(out, "NOT what would have been decided: %v\n", finding)
		return exitDifferent
	}
	if err != nil {
		return unknown(err)
	}
	fmt.Fprintf(out, "every decision of %d entries is the one that would have been made\n", report.Entries)
	return exitSame
}

// listKinds says how far each kind of activity is replayed.
func listKinds(args []string, out, problems io.Writer) int {
	f := commandline.NewFlags("cloister-replay kinds", "usage: cloister-replay kinds\n\nSays how far each kind of activity is decided again.\n", out, nil)
	err := commandline.Parse(f, args)
	if err == nil && f.NArg() > 0 {
		err = commandline.Wrong(f, fmt.Errorf("unexpected argument %q", f.Arg(0)))
	}
	if err != nil {
		return program.Misuse(err, problems)
	}
	for _, k := range core.ReplayKinds() {
		fmt.Fprintf(out, "%-32s %-10v %s\n", k.Name, k.Grade, strings.TrimSpace(strings.Join([]string{label("result", k.Results...), label("records", letters(k.Records)...), label("with a token", letters(k.Token)...)}, " ")))
	}
	return exitSame
}

func letters(text string) (all []string) {
	for _, letter := range text {
		all = append(all, string(letter))
	}
	return all
}

func label(what string, members ...string) string {
	if len(members) == 0 {
		return ""
	}
	return what + " (" + strings.Join(members, ", ") + ")"
}

// describe says what has been read of a file.
func describe(out io.Writer, name string, h *replay.History) {
	fmt.Fprintf(out, "%s: organization %v, %d entries, root %x\n", name, h.Organization, len(h.Entries), h.Root)
	if h.Old > 0 {
		fmt.Fprintf(out, "  %d of them are of format 1: the live key vouches for what is in them\n", h.Old)
	}
	if n := h.Newest; n != nil {
		fmt.Fprintf(out, "  in %s at %d of %d, cosigned by %d witnesses\n", n.Origin, n.Index, n.Checkpoint.Size, len(n.Signed))
	} else {
		fmt.Fprintln(out, "  by the word of the live key alone: no witnesses were named")
	}
}

// table counts the entries of each type by how much of them was found out again.
func table(out io.Writer, r *core.ReplayReport) {
	var types []string
	for t := range r.Grades {
		types = append(types, t)
	}
	slices.Sort(types)
	for _, t := range types {
		line := t
		if t == "" {
			line = "(other halves of steps, and first entries)"
		}
		fmt.Fprintf(out, "  %-52s", line)
		for _, g := range core.ReplayGrades {
			if n := r.Grades[t][g]; n > 0 {
				fmt.Fprintf(out, " %d %v", n, g)
			}
		}
		fmt.Fprintln(out)
	}
}
