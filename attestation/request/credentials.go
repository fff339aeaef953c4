package request

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Credentials are the members of credentials.json that a client needs to send requests.
type Credentials struct {
	APIURL         string  `json:"apiUrl"`
	OrganizationID string  `json:"organizationId"`
	RootUserID     string  `json:"rootUserId,omitempty"`
	RootAPIKeyID   string  `json:"rootApiKeyId,omitempty"`
	RootAPIKey     KeyPair `json:"rootApiKey"`
}

// ParseCredentials reads credentials.json, as the simulator and create-organization write it, or as the dashboard gives it for
// a user's key: publicKey and privateKey in place of rootApiKey. Any member may be missing; an error repeats no value.
func ParseCredentials(text []byte) (*Credentials, error) {
	var c struct {
		Credentials
		KeyPair
	}
	if err := json.Unmarshal(text, &c); err != nil {
		return nil, errors.New("not readable as credentials: want JSON with organizationId, and rootApiKey or privateKey")
	}
	if c.RootAPIKey.PrivateKey == "" {
		c.RootAPIKey = c.KeyPair
	}
	return &c.Credentials, nil
}

// Key returns the private key in the credentials. Errors name the missing or wrong member, not its value.
func (c *Credentials) Key() (*Key, error) {
	if c.RootAPIKey.PrivateKey == "" {
		return nil, errors.New("neither rootApiKey.privateKey nor privateKey is in it")
	}
	k, err := ParseKey(c.RootAPIKey.PrivateKey)
	if err != nil {
		return nil, fmt.Errorf("its private key: %w", err)
	}
	return k, nil
}

// ParseKeyFile reads the private key in a file: credentials as ParseCredentials reads them, or the key alone as ParseKey
// does. Errors hold nothing of the key.
func ParseKeyFile(text []byte) (*Key, error) {
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		return ParseKey(string(text))
	}
	c, err := ParseCredentials(text)
	if err != nil {
		return nil, err
	}
	return c.Key()
}
