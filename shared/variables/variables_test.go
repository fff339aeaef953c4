package variables_test

import (
	"slices"
	"strings"
	"testing"

	"cloister/shared/variables"
)

func TestCheckEnvironment(t *testing.T) {
	for one, nearest := range map[string]string{
		"CLOISTER_API_ADR=1": "CLOISTER_API_ADDR", "CLOISTER_APIADDR=1": "CLOISTER_API_ADDR", "CLOISTER_STOER=postgres://u:hunter2@h/d": "CLOISTER_STORE",
		"CLOISTER_STORE_=x": "CLOISTER_STORE", "CLOISTER_DATADIR=": "CLOISTER_DATA_DIR", "CLOISTER_LOGLEVEL=debug": "CLOISTER_LOG_LEVEL", "CLOISTER_=": "CLOISTER_",
		"CLOISTER_API_ADDRESS": "CLOISTER_API_ADDR", "CLOISTER_INBOX_ADR=1": "CLOISTER_INBOX_ADDR", "CLOISTER_PORTS=1": "CLOISTER_",
		"CLOISTER_" + strings.Repeat("X", 1000) + "=1": "CLOISTER_",
	} {
		err := variables.CheckEnvironment([]string{"HOME=/", "CLOISTER_STORE=x", one})
		name, value, _ := strings.Cut(one, "=")
		if err == nil || !strings.Contains(err.Error(), "the nearest one is "+nearest) || !strings.Contains(err.Error(), name[:min(len(name), 100)]+" is no variable of ours") ||
			len(value) > 1 && strings.Contains(err.Error(), value) || len(err.Error()) > 300 {
			t.Errorf("%.100s: %v, want %s", one, err, nearest)
		}
	}
	// What is ours is taken, and what others call theirs.
	var all []string
	for _, name := range variables.Names() {
		all = append(all, name+"=x")
	}
	all = append(all, "CLOISTER_PORT=tcp://10.0.0.1:80", "CLOISTER_SERVICE_HOST=10.0.0.1", "CLOISTER_HOST_SERVICE_PORT=80", "CLOISTER_HOST_SERVICE_PORT_HTTPS=80", "CLOISTER_HOST_PORT_8080_TCP_ADDR=10.0.0.1",
		"CLOISTER_PORT_53_UDP=udp://10.0.0.1:53", "cloister_api_adr=1", "MYCLOISTER_X=1", "CLOISTERS=1", "", "=", "CLOISTER")
	if err := variables.CheckEnvironment(all); err != nil {
		t.Error(err)
	}
	if names := variables.Names(); !slices.Equal(slices.Compact(slices.Sorted(slices.Values(names))), slices.Sorted(slices.Values(names))) {
		t.Error("a name is listed twice")
	}
}
