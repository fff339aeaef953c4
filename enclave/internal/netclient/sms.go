package netclient

import (
	"context"
	"encoding/base64"
	"net/url"
	"slices"
	"strings"
	"unicode/utf8"

	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// A Gateway takes text messages by HTTP: a form with To, From and Body is posted to its
// URL under a user and password, and the answer is 2xx with the message's id as the
// member "sid" of a JSON object.
type Gateway struct {
	URL      string // https
	User     string
	Password secret.Secret
	From     string // a number, or a name that the gateway knows
	Prefix   string // of To and From in the form, such as "whatsapp:"
}

// A Text is one text message.
type Text struct {
	ID   string // the same in every try; it goes along as Idempotency-Key
	To   string // E.164: + and 8 to 15 digits
	Body string // UTF-8, at most MaxText characters; line ends are the only control characters
}

// Text hands one message to a gateway.
func (c *Client) Text(ctx context.Context, g Gateway, m Text) Outcome {
	if err := m.checkAllowed(&g); err != nil {
		return failureOutcome(err)
	}
	form := []byte(url.Values{"To": {g.Prefix + m.To}, "From": {g.Prefix + g.From}, "Body": {m.Body}}.Encode())
	defer clear(form) // it may hold a passcode
	basic := basicAuth(g.User, g.Password)
	defer clear(basic)
	fields := append(requestFields(), Field{"Authorization", basic}, Field{"Content-Type", []byte("application/x-www-form-urlencoded")})
	if m.ID != "" {
		fields = append(fields, Field{"Idempotency-Key", []byte(m.ID)})
	}
	answer, err := c.Exchange(ctx, Request{Method: "POST", URL: g.URL, Fields: fields, Body: form})
	if err != nil {
		return failureOutcome(err)
	}
	o := Outcome{Result: Permanent, Code: answer.Status}
	switch s := answer.Status; {
	case s >= 200 && s < 300:
		// A page that is no gateway answers 200 as well. Trying again would not mend
		// that, and might send a message twice where a gateway answers in another form.
		if o.ID, o.Err = sid(answer.Body); o.Err == nil {
			o.Result = Delivered
		}
		return o
	case s == 408, s == 425, s == 429, s >= 500:
		o.Result = Temporary
	}
	o.Err = &refusal{"the message", o.Result == Permanent}
	return o
}

// basicAuth is the credentials of RFC 7617, which the caller clears.
func basicAuth(user string, password secret.Secret) (basic []byte) {
	password.Use(func(b []byte) {
		pair := slices.Concat([]byte(user+":"), b)
		basic = base64.StdEncoding.AppendEncode([]byte("Basic "), pair)
		clear(pair)
	})
	return basic
}

func (m *Text) checkAllowed(g *Gateway) error {
	if err := g.checkAllowed(); err != nil {
		return err
	}
	switch {
	case len(m.To) < 9 || len(m.To) > 16 || m.To[0] != '+' || m.To[1] == '0' || !isNumber(m.To[1:]):
		return fail(Refused, "the message's number is malformed")
	case m.Body == "" || len(m.Body) > 4*MaxText || utf8.RuneCountInString(m.Body) > MaxText || !isProse(m.Body):
		return fail(Refused, "the message is empty, too long or has characters that are not allowed")
	case len(m.ID) > maxTextID || !visible(m.ID) || strings.Contains(m.ID, " "):
		return fail(Refused, "the message's id is malformed")
	}
	return nil
}

// answerLimits bound what an answer's JSON can blow up to.
var answerLimits = strictjson.Limits{Depth: 31, Items: 1000, Members: 1000, Values: 20_000}

// sid takes the id out of a gateway's answer.
func sid(body []byte) (string, error) {
	var answer struct {
		SID strictjson.Raw `json:"sid"`
	}
	if err := strictjson.Decode(body, &answer, strictjson.AllowUnknown(), strictjson.Within(answerLimits)); err != nil {
		return "", failBecause(Garbled, "the answer is no JSON object", err)
	}
	id, ok := answer.SID.Text()
	if !ok || id == "" || len(id) > maxSID || !visible(id) {
		return "", fail(Garbled, "the gateway's answer has no sid")
	}
	return id, nil
}

// isProse tells whether s is UTF-8 with no control characters but line ends.
func isProse(s string) bool {
	for _, c := range s {
		if c < ' ' && c != '\n' || c >= 0x7f && c < 0xa0 {
			return false
		}
	}
	return utf8.ValidString(s)
}
