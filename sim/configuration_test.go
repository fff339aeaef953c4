package main

import (
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestConfiguration(t *testing.T) {
	roots := filepath.Join(t.TempDir(), "roots.pem")
	document := filepath.Join(t.TempDir(), "configuration.json")
	for name, text := range map[string]string{roots: "PEM\n", document: `{ "salt": "1" }`} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const mail = `"sender":{"address":"login@cloister.example"}`
	for args, want := range map[string]string{
		"":                             `{"issuer":"http://127.0.0.1:8080"}`,
		"-api-addr 127.0.0.1:0":        "",
		"-api-addr 0.0.0.0:80":         "",
		"-issuer https://auth.example": `{"issuer":"https://auth.example"}`,
		"-api-addr :80 -sandbox":       `{"sandbox":true}`,
		"-api-addr :80 -smtp smtp://127.0.0.1:25": `{"mail":{"host":"127.0.0.1","port":25,"security":"plain",` + mail + `}}`,
		"-api-addr :80 -smtp smtp://[::1]:25":     `{"mail":{"host":"::1","port":25,"security":"plain",` + mail + `}}`,
		"-api-addr :80 -smtp smtp://mail.example": `{"mail":{"host":"mail.example","port":587,"security":"starttls",` + mail + `}}`,
		"-api-addr :80 -smtp smtps://u:p%20w@localhost -mail-from a@b.example -mail-domains b.example,c.example": `{"mail":{"host":"localhost","port":465,"security":"tls","user":"u","password":"p w","sender":{"address":"a@b.example"},"domains":["b.example","c.example"]}}`,
		"-api-addr :80 -smtp smtp+starttls://127.0.0.1:2525":                                                     `{"mail":{"host":"127.0.0.1","port":2525,"security":"starttls",` + mail + `}}`,
		"-api-addr :80 -sms http://a:b@127.0.0.1:1/x?y=z":                                                        `{"text":{"url":"http://127.0.0.1:1/x?y=z","user":"a","password":"b","from":"Cloister"}}`,
		"-api-addr :80 -issuer-roots " + roots:                                                                   `{"roots":"PEM\n"}`,
		"-api-addr :80 -oauth2 X=http://127.0.0.1:1/t,http://127.0.0.1:1/u":                                      `{"oauth2":{"X":{"tokenUrl":"http://127.0.0.1:1/t","userUrl":"http://127.0.0.1:1/u"}}}`,
		"-api-addr :80 -on-ramps A=http://127.0.0.1:1":                                                           `{"onRamps":{"A":{"apiUrl":"http://127.0.0.1:1"}}}`,
		"-api-addr :80 -on-ramps A":                                                                              `{"onRamps":{"A":{}}}`,
		"-smtp smtp://127.0.0.1:25 -configuration " + document:                                                   `{"salt":"1"}`,
	} {
		o, err := parse("run", strings.Fields(args), none, io.Discard)
		if err != nil {
			t.Fatal(args, err)
		}
		got, err := o.configuration()
		if err != nil || want == "" && got != nil || want != "" && !same(t, got, want) {
			t.Errorf("%s: %s, %v", args, got, err)
		}
	}
	for _, args := range []string{
		"-smtp 127.0.0.1:25", "-smtp http://127.0.0.1", "-smtp smtp://", "-smtp smtp://127.0.0.1:70000", "-smtp smtp://a/b", "-smtp smtp://a?b", "-smtp smtp://u:hunter2@a:x",
		"-sms a", "-sms http://u:hunter2@%", "-issuer-roots /nowhere", "-oauth2 X", "-oauth2 X=http://a", "-configuration /nowhere",
	} {
		o, err := parse("run", strings.Fields(args), none, io.Discard)
		if err != nil {
			t.Fatal(args, err)
		}
		if got, err := o.configuration(); err == nil || strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%s: %s, %v", args, got, err)
		}
	}
}

func none(string) (string, bool) { return "", false }

func same(t *testing.T, got []byte, want string) bool {
	var a, b any
	if json.Unmarshal(got, &a) != nil || json.Unmarshal([]byte(want), &b) != nil {
		t.Fatalf("no JSON: %s", got)
	}
	return reflect.DeepEqual(a, b)
}
