package inbox

import (
	"crypto/subtle"
	"net/http"

	"cloister/sim/loopback"
)

// Bounds of text messages.
const (
	maxNumber = 32   // bytes of To and From
	maxKey    = 128  // bytes of an idempotency key
	maxWords  = 6400 // bytes of Body
)

// A Gateway is who may send text messages; both are asked for by basic authentication.
type Gateway struct{ User, Password string }

// sms takes text messages in the form that gateways commonly have: a form with To,
// From and Body, answered with 201 and a sid. A sender that tries again with the
// same Idempotency-Key gets the first sid and sends nothing more.
func (g Gateway) sms(b *Box) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || !same(user, g.User) || !same(password, g.Password) {
			w.Header().Set("WWW-Authenticate", `Basic realm="inbox"`)
			refuse(w, http.StatusUnauthorized, "user or password is wrong")
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, MaxBody)
		if err := r.ParseForm(); err != nil {
			refuse(w, http.StatusBadRequest, "the body must be a form of at most 64 KiB")
			return
		}
		to, from, body := r.PostForm.Get("To"), r.PostForm.Get("From"), r.PostForm.Get("Body")
		key := r.Header.Get("Idempotency-Key")
		switch {
		case to == "" || from == "" || body == "":
			refuse(w, http.StatusBadRequest, "To, From and Body must be set")
		case len(to) > maxNumber || len(from) > maxNumber || len(body) > maxWords || len(key) > maxKey:
			refuse(w, http.StatusBadRequest, "To, From, Body or Idempotency-Key is too long")
		default:
			id := b.AddOnce(key, Message{Kind: KindText, From: shown(from, false), To: shown(to, false), Text: shown(body, true)})
			loopback.Answer(w, http.StatusCreated, map[string]string{"sid": "SM" + id, "status": "queued"})
		}
	}
}

func same(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }

func refuse(w http.ResponseWriter, status int, message string) {
	loopback.Answer(w, status, map[string]string{"message": message})
}
