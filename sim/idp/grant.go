package idp

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/binary"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Lives and bounds of what is granted.
const (
	codeLife  = time.Minute
	tokenLife = time.Hour
	maxGrants = 1024 // codes, and access tokens; the oldest goes first
)

// A person is whoever somebody said to be.
type person struct {
	email, name string
	verified    bool // of the email
}

// subject is the same for an address whenever it signs in.
func (p person) subject() string {
	sum := sha256.Sum256([]byte(strings.ToLower(p.email)))
	return hex.EncodeToString(sum[:12])
}

// number is the subject where users have numbers.
func (p person) number() string {
	sum := sha256.Sum256([]byte(strings.ToLower(p.email)))
	return strconv.FormatUint(binary.BigEndian.Uint64(sum[:])>>4|1<<59, 10)
}

// A grant is what somebody agreed to at the sign-in page.
type grant struct {
	request
	who  person
	ends time.Time
	used bool
	// access is the token that the code was exchanged for.
	access string
}

type grants struct {
	now func() time.Time

	mu             sync.Mutex
	codes, tokens  map[string]*grant
	inCodes, inTok []string // their names, oldest first
}

// code keeps a grant and answers the code that stands for it.
func (g *grants) code(gr grant) string {
	g.mu.Lock()
	defer g.mu.Unlock()
	code := rand.Text()
	gr.ends = g.now().Add(codeLife)
	g.inCodes = addGrant(g.codes, g.inCodes, code, &gr)
	return code
}

// addGrant adds a grant, and drops the oldest if there are too many.
func addGrant(m map[string]*grant, names []string, name string, gr *grant) []string {
	m[name] = gr
	if names = append(names, name); len(names) > maxGrants {
		delete(m, names[0])
		names = slices.Delete(names, 0, 1)
	}
	return names
}

// exchange turns a code into an access token, once, if all is as it was asked for. A code that comes twice
// ends the token that it was exchanged for: one of the two has stolen it (RFC 6749, section 4.1.2).
func (g *grants) exchange(f *flavour, code, client, redirect, verifier string) (*grant, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gr, ok := g.codes[code]
	if !ok {
		return nil, false
	}
	if gr.used {
		delete(g.tokens, gr.access)
		return nil, false
	}
	gr.used = true
	sum := sha256.Sum256([]byte(verifier))
	challenge := base64.RawURLEncoding.EncodeToString(sum[:])
	if gr.flavour != f || gr.clientID != client || gr.redirect != redirect || !g.now().Before(gr.ends) ||
		subtle.ConstantTimeCompare([]byte(challenge), []byte(gr.challenge)) != 1 {
		return nil, false
	}
	gr.access = rand.Text()
	token := *gr
	token.ends = g.now().Add(tokenLife)
	g.inTok = addGrant(g.tokens, g.inTok, gr.access, &token)
	return &token, true
}

func (g *grants) personOf(f *flavour, token string) (person, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	gr, ok := g.tokens[token]
	if !ok || gr.flavour != f || !g.now().Before(gr.ends) {
		return person{}, false
	}
	return gr.who, true
}
