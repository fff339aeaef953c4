package laptop_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"cloister/attestation/tlog"
	"cloister/shared/wire"
	"cloister/sim/laptop"
)

// An enclave here stands in for one: it answers status with one text after the other, the last one for ever, and ends the
// connection at an empty one.
type enclave struct {
	mu    sync.Mutex
	says  []string
	asked int
}

func (e *enclave) answer(_ context.Context, _ wire.Kind, payload []byte) (wire.Kind, []byte) {
	var call wire.Call
	if err := wire.Unmarshal(payload, &call); err != nil || call.Endpoint != wire.EndpointBoot || call.Op != "status" {
		return wire.KindFailed, nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	say := e.says[min(e.asked, len(e.says)-1)]
	e.asked++
	if say == "" {
		return wire.KindFailed, nil
	}
	reply, err := wire.Marshal(&wire.Reply{Status: 200, Body: []byte(say)})
	if err != nil {
		return wire.KindFailed, nil
	}
	return wire.KindReply, reply
}

// listen serves it and gives its address.
func (e *enclave) listen(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var conns sync.WaitGroup
	conns.Go(func() {
		for {
			nc, err := l.Accept()
			if err != nil {
				return
			}
			if _, err := wire.ReadHello(nc, time.Now().Add(time.Minute)); err != nil {
				_ = nc.Close()
				continue
			}
			c := wire.NewConn(nc, wire.Options{Role: wire.RoleCalls, Side: wire.SideEnclave, Handler: e.answer})
			t.Cleanup(func() { _ = c.Close() })
		}
	})
	t.Cleanup(func() { _ = l.Close(); conns.Wait() })
	return "tcp://" + l.Addr().String()
}

func logKey(t *testing.T, origin string) *tlog.Key {
	private := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{5}, ed25519.SeedSize))
	k, err := tlog.NewKey(origin, tlog.TypeLog, private.Public().(ed25519.PublicKey))
	if err != nil {
		t.Fatal(err)
	}
	return k
}

func status(t *testing.T, state string, keys ...*tlog.Key) string {
	logs := []map[string]any{}
	for i, k := range keys {
		logs = append(logs, map[string]any{"range": i, "vkey": k.String()})
	}
	b, err := json.Marshal(map[string]any{"state": state, "counters": map[string]int{}, "logs": logs})
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFollowLogs(t *testing.T) {
	one, two := logKey(t, "cloister/00/0/1"), logKey(t, "cloister/00/1/1")
	for name, row := range map[string]struct {
		says []string
		want string // what was told, without repeats; with ! an error
	}{
		"one that serves":            {[]string{status(t, "serving", one, two)}, "cloister/00/0/1 cloister/00/1/1"},
		"one that recovers first":    {[]string{status(t, "hello"), status(t, "recovering", one), status(t, "recovering", one, two), status(t, "serving", one, two)}, "cloister/00/0/1 cloister/00/1/1"},
		"one that breaks off":        {[]string{status(t, "recovering", one), "", status(t, "serving", one)}, "cloister/00/0/1"},
		"one that knows no logs":     {[]string{`{"state":"hello"}`, `{"state":"serving","counters":{}}`}, ""},
		"one with a next generation": {[]string{strings.Replace(status(t, "serving", one), `"range":0`, `"nextVkey":"`+two.String()+`","range":0`, 1)}, "cloister/00/0/1 cloister/00/1/1"},
		"a next key that is none":    {[]string{strings.Replace(status(t, "serving", one), `"range":0`, `"nextVkey":"x","range":0`, 1)}, "cloister/00/0/1!"},
		"no key":                     {[]string{strings.Replace(status(t, "serving", one), one.String(), "", 1)}, "!"},
		"another key than before":    {[]string{status(t, "recovering", one), status(t, "serving", one)}, "cloister/00/0/1!"},
		"a status that is no JSON":   {[]string{"{"}, "!"},
		"logs of another form":       {[]string{`{"state":"serving","logs":{"0":"key"}}`}, "!"},
		"more than is known of yet":  {[]string{strings.Replace(status(t, "serving", one), `"range":0`, `"range":0,"size":7`, 1)}, "cloister/00/0/1"},
	} {
		t.Run(name, func(t *testing.T) {
			e := &enclave{says: row.says}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			told := map[string]bool{}
			got := ""
			err := laptop.FollowLogs(ctx, e.listen(t), func(k *tlog.Key) error {
				if told[k.Name()] {
					if name == "another key than before" {
						return errors.New("it is another one")
					}
					return nil
				}
				told[k.Name()] = true
				got = strings.TrimSpace(got + " " + k.Name())
				return nil
			})
			if err != nil {
				got += "!"
			}
			if got != row.want || ctx.Err() != nil {
				t.Errorf("told of %q, want %q: %v", got, row.want, err)
			}
		})
	}
}

// Nobody there is no failure: the enclave may come yet.
func TestFollowLogsOfNobody(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := laptop.FollowLogs(ctx, "tcp://127.0.0.1:1", func(k *tlog.Key) error { return fmt.Errorf("told of %s", k.Name()) }); err != nil {
		t.Error(err)
	}
}
