// Package loopback is what the simulator's web pages have in common: they listen
// on this machine only and are no way in for the pages that its browser visits.
package loopback

import (
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
)

// Listen listens on a TCP address of the loopback interface, given in numbers:
// a name could come to mean another machine. Port 0 is any.
func Listen(address string) (net.Listener, error) {
	a, err := netip.ParseAddrPort(address)
	if err != nil || !a.Addr().IsLoopback() {
		return nil, fmt.Errorf("%q is not a loopback address such as 127.0.0.1:8082", address)
	}
	return net.Listen("tcp", address)
}

// Guard answers only requests that call this machine by a name of its own: a page
// of another site whose name was made to point here (DNS rebinding) gives its own
// name. at is where h is served. What passes gets the headers that every answer has.
func Guard(at net.Addr, h http.Handler) http.Handler {
	mine := map[string]bool{}
	if a, ok := at.(*net.TCPAddr); ok {
		for _, name := range []string{"127.0.0.1", "localhost", "[::1]"} {
			mine[fmt.Sprintf("%s:%d", name, a.Port)] = true
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !mine[r.Host] {
			http.Error(w, "ask for this machine by 127.0.0.1", http.StatusMisdirectedRequest)
			return
		}
		for name, value := range map[string]string{
			"Cache-Control": "no-store", "X-Content-Type-Options": "nosniff", "Referrer-Policy": "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
		} {
			w.Header().Set(name, value)
		}
		h.ServeHTTP(w, r)
	})
}

// SameOrigin refuses what a browser sends on behalf of another site's page, reads
// excepted. Programs, which are no browsers, pass.
func SameOrigin(h http.Handler) http.Handler {
	p := http.NewCrossOriginProtection()
	p.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "pages of other sites may not do this", http.StatusForbidden)
	}))
	return p.Handler(h)
}

// Answer answers in JSON.
func Answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // who asked may be gone
}
