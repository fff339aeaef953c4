package outbox

import (
	"context"

	"cloister/enclave/core/internal/ranges"
	"cloister/enclave/internal/activity/tvc"
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/program"
	manifest "cloister/shared/tvc"
	"cloister/shared/wire"
)

// What a host is to run is told from the newest records, whenever it asks: so it hears of what was deleted since, and a host
// that begins anew hears of what runs.

// openProgram tells the host about a deployment.
func (o *Outbox) openProgram(ctx context.Context, v *ranges.Access, id org.ID, s *org.Send) (*wire.Opened, error) {
	p, err := org.DecodeProgram(s.Content)
	if err != nil {
		return nil, err
	}
	told := &wire.Program{Deployment: p.Deployment.String(), Once: p.Once, SetupKey: p.SetupKey, Share: p.Share}
	if len(p.Share) == 0 {
		var run *manifest.Run
		var secret string
		err := v.Transact(ctx, id, func(t, _ *ledger.Locked) (err error) {
			run, secret, err = tvc.Run(t.Begin(o.nowMs()), p)
			return err
		})
		if err == nil {
			err = v.Wait(ctx)
		}
		if err != nil {
			return nil, err
		}
		if told.Run, err = run.Encode(); err != nil {
			return nil, err
		}
		if secret != "" {
			r, err := program.ParseReference("", run.Image, true)
			if err != nil {
				return nil, err
			}
			if told.Auth, err = o.cfg.Services.Programs.Auth(secret, r.Registry); err != nil {
				told.Auth = "" // it opened once: whoever runs it says that the registry refuses
			}
		}
	}
	return &wire.Opened{Found: true, Kind: wire.SendProgram, ExpiresMs: s.ExpiresMs, Program: told}, nil
}
