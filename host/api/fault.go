package api

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// gRPC status codes of the host's own errors.
const (
	codeInvalid       = 3
	codeTooLate       = 4
	codeNotFound      = 5
	codeUnimplemented = 12
	codeInternal      = 13
	codeUnavailable   = 14
)

// jsonType is shared by all responses and never changed. The official Rust
// client takes exactly this, without a charset.
var jsonType = []string{"application/json"}

// refuse replies with an error in the enclave's error shape.
func refuse(w http.ResponseWriter, status, code int, message string) {
	body, err := json.Marshal(struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
		Details []any  `json:"details"`
	}{code, message, []any{}})
	if err != nil {
		panic(err) // three plain fields always encode
	}
	write(w, status, body)
}

func write(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h["Content-Type"] = jsonType
	h["Content-Length"] = []string{strconv.Itoa(len(body))}
	w.WriteHeader(status)
	_, _ = w.Write(body) // an error means that the caller has disconnected
}
