package api_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"cloister/host/api"
	"cloister/host/cosign"
	"cloister/host/leaves/leavestest"
	"cloister/host/store"
	"cloister/host/tiles"
	"cloister/host/witness"
	"cloister/shared/wire"
)

// What a host knows of its logs is for operators.
func TestLogStatuses(t *testing.T) {
	when := time.UnixMilli(1_700_000_000_000).UTC()
	r := start(t, func(o *api.Options) {
		o.Logs = func() []cosign.Status {
			return []cosign.Status{{Range: 7, Origin: "log.example/00/7/2", Generation: 2, Quorum: 2, Size: 30, Cosigned: 20, CosignedAt: when, Witnesses: []cosign.WitnessStatus{
				{Status: witness.Status{Witness: "w0.example", Size: 30, Signed: when}},
				{Status: witness.Status{Witness: "w1.example", Err: errors.New(strings.Repeat("long ", 100))}, Owing: 1500 * time.Millisecond},
			}}}
		}
	})
	got := send(t, http.MethodGet, r.at+"/logz", nil)
	want := `{"logs":[{"range":7,"origin":"log.example/00/7/2","generation":2,"quorum":2,"size":30,"cosignedSize":20,"cosignedAt":"2023-11-14T22:13:20Z","witnesses":[` +
		`{"name":"w0.example","size":30,"signedAt":"2023-11-14T22:13:20Z","owingSeconds":0},{"name":"w1.example","size":0,"owingSeconds":1.5,"error":"` + strings.Repeat("long ", 40) + `"}]}]}`
	if got.status != 200 || got.body != want {
		t.Errorf("%+v", got)
	}
	isError(t, send(t, http.MethodGet, serve(t, r.api, r.api.Public(false))+"/logz", nil), http.StatusNotFound, 5)
	if got := send(t, http.MethodGet, start(t, nil).at+"/logz", nil); got.body != `{"logs":[]}` {
		t.Errorf("%+v", got)
	}
}

// TestReadinessOfLogs: a host is not ready when witnesses let no range be served, and names those that are missing.
func TestReadinessOfLogs(t *testing.T) {
	log := func(in int, rest string) string {
		return fmt.Sprintf(`{"range":%d,"origin":"log.example/00/%d/1","generation":1,"size":9,%s}`, in, in, rest)
	}
	const (
		none      = `"state":"unwitnessed","unwitnessed":0`
		well      = `"state":"serving","quorum":3,"unwitnessed":0,"boundMs":2000,"quorumAgeMs":20`
		lapse     = `"state":"serving","quorum":3,"unwitnessed":4,"unwitnessedMs":1900,"boundMs":2000,"quorumAgeMs":1950,"missing":["w0.example","w1.example"]`
		stalled   = `"state":"stalled","quorum":3,"unwitnessed":4,"unwitnessedMs":12340,"boundMs":2000,"quorumAgeMs":13000,"missing":["w0.example","w1.example"]`
		mute      = `"state":"stalled","quorum":3,"unwitnessed":4,"unwitnessedMs":12340,"boundMs":2000,"quorumAgeMs":13000`
		starting  = `"state":"starting","waitMs":10100,"quorum":3,"unwitnessed":1,"unwitnessedMs":700,"boundMs":2000,"missing":["w3.example"]`
		named     = `"state":"starting","quorum":3,"unwitnessed":1,"unwitnessedMs":700,"boundMs":2000`
		namedLate = `"state":"starting","quorum":3,"unwitnessed":1,"unwitnessedMs":2100,"boundMs":2000`
		waiting   = `"state":"waiting","waitMs":8240,"quorum":3,"unwitnessed":0,"boundMs":2000,"quorumAgeMs":1860`
	)
	for _, c := range []struct {
		name string
		logs []string // of one enclave each
		want int
		says string
	}{
		{"no log at all", []string{""}, 200, `"logs":"ok"`},
		{"no witnesses", []string{log(0, none)}, 200, `"logs":"ok"`},
		{"all well", []string{log(0, well)}, 200, `"logs":"ok"`},
		{"a lapse that the enclave tolerates", []string{log(0, lapse)}, 200, `"logs":"ok"`},
		{"fewer than a quorum", []string{log(0, stalled)}, 503, `"logs":"range 0 is refused: for 12.3s fewer than 3 witnesses have signed; missing: w0.example, w1.example"`},
		{"no host brings an answer", []string{log(0, mute)}, 503, `"logs":"range 0 is refused: for 12.3s fewer than 3 witnesses have signed; no host has brought an answer"`},
		{"a boot waits for its quorum", []string{log(0, starting)}, 503, `"logs":"range 0 starts: waits for 3 witnesses to sign its first leaf, and then 10.1s until no earlier enclave may serve; missing: w3.example"`},
		{"a boot that was named", []string{log(0, named)}, 200, `"logs":"ok"`},
		{"a boot that was named, for long", []string{log(0, namedLate)}, 503, `"logs":"range 0 starts: waits for 3 witnesses to sign its first leaf"`},
		{"a boot waits for the enclave before", []string{log(0, waiting)}, 503, `"logs":"range 0 starts: waits 8.2s until no earlier enclave may serve"`},
		{"one of two ranges", []string{log(0, well) + "," + log(1, stalled)}, 200, `"logs":"range 1 is refused: `},
		{"one of two enclaves", []string{log(1, stalled), log(0, well)}, 200, `"logs":"range 1 is refused: `},
		{"both of two enclaves", []string{log(1, stalled), log(0, waiting)}, 503, `"logs":"range 0 starts: waits 8.2s until no earlier enclave may serve; range 1 is refused: `},
		{"many ranges", []string{log(5, stalled) + "," + log(4, stalled) + "," + log(3, stalled) + "," + log(2, stalled) + "," + log(1, stalled) + "," + log(0, stalled)}, 503, `w1.example; and 2 more"`},
		{"a state of a later release", []string{log(0, `"state":"dreaming"`)}, 200, `"logs":"ok"`},
	} {
		r := start(t, func(o *api.Options) {
			for i, logs := range c.logs {
				o.Enclaves = append(o.Enclaves, api.Watched{Name: fmt.Sprint("vsock://16:", i), Enclave: standing{`{"state":"serving"}`, logs}})
			}
		})
		got := send(t, http.MethodGet, r.at+"/readyz", nil)
		if got.status != c.want || !strings.Contains(got.body, c.says) || !strings.Contains(got.body, fmt.Sprintf(`"ready":%t`, c.want == 200)) {
			t.Errorf("%s: %d %s", c.name, got.status, got.body)
		}
	}

	// What is no list of logs is no status. An enclave that does not serve is not asked, and one of an earlier release has no list.
	for body, want := range map[string]int{`{"logs":7}`: 503, `nonsense`: 503, "": 200} {
		r := start(t, nil)
		r.peer.mu.Lock()
		r.ranges = body
		r.peer.mu.Unlock()
		if got := send(t, http.MethodGet, r.at+"/readyz", nil); got.status != want {
			t.Errorf("%q: %+v", body, got)
		}
	}
	r := start(t, func(o *api.Options) {
		o.Enclaves = []api.Watched{{Enclave: standing{`{"state":"recovering"}`, log(0, well)}}}
	})
	if got := send(t, http.MethodGet, r.at+"/readyz", nil); got.status != 503 || !strings.Contains(got.body, `"logs":"unknown"`) {
		t.Errorf("%+v", got)
	}
}

// What enclaves report of their logs stands beside what the host has seen of them, and nobody else gets to see it.
func TestLogStatusesOfEnclaves(t *testing.T) {
	seen := []cosign.Status{{Range: 7, Origin: "log.example/00/7/2", Generation: 2, Quorum: 2, Size: 30, Cosigned: 30}, {Range: 9, Origin: "log.example/00/9/1", Generation: 1, Quorum: 2, Size: 5, Cosigned: 5}}
	r := start(t, func(o *api.Options) {
		o.Logs = func() []cosign.Status { return seen }
		o.Enclaves = []api.Watched{
			{Name: "a", Enclave: standing{`{"state":"serving"}`, `{"range":9,"origin":"log.example/00/9/2","generation":2,"size":6,"state":"starting","waitMs":5,"quorum":2,"unwitnessed":1,"unwitnessedMs":3,"boundMs":2000,"missing":["w0.example"]}`}},
			{Name: "b", Enclave: standing{`{"state":"serving"}`, `{"range":7,"origin":"log.example/00/7/2","generation":2,"size":31,"state":"serving","quorum":2,"unwitnessed":1,"unwitnessedMs":3,"boundMs":2000,"quorumAgeMs":12}`}},
			{Name: "c", Enclave: standing{}},
		}
	})
	var got struct{ Logs []api.LogStatus }
	if err := json.Unmarshal([]byte(send(t, http.MethodGet, r.at+"/logz", nil).body), &got); err != nil || len(got.Logs) != 3 {
		t.Fatalf("%+v %v", got, err)
	}
	if l := got.Logs[0]; l.Range != 7 || l.Size != 30 || l.Enclave == nil || l.Enclave.Size != 31 || l.Enclave.State != wire.LogServing || *l.Enclave.QuorumAgeMs != 12 {
		t.Errorf("%+v", l)
	}
	if l := got.Logs[1]; l.Origin != "log.example/00/9/1" || l.Enclave != nil { // nobody owns this generation any more
		t.Errorf("%+v", l)
	}
	if l := got.Logs[2]; l.Origin != "log.example/00/9/2" || l.Generation != 2 || l.Quorum != 0 || len(l.Witnesses) != 0 || l.Enclave == nil || l.Enclave.Missing[0] != "w0.example" {
		t.Errorf("%+v", l)
	}
	text := send(t, http.MethodGet, r.at+"/metrics", nil).body
	for _, line := range []string{`cloister_enclave_log_state{enclave="a",range="9",state="starting"} 1`, `cloister_enclave_log_state{enclave="b",range="7",state="serving"} 1`} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no metric %s", line)
		}
	}
	public := serve(t, r.api, r.api.Public(false))
	isError(t, send(t, http.MethodGet, public+"/logz", nil), http.StatusNotFound, 5)
	isError(t, send(t, http.MethodGet, public+"/readyz", nil), http.StatusNotFound, 5)
	isError(t, post(t, public+"/boot/v1/logs", "{}"), http.StatusNotFound, 5)
}

// publicLog puts a log into the store of an API that shows it to everybody.
func publicLog(t *testing.T) (*rig, *leavestest.History, string) {
	t.Helper()
	h := leavestest.New(0, 1)
	h.Grow(300)
	r := start(t, func(o *api.Options) { o.Tiles = nil })
	owned, err := r.store.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{1}})
	for _, row := range h.Rows {
		for err == nil && owned.Epoch < row.Epoch {
			owned, err = r.store.Own(t.Context(), wire.Own{Action: wire.OwnTake, Boot: wire.ID{1}, Expect: owned.Epoch})
		}
		if err == nil {
			_, err = r.store.Append(t.Context(), &wire.Batch{Boot: wire.ID{1}, Epoch: row.Epoch, Number: row.Number, Header: row.Header})
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return r, h, "log.example/00/0/1"
}

// What everybody can read of a log: as octets, to be kept for good, or for a moment.
func TestPublicLog(t *testing.T) {
	r, h, origin := publicLog(t)
	isError(t, send(t, http.MethodGet, r.at+"/log/", nil), http.StatusNotFound, 5)
	isError(t, send(t, http.MethodGet, r.at+"/log/0/checkpoint", nil), http.StatusNotFound, 5)

	public := start(t, func(o *api.Options) { o.Tiles = tiles.New(r.store, time.Now) })
	if got := send(t, http.MethodGet, public.at+"/log/", nil); got.status != 200 || got.body != `{"logs":[]}` {
		t.Errorf("%+v", got)
	}
	isError(t, send(t, http.MethodGet, public.at+"/log/0/checkpoint", nil), http.StatusNotFound, 5)
	note := fmt.Appendf(nil, "%s\n300\n%s\n\n— %s AAAA\n", origin, base64.StdEncoding.EncodeToString(h.Roots[300][:]), origin)
	if err := r.store.PutCheckpoint(t.Context(), store.Checkpoint{Generation: 1, Size: 300, Signed: note, CosignedSize: 300, Cosigned: note}); err != nil {
		t.Fatal(err)
	}
	public = start(t, func(o *api.Options) { o.Tiles = tiles.New(r.store, time.Now) })
	public.peer.status = fmt.Sprintf(`{"state":"serving","logs":[{"vkey":"%s+01020304+AQID+A=="}]}`, origin)
	for path, want := range map[string]struct {
		size        int
		kind, cache string
	}{
		"/log/":                        {-1, "application/json", "public, max-age=2"},
		"/log/0/checkpoint":            {len(note), "text/plain; charset=utf-8", "public, max-age=2"},
		"/log/0/tile/0/000":            {256 * 32, "application/octet-stream", "public, max-age=31536000, immutable"},
		"/log/0/tile/0/001.p/44":       {44 * 32, "application/octet-stream", "public, max-age=31536000, immutable"},
		"/log/0/tile/1/000.p/1":        {32, "application/octet-stream", "public, max-age=31536000, immutable"},
		"/log/0/tile/entries/001.p/44": {-1, "application/octet-stream", "public, max-age=31536000, immutable"},
	} {
		for _, method := range []string{http.MethodGet, http.MethodHead} {
			got := send(t, method, public.at+path, nil)
			if got.status != 200 || got.header.Get("Content-Type") != want.kind || got.header.Get("Cache-Control") != want.cache {
				t.Errorf("%s %s: %d %v", method, path, got.status, got.header)
			}
			if method == http.MethodGet && want.size >= 0 && len(got.body) != want.size || method == http.MethodHead && got.body != "" {
				t.Errorf("%s %s: %d bytes", method, path, len(got.body))
			}
		}
	}
	var list struct{ Logs []api.PublicLog }
	if err := json.Unmarshal([]byte(send(t, http.MethodGet, public.at+"/log/", nil).body), &list); err != nil || len(list.Logs) != 1 ||
		list.Logs[0] != (api.PublicLog{Origin: origin, VKey: origin + "+01020304+AQID+A==", Generation: 1, Size: 300}) {
		t.Errorf("%+v %v", list, err)
	}
	for _, path := range []string{"/log", "/log/0", "/log/0/", "/log/00/checkpoint", "/log/1/checkpoint", "/log/64/checkpoint", "/log/x/checkpoint", "/log/0/tile/", "/log/0/tile/0/001", "/log/0/tile/0/002.p/1",
		"/log/0/tile/0/0%2f0", "/log/0/tile/0/../../checkpoint", "/log/0/tile/" + strings.Repeat("0", 5000)} {
		got := send(t, http.MethodGet, public.at+path, nil)
		isError(t, got, http.StatusNotFound, 5)
		if got.header.Get("Cache-Control") != "" {
			t.Errorf("%s: a refusal may be kept", path)
		}
	}
	isError(t, post(t, public.at+"/log/0/checkpoint", ""), http.StatusMethodNotAllowed, 12)
	if err := r.store.Close(); err != nil {
		t.Fatal(err)
	}
	isError(t, send(t, http.MethodGet, public.at+"/log/0/tile/entries/000", nil), http.StatusServiceUnavailable, 14)
}
