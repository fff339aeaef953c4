package link

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"cloister/shared/wire"
)

// An Ask asks one enclave an operation of its boot endpoint, like Once. A refusal is an error with the
// enclave's text.
type Ask func(ctx context.Context, op string, body []byte) ([]byte, error)

// Times of an upgrade.
const (
	upgradeAsk   = 30 * time.Second       // one boot operation may last
	upgradePause = 200 * time.Millisecond // before another try, while somebody else moves the range
	upgradeTries = 100
)

// Upgrade lets one enclave follow another. The next one has its manifest and waits; it gets the
// keyring from the one that serves, then each of its ranges with the head of its log, and then the
// old one ends. Hosts that know both enclaves hold calls to a range while it moves. told hears of every
// step.
//
// If Upgrade fails before the keyring was taken over, nothing has changed. After that, call it
// again: it does nothing twice.
func Upgrade(ctx context.Context, from, to Ask, now func() time.Time, pause func(context.Context, time.Duration), told func(format string, args ...any)) error {
	var standing struct{ State string }
	if err := operate(ctx, to, wire.OpStatus, nil, &standing); err != nil {
		return err
	}
	switch standing.State {
	case wire.StateSeed.String():
		if err := handOver(ctx, from, to); err != nil {
			return err
		}
		told("keyring handed over")
	case wire.StateServing.String(): // called again
	default:
		return fmt.Errorf("the next enclave is in state %s: give it its manifest first", standing.State)
	}
	next, err := tableOf(ctx, to)
	if err != nil {
		return err
	}
	for try := 0; ; try++ {
		old, err := tableOf(ctx, from)
		if err != nil {
			return err
		}
		if !old.Retiring {
			return fmt.Errorf("the old enclave has not handed over to another")
		}
		began := now()
		if len(old.Owned) == 0 {
			// It refuses until all ranges that it has given are stored as given.
			if err = operate(ctx, from, wire.OpFarewell, nil, nil); err == nil {
				told("the old enclave has said farewell")
				return nil
			}
		} else {
			r := old.Owned[0].Range
			err = operate(ctx, from, wire.OpGive, map[string]any{"ranges": []int{int(r)}, "to": next.Boot}, nil)
			if err == nil {
				err = operate(ctx, to, wire.OpTake, map[string]any{"ranges": []int{int(r)}, "handed": true}, nil)
			}
			if err == nil {
				told("range %d moved in %d ms", r, now().Sub(began).Milliseconds())
				continue
			}
		}
		if try >= upgradeTries || ctx.Err() != nil {
			return err
		}
		pause(ctx, upgradePause) // a host may be moving the same one
	}
}

func handOver(ctx context.Context, from, to Ask) error {
	var nonce struct {
		Nonce string `json:"nonce"`
	}
	if err := operate(ctx, from, wire.OpHandOverNonce, nil, &nonce); err != nil {
		return err
	}
	var setup, over json.RawMessage
	if err := operate(ctx, to, wire.OpSetupDocument, nonce, &setup); err != nil {
		return err
	}
	if err := operate(ctx, from, wire.OpHandOver, map[string]any{"nonce": nonce.Nonce, "setup": setup}, &over); err != nil {
		return err
	}
	return operate(ctx, to, wire.OpTakeOver, over, nil)
}

func tableOf(ctx context.Context, ask Ask) (*wire.Table, error) {
	var raw json.RawMessage
	if err := operate(ctx, ask, wire.OpRanges, nil, &raw); err != nil {
		return nil, err
	}
	t, _, err := wire.ParseTable(raw)
	return t, err
}

// operate asks one operation, with question and answer in JSON.
func operate(ctx context.Context, ask Ask, op string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, upgradeAsk)
	defer cancel()
	answer, err := ask(ctx, op, body)
	if err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
