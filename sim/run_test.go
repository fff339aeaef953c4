package main_test

import (
	"slices"
	"strings"
	"testing"

	sim "cloister/sim"
)

// A command line is everybody's on the machine, so nothing secret is in the host's. What this one inherits stays in its environment.
func TestHostCommandHidesPasswords(t *testing.T) {
	const store = "postgres://cloister:hunter2@127.0.0.1:5432/cloister"
	secrets := map[string]string{"CLOISTER_STORE": store, "CLOISTER_SMTP": "smtps://u:hunter2@mail", "CLOISTER_SMS": "http://u:hunter2@sms/", "CLOISTER_IDP_CLIENTS": "web=hunter2"}
	for what, args := range map[string][]string{"from the environment": nil, "as flags": {"-store", store, "-smtp", "smtps://u:hunter2@mail", "-idp-clients", "web=hunter2"}} {
		env := secrets
		if args != nil {
			env = nil
		}
		h, err := sim.HostCommand(env, "tcp://127.0.0.1:1", args...)
		if err != nil {
			t.Fatal(err)
		}
		if line := strings.Join(h.Args, " "); strings.Contains(line, "hunter2") || !strings.Contains(line, "-enclave tcp://127.0.0.1:1") {
			t.Errorf("%s: %s", what, line)
		}
		if !slices.Contains(h.Env, "CLOISTER_STORE="+store) {
			t.Errorf("%s: the host is not told of its store", what)
		}
	}
}
