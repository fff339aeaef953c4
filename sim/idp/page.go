package idp

import (
	"bytes"
	"embed"
	"html/template"
	"net/http"
	"net/url"
)

//go:embed page/sign-in.html page/style.css
var page embed.FS

var signInTemplate = template.Must(template.ParseFS(page, "page/sign-in.html"))

// A signInPage is what the sign-in page says.
type signInPage struct {
	Provider, Client, Action, Style string
	Email, Name, Trouble, Refused   string
	Verified                        bool
	People                          []struct{ Email, Name string }
}

// people are offered to whoever does not want to type.
var people = []struct{ Email, Name string }{{"ada@example.com", "Ada Lovelace"}, {"grace@example.com", "Grace Hopper"}, {"alan@example.com", "Alan Turing"}}

// show shows the sign-in page for a request, which stays in the form's URL.
func (p *Provider) show(w http.ResponseWriter, r *request, q url.Values, s signInPage) {
	at := p.path
	s.Provider = "the simulator's identity provider"
	if r.flavour != nil {
		at += "/" + r.flavour.path
		s.Provider = "the simulator's " + r.flavour.title
	}
	s.Client, s.Action, s.People = r.clientID, at+"/authorize?"+q.Encode(), people
	// Browsers hold the policy against where a form's answer redirects to as well.
	to, err := url.Parse(r.redirect)
	if err != nil {
		p.fail(w, "redirect_uri cannot be read")
		return
	}
	target := to.Scheme + ":"
	if to.Host != "" && to.Host[0] != '[' { // policies know no IPv6
		target += "//" + to.Host
	}
	p.write(w, http.StatusOK, "form-action 'self' "+target, s)
}

// fail tells the person at the browser what is wrong with a request that cannot be sent back.
func (p *Provider) fail(w http.ResponseWriter, reason string) {
	p.write(w, http.StatusBadRequest, "form-action 'none'", signInPage{Provider: "the simulator's identity provider", Refused: reason})
}

func (p *Provider) write(w http.ResponseWriter, status int, forms string, s signInPage) {
	s.Style = p.path + "/style.css"
	var b bytes.Buffer
	if err := signInTemplate.Execute(&b, s); err != nil {
		http.Error(w, "the page cannot be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; img-src data:; base-uri 'none'; frame-ancestors 'none'; "+forms)
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes())
}

func style(w http.ResponseWriter, _ *http.Request) {
	b, err := page.ReadFile("page/style.css")
	if err != nil {
		panic(err) // it is embedded
	}
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(b)
}
