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
	"cloister/sim/laptop"
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
			type person struct {
				organization string
				key          laptop.KeyPair
			}
			var all []person
			for i := range people {
				k, err := laptop.NewKey()
				if err != nil {
					b.Fatal(err)
				}
				status, m := r.Submit("create_sub_organization", "ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": fmt.Sprint("Sub ", i), "rootQuorumThreshold": 1,
					"rootUsers": list(object{"userName": "U", "apiKeys": list(key(k)), "authenticators": list(), "oauthProviders": list()})})
				if status != 200 {
					b.Fatal(m)
				}
				all = append(all, person{rig.Text(m, "activity", "result", "createSubOrganizationResultV7", "subOrganizationId"), k})
			}
			session, err := laptop.NewKey()
			if err != nil {
				b.Fatal(err)
			}
			calls := make([]wire.Call, b.N)
			for i := range calls {
				p := all[i%people]
				body := r.BodyOf(p.organization, "ACTIVITY_TYPE_STAMP_LOGIN", object{"publicKey": session.PublicKey})
				head, err := laptop.Stamp(p.key, body)
				if err != nil {
					b.Fatal(err)
				}
				calls[i] = wire.Call{Endpoint: wire.EndpointSubmit, Op: "stamp_login", Head: head, Body: body}
			}
			parallel(b, r, calls, clients)
		})
	}
}

func parallel(b *testing.B, r *rig.Rig, calls []wire.Call, clients int) {
	var next atomic.Int64
	b.SetParallelism((clients + 1) / 2)
	b.ReportAllocs()
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			reply, err := r.Link.Call(context.Background(), &calls[next.Add(1)-1])
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
			calls := make([]wire.Call, b.N)
			for i := range calls {
				k, err := laptop.NewKey()
				if err != nil {
					b.Fatal(err)
				}
				if way == "stamped" {
					body := r.Body("ACTIVITY_TYPE_CREATE_SUB_ORGANIZATION_V7", object{"subOrganizationName": fmt.Sprint("Sub ", i), "rootQuorumThreshold": 1,
						"rootUsers": list(object{"userName": "U", "apiKeys": list(key(k)), "authenticators": list(), "oauthProviders": list()})})
					head, err := laptop.Stamp(r.Credentials.RootAPIKey, body)
					if err != nil {
						b.Fatal(err)
					}
					calls[i] = wire.Call{Endpoint: wire.EndpointSubmit, Op: "create_sub_organization", Head: head, Body: body}
					continue
				}
				body, err := json.Marshal(object{"organizationName": fmt.Sprint("Sub ", i), "apiKeys": list(key(k)), "authenticators": list(), "oauthProviders": list()})
				if err != nil {
					b.Fatal(err)
				}
				calls[i] = wire.Call{Endpoint: wire.EndpointProxy, Op: "signup", Body: body, Head: []wire.Header{{Name: "X-Auth-Proxy-Config-Id", Value: r.Credentials.AuthProxyConfigID}}}
			}
			parallel(b, r, calls, 1)
		})
	}
}
