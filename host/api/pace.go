package api

import (
	"net/http"
	"strconv"

	"cloister/shared/pace"
)

// maxAddresses is how many addresses are counted at a time, and half as many of each kind of wider networks.
const maxAddresses = 1 << 16

// admit counts a request against its address and the networks that this is in, before anything of it is read,
// and answers if that has none left.
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

// tellRate sets the headers that tell a caller what it has left.
func tellRate(h http.Header, c pace.Count) {
	if c.Limit > 0 {
		h["Ratelimit-Limit"] = []string{strconv.FormatUint(uint64(c.Limit), 10)}
		h["Ratelimit-Remaining"] = []string{strconv.FormatUint(uint64(c.Remaining), 10)}
	}
}
