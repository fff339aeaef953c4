package hostile_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/laptop"
)

// requests are attacks on stamped requests. They are refused like any bad
// request of a client, who may as well have made them.
var requests = []attack{
	{name: "move a stamp to another body", touches: "body", off: []string{"stamp"}, strike: moved(401, func(c *wire.Call, f *field, v *victim, r *rand.Rand) {
		c.Body = bytes.Replace(c.Body, []byte("Fine"), []byte("Evil"), 1)
	})},
	{name: "move a stamp to another time", touches: "body", off: []string{"stamp"}, strike: moved(401, func(c *wire.Call, f *field, v *victim, _ *rand.Rand) {
		var b map[string]any
		if err := json.Unmarshal(c.Body, &b); err != nil {
			panic(err)
		}
		b["timestampMs"] = fmt.Sprint(times.Next() + 1000)
		c.Body = must(json.Marshal(b))
	})},
	{name: "move a stamp to another organization", touches: "body", off: []string{"stamp"}, strike: moved(401, func(c *wire.Call, f *field, v *victim, r *rand.Rand) {
		c.Body = bytes.Replace(c.Body, []byte(v.Organization), []byte(f.other(v, r).Organization), 1)
	})},
	{name: "stamp by a key that the organization does not know", touches: "stamp", behind: "a key is looked up in the organization that the body names",
		strike: moved(401, func(c *wire.Call, f *field, v *victim, r *rand.Rand) {
			c.Head = must(laptop.Stamp(f.other(v, r).Key, c.Body))
		})},
	{name: "flip a signature", touches: "stamp", off: []string{"stamp"}, strike: moved(401, func(c *wire.Call, _ *field, _ *victim, r *rand.Rand) {
		c.Head[0].Value = restamped(c.Head[0].Value, func(s map[string]string) {
			b := must(hex.DecodeString(s["signature"]))
			b[len(b)-1-r.IntN(20)] ^= 1 << r.IntN(8) // within s
			s["signature"] = hex.EncodeToString(b)
		})
	})},
	{name: "truncate a stamp", touches: "stamp", behind: "what is left is no stamp", strike: moved(401, func(c *wire.Call, _ *field, _ *victim, r *rand.Rand) {
		c.Head[0].Value = c.Head[0].Value[:r.IntN(len(c.Head[0].Value)-1)]
	})},
	{name: "name another key in a stamp", touches: "stamp", behind: "a key is looked up in the organization that the body names",
		strike: moved(401, func(c *wire.Call, f *field, v *victim, r *rand.Rand) {
			c.Head[0].Value = restamped(c.Head[0].Value, func(s map[string]string) { s["publicKey"] = f.other(v, r).Key.PublicKey })
		})},
	{name: "omit the stamp", touches: "stamp", behind: "there is nothing to believe", strike: moved(401, func(c *wire.Call, _ *field, _ *victim, _ *rand.Rand) { c.Head = nil })},
	{name: "duplicate the stamp", touches: "stamp", behind: "there may be one", strike: moved(401, func(c *wire.Call, f *field, v *victim, r *rand.Rand) {
		c.Head = append(c.Head, must(laptop.Stamp(f.other(v, r).Key, c.Body))...)
	})},
	{name: "move a request to another path", touches: "operation", off: []string{"path"}, strike: moved(400, func(c *wire.Call, _ *field, _ *victim, r *rand.Rand) {
		ops := []string{"sign_raw_payload", "create_users", "update_user_name", "create_wallet_accounts", "create_api_keys"}
		c.Op = ops[r.IntN(len(ops))]
	})},
	{name: "move a request to another door", touches: "door", behind: "each door has bodies of its own", strike: moved(400, func(c *wire.Call, _ *field, _ *victim, r *rand.Rand) {
		c.Endpoint, c.Op = wire.EndpointQuery, []string{"whoami", "get_wallet", "list_users"}[r.IntN(3)]
	})},
	{name: "repeat a request", touches: "request", off: []string{"repeat"}, strike: repeated},
}

// moved is the strike that alters a fine request on its way, which is to be
// refused with this status. Then the same request comes unharmed.
func moved(status int, alter func(*wire.Call, *field, *victim, *rand.Rand)) func(*field, *victim, *rand.Rand) outcome {
	return func(f *field, v *victim, r *rand.Rand) outcome {
		fine := call(v.by(f.g.common).Activity("CREATE_WALLET", client.Wallet(fmt.Sprintf("Fine %016x", r.Uint64()))))
		bad := *fine
		bad.Head = append([]wire.Header(nil), fine.Head...)
		alter(&bad, f, v, r)
		count := func() (n uint64) {
			for _, w := range f.victims {
				n += f.head(w)
			}
			return n
		}
		before := count()
		a := f.patiently(&bad)
		grown := count() - before
		out := judged(a.Status == status && grown == 0, a.Status == 200 && grown == 1, "%.200s", a)
		if !out.believed {
			f.served(func() answer { return f.send(fine) })
		}
		return out
	}
}

// patiently sends a call until the enclave is not busy.
func (f *field) patiently(c *wire.Call) (a answer) {
	for range 1000 {
		if a = f.send(c); a.Status != 503 && a.Status != 0 {
			break
		}
	}
	return a
}

// restamped alters what is written in a stamp.
func restamped(value string, alter func(map[string]string)) string {
	var s map[string]string
	if err := json.NewDecoder(base64.NewDecoder(base64.RawURLEncoding, strings.NewReader(value))).Decode(&s); err != nil {
		panic(err)
	}
	alter(s)
	return base64.RawURLEncoding.EncodeToString(must(json.Marshal(s)))
}

// repeated sends one request twice, the second time with the same stamp or with
// another of the same key. It has one effect.
func repeated(f *field, v *victim, r *rand.Rand) outcome {
	c := v.signing(fmt.Sprintf("%016x", r.Uint64()))
	one := f.served(func() answer { return f.send(c) })
	count := f.head(v)
	if r.IntN(2) == 0 {
		c.Head = must(laptop.Stamp(v.Key, c.Body))
	}
	f.whoami(f.twin(v)) // half of the time from memory, half from the store
	two := f.patiently(c)
	id := func(a answer) string {
		return a.Text("activity", "id") + a.Text("activity", "result", "signRawPayloadResult", "r")
	}
	once := f.head(v) == count
	return judged(once && two.Status == 200 && id(one) == id(two), !once, "%.200s", two)
}
