package api

import (
	"net/http"
	"strconv"

	"cloister/shared/pace"
)

// maxAddresses bounds the addresses that have a token bucket, and half of it those of each kind of wider network.
const maxAddresses = 1 << 16

// admit charges a request to the rates of its address and of the networks that contain it, before reading the body.
// If one of them is used up, it replies with 429 and returns false.
func (a *API) admit(w http.ResponseWriter, r *http.Request) (pace.Count, bool) {
	if !a.options.AddressRate.On() {
		return pace.Count{}, true
	}
	c := a.addresses.Take(struct{}{}, pace.SourceOf(a.address(r)), a.options.Now())
	if c.Refused {
		a.options.Metrics.refused.Inc()
		tellRate(w.Header(), c)
		tellWait(w.Header(), c.Wait)
		write(w, http.StatusTooManyRequests, tooMany("too many requests from this address", c))
	}
	return c, !c.Refused
}

// tellRate sets the headers ratelimit-limit and ratelimit-remaining.
func tellRate(h http.Header, c pace.Count) {
	if c.Limit > 0 {
		h["Ratelimit-Limit"] = []string{strconv.FormatUint(uint64(c.Limit), 10)}
		h["Ratelimit-Remaining"] = []string{strconv.FormatUint(uint64(c.Remaining), 10)}
	}
}
