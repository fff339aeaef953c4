package program

import (
	"encoding/base64"
	"strings"
	"unicode/utf8"

	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/strictjson"
)

// maxAuth bounds a user's name with his password in bytes.
const maxAuth = 4 << 10

// errAuth tells nothing of what is wrong: the secret may be of something else.
func errAuth() *fault.Error {
	return Invalid(`the pull secret is none for the image's registry: {"auths": {"REGISTRY": {"username": …, "password": …}}} is, encrypted to the on-ramp key`)
}

// Auth is what a pull secret says to one registry, as USER:PASSWORD, for the host that has to show it there. Of other
// registries it gives nothing, so that nobody gets at a secret by naming a registry of his own.
func Auth(s secret.Secret, registry string) (auth string, err error) {
	var doc struct {
		Auths map[string]struct {
			Auth     string `json:"auth"`
			Username string `json:"username"`
			Password string `json:"password"`
		} `json:"auths"`
	}
	s.Use(func(raw []byte) { err = strictjson.Decode(raw, &doc, strictjson.AllowUnknown()) })
	if err != nil {
		return "", errAuth()
	}
	for name, a := range doc.Auths {
		if registryOf(name) != registry {
			continue
		}
		auth = a.Username + ":" + a.Password
		if a.Auth != "" {
			b, err := base64.StdEncoding.DecodeString(a.Auth)
			if err != nil {
				return "", errAuth()
			}
			auth = string(b)
		}
		if user, _, ok := strings.Cut(auth, ":"); !ok || user == "" || len(auth) > maxAuth || !utf8.ValidString(auth) {
			return "", errAuth()
		}
		return auth, nil
	}
	return "", errAuth()
}

// registryOf is the registry that an entry of a pull secret is for.
func registryOf(name string) string {
	name = strings.TrimPrefix(strings.TrimPrefix(strings.ToLower(name), "https://"), "http://")
	name, _, _ = strings.Cut(name, "/")
	if name == "docker.io" || name == "registry-1.docker.io" {
		return dockerHub
	}
	return name
}
