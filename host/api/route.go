package api

import (
	"net/http"
	"slices"
	"strings"
)

// routes are what answers, by path. A path that ends with a slash has one name behind it.
type routes map[string]route

type route struct {
	methods []string
	name    func(string) bool // tells whether it may be this one; nil: there is none
	answer  func(w http.ResponseWriter, r *http.Request, name string)
}

var (
	post = []string{http.MethodPost}
	get  = []string{http.MethodGet, http.MethodHead}
)

// ServeHTTP takes a path as it is and redirects never.
func (t routes) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, name := r.URL.Path, ""
	to, ok := t[path]
	if !ok {
		i := strings.LastIndexByte(path, '/') + 1
		name = path[i:]
		to, ok = t[path[:i]]
	}
	switch {
	case !ok || to.name != nil && !to.name(name):
		refuse(w, http.StatusNotFound, codeNotFound, "path not found")
	case !slices.Contains(to.methods, r.Method):
		refuse(w, http.StatusMethodNotAllowed, codeUnimplemented, "method not allowed")
	default:
		to.answer(w, r, name)
	}
}

// isOp tells whether name may be that of an operation.
func isOp(name string) bool {
	return name != "" && strings.Trim(name, "abcdefghijklmnopqrstuvwxyz0123456789_") == ""
}

// isLiveKey tells whether name may be a live key: 130 bytes.
func isLiveKey(name string) bool {
	return len(name) == 260 && strings.Trim(name, "0123456789abcdef") == ""
}
