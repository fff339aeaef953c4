package query

import (
	"time"

	"cloister/enclave/internal/org"
)

var usages = []*Query{stateQuery("get_usage", getUsage)}

// A Usage is an organization's limit of a resource in a period, and the rest of it. A negative rest is a debt.
type Usage struct {
	Resource  string // requests, processor (milliseconds), stored (thousands of bytes), mails, texts, fetches
	Limit     uint32
	Remaining int64
	Per       time.Duration
}

// A Meter counts what organizations use.
type Meter interface {
	// Usage returns the organization's usage of each limited resource: for a top-level one with all its sub-organizations.
	Usage(*org.Organization) []Usage
}

// getUsage answers the organization's limits and their rests. A sub-organization gets only its own accounts, not its tenant's,
// which would reveal the usage of others.
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
