package cloister_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A crossing row lists the bytes in the open of a package's exported signatures and fields, as Func.parameter, Type.Field or,
// for a result without a name, Func and a full stop. All in public is told or sealed: whatever is secret crosses as a
// secret.Secret, and what is not listed fails. private are the few places where a secret's bytes cross, with the reason.
var crossings = []struct{ folder, public, private string }{
	{"core", "", "SecretFrom.b"}, // a simulator's root secret, read from its file
	{"core/internal/lifecycle", "Device.Attest.publicKey Device.Attest.userData Device.Attest.nonce Device.Attest. Device.ExtendPCR.data Device.ExtendPCR. Device.DescribePCR.value " +
		"Key.Public Key.Sign.text Key.Sign. Serving.Deployment Serving.BootProof. Enclave.Status. Enclave.Operate.body Enclave.Operate.",
		"Device.Random.p"}, // the module's randomness
	{"core/internal/ranges", "Ranges.Take.body Ranges.Give.body Ranges.Publish.manifest", ""},
	{"core/internal/providers", "", ""},
	{"core/internal/outbox", "Config.Deployment Config.KeyedHash", ""},
	{"core/internal/proxy", "Call.Body Call.Cut.body Call.Cut.", ""},
	{"app", "Device.Attest.publicKey Device.Attest.userData Device.Attest.nonce Device.Attest. Device.ExtendPCR.data Device.ExtendPCR. Device.DescribePCR.value Config.RootSHA256", ""},
	{"internal/boot", "Opener.info Opener.box NewOpener.point Keyring.EncryptFor.info Keyring.EncryptFor.box TakeOver.info TakeOver.box Keyring.Wrap.deployment Keyring.Wrap. Keyring.Hash. " +
		"Unwrap.deployment Unwrap.sealed Genesis.Quorum Genesis.Random NewGenesis. Deployment.genesis Deployment. QuorumPublicKey. ParseGenesis.record " +
		"DeploymentState.Manifest DeploymentState.Operators DeploymentState.Quorum DeploymentState.Allows.hash DeploymentState.Next.hash DeploymentState.Next.quorum Keyring.SealDeploymentState.deployment Keyring.SealDeploymentState. " +
		"Keyring.OpenDeploymentState.deployment Keyring.OpenDeploymentState.sealed Factor.Blob NewShareSet.deployment", ""},
	{"internal/shamir", "", ""},
	{"internal/keys", "Holder.ExportMnemonic.owner Holder.ExportMnemonic.sealed Holder.Organization Holder.Activity Opener.Open.owner Opener.Open.sealed " +
		"Holder.OpenWallet.sealed Holder.OpenKey.owner Holder.OpenKey.sealed Stored.Owner Stored.Sealed DecodePayload. Digest.payload Digest. " +
		"SparkTransfer.ID SparkSent.Refunds SparkReceived.Cipher SparkPackages.Signature Holder.SharePreimage.hash " +
		"ShareReEncryption.Share ShareReEncryption.Manifest Holder.ReEncryptShare.box Holder.ReEncryptShare.approval", ""},
	{"internal/settings", "Spending.UnmarshalText.text Spending.MarshalText.",
		"Parse.raw"}, // the document as it comes, with the passwords in it
	{"internal/netclient", "Field.Value Request.Body Response.Body Reading.Discovery Reading.Keys Roots.extra Mail.Message", ""},
	{"internal/secret", "Unencodable.MarshalJSON. Unencodable.MarshalText. Unencodable.MarshalBinary. Unencodable.MarshalCBOR. Unencodable.GobEncode.",
		"From.b Make.fill Secret.Use.f"}, // where bytes become a secret, and where it lends them
	{"internal/seal", "Name.Deployment Name.Organization Name.Owner Name.Root Key.Seal. Key.Append.dst Key.Append. Key.InPlace. Key.SealSecret.sealed " +
		"Key.OpenSecret.sealed Key.Open.sealed",
		"Key.Seal.plain Key.Append.plain Key.InPlace.b Key.Open."}, // records, in which secrets are sealed once more
	{"internal/bundle", "", ""},
	{"internal/login", "Signup.APIKeys Signup.Authenticators Signup.OauthProviders ParseDiscovery.raw MarshalDiscovery. ParseKeySet.raw MarshalKeySet. Mail.Bytes. " +
		"Request.Body HeaderField.Value Identity.Attempt. Unverified.Attempt.attempt OAuth2Provider.AccessToken.body OAuth2Provider.Subject.body Passcode.MarshalJSON.", ""},
	{"internal/onramp", "ReadMoonPay.body ReadCoinbaseSession.body ReadCoinbase.body", ""},
	{"internal/webhook", "Signer.JWKS. Delivery.Body", ""},
	{"internal/kms", "Recipient.Public GenerateRequest.document GenerateRequest. DecryptRequest.blob DecryptRequest.document DecryptRequest. Recipient.Open.answer", ""},
	{"internal/p256", "Signature. NewKey.point NewSigner.point Signer.Sign.digest Sign.digest FromDER.b Signature.DER. Verify.digest Verify.signature Uncompressed.b " +
		"Uncompressed.point Compressed.point Compressed.short ParsePublicKey.b RecoveryID.digest",
		"NewKey.private NewKey.key Sign.key"}, // the keys of wallets, which package keys holds and prints nothing of
}

// What unexported names of these rooms may not be, as bytes.
var secretName = regexp.MustCompile(`(?i)^(q|root|seed|entropy|mnemonic|private|secret|passw.*|passphrase|scalar|shares?|key|keys|ring|storage|blind)$`)

// Those that may be, and why.
var named = map[string]string{
	"core/internal/lifecycle genesisOf.shares": "the share set, in which each share is encrypted to its operator",
	"internal/boot record.Storage":             "the keyring as it is encoded, inside erase.Do",
	"internal/boot record.Blind":               "likewise",
	"internal/login openEnvelope.key":          "inside Use of that key",
	"internal/kms enveloped.key":               "as the service encrypted it",
}

func TestNoBytesOfSecretsCross(t *testing.T) {
	for _, row := range crossings {
		listed := append(strings.Fields(row.public), strings.Fields(row.private)...)
		seen := map[string]bool{}
		for _, c := range crossingsOf(t, filepath.Join("enclave", row.folder)) {
			_, last, _ := strings.Cut(c.name[strings.LastIndexByte(c.name, '.'):], ".")
			switch {
			case c.exported && !slices.Contains(listed, c.name):
				t.Errorf("enclave/%s: %s is bytes and not on the list", row.folder, c.name)
			case c.exported:
				seen[c.name] = true
			case row.folder == "internal/keys": // what it holds stays inside its erase.Do
			case (c.private || secretName.MatchString(last)) && named[row.folder+" "+c.name] == "":
				t.Errorf("enclave/%s: %s is a secret as bytes", row.folder, c.name)
			}
		}
		for _, name := range listed {
			if !seen[name] {
				t.Errorf("enclave/%s: the list has %s, which is not there", row.folder, name)
			}
		}
	}
}

// What keeps the lists must be able to say no.
func TestCrossingsAreSeen(t *testing.T) {
	const src = `package x
type Ring struct { Storage [32]byte; Epoch uint32; hidden []byte; Key *ecdsa.PrivateKey; Held secret.Secret }
type Root interface { Recover() ([]byte, error) }
type Opener func(info []byte) secret.Secret
func New(q []byte, n int, s secret.Secret) error { return nil }
func (r *Ring) Of(all map[int][]byte, each func(b []byte)) *[32]byte { return nil }
type Key [32]byte
func hide(seed [SeedSize]byte) {}`
	file, err := parser.ParseFile(token.NewFileSet(), "x.go", src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var exported, rest []string
	for _, c := range crossingsIn(file) {
		if c.exported {
			exported = append(exported, c.name)
		} else {
			rest = append(rest, c.name)
		}
	}
	if want := strings.Fields("Ring.Storage Ring.Key Root.Recover. Opener.info New.q Ring.Of.all Ring.Of.each Ring.Of. Key."); !slices.Equal(exported, want) {
		t.Errorf("exported %q, want %q", exported, want)
	}
	if want := strings.Fields("Ring.hidden hide.seed"); !slices.Equal(rest, want) {
		t.Errorf("others %q, want %q", rest, want)
	}
}

// A crossing is bytes in a signature or a field, or a private key of a library's type, which prints itself.
type crossing struct {
	name              string
	exported, private bool
}

func crossingsOf(t *testing.T, dir string) (all []crossing) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files: %v", dir, len(files), err)
	}
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, crossingsIn(file)...)
	}
	return all
}

func crossingsIn(file *ast.File) (all []crossing) {
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name, exported := d.Name.Name, d.Name.IsExported()
			if d.Recv != nil {
				of := d.Recv.List[0].Type
				if star, ok := of.(*ast.StarExpr); ok {
					of = star.X
				}
				if id, ok := of.(*ast.Ident); ok {
					name, exported = id.Name+"."+name, exported && id.IsExported()
				}
			}
			all = append(all, ofFunc(name, exported, d.Type)...)
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if s, ok := s.(*ast.TypeSpec); ok {
					all = append(all, ofType(s.Name.Name, s.Name.IsExported(), s.Type)...)
				}
			}
		}
	}
	return all
}

func ofFunc(name string, exported bool, f *ast.FuncType) (all []crossing) {
	all = ofFields(name, exported, f.Params, true)
	return append(all, ofFields(name, exported, f.Results, true)...)
}

func ofType(name string, exported bool, x ast.Expr) []crossing {
	switch x := x.(type) {
	case *ast.StructType:
		return ofFields(name, exported, x.Fields, false)
	case *ast.InterfaceType:
		var all []crossing
		for _, m := range x.Methods.List {
			if f, ok := m.Type.(*ast.FuncType); ok {
				all = append(all, ofFunc(name+"."+m.Names[0].Name, exported && m.Names[0].IsExported(), f)...)
			}
		}
		return all
	case *ast.FuncType:
		return ofFunc(name, exported, x)
	}
	if open, private := inTheOpen(x); open {
		return []crossing{{name + ".", exported, private}}
	}
	return nil
}

func ofFields(of string, exported bool, l *ast.FieldList, signature bool) (all []crossing) {
	if l == nil {
		return nil
	}
	for _, f := range l.List {
		open, private := inTheOpen(f.Type)
		if !open {
			continue
		}
		if len(f.Names) == 0 {
			all = append(all, crossing{of + ".", exported, private})
		}
		for _, n := range f.Names {
			all = append(all, crossing{of + "." + n.Name, exported && (signature || n.IsExported()), private})
		}
	}
	return all
}

// inTheOpen tells whether a type holds bytes, or a library's private key.
func inTheOpen(x ast.Expr) (open, private bool) {
	ast.Inspect(x, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ArrayType:
			id, ok := n.Elt.(*ast.Ident)
			open = open || ok && id.Name == "byte"
		case *ast.SelectorExpr:
			private = private || n.Sel.Name == "PrivateKey"
			return false
		}
		return true
	})
	return open || private, private
}
