package main

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"cloister/host/link"
	"cloister/shared/wire"
)

const bootUsage = `usage: cloister-host boot OPERATION [flags]

Passes operators' files to an enclave that is starting, and prints what it answers. It
knows no secret and decides nothing: everything is signed, attested or encrypted for
the enclave. A host must be running (cloister-host serve), because the enclave
reads from its store.

operations:
  status          how far the enclave has come
  genesis         create a deployment: -threshold, and -operator for each; with a key
                  service -key-service, the file with its answer to GenerateDataKey
  manifest        give the manifest: -manifest, -approval for each, -predecessor, -configuration
  setup-document  ask the enclave to identify itself: -nonce
  share           give an operator's share: -in
  key-service-request  print what the key service must be asked
  key-service     give its answer to Decrypt: -in
  shares          print the newest share set of a root secret: -quorum-key
  logs            how far each range's log is, which witnesses are missing, and what a
                  starting range waits for

`

// defaultEnclave is where an enclave listens on a parent instance, here and in serve.
const defaultEnclave = "vsock://16:5000"

// maxBootFile bounds a file that goes to the enclave, in bytes.
const maxBootFile = wire.MaxBody / 2

type bootFlags struct {
	op, enclave, manifest, predecessor, configuration, nonce, quorum, keyService, in string
	operators, approvals                                                             list
	threshold                                                                        int
	ranges                                                                           uint
	timeout                                                                          time.Duration
}

func parseBoot(w *world, args []string) (*bootFlags, error) {
	f := new(bootFlags)
	op := ""
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		op, args = args[0], args[1:]
	}
	set := newFlags(w, "boot", bootUsage)
	set.StringVar(&f.enclave, "enclave", cmp.Or(w.env(envName("enclave")), defaultEnclave), "`ADDRESS` of the enclave: vsock://CID:PORT, or of a simulated one tcp://HOST:PORT (CLOISTER_ENCLAVE)")
	set.IntVar(&f.threshold, "threshold", 0, "how many operators act together, 2 or more")
	set.UintVar(&f.ranges, "ranges", 0, "of how many ranges the deployment is; 0: one")
	set.Var(&f.operators, "operator", "`FILE` with an operator's public keys, as cloister-verify operator-key printed them (repeatable)")
	set.StringVar(&f.manifest, "manifest", "", "`FILE` with the manifest")
	set.Var(&f.approvals, "approval", "`FILE` with an approval, as cloister-verify approve printed it (repeatable)")
	set.StringVar(&f.predecessor, "predecessor", "", "`FILE` with the manifest before it")
	set.StringVar(&f.configuration, "configuration", "", "`FILE` with the configuration that the manifest names")
	set.StringVar(&f.nonce, "nonce", "", "`hex` of 32 bytes, by cloister-verify nonce")
	set.StringVar(&f.keyService, "key-service", "", "`FILE` with the key service's answer to GenerateDataKey")
	set.StringVar(&f.quorum, "quorum-key", "", "`hex` of the quorum public key, as the manifest names it")
	set.StringVar(&f.in, "in", "-", "`FILE` to give; - for standard input")
	set.DurationVar(&f.timeout, "timeout", time.Minute, "how long to wait for the reply")
	if err := parseFlags(set, args); err != nil {
		return nil, err
	}
	if op == "" && set.NArg() == 1 {
		op = set.Arg(0) // as release 0.6 had it
	} else if op == "" || set.NArg() > 0 {
		return nil, fmt.Errorf("%w: want one operation (see -help)", errUsage)
	}
	f.op = strings.ReplaceAll(op, "-", "_")
	return f, nil
}

// boot is the command.
func boot(ctx context.Context, w *world, args []string) error {
	f, err := parseBoot(w, args)
	if err != nil {
		return err
	}
	body, err := f.body(w)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, f.timeout)
	defer cancel()
	reply, err := link.AskOnce(ctx, f.enclave, f.op, body, w.now)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w.stdout, "%s\n", reply)
	return err
}

func (f *bootFlags) body(w *world) ([]byte, error) {
	switch f.op {
	case wire.OpStatus, wire.OpLogs, wire.OpKeyServiceRequest:
		return nil, nil
	case wire.OpGenesis:
		return f.genesis()
	case wire.OpManifest:
		return f.manifestBody()
	case wire.OpSetupDocument:
		return json.Marshal(map[string]string{"nonce": f.nonce})
	case wire.OpShares:
		return json.Marshal(map[string]string{"quorumPublicKey": f.quorum})
	case wire.OpShare, wire.OpKeyService:
		if f.in == "-" {
			return io.ReadAll(io.LimitReader(w.stdin, maxBootFile))
		}
		return bootFile(f.in)
	}
	return nil, fmt.Errorf("%w: no such operation (see -help)", errUsage)
}

func bootFile(name string) ([]byte, error) {
	b, err := os.ReadFile(name)
	if err == nil && len(b) > maxBootFile {
		err = fmt.Errorf("%s is longer than %d bytes", name, maxBootFile)
	}
	return b, err
}

func (f *bootFlags) genesis() ([]byte, error) {
	type operators struct {
		Threshold  int      `json:"threshold"`
		PublicKeys []string `json:"publicKeys"`
		ShareKeys  []string `json:"shareKeys"`
	}
	o := operators{Threshold: f.threshold}
	for _, name := range f.operators {
		b, err := bootFile(name)
		if err != nil {
			return nil, err
		}
		var k struct{ PublicKey, ShareKey string }
		if err := json.Unmarshal(b, &k); err != nil || k.PublicKey == "" || k.ShareKey == "" {
			return nil, fmt.Errorf("%s: %d bytes, want an operator's public keys as cloister-verify operator-key prints them", name, len(b))
		}
		o.PublicKeys, o.ShareKeys = append(o.PublicKeys, k.PublicKey), append(o.ShareKeys, k.ShareKey)
	}
	body := map[string]any{"operators": o, "ranges": f.ranges}
	if f.keyService != "" {
		b, err := bootFile(f.keyService)
		if err != nil {
			return nil, err
		}
		var k struct{ CiphertextBlob, CiphertextForRecipient string }
		if err := json.Unmarshal(b, &k); err != nil || k.CiphertextBlob == "" || k.CiphertextForRecipient == "" {
			return nil, fmt.Errorf("%s: %d bytes, want an answer with CiphertextBlob and CiphertextForRecipient", f.keyService, len(b))
		}
		body["keyService"] = map[string]string{"ciphertextBlob": k.CiphertextBlob, "ciphertextForRecipient": k.CiphertextForRecipient}
	}
	return json.Marshal(body)
}

func (f *bootFlags) manifestBody() ([]byte, error) {
	body := map[string]any{}
	for field, name := range map[string]string{"manifest": f.manifest, "predecessor": f.predecessor, "configuration": f.configuration} {
		if name == "" {
			continue
		}
		b, err := bootFile(name)
		if err == nil && len(b) == 0 {
			err = fmt.Errorf("%s: the %s is empty", name, field)
		}
		if err != nil {
			return nil, err
		}
		body[field] = base64.StdEncoding.EncodeToString(b)
	}
	list := []json.RawMessage{}
	for _, name := range f.approvals {
		b, err := bootFile(name)
		if err != nil {
			return nil, err
		}
		var approval struct{ PublicKey, Signature string } // the enclave judges it; here the file's name can still be told
		if err := json.Unmarshal(b, &approval); err != nil || approval.PublicKey == "" || approval.Signature == "" {
			return nil, fmt.Errorf("%s: %d bytes, want an approval as cloister-verify approve prints it", name, len(b))
		}
		list = append(list, json.RawMessage(b))
	}
	body["approvals"] = list
	return json.Marshal(body)
}
