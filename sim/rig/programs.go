package rig

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"strings"
	"testing"
)

// Programs is a configuration's member tvc, of a platform for customers' programs that nothing runs on.
func Programs(t testing.TB) string {
	t.Helper()
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	root := &x509.Certificate{SerialNumber: big.NewInt(1)}
	der, err := x509.CreateCertificate(nil, root, root, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})))
	if err != nil {
		t.Fatal(err)
	}
	pcr := strings.Repeat("0b", 48)
	return `{"domain":"apps.example.com","root":` + string(text) + `,"versions":[{"name":"cloister-1","commit":"c","pcr0":"` + pcr + `","pcr1":"` + pcr + `","pcr2":"` + pcr + `"}]}`
}
