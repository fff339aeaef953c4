package link

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"cloister/shared/wire"
)

// An Ask calls one operation of an enclave's boot endpoint, like AskOnce. A refusal is an error with the
// enclave's text.
type Ask func(ctx context.Context, op string, body []byte) ([]byte, error)

// Limits of an upgrade.
const (
	upgradeAsk   = 30 * time.Second       // time limit of one boot operation
	upgradePause = 200 * time.Millisecond // before another try, while a host moves the range
	upgradeTries = 100
)

// Upgrade replaces the serving enclave from with the enclave to, which has its manifest and waits. to
// gets the keyring, then each range with its log head; then from ends. Hosts that have both addresses
// hold calls to a range while it moves. Upgrade reports every step to told.
//
// If Upgrade fails before to has the keyring, nothing has changed. After that, call it again: steps
// that are done are not repeated.
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
	case wire.StateServing.String(): // an earlier call got this far
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
			// from refuses until the store has all its ranges as given.
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
		pause(ctx, upgradePause) // a host may be moving the same range
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

// operate calls one operation, with request and reply in JSON.
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
