// Package deployment is what the load tests share: being a client of a deployment, and the table of what that took.
package deployment

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"cloister/attestation/request"
)

// Main runs a program of this name, and says why it failed.
func Main(name string, run func() error) {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, name+":", err)
		os.Exit(1)
	}
}

// Object is a JSON object.
type Object = map[string]any

// Root is the interface as the root key of the simulator with this data directory uses it.
func Root(data string, over *http.Client) (*request.API, error) {
	var c struct {
		APIURL, OrganizationID string
		RootAPIKey             request.KeyPair
	}
	if err := Read(data, "credentials.json", &c); err != nil {
		return nil, err
	}
	key, err := request.ParseKey(c.RootAPIKey.PrivateKey)
	return &request.API{URL: c.APIURL, OrganizationID: c.OrganizationID, Key: key, HTTP: over}, err
}

// Over is HTTP for so many requests at once.
func Over(clients int) *http.Client {
	return &http.Client{Timeout: time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 2 * clients}}
}

// Read reads a file that the simulator leaves in its data directory.
func Read(data, name string, into any) error {
	text, err := os.ReadFile(filepath.Join(data, name))
	if err == nil {
		err = json.Unmarshal(text, into)
	}
	return err
}

// Submit submits an activity, again while it is not known to be stored, and gives its result.
func Submit(as *request.API, typ string, parameters, result any) error {
	body, err := as.Activity(typ, parameters)
	if err != nil {
		return err
	}
	for range 600 {
		status, raw, err := as.Post(context.Background(), "/public/v1/submit/"+request.Operation(typ), body)
		switch {
		case err != nil:
			return err
		case status == http.StatusServiceUnavailable:
			time.Sleep(100 * time.Millisecond)
			continue
		case status != http.StatusOK:
			return fmt.Errorf("%s: %s", typ, raw)
		}
		var r struct{ Activity request.Activity }
		if err := json.Unmarshal(raw, &r); err != nil {
			return err
		}
		return r.Activity.Into(result)
	}
	return fmt.Errorf("%s: busy for a minute", typ)
}

// Sign signs something with the key of an address.
func Sign(as *request.API, address string) error {
	payload := make([]byte, 32)
	rand.Read(payload)
	var made struct {
		Value string `json:"r"`
	}
	err := Submit(as, "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2", Object{"signWith": address, "payload": hex.EncodeToString(payload),
		"encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_NO_OP"}, &made)
	if err == nil && made.Value == "" {
		err = errors.New("no signature")
	}
	return err
}
