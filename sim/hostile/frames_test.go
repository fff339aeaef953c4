package hostile_test

import (
	"errors"
	"math/rand/v2"
	"net"
	"strings"
	"sync"
	"time"

	"cloister/shared/wire"
	"cloister/sim/hostile"
)

// frames are attacks on the line itself.
var frames = []attack{
	{name: "a hello that is none", touches: "hello", counter: "alarm_frame", behind: "nothing is known of the connection",
		strike: raw(0, func(_ *field, _ *victim, r *rand.Rand) []byte {
			b := make([]byte, 77)
			for i := range b {
				b[i] = byte(r.Uint32())
			}
			return b
		})},
	{name: "a hello of another version or role", touches: "hello", counter: "alarm_frame", behind: "nothing is known of the connection",
		strike: raw(0, func(_ *field, _ *victim, r *rand.Rand) []byte {
			h := wire.Hello{Version: wire.Version, Role: wire.Role(5 + r.IntN(200))}
			if r.IntN(2) == 0 {
				h = wire.Hello{Version: uint16(2 + r.IntN(1000)), Role: wire.RoleCalls}
			}
			return hostile.Frame{Kind: wire.KindHello, Payload: must(wire.Marshal(h))}.Bytes()
		})},
	{name: "an oversized call", touches: "length of a frame", counter: "alarm_frame", off: []string{"frame"},
		strike: raw(wire.RoleCalls, func(f *field, v *victim, r *rand.Rand) []byte {
			c := v.fine()
			c.From.Origin = string(make([]byte, wire.MaxCallFrame+1+r.IntN(1<<16)))
			return hostile.Frame{ID: 1, Kind: wire.KindCall, Payload: must(wire.Marshal(c))}.Bytes()
		})},
	{name: "a length that nothing could have", touches: "length of a frame", counter: "alarm_frame", behind: "the bytes never come",
		strike: raw(wire.RoleCalls, func(_ *field, _ *victim, r *rand.Rand) []byte {
			return hostile.Frame{ID: 1, Kind: wire.KindCall, Length: 1<<24 + r.IntN(1<<31)}.Bytes()
		})},
	{name: "an oversized answer", touches: "length of a frame", counter: "alarm_frame", behind: "nobody waits for it",
		strike: raw(anyAsked, func(_ *field, _ *victim, r *rand.Rand) []byte {
			return hostile.Frame{ID: r.Uint64(), Kind: wire.KindFailed, Length: 1025 + r.IntN(1<<20)}.Bytes()
		})},
	{name: "a call with two encodings", touches: "encoding of a message", counter: "alarm_frame", off: []string{"frame"},
		strike: raw(wire.RoleCalls, func(f *field, v *victim, r *rand.Rand) []byte {
			b := must(wire.Marshal(v.fine()))
			// The map's first key, 1, in one byte more, or its size in one more.
			if r.IntN(2) == 0 {
				b = append([]byte{b[0], 0x18}, b[1:]...)
			} else {
				b = append([]byte{0xb8, b[0] & 31}, b[1:]...)
			}
			return hostile.Frame{ID: 1, Kind: wire.KindCall, Payload: b}.Bytes()
		})},
	{name: "a truncated call", touches: "encoding of a message", counter: "alarm_frame", behind: "the decoder",
		strike: raw(wire.RoleCalls, func(f *field, v *victim, r *rand.Rand) []byte {
			b := must(wire.Marshal(v.fine()))
			return hostile.Frame{ID: 1, Kind: wire.KindCall, Payload: b[:r.IntN(len(b))]}.Bytes()
		})},
	{name: "bytes behind a call", touches: "encoding of a message", counter: "alarm_frame", behind: "the decoder",
		strike: raw(wire.RoleCalls, func(f *field, v *victim, r *rand.Rand) []byte {
			b := must(wire.Marshal(v.fine()))
			return hostile.Frame{ID: 1, Kind: wire.KindCall, Payload: append(b, make([]byte, 1+r.IntN(100))...)}.Bytes()
		})},
	{name: "a kind that is not expected", touches: "kind of a frame", counter: "alarm_frame", behind: "nobody would take it",
		strike: raw(anyRole, func(_ *field, _ *victim, r *rand.Rand) []byte {
			kinds := []wire.Kind{0, wire.KindHello, wire.KindBatch, wire.KindOwn, wire.KindReply, wire.KindLoadEntries, wire.KindPutSnapshot, 62, 99, 255}
			return hostile.Frame{ID: 1, Kind: kinds[r.IntN(len(kinds))]}.Bytes()
		})},
	{name: "a call on a connection for something else", touches: "role", counter: "alarm_frame", behind: "nobody would take it",
		strike: raw(anyAsked, func(f *field, v *victim, _ *rand.Rand) []byte {
			return hostile.Frame{ID: 1, Kind: wire.KindCall, Payload: must(wire.Marshal(v.fine()))}.Bytes()
		})},
	{name: "an id used before", touches: "id of a frame", counter: "alarm_frame", behind: "an answer would belong to two",
		strike: rawAfter(1, wire.RoleCalls, func(f *field, v *victim, r *rand.Rand) []byte {
			id := 1 + r.Uint64N(1<<40)
			b := hostile.Frame{ID: id, Kind: wire.KindCall, Payload: must(wire.Marshal(v.fine()))}.Bytes()
			return append(b, hostile.Frame{ID: id - r.Uint64N(min(id, 3)), Kind: wire.KindCall}.Bytes()...)
		})},
	{name: "a cancel that carries something", touches: "cancel", counter: "alarm_frame", behind: "nobody would take it",
		strike: raw(anyRole, func(_ *field, _ *victim, r *rand.Rand) []byte {
			return hostile.Frame{ID: r.Uint64(), Kind: wire.KindCancel, Payload: make([]byte, 1+r.IntN(100))}.Bytes()
		})},
	{name: "an answer of another kind", touches: "answer on its way", counter: "alarm_frame", behind: "it would not decode",
		strike: rewritten(func(x hostile.Crossing, r *rand.Rand) []hostile.Frame {
			x.Kind = []wire.Kind{wire.KindEntries, wire.KindPieces, wire.KindProven, wire.KindObject}[r.IntN(4)]
			return []hostile.Frame{x.Frame}
		})},
	{name: "an answer that does not decode", touches: "answer on its way", counter: "alarm_frame", behind: "the decoder",
		strike: rewritten(func(x hostile.Crossing, r *rand.Rand) []hostile.Frame {
			switch r.IntN(3) {
			case 0:
				x.Payload = x.Payload[:r.IntN(len(x.Payload))]
			case 1:
				x.Payload = append(x.Payload, byte(r.Uint32()))
			default:
				x.Payload[0] ^= 1 << (5 + r.IntN(3))
			}
			return []hostile.Frame{x.Frame}
		})},
	{name: "an answer that claims to be huge", touches: "answer on its way", counter: "alarm_frame", behind: "the bytes never come",
		strike: rewritten(func(x hostile.Crossing, r *rand.Rand) []hostile.Frame {
			x.Length = wire.MaxFrame + 1 + r.IntN(1<<30)
			return []hostile.Frame{x.Frame}
		})},
	{name: "duplicate an answer", touches: "answer on its way", counter: "late_answers", behind: "nobody waits for it", strike: duplicated},
	{name: "swap two answers", touches: "answers on their way", counter: "alarm_key", behind: "each is named by its organization", strike: swapped},
}

// anyRole means a connection of any role, anyAsked of one on which the enclave
// asks.
const (
	anyRole  = wire.Role(250)
	anyAsked = wire.Role(251)
)

// fine is a good call.
func (v *victim) fine() *wire.Call { return call(v.Request(wire.EndpointQuery, "whoami", v.Ask(nil))) }

// raw is the strike that opens a connection of its own and writes bytes. They
// are refused if the connection is cut or the call turned away, and believed if
// the enclave answers more calls than are innocent.
func raw(role wire.Role, forge func(*field, *victim, *rand.Rand) []byte) func(*field, *victim, *rand.Rand) outcome {
	return rawAfter(0, role, forge)
}

func rawAfter(innocent int, role wire.Role, forge func(*field, *victim, *rand.Rand) []byte) func(*field, *victim, *rand.Rand) outcome {
	return func(f *field, v *victim, r *rand.Rand) outcome {
		c := f.connect(role, r)
		defer c.Close()
		b := forge(f, v, r)
		go func() { _, _ = c.Write(b) }() // it may be cut in the middle
		_ = c.SetReadDeadline(time.Now().Add(patience))
		out := answered(c, innocent)
		f.good(f.twin(v)) // over the connections that stand
		return out
	}
}

func (f *field) connect(role wire.Role, r *rand.Rand) net.Conn {
	switch role {
	case 0:
		return must(net.Dial("tcp", strings.TrimPrefix(f.rig.Address, "tcp://")))
	case anyRole:
		role = wire.RoleCalls + wire.Role(r.IntN(4))
	case anyAsked:
		role = wire.RoleStores + wire.Role(r.IntN(3))
	}
	return must(hostile.Dial(f.rig.Address, role))
}

// answered reads what the enclave says to forged frames. Questions of its own,
// on connections that serve for that, stay without answer.
func answered(c net.Conn, innocent int) outcome {
	for {
		got, err := hostile.ReadFrame(c)
		var slow net.Error
		switch {
		case errors.As(err, &slow) && slow.Timeout():
			return judged(false, false, "neither cut nor answered")
		case err != nil:
			return judged(true, false, "cut")
		case got.Kind == wire.KindFailed:
			return judged(true, false, "turned away")
		case got.Kind == wire.KindReply && innocent == 0:
			return judged(false, true, "answered")
		case got.Kind == wire.KindReply:
			innocent--
		}
	}
}

// rewritten is the strike that rewrites the answer to a question about an
// organization on its way to the enclave.
func rewritten(change func(hostile.Crossing, *rand.Rand) []hostile.Frame) func(*field, *victim, *rand.Rand) outcome {
	return func(f *field, v *victim, r *rand.Rand) outcome {
		x := rand.New(rand.NewPCG(r.Uint64(), r.Uint64()))
		var mu sync.Mutex
		told := 0
		f.proxy.Rewrite(func(c hostile.Crossing) []hostile.Frame {
			mu.Lock()
			defer mu.Unlock()
			if told > 0 || !f.loading(c, v) {
				return []hostile.Frame{c.Frame}
			}
			told++
			return change(c, x)
		})
		defer f.proxy.Rewrite(nil)
		for end := time.Now().Add(patience); time.Now().Before(end); {
			a := f.send(v.fine())
			mu.Lock()
			done := told > 0
			mu.Unlock()
			if done {
				f.good(f.twin(v))
				return judged(a.Status == 503 || a.Status == 0, a.Status == 200, "%.200s", a)
			}
			f.whoami(f.twin(v))
		}
		return judged(false, false, "the enclave never asked")
	}
}

// loading tells that a frame is the answer to a question for organization v.
func (f *field) loading(c hostile.Crossing, v *victim) bool {
	if !c.ToEnclave || c.Kind != wire.KindOrganization || c.Question == nil {
		return false
	}
	q, err := hostile.Decode(c.Question.Kind, c.Question.Payload)
	return err == nil && q.(*wire.LoadOrganization).Organization == v.wid
}

// duplicated sends every answer twice. The second one changes nothing.
func duplicated(f *field, v *victim, r *rand.Rand) outcome {
	before := f.alarms()
	f.proxy.Rewrite(func(c hostile.Crossing) []hostile.Frame {
		if c.ToEnclave && c.Question != nil {
			return []hostile.Frame{c.Frame, c.Frame}
		}
		return []hostile.Frame{c.Frame}
	})
	f.good(f.other(v, r))
	f.good(v)
	f.proxy.Rewrite(nil)
	noticed := f.risen("late_answers", before)["late_answers"] > before["late_answers"]
	return judged(noticed, false, "second answers noticed: %v", noticed)
}

// swapped exchanges the answers to two questions for two organizations.
func swapped(f *field, v *victim, r *rand.Rand) outcome {
	w := f.other(v, r)
	third := f.victims[0]
	for _, x := range f.victims {
		if x != v && x != w {
			third = x
		}
	}
	for end := time.Now().Add(patience); time.Now().Before(end); {
		f.good(third) // which sends the two out of memory
		var mu sync.Mutex
		var held *hostile.Crossing
		done, ended := false, false
		f.proxy.Rewrite(func(c hostile.Crossing) []hostile.Frame {
			mu.Lock()
			defer mu.Unlock()
			if ended || done || !f.loading(c, v) && !f.loading(c, w) {
				return []hostile.Frame{c.Frame}
			}
			if held == nil {
				held = &c
				return nil
			}
			done = true
			c.Payload, held.Payload = held.Payload, c.Payload
			held.Put(held.Frame)
			return []hostile.Frame{c.Frame}
		})
		release := time.AfterFunc(100*time.Millisecond, func() { // the other question did not come
			mu.Lock()
			defer mu.Unlock()
			if ended = true; held != nil && !done {
				held.Put(held.Frame)
			}
		})
		got := make(chan answer, 2)
		for _, x := range []*victim{v, w} {
			go func() { got <- f.whoami(x) }()
		}
		a, b := <-got, <-got
		release.Stop()
		f.proxy.Rewrite(nil)
		mu.Lock()
		told := done
		mu.Unlock()
		if told {
			f.good(third)
			f.good(w)
			return judged(a.refused() && b.refused(), a.Status == 200 && b.Status == 200, "%d and %d", a.Status, b.Status)
		}
	}
	return judged(false, false, "the two were never loaded at once")
}
