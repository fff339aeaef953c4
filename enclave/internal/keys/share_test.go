package keys_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strings"
	"testing"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/policy"
	"cloister/shared/tvc"
)

// An operator's share goes to the enclave's key with his approval, by a grant for both of his keys and no other.
func TestReEncryptShare(t *testing.T) {
	const action = "ENCRYPT"
	owner := [16]byte{15: 21}
	vault := shelf{owner: []byte(strings.Repeat("m", 32))}
	both := []policy.Key{{Owner: owner, No: 1}, {Owner: owner, No: 2}}
	asked := keys.ShareReEncryption{Signing: both[1], Manifest: [32]byte{7}}
	var pair string
	for i, text := range []string{"m/5527107'/0'/0'/0", "m/5527107'/0'/0'/1"} {
		p, err := keys.ParsePath(text)
		if err != nil {
			t.Fatal(err)
		}
		asked.Paths[i] = p
		h := granted(t, keys.ActionSign, both[0])
		h.Vault = keys.VaultOf(vault)
		w, err := h.OpenWallet(keys.ActionSign, both[0], [2][]byte{vault[owner]})
		if err != nil {
			t.Fatal(err)
		}
		k, err := w.Derive(chain.P256, p)
		if err != nil {
			t.Fatal(err)
		}
		pair += hex.EncodeToString(k.Public().Bytes())
	}
	operator, err := tvc.ParsePair(pair)
	if err != nil {
		t.Fatal(err)
	}
	setup, err := tvc.DrawKeys(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	share := bytes.Repeat([]byte{9}, tvc.ShareSize)
	seal := func(plain []byte) []byte {
		box, err := tvc.Seal(rand.Reader, operator.Encryption, plain)
		if err != nil {
			t.Fatal(err)
		}
		return box
	}
	asked.Share, asked.Setup = seal(share), setup.Encryption.PublicKey()
	run := func(h *keys.Holder, r keys.ShareReEncryption) ([]byte, []byte, error) {
		h.Vault = keys.VaultOf(vault)
		w, err := h.OpenWallet(action, both[0], [2][]byte{vault[owner]})
		if err != nil {
			return nil, nil, err
		}
		return h.ReEncryptShare(rand.Reader, w, &r)
	}
	h := granted(t, action, both...)
	box, approval, err := run(h, asked)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := tvc.Open(setup.Encryption, box); err != nil || !bytes.Equal(got, share) || tvc.CheckApproval(pair, asked.Manifest, approval) != nil {
		t.Error("another share, or no approval of the manifest:", err)
	}
	if _, _, err := run(h, asked); err == nil {
		t.Error("a grant re-encrypts twice")
	}
	for name, h := range map[string]*keys.Holder{"to sign": granted(t, keys.ActionSign, both...), "for the first key": granted(t, action, both[0]), "for the second": granted(t, action, both[1]), "for none": granted(t, action)} {
		if box, _, err := run(h, asked); err == nil || box != nil {
			t.Errorf("a grant %s re-encrypts a share", name)
		}
	}
	for name, sealed := range map[string][]byte{"altered": append(bytes.Clone(asked.Share[:40]), seal(share)[40:]...), "short": seal(share[1:]), "empty": nil} {
		bad := asked
		bad.Share = sealed
		if box, _, err := run(granted(t, action, both...), bad); !errors.Is(err, keys.ErrShare) || box != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}
