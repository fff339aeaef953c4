package query

import (
	"time"

	"cloister/enclave/internal/org"
)

var usages = []*Query{stateQuery("get_usage", getUsage)}

// A Usage is what an organization may use of a resource in a period, and has left. What it has left may be negative: a debt.
type Usage struct {
	Resource  string // requests, processor (milliseconds), stored (thousands of bytes), mails, texts, fetches
	Limit     uint32
	Remaining int64
	Per       time.Duration
}

// A Meter counts what organizations use.
type Meter interface {
	// Usage is what the organization may use, of each resource that is limited: one of the top level with all that is below it.
	Usage(*org.Organization) []Usage
}

// getUsage tells what the organization may use and has left. A sub-organization is told of its own accounts alone, and not of its tenant's,
// which would tell it what others do.
func getUsage(v *View, _ *Head) ([]byte, error) {
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	dst := []byte(`{"usage":[`)
	for i, u := range v.Tariff.Usage(o) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = text(dst, `{"resource":`, u.Resource)
		dst = number(dst, `,"limit":`, uint64(u.Limit))
		dst = integer(dst, `,"remaining":`, u.Remaining)
		dst = append(text(dst, `,"period":`, u.Per.String()), '}')
	}
	return append(dst, `]}`...), nil
}
