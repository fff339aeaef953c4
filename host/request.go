package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"cloister/attestation/request"
	"cloister/shared/wire"
)

const requestUsage = `usage: cloister-host request [flags] PATH [BODY]

Stamps BODY with an API key, posts it to PATH and prints the reply. BODY is
JSON, @FILE for a file, - or nothing for standard input. Exit code 1 when the
reply is an error.

  cloister-host request -credentials credentials.json /public/v1/query/whoami '{}'
  cloister-host request -credentials credentials.json -submit ACTIVITY_TYPE_UPDATE_USER_NAME \
      /public/v1/submit/update_user_name '{"userId":"…","userName":"Ada"}'

A query's body is given the organization's id if it names none. With -submit
BODY is the activity's parameters and the rest is filled in. With -raw the bytes
are sent as they are.

`

const defaultURL = "http://127.0.0.1:8080"

type requestFlags struct {
	credentials, keyFile, url, organization, submit string
	proofs, logProof, raw                           bool
	timeout                                         time.Duration
	path, body                                      string
}

func parseRequest(w *world, args []string) (*requestFlags, error) {
	f := new(requestFlags)
	fs := newFlags(w, "request", requestUsage)
	fs.StringVar(&f.credentials, "credentials", "", "credentials.json `FILE`: address, organization and key")
	fs.StringVar(&f.keyFile, "key-file", "", "`FILE` with a private API key in hexadecimal, or with credentials; \":ed25519\" or \":secp256k1\" at the end for these curves")
	fs.StringVar(&f.url, "api-url", "", "`URL` of the interface (default: of the credentials, else "+defaultURL+")")
	fs.StringVar(&f.organization, "organization", "", "`ID` of the organization (default: of the credentials)")
	fs.StringVar(&f.submit, "submit", "", "BODY is the parameters of an activity of this `TYPE`")
	fs.BoolVar(&f.proofs, "proofs", false, "with -submit: ask for app proofs")
	fs.BoolVar(&f.logProof, "log-proof", false, "wait for the logged proof, which then stands in the reply to a submit")
	fs.BoolVar(&f.raw, "raw", false, "send BODY as it is")
	fs.DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for the reply")
	if err := parseFlags(fs, args); err != nil {
		return nil, err
	}
	switch {
	case fs.NArg() == 0 || fs.NArg() > 2:
		return nil, fmt.Errorf("%w: want PATH and BODY after the flags (see -help)", errUsage)
	case f.credentials == "" && f.keyFile == "":
		return nil, fmt.Errorf("%w: want -credentials or -key-file", errUsage)
	case f.raw && f.submit != "":
		return nil, fmt.Errorf("%w: -raw and -submit exclude each other", errUsage)
	case f.proofs && f.submit == "":
		return nil, fmt.Errorf("%w: -proofs needs -submit", errUsage)
	case f.logProof && !strings.HasPrefix(fs.Arg(0), "/public/v1/submit/"):
		return nil, fmt.Errorf("%w: -log-proof goes with a submit", errUsage)
	case !strings.HasPrefix(fs.Arg(0), "/"):
		return nil, fmt.Errorf("%w: PATH begins with /", errUsage)
	}
	f.path, f.body = fs.Arg(0), fs.Arg(1)
	return f, nil
}

// sendRequest is the command: it stamps and sends one request.
func sendRequest(ctx context.Context, w *world, args []string) error {
	f, err := parseRequest(w, args)
	if err != nil {
		return err
	}
	api, err := f.fill(w)
	if err != nil {
		return err
	}
	body, err := readBody(w, f.body)
	if err != nil {
		return err
	}
	if body, err = f.complete(body, api); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	status, reply, err := api.Post(ctx, f.path, body)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(w.stdout, "%s\n", bytes.TrimRight(reply, "\n")); err != nil {
		return err
	}
	if status >= 400 {
		return fmt.Errorf("reply has status %d", status)
	}
	return nil
}

// fill takes values without a flag from the credentials, and reads the key.
func (f *requestFlags) fill(w *world) (*request.API, error) {
	c := new(request.Credentials)
	if f.credentials != "" {
		b, err := os.ReadFile(f.credentials)
		if err != nil {
			return nil, err
		}
		if c, err = request.ParseCredentials(b); err != nil {
			return nil, fmt.Errorf("%s: %w", f.credentials, err)
		}
	}
	key, err := c.Key()
	if f.keyFile != "" {
		b, bad := os.ReadFile(f.keyFile)
		if bad != nil {
			return nil, bad
		}
		key, err = request.ParseKeyFile(b)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", cmp.Or(f.keyFile, f.credentials), err)
	}
	return &request.API{URL: strings.TrimSuffix(cmp.Or(f.url, c.APIURL, defaultURL), "/"), OrganizationID: cmp.Or(f.organization, c.OrganizationID),
		Key: key, AppProofs: f.proofs, LogProofs: f.logProof, Now: w.now}, nil
}

func readBody(w *world, arg string) ([]byte, error) {
	from := w.stdin
	if file, ok := strings.CutPrefix(arg, "@"); ok {
		r, err := os.Open(file)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		from = r
	} else if arg != "" && arg != "-" {
		return []byte(arg), nil
	}
	b, err := io.ReadAll(io.LimitReader(from, wire.MaxBody+1))
	if err != nil {
		return nil, fmt.Errorf("reading the body: %w", err)
	}
	if len(b) > wire.MaxBody {
		return nil, fmt.Errorf("the body is larger than %d bytes", wire.MaxBody)
	}
	return b, nil
}

// complete fills in what a submit always has, or a query's organization.
func (f *requestFlags) complete(body []byte, api *request.API) ([]byte, error) {
	if f.submit != "" {
		if api.OrganizationID == "" {
			return nil, fmt.Errorf("%w: -submit needs -organization or -credentials", errUsage)
		}
		if !json.Valid(body) {
			return nil, errors.New("the parameters are not JSON")
		}
		return api.Activity(f.submit, json.RawMessage(body))
	}
	if f.raw || api.OrganizationID == "" || !strings.HasPrefix(f.path, "/public/v1/query/") {
		return body, nil
	}
	return request.WithOrganization(body, api.OrganizationID), nil
}
