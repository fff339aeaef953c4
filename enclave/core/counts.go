package core

import (
	"cloister/enclave/internal/ledger"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/query"
	"cloister/shared/wire"
)

var _ query.Statistics = sources{}

// Counts asks the host, which keeps type, status and time of each entry beside it. Nobody can check its answer without reading all entries.
func (x sources) Counts(timesMs []uint64) ([]query.Count, error) {
	got, err := x.core.host.CountActivities(x.ctx, wire.CountActivities{Organization: wire.ID(x.organization), TimesMs: timesMs})
	if err != nil {
		return nil, ledger.ErrBusy
	}
	all := make([]query.Count, 0, len(got.Rows))
	for _, r := range got.Rows {
		all = append(all, query.Count{Type: r.Type, Status: org.Status(r.Status), Counts: r.Counts})
	}
	return all, nil
}

// Responses are the tenant's alone: a sub-organization would learn how much the others do.
func (x sources) Responses() (all []query.ResponseHour) {
	if x.record.Tenant() != x.organization {
		return nil
	}
	for _, h := range x.core.responses.Of(x.organization, x.core.cfg.Clock.Now()) {
		all = append(all, query.ResponseHour(h))
	}
	return all
}
