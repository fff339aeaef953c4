package inbox

import (
	"embed"
	"net/http"

	"cloister/sim/loopback"
)

//go:embed page/index.html page/inbox.css page/inbox.js
var page embed.FS

// The page runs its own script and nothing else; mails are shown in a frame.
const pagePolicy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src data:; frame-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// A mail's HTML is a stranger's: no scripts, no origin, nothing fetched. Its links
// open in windows of their own, for the links that log somebody in.
const mailPolicy = "sandbox allow-popups allow-popups-to-escape-sandbox; default-src 'none'; style-src 'unsafe-inline'; img-src data:; base-uri 'self'; form-action 'none'; frame-ancestors 'self'"

// The mail may hold half a document; whatever it says, links leave the frame.
const mailHead = `<!doctype html><meta charset="utf-8"><base target="_blank">`

// Handler serves the page, the JSON interface and the SMS gateway.
func (b *Box) Handler(g Gateway) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("GET /{$}", file("index.html", "text/html; charset=utf-8"))
	m.HandleFunc("GET /inbox.css", file("inbox.css", "text/css; charset=utf-8"))
	m.HandleFunc("GET /inbox.js", file("inbox.js", "text/javascript; charset=utf-8"))
	m.HandleFunc("GET /messages", func(w http.ResponseWriter, r *http.Request) {
		loopback.Answer(w, http.StatusOK, map[string]any{"messages": b.Messages(r.URL.Query().Get("to"))})
	})
	m.HandleFunc("DELETE /messages", func(w http.ResponseWriter, _ *http.Request) {
		b.Clear()
		w.WriteHeader(http.StatusNoContent)
	})
	m.HandleFunc("GET /messages/{id}", b.found(func(w http.ResponseWriter, msg Message) {
		loopback.Answer(w, http.StatusOK, msg)
	}))
	m.HandleFunc("GET /messages/{id}/html", b.found(func(w http.ResponseWriter, msg Message) {
		w.Header().Set("Content-Security-Policy", mailPolicy)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(mailHead + msg.HTML))
	}))
	m.HandleFunc("POST /sms", g.sms(b))
	return loopback.SameOrigin(m)
}

func file(name, kind string) http.HandlerFunc {
	b, err := page.ReadFile("page/" + name)
	if err != nil {
		panic(err) // it is embedded
	}
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Security-Policy", pagePolicy)
		w.Header().Set("Cross-Origin-Opener-Policy", "same-origin")
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(b)
	}
}

func (b *Box) found(show func(http.ResponseWriter, Message)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		m, ok := b.Message(r.PathValue("id"))
		if !ok {
			refuse(w, http.StatusNotFound, "there is no such message")
			return
		}
		show(w, m)
	}
}
