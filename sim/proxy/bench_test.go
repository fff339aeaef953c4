package proxy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"sync/atomic"
	"testing"

	"cloister/shared/wire"
	"cloister/sim/client"
	"cloister/sim/rig"
)

// bare is what a log-in cannot do without: the verification of one P-256 signature
// and the making of another.
func bare(b *testing.B) {
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		b.Fatal(err)
	}
	sum := sha256.Sum256([]byte("a body"))
	sig, err := ecdsa.SignASN1(rand.Reader, k, sum[:])
	if err != nil {
		b.Fatal(err)
	}
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if !ecdsa.VerifyASN1(&k.PublicKey, sum[:], sig) {
				b.Error("a signature that does not hold")
			}
			if _, err := ecdsa.SignASN1(rand.Reader, k, sum[:]); err != nil {
				b.Error(err)
			}
		}
	})
}

// BenchmarkLogin is log-ins by stamp_login, from the host's link to the store and
// back, of users of many sub-organizations, beside the bare cryptography of one: a
// stamp verified and a session's token signed.
func BenchmarkLogin(b *testing.B) {
	b.Run("bare", bare)
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			r := rig.Start(b, rig.Options{})
			const people = 64
			var all []*client.User
			for i := range people {
				all = append(all, r.Root().NewSubOrganization(fmt.Sprint("Sub ", i)))
			}
			session := client.NewKey()
			calls := make([]*wire.Call, b.N)
			for i := range calls {
				calls[i] = stamped(b, all[i%people], "STAMP_LOGIN", object{"publicKey": session.PublicKey})
			}
			parallel(b, r, calls, clients)
		})
	}
}

func stamped(b *testing.B, u *client.User, typ string, params object) *wire.Call {
	q, err := u.Activity(typ, params)
	if err != nil {
		b.Fatal(err)
	}
	return q.Call()
}

func parallel(b *testing.B, r *rig.Rig, calls []*wire.Call, clients int) {
	var next atomic.Int64
	b.SetParallelism((clients + 1) / 2)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			reply, err := r.Link.Call(context.Background(), calls[next.Add(1)-1])
			if err != nil || reply.Status != 200 {
				b.Errorf("%v %v", err, reply)
				return
			}
		}
	})
}

// BenchmarkSignup is a sign-up with one API key, stamped by a key of the parent's and
// through the auth proxy: what the proxy adds is the difference.
func BenchmarkSignup(b *testing.B) {
	for _, way := range []string{"stamped", "proxy"} {
		b.Run(way, func(b *testing.B) {
			r := rig.Start(b, rig.Options{AuthProxy: true, Rates: unlimited})
			calls := make([]*wire.Call, b.N)
			for i := range calls {
				k := client.NewKey()
				if way == "stamped" {
					calls[i] = stamped(b, r.Root(), "CREATE_SUB_ORGANIZATION_V7", client.SubOrganization(fmt.Sprint("Sub ", i), client.NewRootUser("U", k)))
					continue
				}
				body, err := json.Marshal(object{"organizationName": fmt.Sprint("Sub ", i), "apiKeys": list(key(k)), "authenticators": list(), "oauthProviders": list()})
				if err != nil {
					b.Fatal(err)
				}
				calls[i] = &wire.Call{Endpoint: wire.EndpointProxy, Op: "signup", Body: body, Head: []wire.Header{{Name: "X-Auth-Proxy-Config-Id", Value: r.Credentials.AuthProxyConfigID}}}
			}
			parallel(b, r, calls, 1)
		})
	}
}
