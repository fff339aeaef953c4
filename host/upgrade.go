package main

import (
	"context"
	"fmt"

	"cloister/host/link"
)

const upgradeUsage = `usage: cloister-host upgrade -from ADDRESS -to ADDRESS

Has one enclave follow another, under load if need be. The next one has its
manifest, which names the running one's as its predecessor and which the operators
have approved, and waits (cloister-host boot). It gets the keyring from the running
one, then every range with what that remembers of it; then the old one ends.

The hosts that serve must know both (-enclave ADDRESS,ADDRESS): calls for a range
wait while it moves. If this breaks off, start it again: what is done is not done
twice.

`

// upgrade is the command.
func upgrade(ctx context.Context, w *world, args []string) error {
	set := newFlags(w, "upgrade", upgradeUsage)
	from := set.String("from", "", "`ADDRESS` of the enclave that serves")
	to := set.String("to", "", "`ADDRESS` of the enclave that is to follow it")
	if err := parseFlags(set, args); err != nil {
		return err
	}
	if set.NArg() > 0 || *from == "" || *to == "" || *from == *to {
		return fmt.Errorf("%w: want -from and -to (see -help)", errUsage)
	}
	ask := func(address string) link.Ask {
		return func(ctx context.Context, op string, body []byte) ([]byte, error) {
			return link.AskOnce(ctx, address, op, body, w.now)
		}
	}
	return link.Upgrade(ctx, ask(*from), ask(*to), w.now, pause, func(format string, args ...any) { fmt.Fprintf(w.stdout, format+"\n", args...) })
}
