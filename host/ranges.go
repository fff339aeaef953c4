package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"cloister/host/link"
	"cloister/shared/wire"
)

const rangesUsage = `usage: cloister-host ranges -enclave ADDRESS[,ADDRESS…] [-retire ADDRESS]

Tells which enclave owns which ranges, as each signs it. With -retire the hosts
that run move all ranges of one enclave to the others, with what it remembers of
them; wait until it owns none before it is stopped.

`

// ranges is the command.
func ranges(ctx context.Context, w *world, args []string) error {
	set := newFlags(w, "ranges", rangesUsage)
	enclaves := set.String("enclave", w.env("CLOISTER_ENCLAVE"), "`ADDRESSES` of the enclaves, as of serve")
	retire := set.String("retire", "", "`ADDRESS` of the enclave that is to be rid of its ranges")
	timeout := set.Duration("timeout", 10*time.Second, "how long an enclave may take")
	if err := parseFlags(set, args); err != nil {
		return err
	}
	all := splitList(*enclaves)
	if set.NArg() > 0 || len(all) == 0 && *retire == "" {
		return fmt.Errorf("%w: want -enclave or -retire (see -help)", errUsage)
	}
	ask := func(address, op string) (*wire.Table, error) {
		ctx, cancel := context.WithTimeout(ctx, *timeout)
		defer cancel()
		b, err := link.AskOnce(ctx, address, op, nil, w.now)
		if err != nil {
			return nil, err
		}
		t, _, err := wire.ParseTable(b)
		return t, err
	}
	if *retire != "" {
		if _, err := ask(*retire, wire.OpRetire); err != nil {
			return fmt.Errorf("%s: %w", *retire, err)
		}
	}
	var bad error
	for _, address := range all {
		t, err := ask(address, wire.OpRanges)
		if err != nil {
			bad = fmt.Errorf("%s: %w", address, err)
			fmt.Fprintf(w.stdout, "%s: %v\n", address, err)
			continue
		}
		fmt.Fprintf(w.stdout, "%s: boot %s owns %d of %d%s:%s\n", address, t.Boot, len(t.Owned), t.Ranges, map[bool]string{true: ", retiring"}[t.Retiring], ownedText(t))
	}
	return bad
}

// ownedText lists ranges, with + after those that were handed on with the heads of their logs.
func ownedText(t *wire.Table) string {
	var b strings.Builder
	for _, r := range t.Owned {
		b.WriteString(" " + strconv.Itoa(int(r.Range)))
		if r.Handed {
			b.WriteString("+")
		}
	}
	return b.String()
}
