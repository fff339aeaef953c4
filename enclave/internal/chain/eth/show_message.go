package eth

import (
	"bytes"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/show"
)

const messagePrefix = "\x19Ethereum Signed Message:\n"

// MessageOf is the message in what wallets hash to sign it (EIP-191, version 45); ok is false for anything else.
func MessageOf(preimage []byte) (message []byte, ok bool) {
	rest, ok := bytes.CutPrefix(preimage, []byte(messagePrefix))
	if !ok {
		return nil, false
	}
	for digits := 1; digits <= 7 && digits <= len(rest); digits++ {
		message := rest[digits:]
		if string(rest[:digits]) == strconv.Itoa(len(message)) {
			return message, true
		}
	}
	return nil, false
}

// IsDigest tells bytes that are a hash, or what typed data are hashed from (EIP-191, version 1): nobody can tell of what.
func IsDigest(b []byte) bool { return len(b) == 32 || len(b) == 66 && b[0] == 0x19 && b[1] == 1 }

// isReadable tells a text that people can read: with nothing but line breaks and tabs in the place of letters.
func isReadable(b []byte) bool {
	control := func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\r' && r != '\t' }
	return len(b) > 0 && utf8.Valid(b) && !bytes.ContainsFunc(b, control)
}

// ShowMessage shows a message as lines, or as bytes if it is no text or a hash, and the members of one that signs in (EIP-4361).
func ShowMessage(v *show.View, o *show.Object, message []byte, by chain.PublicKey) {
	s, ok := readSignIn(string(message))
	if ok {
		v.Title("Sign in to a site")
		o.Plain("meaning", "SIGN_IN")
	}
	v.Title("Sign a message")
	text := utf8.Valid(message)
	switch {
	case IsDigest(message):
		o.Unreadable(show.Digest, message)
	case !text:
		o.Unreadable(show.DoesNotDecode, message)
		o.Warn(show.BlindSignature)
		v.Blind()
	}
	if text {
		o.Lines("lines", string(message))
	}
	if !ok {
		return
	}
	in := o.Object("signIn")
	for _, m := range [...][2]string{
		{"scheme", s.scheme}, {"domain", s.domain}, {"address", s.address}, {"statement", s.statement}, {"uri", s.uri}, {"version", s.version},
		{"chainId", s.chainID}, {"nonce", s.nonce}, {"issuedAt", s.issued}, {"expirationTime", s.expires}, {"notBefore", s.from}, {"requestId", s.request},
	} {
		if m[1] != "" {
			in.Text(m[0], m[1])
		}
	}
	if len(s.resources) > 0 {
		list := in.List("resources")
		for _, r := range s.resources {
			list.Object().Text("uri", r)
		}
	}
	if account := by.KeccakAccount(); s.address != chain.ChecksumAddress(account[:]) {
		in.Warn(show.SignInOther, "address")
	}
}

type signIn struct {
	scheme, domain, address, statement, uri, version, chainID, nonce, issued, expires, from, request string
	resources                                                                                        []string
}

// readSignIn reads a message of EIP-4361. What is not exactly one is a message like any other.
func readSignIn(text string) (s signIn, ok bool) {
	lines := strings.Split(text, "\n")
	next := func() string {
		if len(lines) == 0 {
			return ""
		}
		line := lines[0]
		lines = lines[1:]
		return line
	}
	s.domain, ok = strings.CutSuffix(next(), " wants you to sign in with your Ethereum account:")
	if scheme, domain, has := strings.Cut(s.domain, "://"); has {
		s.scheme, s.domain = scheme, domain
	}
	s.address = next()
	if !ok || s.domain == "" || next() != "" {
		return s, false
	}
	if account, err := ParseAddress(s.address); err != nil || chain.ChecksumAddress(account[:]) != s.address {
		return s, false
	}
	if len(lines) > 0 && lines[0] != "" {
		if s.statement = next(); next() != "" {
			return s, false
		}
	} else if next(); len(lines) > 0 && lines[0] == "" {
		next()
	}
	for _, m := range []struct {
		name     string
		to       *string
		required bool
	}{
		{"URI: ", &s.uri, true}, {"Version: ", &s.version, true}, {"Chain ID: ", &s.chainID, true}, {"Nonce: ", &s.nonce, true},
		{"Issued At: ", &s.issued, true}, {"Expiration Time: ", &s.expires, false}, {"Not Before: ", &s.from, false}, {"Request ID: ", &s.request, false},
	} {
		if len(lines) == 0 && !m.required {
			break
		}
		value, has := "", false
		if len(lines) > 0 {
			value, has = strings.CutPrefix(lines[0], m.name)
		}
		switch {
		case has:
			*m.to = value
			next()
		case m.required:
			return s, false
		}
	}
	if len(lines) > 0 && lines[0] == "Resources:" {
		next()
		for len(lines) > 0 {
			r, has := strings.CutPrefix(next(), "- ")
			if !has {
				return s, false
			}
			s.resources = append(s.resources, r)
		}
	}
	_, err := strconv.ParseUint(s.chainID, 10, 64)
	_, timeErr := time.Parse(time.RFC3339, s.issued)
	return s, len(lines) == 0 && s.version == "1" && err == nil && timeErr == nil && len(s.nonce) >= 8
}
