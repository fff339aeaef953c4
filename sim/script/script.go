// Package script plays the end-to-end scripts of sim/testdata: stamped requests over HTTP and
// what comes back. A script knows only an address and an organization of its own, so the same
// scripts run against a simulator and against real programs in virtual machines.
//
// A script is a text of steps. A line that begins with a blank belongs to the step above it, #
// begins a comment, empty lines separate.
//
//	key NAME                       makes a P-256 key: ${NAME.public}, compressed; ${NAME.point}, not compressed
//	submit TYPE [as NAME] [in ORGANIZATION]
//	    PARAMETERS                 an activity; path, time and envelope are made from the type
//	query OPERATION [as NAME] [in ORGANIZATION]
//	    BODY                       organizationId is filled in where it is absent; no body means {}
//	post PATH [as NAME]
//	    BODY                       the bytes as they are
//	again [as NAME]                the bytes of the last request once more, to the same path
//	-> STATUS [exactly]
//	    PATTERN                    what the request above must be answered with
//	seal NAME BUNDLE TEXT…         ${NAME} is TEXT encrypted to an import bundle
//	open BUNDLE KEY TEXT…          an export bundle to KEY must hold TEXT; "TEXT…" may be a ${NAME} to set
//	verify secp256k1 PUBLIC DIGEST R S
//	verify ed25519 PUBLIC MESSAGE R S     a signature must be that of PUBLIC; all in hex
//
// NAME is a key of the script; root is the root user's, and nobody leaves the stamp out.
// ${organization} and ${user} are the organization and its root user, ${now} is the time in
// milliseconds, ${now-1h} an hour before.
//
// A pattern is JSON. An object matches an object that has its members and maybe others (with "exactly" no
// others); an array matches one of the same length, element by element, and with "..." at its end a longer
// one. The string "..." matches anything, "~EXPRESSION" a string that the regular expression matches as a
// whole, and "${NAME}" sets the name, or matches its value where it is set.
package script

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
)

// A Script is one that was read.
type Script struct {
	Name  string
	steps []step
}

// A step is one line of a script with what belongs to it.
type step struct {
	line  int
	words []string
	body  string
}

// maxScript bounds a script, in bytes.
const maxScript = 1 << 20

// Parse reads a script. It refuses steps that there are not, bodies that are no
// JSON, and answers without a request.
func Parse(name, text string) (*Script, error) {
	if len(text) > maxScript {
		return nil, fmt.Errorf("%s: longer than %d bytes", name, maxScript)
	}
	s := &Script{Name: name}
	n := 0
	for line := range strings.Lines(text) {
		n++
		line = strings.TrimRight(line, "\r\n")
		switch {
		case strings.TrimSpace(line) == "" || strings.HasPrefix(line, "#"):
		case line[0] == ' ' || line[0] == '\t':
			if len(s.steps) == 0 {
				return nil, fmt.Errorf("%s:%d: belongs to no step", name, n)
			}
			s.steps[len(s.steps)-1].body += strings.TrimSpace(line) + "\n"
		default:
			s.steps = append(s.steps, step{line: n, words: strings.Fields(line)})
		}
	}
	asked := false
	for _, st := range s.steps {
		if err := st.check(asked); err != nil {
			return nil, fmt.Errorf("%s:%d: %w", name, st.line, err)
		}
		switch st.words[0] {
		case "submit", "query", "post", "again":
			asked = true
		}
	}
	if !asked {
		return nil, fmt.Errorf("%s: asks nothing", name)
	}
	return s, nil
}

var (
	nameForm = regexp.MustCompile(`^[a-z][a-zA-Z0-9-]*$`)
	typeForm = regexp.MustCompile(`^ACTIVITY_TYPE_[A-Z0-9_]+$`)
)

var errForm = errors.New("not a step: see package script")

// check looks at the form of a step alone.
func (st step) check(asked bool) error {
	w := st.words
	bare := st.body == ""
	switch w[0] {
	case "key":
		if len(w) != 2 || !nameForm.MatchString(w[1]) || !bare {
			return errForm
		}
	case "submit", "query", "post":
		if len(w) < 2 || w[0] == "submit" && !typeForm.MatchString(w[1]) || w[0] == "post" && !strings.HasPrefix(w[1], "/") {
			return errForm
		}
		if _, err := st.whose(2); err != nil {
			return err
		}
		if w[0] != "post" && !(bare && w[0] == "query") && !json.Valid([]byte(quoteNumbers(st.body))) {
			return errors.New("the body is no JSON")
		}
	case "again":
		if !asked || !bare {
			return errForm
		}
		_, err := st.whose(1)
		return err
	case "->":
		if !asked || len(w) < 2 || len(w) > 3 || len(w) == 3 && w[2] != "exactly" {
			return errForm
		}
		if n, err := strconv.Atoi(w[1]); err != nil || n < 100 || n > 599 {
			return errors.New("not a status")
		}
		if !bare && !json.Valid([]byte(quoteNumbers(st.body))) {
			return errors.New("the pattern is no JSON")
		}
	case "seal", "open":
		if len(w) < 4 || !bare || w[0] == "seal" && !nameForm.MatchString(w[1]) {
			return errForm
		}
	case "verify":
		if len(w) != 6 || !bare || w[1] != "secp256k1" && w[1] != "ed25519" {
			return errForm
		}
	default:
		return errForm
	}
	return nil
}

// quoteNumbers puts a number where a name stands outside of a string, so that the rest
// can be looked at as JSON.
func quoteNumbers(body string) string { return bareName.ReplaceAllString(body, `${1}0`) }

var bareName = regexp.MustCompile(`([:\[,]\s*)\$\{[^}]*\}`)

// whose reads "as NAME" and "in ORGANIZATION" behind the first words.
type whose struct{ as, in string }

func (st step) whose(from int) (whose, error) {
	o := whose{as: "root", in: "${organization}"}
	for rest := st.words[from:]; len(rest) > 0; rest = rest[2:] {
		if len(rest) == 1 {
			return o, errForm
		}
		switch rest[0] {
		case "as":
			o.as = rest[1]
		case "in":
			o.in = rest[1]
		default:
			return o, errForm
		}
	}
	return o, nil
}

// match holds a value against a pattern. set is told what a name stands for.
func match(pattern, got any, exactly bool, names *names) error {
	switch p := pattern.(type) {
	case map[string]any:
		g, ok := got.(map[string]any)
		if !ok {
			return fmt.Errorf("is %s, want an object", short(got))
		}
		for key, want := range p {
			v, ok := g[key]
			if !ok {
				return fmt.Errorf(".%s is absent", key)
			}
			if err := match(want, v, exactly, names); err != nil {
				return fmt.Errorf(".%s%w", key, joinPath(err))
			}
		}
		if exactly {
			for key := range g {
				if _, ok := p[key]; !ok {
					return fmt.Errorf(".%s is there and was not expected", key)
				}
			}
		}
		return nil
	case []any:
		g, ok := got.([]any)
		if !ok {
			return fmt.Errorf("is %s, want an array", short(got))
		}
		if len(p) > 0 && p[len(p)-1] == "..." {
			if p = p[:len(p)-1]; len(g) > len(p) {
				g = g[:len(p)]
			}
		}
		if len(g) != len(p) {
			return fmt.Errorf("has %d elements, want %d: %s", len(g), len(p), short(got))
		}
		for i := range p {
			if err := match(p[i], g[i], exactly, names); err != nil {
				return fmt.Errorf("[%d]%w", i, joinPath(err))
			}
		}
		return nil
	case string:
		return matchText(p, got, names)
	}
	a, _ := json.Marshal(pattern)
	b, _ := json.Marshal(got)
	if !bytes.Equal(a, b) {
		return fmt.Errorf("is %s, want %s", b, a)
	}
	return nil
}

var wholeName = regexp.MustCompile(`^\$\{([a-zA-Z][a-zA-Z0-9.-]*)\}$`)

func matchText(p string, got any, names *names) error {
	if p == "..." {
		return nil
	}
	text, ok := got.(string)
	if !ok {
		return fmt.Errorf("is %s, want a string", short(got))
	}
	if m := wholeName.FindStringSubmatch(p); m != nil && !names.has(m[1]) {
		names.set(m[1], text)
		return nil
	}
	if expression, ok := strings.CutPrefix(p, "~"); ok {
		x, err := regexp.Compile("^(?:" + expression + ")$")
		if err != nil {
			return err
		}
		if !x.MatchString(text) {
			return fmt.Errorf("is %q, want what matches %q", text, expression)
		}
		return nil
	}
	want, err := names.fill(p)
	if err != nil {
		return err
	}
	if want != text {
		return fmt.Errorf("is %q, want %q", text, want)
	}
	return nil
}

// joinPath keeps a path together: ".a.b is", not ".a .b is".
func joinPath(err error) error {
	if text := err.Error(); text[0] == '.' || text[0] == '[' {
		return err
	}
	return fmt.Errorf(" %w", err)
}

func short(v any) string {
	b, _ := json.Marshal(v)
	if len(b) > 300 {
		return string(b[:300]) + "…"
	}
	return string(b)
}
