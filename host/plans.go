package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"cloister/attestation/request"
)

const plansUsage = `usage: cloister-host put-plans -admission-key FILE -plans FILE [flags]

Says which plans top-level organizations can be on, in every range of the
deployment. The document is stamped by the admission key that the enclave's
manifest names. Its version must be higher than that of the plans in force, or
the plans must be the same.

`

// kept tells which ranges have the plans.
type kept struct {
	Version string `json:"version"`
	Ranges  []int  `json:"ranges"`
	Of      int    `json:"of"`
}

// putPlans is the command.
func putPlans(ctx context.Context, w *world, args []string) error {
	var keyFile, plansFile, url string
	var timeout time.Duration
	set := newFlags(w, "put-plans", plansUsage)
	set.StringVar(&keyFile, "admission-key", "", "`FILE` with the private admission key, P-256, in hexadecimal")
	set.StringVar(&plansFile, "plans", "", "`FILE` with the document of plans: {\"version\", \"default\", \"plans\"}")
	set.StringVar(&url, "api-url", defaultURL, "`URL` of the interface")
	set.DurationVar(&timeout, "timeout", time.Minute, "how long to wait for all replies")
	if err := parseFlags(set, args); err != nil {
		return err
	}
	if set.NArg() > 0 || keyFile == "" || plansFile == "" {
		return fmt.Errorf("%w: want -admission-key and -plans (see -help)", errUsage)
	}
	text, err := os.ReadFile(keyFile)
	if err != nil {
		return err
	}
	key, err := request.ParseKey(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", keyFile, err)
	}
	document, err := os.ReadFile(plansFile)
	if err != nil {
		return err
	}
	var plans map[string]json.RawMessage
	if err := json.Unmarshal(document, &plans); err != nil || plans == nil {
		return fmt.Errorf("%s: %d bytes, want a document of plans in JSON", plansFile, len(document))
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	api := &request.API{URL: strings.TrimSuffix(url, "/"), Key: key}
	put := func() (k kept, err error) {
		plans["timestampMs"] = json.RawMessage(strconv.Quote(strconv.FormatInt(w.now().UnixMilli(), 10)))
		body, err := json.Marshal(plans)
		if err != nil {
			return k, err
		}
		status, reply, err := api.Post(ctx, "/boot/v1/put_plans", body)
		switch {
		case err != nil:
		case status != 200:
			err = fmt.Errorf("status %d: %s", status, reply)
		default:
			err = json.Unmarshal(reply, &k)
		}
		return k, err
	}
	k, err := put()
	for r := 0; err == nil && r < k.Of; r++ { // other enclaves have the rest
		if slices.Contains(k.Ranges, r) {
			continue
		}
		plans["range"] = json.RawMessage(strconv.Itoa(r))
		_, err = put()
	}
	if err != nil {
		return fmt.Errorf("%w; run the same command again", err)
	}
	_, err = fmt.Fprintf(w.stdout, "plans of version %s are in force in %d ranges\n", k.Version, k.Of)
	return err
}
