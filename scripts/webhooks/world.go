package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"cloister/attestation"
	"cloister/scripts/internal/deployment"
)

type object = deployment.Object

// A world is a simulator that is started and killed.
type world struct {
	deployment.Simulator
	store   string
	keys    []attestation.WebhookKey
	rawKeys []byte
	tags    atomic.Int64
}

func (w *world) start() error { return w.Start(nil, "-store", w.store, "-webhook-loopback") }

// fetchKeys asks for the key set as a receiver does.
func (w *world) fetchKeys() (err error) {
	if w.rawKeys, err = w.Get("/public/v1/discovery/webhooks/jwks"); err != nil {
		return err
	}
	w.keys, err = attestation.ParseWebhookKeys(w.rawKeys)
	return err
}

func (w *world) writeKeys() error {
	return os.WriteFile(filepath.Join(w.Dir, "jwks.json"), w.rawKeys, 0o600)
}

func (w *world) subscribe(name, url string) error {
	_, err := w.API.Submit(context.Background(), "ACTIVITY_TYPE_CREATE_WEBHOOK_ENDPOINT", object{"name": name, "url": url, "subscriptions": []object{{"eventType": "ACTIVITY_UPDATES"}}})
	return err
}

// tagAndDelete is two activities, so that nothing grows.
func (w *world) tagAndDelete() (ids []string, err error) {
	ctx := context.Background()
	a, err := w.API.Submit(ctx, "ACTIVITY_TYPE_CREATE_USER_TAG", object{"userTagName": fmt.Sprint("tag ", w.tags.Add(1)), "userIds": []string{}})
	if err != nil {
		return nil, err
	}
	var made struct{ UserTagID string }
	if err := a.Into(&made); err != nil {
		return nil, err
	}
	b, err := w.API.Submit(ctx, "ACTIVITY_TYPE_DELETE_USER_TAGS", object{"userTagIds": []string{made.UserTagID}})
	if err != nil {
		return nil, err
	}
	return []string{a.ID, b.ID}, nil
}
