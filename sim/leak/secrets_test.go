package leak_test

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fxamacker/cbor/v2"

	"cloister/attestation/tlog"
	"cloister/host/store"
	"cloister/host/store/sqlite"
	"cloister/shared/wire"
	"cloister/sim/laptop"
)

// Nobody tells the test what to look for. It has what lies on the disk, and the root
// secret, which a simulator keeps in a file; from there it opens the deployment as an
// enclave does, by other code: root secret, keyring, data keys, entries, and what is
// sealed in them. Only the live key is stored nowhere: it is looked for in the
// enclave's memory, by its public half.

// The kinds of sealed objects, and the place of each in what a record is bound to.
const (
	sealedEntry   = 1
	sealedDataKey = 5
	sealedSecret  = 6
	sealedKeyring = 7
)

type sealedName struct {
	kind         byte
	key          uint32
	organization [16]byte
	place        uint64
	owner        [16]byte
	root         [32]byte
}

// unseal opens nonce ‖ ciphertext ‖ tag of AES-256-GCM under its name.
func unseal(key []byte, deployment [32]byte, n sealedName, sealed []byte) ([]byte, error) {
	b, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	a, err := cipher.NewGCM(b)
	if err != nil || len(sealed) < a.NonceSize() {
		return nil, errors.Join(errors.New("too short"), err)
	}
	name := binary.BigEndian.AppendUint32([]byte{1, n.kind}, n.key)
	name = append(append(name, deployment[:]...), n.organization[:]...)
	name = append(append(binary.BigEndian.AppendUint64(name, n.place), n.owner[:]...), n.root[:]...)
	return a.Open(nil, sealed[:a.NonceSize()], sealed[a.NonceSize():], name)
}

func derived(t *testing.T, secret []byte, purpose string) []byte {
	t.Helper()
	k, err := hkdf.Key(sha256.New, secret, nil, "cloister seal 1 "+purpose, 32)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// logKey is a key of the log of range 0 in its first generation.
func logKey(t *testing.T, secret []byte, use string, deployment [32]byte) []byte {
	t.Helper()
	logs, err := hkdf.Key(sha256.New, secret, nil, "logs of ranges", 32)
	if err != nil {
		t.Fatal(err)
	}
	k, err := hkdf.Key(sha256.New, logs, nil, fmt.Sprintf("cloister log 1 %s %x/0/1", use, deployment[:16]), 32)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// ringKeys are what the keys of a keyring are, by their numbers there.
var ringKeys = map[uint64]string{2: "sealing-key", 3: "blind-key", 4: "bundle-signer", 5: "keyring", 6: "session-signer", 7: "token-signer", 8: "token-signer",
	9: "credential-opener", 10: "credential-opener", 11: "webhook-signer", 12: "keyring"}

// open reads the store and hands every secret of the deployment to tell. What entries
// hold under seal is of no kind yet.
func (s *stack) open(tell func(kind string, b []byte)) {
	s.t.Helper()
	q, err := (&laptop.SeedFile{Seed: filepath.Join(s.dir, "enclave", "seed"), Passphrase: filepath.Join(s.dir, "enclave", "passphrase")}).Recover()
	if err != nil {
		s.t.Fatal(err)
	}
	var root []byte
	q.Use(func(b []byte) { root = slices.Clone(b) })
	tell("root-secret", root)
	db, err := sqlite.OpenExisting(s.t.Context(), filepath.Join(s.dir, "cloister.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	type dataKey struct {
		organization [16]byte
		key          uint32
	}
	var deployment [32]byte
	var storage []byte
	keys := map[dataKey][]byte{}
	var at [16]byte // the organization whose entries come
	var headers [][]byte
	keyed := map[string][]byte{} // of the log
	err = db.Export(s.t.Context(), func(r store.Row) error {
		switch r := r.(type) {
		case *store.ObjectRow:
			switch {
			case r.Name == "genesis":
				deployment = sha256.Sum256(r.Bytes)
			case strings.HasPrefix(r.Name, "keyring/"):
				wrapper := derived(s.t, root, "keyring")
				tell("sealing-key", wrapper)
				plain, err := unseal(wrapper, deployment, sealedName{kind: sealedKeyring}, r.Bytes)
				if err != nil {
					return fmt.Errorf("keyring: %w", err)
				}
				var ring map[uint64]any
				if err := cbor.Unmarshal(plain, &ring); err != nil {
					return err
				}
				for n, kind := range ringKeys {
					key, ok := ring[n].([]byte)
					if !ok || len(key) != 32 {
						return fmt.Errorf("no key %d in the keyring", n)
					}
					tell(kind, key)
				}
				storage = ring[2].([]byte)
				tell("sealing-key", derived(s.t, ring[3].([]byte), "tips of a range"))
				tell("log-key", logKey(s.t, ring[12].([]byte), "sign", deployment))
				for _, use := range []string{"mac", "salt"} {
					k := logKey(s.t, ring[12].([]byte), use, deployment)
					keyed[use] = k
					tell("log-key", k)
					for _, pad := range []byte{0x36, 0x5c} {
						tell("log-key state", hmacState(s.t, k, pad))
					}
				}
			}
		case *store.BatchRow:
			headers = append(headers, r.Header)
		case *store.KeyRow:
			plain, err := unseal(storage, deployment, sealedName{kind: sealedDataKey, key: r.KeyID, organization: r.Organization}, r.Sealed)
			if err != nil {
				return fmt.Errorf("data key: %w", err)
			}
			keys[dataKey{r.Organization, r.KeyID}] = plain
			tell("sealing-key", plain)
		case *store.OrganizationRow:
			at = r.ID
		case *store.EntryRow: // key id with its first bit set ‖ tree root before it ‖ commitment ‖ sealed
			n := sealedName{kind: sealedEntry, key: binary.BigEndian.Uint32(r.Sealed), organization: at, place: r.Seq, root: [32]byte(r.Sealed[4:])}
			id := n.key &^ (1 << 31)
			key := keys[dataKey{at, id}]
			plain, err := unseal(key, deployment, n, r.Sealed[68:])
			if err != nil {
				return fmt.Errorf("entry %d: %w", r.Seq, err)
			}
			var texts, owners [][]byte
			for rest := plain[16:]; len(rest) > 0; { // behind the seed, parts with their lengths
				size := 4 + binary.BigEndian.Uint32(rest)
				byteStrings(rest[4:size], func(b []byte) {
					texts = append(texts, b)
					if len(b) >= 16 {
						owners = append(owners, b[len(b)-16:]) // an id, or the end of a record's key
					}
				})
				rest = rest[size:]
			}
			for _, sealed := range texts {
				for _, owner := range owners {
					secret, err := unseal(key, deployment, sealedName{kind: sealedSecret, key: id, organization: at, owner: [16]byte(owner)}, sealed)
					if err == nil {
						tell("", secret)
						break
					}
				}
			}
		}
		return nil
	})
	if err != nil {
		s.t.Fatal(err)
	}
	s.checkLog(headers, keyed["mac"], keyed["salt"])
}

// hmacState is half of what HMAC makes of a key before it sees anything, in the form in which it is kept: whoever has both
// halves needs no key.
func hmacState(t *testing.T, key []byte, pad byte) []byte {
	t.Helper()
	block := bytes.Repeat([]byte{pad}, sha256.BlockSize)
	for i, b := range key {
		block[i] ^= b
	}
	h := sha256.New()
	_, _ = h.Write(block)
	b, err := h.(encoding.BinaryMarshaler).MarshalBinary()
	if err != nil {
		t.Fatal(err)
	}
	return b[4 : 4+sha256.Size] // behind what says that it is of SHA-256
}

// checkLog holds the log's keys against what the enclave has made with them: the MAC behind each header, and what hides a tip.
func (s *stack) checkLog(headers [][]byte, mac, salt []byte) {
	s.t.Helper()
	keyed := func(key, b []byte) []byte {
		h := hmac.New(sha256.New, key)
		_, _ = h.Write(b)
		return h.Sum(nil)
	}
	alone := 0
	for _, b := range headers {
		at := len(b) - sha256.Size
		var h wire.BatchHeader
		if err := wire.Unmarshal(b[:at], &h); err != nil || !hmac.Equal(keyed(mac, b[:at]), b[at:]) {
			s.t.Fatalf("a header that the key of the log did not authenticate: %v", err)
		}
		if len(h.Tips) != 1 {
			continue
		}
		tip := h.Tips[0]
		leaf, err := tlog.ParseLeaf(h.Leaf)
		o := tlog.Opening{Organization: tip.Organization, Count: tip.Count, Root: tip.Root,
			Salt: [16]byte(keyed(salt, binary.BigEndian.AppendUint64(tip.Organization[:], tip.Count)))}
		if err != nil || leaf.Root != o.Hash() {
			s.t.Fatalf("a tip that another key has hidden: %v", err)
		}
		alone++
	}
	if alone == 0 {
		s.t.Fatalf("of %d batches none moves one tip", len(headers))
	}
}

// byteStrings are those of an encoded value, and of what such a string itself encodes.
func byteStrings(encoded []byte, each func([]byte)) {
	var value any
	if cbor.Unmarshal(encoded, &value) != nil {
		return
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case []byte:
			each(v)
			byteStrings(v, each)
		case []any:
			for _, x := range v {
				walk(x)
			}
		case map[any]any:
			for _, x := range v {
				walk(x)
			}
		}
	}
	walk(value)
}

// liveKey finds the two halves of the live key in the enclave's memory.
func (s *stack) liveKey() (found [][]byte) {
	s.t.Helper()
	var public []byte
	db, err := sqlite.OpenExisting(s.t.Context(), filepath.Join(s.dir, "cloister.db"))
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	err = db.Export(s.t.Context(), func(r store.Row) error {
		if r, ok := r.(*store.ObjectRow); ok && strings.HasPrefix(r.Name, "bootproof/") {
			var proof struct {
				Key string `json:"ephemeralPublicKeyHex"`
			}
			if err := json.Unmarshal(r.Bytes, &proof); err != nil {
				return err
			}
			var err error
			public, err = hex.DecodeString(proof.Key)
			return err
		}
		return nil
	})
	if err != nil || len(public) != 2*65 {
		s.t.Fatalf("live key of %d bytes: %v", len(public), err)
	}
	halves := map[string]bool{string(public[:65]): true, string(public[65:]): true}
	try := func(b []byte) {
		k, err := ecdh.P256().NewPrivateKey(b)
		if err != nil {
			return
		}
		if p := string(k.PublicKey().Bytes()); halves[p] {
			delete(halves, p)
			found = append(found, slices.Clone(b))
		}
	}
	regions(s.t, s.enclave.Cmd.Process.Pid, func(mode string, r *os.File, from, to int64) {
		b := make([]byte, to-from)
		if _, err := r.ReadAt(b, from); mode[1] != 'w' || err != nil {
			return
		}
		for i := 0; i+32 <= len(b) && len(halves) > 0; i += 8 {
			if !random(b[i : i+32]) {
				continue
			}
			try(b[i : i+32])
			turned := slices.Clone(b[i : i+32]) // a number's words, the lowest first
			slices.Reverse(turned)
			try(turned)
		}
	})
	if len(halves) > 0 {
		s.t.Fatalf("%d halves of the live key are not in the enclave's memory", len(halves))
	}
	return found
}

// random tells that bytes may be a key's: of 32 random ones fewer than 20 different
// come once in a thousand million.
func random(b []byte) bool {
	var seen [4]uint64
	n := 0
	for _, x := range b {
		if seen[x/64]>>(x%64)&1 == 0 {
			seen[x/64] |= 1 << (x % 64)
			n++
		}
	}
	return n >= 20
}
