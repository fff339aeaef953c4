package boot_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"reflect"
	"testing"

	"cloister/attestation"
	"cloister/enclave/internal/boot"
)

func deploymentState() *boot.DeploymentState {
	return &boot.DeploymentState{Format: 1, Number: 3, Manifest: [32]byte{1}, Operators: [32]byte{2}, Quorum: make([]byte, 130)}
}

func TestDeploymentState(t *testing.T) {
	k := newKeyring(t)
	sealed, err := k.SealDeploymentState(rand.Reader, deployment, deploymentState())
	if err != nil {
		t.Fatal(err)
	}
	got, err := k.OpenDeploymentState(deployment, sealed)
	if err != nil || !reflect.DeepEqual(got, deploymentState()) {
		t.Fatalf("%+v, %v", got, err)
	}
	other := deployment
	other[0] ^= 1
	if _, err := k.OpenDeploymentState(other, sealed); err == nil {
		t.Error("opens for another deployment")
	}
	if _, err := newKeyring(t).OpenDeploymentState(deployment, sealed); err == nil {
		t.Error("opens under another keyring")
	}
	for i := range sealed {
		bad := bytes.Clone(sealed)
		bad[i] ^= 1
		if _, err := k.OpenDeploymentState(deployment, bad); err == nil {
			t.Fatal("opens altered")
		}
	}
	for name, l := range map[string]*boot.DeploymentState{"another format": {Format: 2, Number: 1}, "no number": {Format: 1}, "half a key": {Format: 1, Number: 1, Quorum: make([]byte, 65)}} {
		sealed, err := k.SealDeploymentState(rand.Reader, deployment, l)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := k.OpenDeploymentState(deployment, sealed); err == nil {
			t.Errorf("%s: opens", name)
		}
	}
}

func TestDeploymentStateAllows(t *testing.T) {
	first := &attestation.Manifest{Operators: attestation.Operators{Threshold: 2, PublicKeys: []string{"a", "b"}}}
	genesis := &boot.DeploymentState{Format: 1, Number: 1, Operators: first.Operators.Digest()}
	others := &attestation.Manifest{Operators: attestation.Operators{Threshold: 1, PublicKeys: []string{"a", "b"}}}
	one, two := [32]byte{1}, [32]byte{2}
	second := &attestation.Manifest{Predecessor: hex.EncodeToString(one[:])}
	later := genesis.Next(first, one, nil)
	for name, c := range map[string]struct {
		l    *boot.DeploymentState
		m    *attestation.Manifest
		hash [32]byte
		ok   bool
	}{
		"the first":                      {genesis, first, one, true},
		"a first of others":              {genesis, others, one, false},
		"a second before the first":      {genesis, second, two, false},
		"the same again":                 {later, first, one, true},
		"another first":                  {later, first, two, false},
		"the next":                       {later, second, two, true},
		"the one behind the next":        {later.Next(second, two, nil), second, [32]byte{3}, false},
		"the first once there is a next": {later.Next(second, two, nil), first, one, false},
	} {
		if err := c.l.Allows(c.m, c.hash); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	if later.Number != 2 || later.Operators != first.Operators.Digest() {
		t.Errorf("%+v", later)
	}
}

func FuzzOpenDeploymentState(f *testing.F) {
	k, err := boot.NewKeyring(&stream{})
	if err != nil {
		f.Fatal(err)
	}
	good, err := k.SealDeploymentState(&stream{}, deployment, deploymentState())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := k.OpenDeploymentState(deployment, b); (err == nil) != bytes.Equal(b, good) {
			t.Fatalf("%x: %v", b, err)
		}
	})
}
