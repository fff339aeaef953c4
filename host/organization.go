package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"cloister/attestation/request"
)

const organizationUsage = `usage: cloister-host create-organization -admission-key FILE -name NAME -out FILE [flags]

Makes a first organization with one root user, who has one API key. The request
is stamped by the admission key that the enclave's manifest names. A new API key
is made unless -public-key names one that exists.

What is about to be sent stands in OUT.pending meanwhile. If the reply is lost,
the same command sends the same request again, which makes no second
organization.

`

type organizationFlags struct {
	admission, name, user, public, curve, out, url string
	timeout                                        time.Duration
}

func parseOrganization(w *world, args []string) (*organizationFlags, error) {
	f := new(organizationFlags)
	set := newFlags(w, "create-organization", organizationUsage)
	set.StringVar(&f.admission, "admission-key", "", "`FILE` with the private admission key, P-256, in hexadecimal")
	set.StringVar(&f.name, "name", "", "name of the organization")
	set.StringVar(&f.user, "root-user", "Root user", "name of the root user")
	set.StringVar(&f.public, "public-key", "", "public key, in hexadecimal, of an API key that exists")
	set.StringVar(&f.curve, "curve", "API_KEY_CURVE_P256", "curve of -public-key")
	set.StringVar(&f.out, "out", "", "`FILE` for the credentials, made readable by its owner only; must not exist")
	set.StringVar(&f.url, "api-url", defaultURL, "`URL` of the interface")
	set.DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for the reply")
	if err := parseFlags(set, args); err != nil {
		return nil, err
	}
	if set.NArg() > 0 || f.admission == "" || f.name == "" || f.out == "" {
		return nil, fmt.Errorf("%w: want -admission-key, -name and -out (see -help)", errUsage)
	}
	f.url = strings.TrimSuffix(f.url, "/")
	return f, nil
}

// pending is an admission that was sent, or will be.
type pending struct {
	Key  request.KeyPair `json:"rootApiKey"`
	Body json.RawMessage `json:"body"`
}

// createOrganization is the command.
func createOrganization(ctx context.Context, w *world, args []string) error {
	f, err := parseOrganization(w, args)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(f.out); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s exists already", f.out)
	}
	text, err := os.ReadFile(f.admission)
	if err != nil {
		return err
	}
	admission, err := request.ParseKey(string(text))
	if err != nil {
		return fmt.Errorf("%s: %w", f.admission, err)
	}
	p, err := f.prepare(w)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	status, reply, err := (&request.API{URL: f.url, Key: admission}).Post(ctx, "/boot/v1/create_organization", p.Body)
	if err != nil {
		return fmt.Errorf("%w; run the same command again", err)
	}
	if status >= 500 {
		return fmt.Errorf("status %d: %s; run the same command again", status, reply)
	}
	if status >= 400 { // refused for good: nothing was made
		return errors.Join(fmt.Errorf("status %d: %s", status, reply), os.Remove(f.out+".pending"))
	}
	made := request.Credentials{APIURL: f.url, RootAPIKey: p.Key}
	if err := json.Unmarshal(reply, &made); err != nil || made.OrganizationID == "" {
		return errors.New("the reply names no organization")
	}
	made.APIURL, made.RootAPIKey = f.url, p.Key
	b, err := json.MarshalIndent(made, "", "  ")
	if err != nil {
		return err
	}
	if err := writeSecret(f.out, append(b, '\n')); err != nil {
		return err
	}
	if err := os.Remove(f.out + ".pending"); err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.stdout, "organization %s, credentials in %s\n", made.OrganizationID, f.out)
	return err
}

// prepare makes the request, or finds the one that was made before.
func (f *organizationFlags) prepare(w *world) (*pending, error) {
	name, p := f.out+".pending", new(pending)
	b, err := os.ReadFile(name)
	if err == nil {
		if json.Unmarshal(b, p) != nil || len(p.Body) == 0 {
			return nil, fmt.Errorf("%s: not readable", name)
		}
		fmt.Fprintf(w.stderr, "sending again what stands in %s\n", name)
		return p, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	p.Key.PublicKey = f.public
	if f.public == "" {
		if p.Key, err = request.NewKeyPair(w.rand); err != nil {
			return nil, err
		}
		f.curve = "API_KEY_CURVE_P256"
	}
	if p.Body, err = json.Marshal(map[string]any{
		"organizationName": f.name, "rootUserName": f.user,
		"rootApiKey":  map[string]string{"apiKeyName": "Root API key", "publicKey": p.Key.PublicKey, "curveType": f.curve},
		"timestampMs": strconv.FormatInt(w.now().UnixMilli(), 10),
	}); err != nil {
		return nil, err
	}
	if b, err = json.Marshal(p); err != nil {
		return nil, err
	}
	return p, writeSecret(name, b)
}

// writeSecret writes a file that only its owner can read, whole or not at all.
func writeSecret(name string, b []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+"-*") // mode 0600
	if err != nil {
		return err
	}
	_, err = tmp.Write(b)
	err = errors.Join(err, tmp.Sync(), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), name)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp.Name()))
	}
	return nil
}
