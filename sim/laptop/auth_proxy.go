package laptop

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"time"

	"cloister/shared/wire"
)

// enableProxy turns the auth proxy of the root organization on, once in the life of a data
// directory. The request is kept before it is sent, and sent again it changes nothing: a crash
// at any place ends with one proxy, and a proxy that somebody has turned off stays off. A
// refusal is left as it is, since the organization is its owner's.
func (d *Dir) enableProxy(ctx context.Context, e *HostClient, c *Credentials) error {
	request := func() ([]byte, error) {
		return json.Marshal(map[string]any{"type": "ACTIVITY_TYPE_ENABLE_AUTH_PROXY", "organizationId": c.OrganizationID,
			"timestampMs": strconv.FormatInt(d.now().UnixMilli(), 10), "parameters": map[string]any{}})
	}
	body, err := d.readOrMake(fileProxy, request)
	if err != nil {
		return err
	}
	r, err := e.callStamped(ctx, wire.EndpointSubmit, "enable_auth_proxy", body, c.RootAPIKey)
	if err == nil && r.Status == 400 && bytes.Contains(r.Body, []byte("INVALID_TIME")) { // kept and never done
		if err := os.Remove(d.file(fileProxy)); err != nil {
			return err
		}
		if body, err = d.readOrMake(fileProxy, request); err != nil {
			return err
		}
		_, err = e.callStamped(ctx, wire.EndpointSubmit, "enable_auth_proxy", body, c.RootAPIKey)
	}
	return err
}

// proxyConfig is the configuration id of the root organization's proxy, empty if it
// has none or the root key may not ask any more.
func (d *Dir) proxyConfig(ctx context.Context, e *HostClient, c *Credentials) (string, error) {
	body, err := json.Marshal(map[string]string{"organizationId": c.OrganizationID})
	if err != nil {
		return "", err
	}
	r, err := e.callStamped(ctx, wire.EndpointQuery, "get_organization_configs", body, c.RootAPIKey)
	if err != nil || r.Status != 200 {
		return "", err
	}
	var got struct {
		Configs struct {
			Features []struct{ Name, Value string }
		}
	}
	if err := json.Unmarshal(r.Body, &got); err != nil {
		return "", fmt.Errorf("reading the organization's features: %w", err)
	}
	for _, f := range got.Configs.Features {
		if f.Name == "FEATURE_NAME_AUTH_PROXY" {
			return f.Value, nil
		}
	}
	return "", nil
}

// callStamped sends a request by a key at an endpoint, again while the store is still
// recovering. A refusal is an answer.
func (d *HostClient) callStamped(ctx context.Context, endpoint wire.Endpoint, op string, body []byte, key KeyPair) (r wire.Reply, err error) {
	head, err := Stamp(key, body)
	if err != nil {
		return r, err
	}
	for deadline := time.Now().Add(d.patience); ; {
		if r, err = d.send(ctx, &wire.Call{Endpoint: endpoint, Op: op, Body: body, Head: head, WithinMs: 60_000}); err != nil {
			return r, err
		}
		switch {
		case r.Status < 500:
			return r, nil
		case r.Status == 503 && time.Now().Before(deadline) && Pause(ctx, 200*time.Millisecond):
			continue
		}
		return r, fmt.Errorf("%s: %s", op, r.Body)
	}
}
