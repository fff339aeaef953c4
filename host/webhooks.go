package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"cloister/host/store"
	"cloister/host/store/open"
	"cloister/shared/wire"
)

const webhooksUsage = `usage: cloister-host webhooks list [flags]
       cloister-host webhooks resend [flags] all | RECEIVER | ORGANIZATION/ENTRY/NUMBER

Works on the dead letters: webhooks that their receivers refused for good, or that
could not be delivered for three days. list prints one JSON object for each, with
its id; resend makes those that it names due again, as if they were new. A running
host sends them within seconds, signed anew, under the same event id; 30 days after
the event the enclave opens it no more.

The RECEIVER is the id of a webhook endpoint or, of those set by the feature, of
the organization.

`

// A deadLetter is one line of list.
type deadLetter struct {
	ID       string `json:"id"` // organization, entry, number
	Activity string `json:"activityId"`
	Receiver string `json:"receiver"`
	Tries    uint32 `json:"tries"`
	Said     string `json:"said"`
	EndedMs  string `json:"endedMs"`
}

// webhooks is the command.
func webhooks(ctx context.Context, w *world, args []string) error {
	c := storeConfig(w)
	name := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	set := newFlags(w, "webhooks", webhooksUsage)
	c.addStoreFlag(set)
	set.StringVar(&c.DataDir, "data-dir", c.DataDir, "the host's data `FOLDER`, as in serve")
	if err := parseFlags(set, args); err != nil {
		return err
	}
	var do func(context.Context, store.Outbox) error
	switch {
	case name == "list" && set.NArg() == 0:
		do = func(ctx context.Context, o store.Outbox) error { return listDead(ctx, o, w.stdout) }
	case name == "resend" && set.NArg() == 1:
		ask, err := parseResend(set.Arg(0))
		if err != nil {
			return fmt.Errorf("%w: %w", errUsage, err)
		}
		ask.NowMs = uint64(w.now().UnixMilli())
		do = func(ctx context.Context, o store.Outbox) error {
			n, err := o.Resend(ctx, ask)
			if err == nil {
				fmt.Fprintf(w.stdout, "%d to be sent again\n", n)
			}
			return err
		}
	default:
		return fmt.Errorf("%w: want list, or resend and what (see -help)", errUsage)
	}
	st, err := open.OpenExisting(ctx, cmp.Or(c.Store, c.file()))
	if err != nil {
		return err
	}
	return errors.Join(do(ctx, st), st.Close())
}

func listDead(ctx context.Context, o store.Outbox, out io.Writer) error {
	lines := bufio.NewWriter(out)
	var after *wire.SendID
	for {
		dead, err := o.DeadSends(ctx, store.DeadSends{After: after, Limit: store.MaxClaims})
		if err != nil {
			return err
		}
		for _, x := range dead {
			line, err := json.Marshal(deadLetter{ID: fmt.Sprintf("%s/%d/%d", uuid(x.ID.Organization), x.ID.Seq, x.ID.Number), Activity: uuid(x.Activity),
				Receiver: uuid(x.Receiver), Tries: x.Tries, Said: x.Text, EndedMs: strconv.FormatUint(x.DueMs, 10)})
			if err != nil {
				return err
			}
			lines.Write(append(line, '\n'))
			after = &x.ID
		}
		if len(dead) < store.MaxClaims {
			return lines.Flush()
		}
	}
}

// parseResend reads the argument of resend.
func parseResend(text string) (ask store.Resend, err error) {
	if text == "all" {
		return ask, nil
	}
	parts := strings.Split(text, "/")
	id, err := parseUUID(parts[0])
	if err != nil {
		return ask, err
	}
	switch len(parts) {
	case 1:
		ask.Receiver = id
		return ask, nil
	case 3:
		seq, bad := strconv.ParseUint(parts[1], 10, 32)
		number, worse := strconv.ParseUint(parts[2], 10, 16)
		if bad == nil && worse == nil {
			ask.Send = &wire.SendID{Organization: id, Seq: seq, Number: uint16(number)}
			return ask, nil
		}
	}
	return ask, fmt.Errorf("%q: want all, a receiver's id, or an id that list prints", text)
}

func uuid(id wire.ID) string {
	return fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}

func parseUUID(text string) (id wire.ID, err error) {
	b, err := hex.DecodeString(strings.ReplaceAll(text, "-", ""))
	if err != nil || len(b) != len(id) || uuid(wire.ID(b)) != strings.ToLower(text) {
		return id, fmt.Errorf("%q is no id", text)
	}
	return wire.ID(b), nil
}
