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
