package rig_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/laptop"
	"cloister/sim/rig"
)

// BenchmarkSign is one stamped signature with app proofs, from the host's link
// to the store and back, stamps made beforehand. clients=16 shows what group
// commit brings. Processor time is of the whole process, and says more than time
// where others use the machine.
func BenchmarkSign(b *testing.B) {
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			r := rig.Start(b, rig.Options{})
			status, m := r.Submit("create_wallet", "ACTIVITY_TYPE_CREATE_WALLET", map[string]any{"walletName": "First", "accounts": []any{ethereum}})
			if status != 200 {
				b.Fatal(m)
			}
			address := rig.Text(m, "activity", "result", "createWalletResult", "addresses", "0")
			calls := make([]wire.Call, b.N)
			for i := range calls {
				body, err := json.Marshal(map[string]any{"type": "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", "timestampMs": fmt.Sprint(r.NowMs()), "organizationId": r.Credentials.OrganizationID, "generateAppProofs": true,
					"parameters": map[string]any{"signWith": address, "payload": fmt.Sprintf("%064x", i), "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NO_OP"}})
				if err != nil {
					b.Fatal(err)
				}
				head, err := laptop.Stamp(r.Credentials.RootAPIKey, body)
				if err != nil {
					b.Fatal(err)
				}
				calls[i] = wire.Call{Endpoint: wire.EndpointSubmit, Op: "sign_raw_payload", Head: head, Body: body}
			}
			var next atomic.Int64
			b.SetParallelism((clients + 1) / 2)
			b.ReportAllocs()
			b.ResetTimer()
			before := processor(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					reply, err := r.Link.Call(context.Background(), &calls[next.Add(1)-1])
					if err != nil || reply.Status != 200 {
						b.Errorf("%v %v", err, reply)
						return
					}
				}
			})
			b.ReportMetric(float64(processor(b)-before)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processor is how much processor time this process has used, in nanoseconds.
func processor(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}
