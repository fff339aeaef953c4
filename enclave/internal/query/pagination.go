package query

import (
	"strconv"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Bounds of a page.
const (
	defaultLimit = 10
	maxLimit     = 100
)

// Pagination says which part of a list is wanted. In list order, After is
// followed by the rows asked for and Before comes behind them.
type Pagination struct {
	Limit  *string `json:"limit"`
	Before *string `json:"before"`
	After  *string `json:"after"`
}

// limit is how many rows are wanted at most.
func (p *Pagination) limit() (int, error) {
	if p == nil || p.Limit == nil || *p.Limit == "" {
		return defaultLimit, nil
	}
	n, err := strconv.ParseUint(*p.Limit, 10, 16)
	if err != nil || n < 1 || n > maxLimit {
		return 0, fault.Field("paginationOptions.limit", "limit must be 1 to %d", maxLimit)
	}
	return int(n), nil
}

// cursors are the rows at which the page ends or begins, at most one of them.
func (p *Pagination) cursors() (before, after *org.ID, err error) {
	if p == nil {
		return nil, nil, nil
	}
	if before, err = cursor("before", p.Before); err != nil {
		return nil, nil, err
	}
	if after, err = cursor("after", p.After); err != nil {
		return nil, nil, err
	}
	if before != nil && after != nil {
		return nil, nil, fault.New(fault.InvalidArgument, "paginationOptions: before and after cannot be used together")
	}
	return before, after, nil
}

func cursor(name string, text *string) (*org.ID, error) {
	if text == nil || *text == "" {
		return nil, nil
	}
	i, err := org.ParseID(*text)
	if err != nil {
		return nil, unknownCursor("paginationOptions." + name)
	}
	return &i, nil
}

func unknownCursor(field string) error {
	return fault.Field(field, "unknown cursor in paginationOptions")
}
