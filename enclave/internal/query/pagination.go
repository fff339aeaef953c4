package query

import (
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

const (
	defaultLimit = 10
	maxLimit     = 100
)

// Pagination selects a part of a list: the rows that follow After, or
// those before Before, in the order of the list.
type Pagination struct {
	Limit  *string `json:"limit"`
	Before *string `json:"before"`
	After  *string `json:"after"`
}

// bounds are the cursors at which a page ends or begins, at most one of them, and
// the maximal number of its rows.
type bounds struct {
	before, after *org.ID
	limit         int
}

func (p *Pagination) bounds() (b bounds, err error) {
	b.limit = defaultLimit
	if p == nil {
		return b, nil
	}
	if limit := activity.TextOf(p.Limit); limit != "" {
		n, err := strconv.ParseUint(limit, 10, 16)
		if err != nil || n < 1 || n > maxLimit {
			return b, fault.Field("paginationOptions.limit", "limit must be 1 to %d", maxLimit)
		}
		b.limit = int(n)
	}
	if b.before, err = cursor("before", p.Before); err != nil {
		return b, err
	}
	if b.after, err = cursor("after", p.After); err != nil {
		return b, err
	}
	if b.before != nil && b.after != nil {
		return b, fault.New(fault.InvalidArgument, "paginationOptions: before and after cannot be used together")
	}
	return b, nil
}

func cursor(name string, text *string) (*org.ID, error) {
	if activity.TextOf(text) == "" {
		return nil, nil
	}
	i, err := org.ParseID(*text)
	if err != nil {
		return nil, unknownCursor(name)
	}
	return &i, nil
}

func unknownCursor(name string) error {
	return fault.Field("paginationOptions."+name, "unknown cursor in paginationOptions")
}
