package hostile_test

import (
	"bytes"
	"fmt"
	"sync"
	"testing"

	"cloister/enclave/core"
	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/hostile"
)

// TestHonest shows that store and proxy, left alone, alter nothing: every frame
// of every role decodes, has its one encoding, and no alarm is raised.
func TestHonest(t *testing.T) {
	g := newGround(t)
	f := newField(t, g, core.Limits{StateBytes: 1, SnapshotEvery: 2, Lease: lease})
	var mu sync.Mutex
	roles := map[wire.Role]int{}
	f.proxy.Rewrite(func(c hostile.Crossing) []hostile.Frame {
		mu.Lock()
		defer mu.Unlock()
		roles[c.Role]++
		if c.Kind == wire.KindCancel {
			return []hostile.Frame{c.Frame}
		}
		m, err := hostile.Decode(c.Kind, c.Payload)
		if err != nil {
			t.Errorf("kind %d: %v", c.Kind, err)
		} else if b, err := wire.Marshal(m); err != nil || !bytes.Equal(b, c.Payload) {
			t.Errorf("kind %d has another encoding: %v", c.Kind, err)
		}
		return []hostile.Frame{c.Frame}
	})
	for i := range 30 {
		v := f.victims[i%len(f.victims)]
		f.rename(v, fmt.Sprintf("Name %03d", i))
		f.good(v)
		f.served(func() answer { return f.query(v, "get_activity", client.Object{"activityId": v.activities[2]}) })
		f.served(func() answer { return f.query(v, "list_activities", nil) })
		f.served(func() answer { return f.query(v, "list_wallet_accounts", client.Object{"walletId": v.wallet}) })
		f.served(func() answer {
			return f.query(v, "list_suborgs", client.Object{"filterType": "USERNAME", "filterValue": "Name"})
		})
	}
	for k, n := range f.alarms() {
		if len(k) > 6 && k[:6] == "alarm_" && n != 0 {
			t.Errorf("%s = %d without an attack", k, n)
		}
	}
	seen := f.proxy.Seen()
	for _, k := range []wire.Kind{wire.KindCall, wire.KindReply, wire.KindOwn, wire.KindOwned, wire.KindBatch, wire.KindStored, wire.KindLoadOrganization,
		wire.KindOrganization, wire.KindLoadPieces, wire.KindPieces, wire.KindFind, wire.KindPage, wire.KindProven, wire.KindPageIndex, wire.KindIndexRows, wire.KindPutSnapshot, wire.KindDone} {
		if seen[k] == 0 {
			t.Errorf("no frame of kind %d crossed", k)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	t.Logf("counted: frames by role %v, by kind %v", roles, seen)
}
