package rig_test

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/client"
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
			root := r.Root()
			root.Proofs = true
			address := client.Text(root.Do("CREATE_WALLET", client.Wallet("First", client.Ethereum)), "addresses", "0")
			calls := make([]*wire.Call, b.N)
			for i := range calls {
				q, err := root.Activity("SIGN_RAW_PAYLOAD_V2", client.Payload(address, fmt.Sprintf("%064x", i), "NO_OP"))
				if err != nil {
					b.Fatal(err)
				}
				calls[i] = q.Call()
			}
			var next atomic.Int64
			b.SetParallelism((clients + 1) / 2)
			b.ReportAllocs()
			b.ResetTimer()
			before := processor(b)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					reply, err := r.Link.Call(context.Background(), calls[next.Add(1)-1])
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
