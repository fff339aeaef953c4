package keys_test

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"testing"

	"github.com/tyler-smith/go-bip39"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
	"cloister/enclave/internal/secret"
	"cloister/enclave/internal/secret/secrettest"
)

func exported(t testing.TB, entropy, passphrase secret.Secret) string {
	t.Helper()
	s, err := keys.MnemonicOf(entropy, passphrase)
	if err != nil {
		t.Fatal(err)
	}
	return string(secrettest.Bytes(s))
}

// The vectors of BIP-39 go in and come out.
func TestMnemonicVectors(t *testing.T) {
	for _, v := range bip39Vectors {
		for _, phrase := range []string{"", "TREZOR", " ~", strings.Repeat("x", keys.MaxPassphrase)} {
			text := v.words
			if phrase != "" {
				text += "\n" + phrase
			}
			entropy, passphrase, err := keys.ImportMnemonic(mustSecret(t, []byte(text)))
			if err != nil {
				t.Fatalf("%s: %v", v.words, err)
			}
			if hex.EncodeToString(secrettest.Bytes(entropy)) != v.entropy || string(secrettest.Bytes(passphrase)) != phrase || keys.Words(entropy) != len(strings.Fields(v.words)) {
				t.Errorf("%q: read as %x, %q", text, secrettest.Bytes(entropy), secrettest.Bytes(passphrase))
			}
			if got := exported(t, entropy, passphrase); got != text {
				t.Errorf("%q became %q", text, got)
			}
			if phrase != "TREZOR" {
				continue
			}
			w, err := keys.OpenWallet(entropy, passphrase)
			if err != nil || w.SeedHex() != v.seed {
				t.Errorf("%s: another seed", v.words)
			}
		}
	}
}

func TestMnemonicOfEveryLength(t *testing.T) {
	for _, words := range []int{12, 15, 18, 21, 24} {
		for range 50 {
			want, err := keys.GenerateMnemonic(rand.Reader, words)
			if err != nil {
				t.Fatal(err)
			}
			text := exported(t, want, secret.Secret{})
			if theirs, err := bip39.NewMnemonic(secrettest.Bytes(want)); err != nil || theirs != text {
				t.Fatalf("%q, the reference has %q", text, theirs)
			}
			got, none, err := keys.ImportMnemonic(mustSecret(t, []byte(text)))
			if err != nil || !bytes.Equal(secrettest.Bytes(got), secrettest.Bytes(want)) || none.Len() != 0 || keys.Words(got) != words {
				t.Fatalf("%q: %v", text, err)
			}
		}
	}
}

func TestMnemonicRefused(t *testing.T) {
	const good = "legal winner thank year wave sausage worth useful legal winner thank yellow"
	const long = "letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic avoid letter advice cage absurd amount doctor acoustic bless"
	zoo := strings.Repeat("zoo ", 11)
	japanese := strings.Repeat("あいこくしん ", 11) + "あおぞら"
	french := strings.Repeat("abaisser ", 11) + "abeille"
	for name, text := range map[string]string{
		"one word": "legal", "eleven": good[:strings.LastIndex(good, " ")], "thirteen": good + " yellow", "checksum": strings.Replace(good, "yellow", "year", 1), "zoo": zoo + "zoo",
		"words swapped": "winner legal" + strings.TrimPrefix(good, "legal winner"), "25 words": long + " bless", "24 with a wrong end": strings.Replace(long, "bless", "abandon", 1), "23": long[:strings.LastIndex(long, " ")],
		"upper case": strings.ToUpper(good), "one capital": "L" + good[1:], "two spaces": strings.Replace(good, " ", "  ", 1), "space before": " " + good, "space behind": good + " ",
		"tabs": strings.ReplaceAll(good, " ", "\t"), "line feeds": strings.ReplaceAll(good, " ", "\n"), "return": good + "\r\n", "first letters": "lega winn than year wave saus wort usef lega winn than yell",
		"not a word": strings.Replace(good, "wave", "waves", 1), "a long word": strings.Replace(good, "wave", "wavewavew", 1), "zero byte": strings.Replace(good, "year", "year\x00", 1), "zero bytes in front": "\x00\x00" + strings.Replace(good, "year", "\x00year", 1), "null bytes": strings.Repeat("\x00", 50),
		"Japanese": japanese, "French": french, "zero byte before a short word": strings.Replace(good, "wave", "\x00wave", 1), "full width space": strings.ReplaceAll(good, " ", "\u3000"), "byte order mark": "\ufeff" + good, "quotes": `"` + good + `"`,
		"only a line feed": "\n", "passphrase only": "\nTREZOR", "spaces": strings.Repeat(" ", 11), "no UTF-8": "\xff\xfe" + good, "beyond what words take": good + strings.Repeat(" yellow", 60), "hex": strings.Repeat("0", 64),
	} {
		entropy, passphrase, err := keys.ImportMnemonic(mustSecret(t, []byte(text)))
		e := fault.Of(err)
		if e == nil || e.Code != fault.InvalidArgument || !strings.HasPrefix(e.Message, "invalid mnemonic: must be") || entropy.Len()+passphrase.Len() != 0 {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, phrase := range map[string]string{"umlaut": "für", "composed": "e\u0301", "tab": "a\tb", "control": "a\x01", "delete": "a\x7f", "return": "a\r", "two lines": "a\nb", "a line feed more": "a\n",
		"emoji": "🔐", "no UTF-8": "a\xff", "long": strings.Repeat("x", keys.MaxPassphrase+1), "very long": strings.Repeat("x", secret.MaxSize-len(good)-1)} {
		_, _, err := keys.ImportMnemonic(mustSecret(t, []byte(good+"\n"+phrase)))
		refused(t, name, err, fault.InvalidArgument, "invalid mnemonic passphrase")
	}
	if _, passphrase, err := keys.ImportMnemonic(mustSecret(t, []byte(good+"\n"))); err != nil || passphrase.Len() != 0 {
		t.Errorf("an empty passphrase: %v", err)
	}
	for name, s := range map[string]secret.Secret{"none": {}, "wiped": wipedSecret(t)} {
		if _, _, err := keys.ImportMnemonic(s); fault.Of(err) == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func wipedSecret(t testing.TB) secret.Secret {
	s := mustSecret(t, []byte("legal winner thank year wave sausage worth useful legal winner thank yellow"))
	s.Wipe()
	return s
}

func TestKeysGoInAndOut(t *testing.T) {
	for _, c := range []chain.Curve{chain.Secp256k1, chain.P256, chain.Ed25519} {
		k, err := keys.GeneratePrivateKey(rand.Reader, c)
		if err != nil {
			t.Fatal(err)
		}
		s, err := granted(t, keys.ActionExport, k.Key()).ExportKey(k)
		if err != nil || hex.EncodeToString(secrettest.Bytes(s)) != k.PrivateHex() {
			t.Fatalf("%v: %v", c, err)
		}
		again, err := keys.ImportKey(c, s)
		if err != nil || !bytes.Equal(again.Public().Bytes(), k.Public().Bytes()) {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestImportKeyRefused(t *testing.T) {
	const orderK1 = "fffffffffffffffffffffffffffffffebaaedce6af48a03bbfd25e8cd0364141"
	const orderR1 = "ffffffff00000000ffffffffffffffffbce6faada7179e84f3b9cac2fc632551"
	for _, c := range []struct {
		curve chain.Curve
		hex   string
		ok    bool
	}{
		{chain.Secp256k1, strings.Repeat("00", 32), false}, {chain.Secp256k1, orderK1, false}, {chain.Secp256k1, strings.Repeat("ff", 32), false},
		{chain.Secp256k1, orderK1[:63] + "0", true}, {chain.Secp256k1, orderK1[:63] + "2", false}, {chain.Secp256k1, strings.Repeat("00", 31) + "01", true},
		{chain.P256, strings.Repeat("00", 32), false}, {chain.P256, orderR1, false}, {chain.P256, orderR1[:63] + "0", true}, {chain.P256, strings.Repeat("ff", 32), false},
		{chain.P256, orderK1, false}, {chain.Secp256k1, orderR1, true},
		{chain.Ed25519, strings.Repeat("00", 32), true}, {chain.Ed25519, strings.Repeat("ff", 32), true},
		{chain.Ed25519, strings.Repeat("11", 64), false}, {chain.Secp256k1, strings.Repeat("11", 31), false}, {chain.P256, strings.Repeat("11", 33), false}, {chain.Secp256k1, "01", false},
	} {
		b, _ := hex.DecodeString(c.hex)
		k, err := keys.ImportKey(c.curve, mustSecret(t, b))
		if c.ok != (err == nil) || err != nil && k != nil {
			t.Errorf("%v %s: %v", c.curve, c.hex, err)
		}
		if !c.ok {
			refused(t, c.hex, err, fault.InvalidArgument, "invalid private key")
		}
	}
	_, err := keys.ImportKey(0, mustSecret(t, make([]byte, 32)))
	refused(t, "no curve", err, fault.InvalidArgument, "invalid curve")
	if _, err := keys.ImportKey(chain.Ed25519, secret.Secret{}); fault.Of(err) == nil {
		t.Errorf("an empty secret: %v", err)
	}
}

// What is gone or was never a wallet's is not exported, with a grant neither.
func TestExportRefuses(t *testing.T) {
	k, _ := keys.GeneratePrivateKey(rand.Reader, chain.Ed25519)
	k.Wipe()
	if s, err := granted(t, keys.ActionExport, k.Key()).ExportKey(k); err == nil || s.Len() != 0 {
		t.Error("a wiped key was exported")
	}
	entropy, _ := keys.GenerateMnemonic(rand.Reader, 12)
	entropy.Wipe()
	for name, e := range map[string]secret.Secret{"wiped": entropy, "none": {}, "long": mustSecret(t, make([]byte, 36)), "odd": mustSecret(t, make([]byte, 17))} {
		if s, err := keys.MnemonicOf(e, secret.Secret{}); err == nil || s.Len() != 0 {
			t.Errorf("%s entropy was exported", name)
		}
	}
	entropy, _ = keys.GenerateMnemonic(rand.Reader, 12)
	if _, err := keys.MnemonicOf(entropy, mustSecret(t, make([]byte, keys.MaxPassphrase+1))); err == nil {
		t.Error("a passphrase that no wallet has")
	}
}

// FuzzImportMnemonic holds the reader against the reference: what is taken is what
// the reference takes and reads alike, and what it takes in the plain form is
// taken.
func FuzzImportMnemonic(f *testing.F) {
	for _, v := range bip39Vectors {
		f.Add([]byte(v.words))
		f.Add([]byte(v.words + "\npassphrase"))
		f.Add([]byte(strings.ToUpper(v.words)))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if len(text) == 0 || len(text) > secret.MaxSize {
			return
		}
		words, _, _ := strings.Cut(string(text), "\n")
		theirs, terr := bip39.EntropyFromMnemonic(words)
		plain := strings.Join(strings.Fields(words), " ") == words
		entropy, passphrase, err := keys.ImportMnemonic(mustSecret(t, text))
		if err == nil {
			if terr != nil || !plain || !bytes.Equal(secrettest.Bytes(entropy), theirs) {
				t.Fatalf("%q is taken as %x, the reference has %x, %v", text, secrettest.Bytes(entropy), theirs, terr)
			}
			if got := exported(t, entropy, passphrase); got != strings.TrimSuffix(string(text), "\n") {
				t.Fatalf("%q became %q", text, got)
			}
			return
		}
		if e := fault.Of(err); e == nil || entropy.Len() != 0 || passphrase.Len() != 0 || terr == nil && plain && strings.HasPrefix(e.Message, "invalid mnemonic:") {
			t.Fatalf("%q: %v, the reference takes the words", text, err)
		}
	})
}

// BenchmarkImportMnemonic times the reading beside the making of the seed, which
// follows it.
func BenchmarkImportMnemonic(b *testing.B) {
	entropy, _ := keys.GenerateMnemonic(rand.Reader, 24)
	text := mustSecret(b, []byte(exported(b, entropy, secret.Secret{})))
	b.Run("ours", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			e, _, err := keys.ImportMnemonic(text)
			if err != nil {
				b.Fatal(err)
			}
			e.Wipe()
		}
	})
	b.Run("reference", func(b *testing.B) {
		words := string(secrettest.Bytes(text))
		b.ReportAllocs()
		for b.Loop() {
			if _, err := bip39.EntropyFromMnemonic(words); err != nil {
				b.Fatal(err)
			}
		}
	})
}
