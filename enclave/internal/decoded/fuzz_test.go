package decoded_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/rlp"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/tron"
	"cloister/enclave/internal/decoded"
	"cloister/enclave/internal/keys"
)

var types = []string{"TRANSACTION_TYPE_ETHEREUM", "TRANSACTION_TYPE_SOLANA", "TRANSACTION_TYPE_TRON", "TRANSACTION_TYPE_BITCOIN", "TRANSACTION_TYPE_TEMPO"}

// Whatever a reader takes is shown without an error, within the bounds of documents and in their one form.
func FuzzTransaction(f *testing.F) {
	file, signers := seeds(f)
	for i, c := range file.Cases {
		if b, err := hex.DecodeString(c.Input.UnsignedTransaction); err == nil && len(b) > 0 {
			f.Add(uint8(slices.Index(types, c.Input.Type)), uint8(slices.Index(signers, file.Cases[i].Input.SignWith)), b)
		}
	}
	f.Fuzz(func(t *testing.T, typ, by uint8, unsigned []byte) {
		view := show.New(fuzzKnown(t, file, signers, by))
		kind, err := decoded.Transaction(view, types[int(typ)%len(types)], unsigned)
		if err == nil {
			isDocument(t, view.Document(show.Header{Kind: kind}))
		}
	})
}

var encodings = []string{"PAYLOAD_ENCODING_HEXADECIMAL", "PAYLOAD_ENCODING_TEXT_UTF8", "PAYLOAD_ENCODING_EIP712", "PAYLOAD_ENCODING_EIP7702_AUTHORIZATION"}

var hashes = []string{"HASH_FUNCTION_NO_OP", "HASH_FUNCTION_SHA256", "HASH_FUNCTION_KECCAK256", "HASH_FUNCTION_NOT_APPLICABLE"}

func FuzzPayload(f *testing.F) {
	file, signers := seeds(f)
	for i, c := range file.Cases {
		if c.Input.Payload != "" {
			f.Add(uint8(slices.Index(encodings, c.Input.Encoding)), uint8(slices.Index(hashes, c.Input.HashFunction)), uint8(slices.Index(signers, file.Cases[i].Input.SignWith)), c.Input.Payload)
		}
	}
	f.Add(uint8(3), uint8(0), uint8(0), `{"address":"0xf71CD129F55681393E55401eD9681B6E3142f905","chainId":0,"nonce":1}`)
	f.Fuzz(func(t *testing.T, encoding, hash, by uint8, payload string) {
		view := show.New(fuzzKnown(t, file, signers, by))
		kind, err := decoded.Payload(view, encodings[int(encoding)%len(encodings)], hashes[int(hash)%len(hashes)], payload)
		if err == nil {
			isDocument(t, view.Document(show.Header{Kind: kind}))
		}
	})
}

// seeds are the cases and the addresses that sign in them.
func seeds(f *testing.F) (file caseFile, signers []string) {
	file = readCases(f)
	for _, c := range file.Cases {
		if c.Input.SignWith != "" && !slices.Contains(signers, c.Input.SignWith) {
			signers = append(signers, c.Input.SignWith)
		}
	}
	return file, signers
}

func fuzzKnown(t testing.TB, file caseFile, signers []string, by uint8) *show.Known {
	t.Helper()
	with := signers[int(by)%len(signers)]
	i := slices.IndexFunc(file.Cases, func(c approvalCase) bool { return c.Input.SignWith == with })
	k := known(t, &file, &file.Cases[i])
	k.Now = time.Unix(1767225600, 0)
	return k
}

// isDocument holds a document to its one form: a client that parses it and writes it again gets the same bytes.
func isDocument(t testing.TB, d show.Document) {
	t.Helper()
	if len(d.Text()) > show.MaxBytes {
		t.Fatalf("%d bytes", len(d.Text()))
	}
	decoder := json.NewDecoder(bytes.NewReader(d.Text()))
	decoder.UseNumber()
	var again bytes.Buffer
	if err := rewrite(decoder, &again); err != nil {
		t.Fatalf("%v in %s", err, d.Text())
	}
	if _, err := decoder.Token(); err != io.EOF || !bytes.Equal(again.Bytes(), d.Text()) {
		t.Fatalf("%v: written again it is\n%s\nand was\n%s", err, again.Bytes(), d.Text())
	}
}

// rewrite writes a value as JSON.stringify does, and refuses numbers, null, what is not printable ASCII, and a member twice.
func rewrite(d *json.Decoder, out *bytes.Buffer) error {
	token, err := d.Token()
	if err != nil {
		return err
	}
	switch token := token.(type) {
	case bool:
		fmt.Fprint(out, token)
	case string:
		return quote(out, token)
	case json.Delim:
		out.WriteString(token.String())
		seen := map[string]bool{}
		for i := 0; d.More(); i++ {
			if i > 0 {
				out.WriteByte(',')
			}
			if token == '{' {
				name, err := d.Token()
				if err != nil {
					return err
				}
				if seen[name.(string)] {
					return fmt.Errorf("%v twice", name)
				}
				seen[name.(string)] = true
				if err := quote(out, name.(string)); err != nil {
					return err
				}
				out.WriteByte(':')
			}
			if err := rewrite(d, out); err != nil {
				return err
			}
		}
		end, err := d.Token()
		if err != nil {
			return err
		}
		fmt.Fprint(out, end)
	default:
		return fmt.Errorf("a %T", token)
	}
	return nil
}

func quote(out *bytes.Buffer, s string) error {
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r < 0x20 || r > 0x7e:
			return fmt.Errorf("%q", r)
		case r == '"' || r == '\\':
			out.WriteByte('\\')
		}
		out.WriteRune(r)
	}
	out.WriteByte('"')
	return nil
}

// A signature is of the same digests whether the transaction comes as one or as bytes.
func TestTransactionAsBytes(t *testing.T) {
	file := readCases(t)
	told := map[string]int{}
	for i := range file.Cases {
		c := &file.Cases[i]
		hash := map[string]string{"TRANSACTION_TYPE_ETHEREUM": "HASH_FUNCTION_KECCAK256", "TRANSACTION_TYPE_TRON": "HASH_FUNCTION_SHA256", "TRANSACTION_TYPE_SOLANA": "HASH_FUNCTION_NOT_APPLICABLE"}[c.Input.Type]
		payload := c.Input.UnsignedTransaction
		if hash == "" || c.Expect.Outcome == "REFUSED" {
			continue
		}
		if c.Input.Type == "TRANSACTION_TYPE_SOLANA" { // the message alone is what is signed
			b, err := hex.DecodeString(payload)
			if err != nil {
				t.Fatal(err)
			}
			payload = hex.EncodeToString(b[1+64*int(b[0]):])
		}
		view := show.New(known(t, &file, c))
		kind, err := decoded.Payload(view, "PAYLOAD_ENCODING_HEXADECIMAL", hash, payload)
		if err != nil {
			t.Fatalf("%s: %v", c.ID, err)
		}
		d := view.Document(show.Header{Kind: kind})
		isDocument(t, d)
		for _, want := range append(c.Expect.Digests, "MESSAGE_IS_TRANSACTION", `"is":"`+c.Expect.Kind+`"`) {
			if !bytes.Contains(d.Text(), []byte(want)) {
				t.Errorf("%s: %s lacks %s", c.ID, d.Text(), want)
			}
		}
		told[c.Input.Type]++
	}
	if len(told) != 3 {
		t.Errorf("%v", told)
	}
}

// A key that could not make the transaction's signature is not told of one.
func TestBytesOfAnother(t *testing.T) {
	file := readCases(t)
	i := slices.IndexFunc(file.Cases, func(c approvalCase) bool { return c.ID == "msg-h04" })
	c := file.Cases[i]
	for hash, want := range map[string]bool{"HASH_FUNCTION_KECCAK256": true, "HASH_FUNCTION_SHA256": false} {
		view := show.New(known(t, &file, &c))
		if _, err := decoded.Payload(view, c.Input.Encoding, hash, c.Input.Payload); err != nil {
			t.Fatal(err)
		}
		d := view.Document(show.Header{})
		if got := bytes.Contains(d.Text(), []byte("MESSAGE_IS_TRANSACTION")); got != want {
			t.Errorf("%s: %s", hash, d.Text())
		}
		if d.Severity() != show.Danger {
			t.Errorf("%s: bytes that nobody can read weigh %v", hash, d.Severity())
		}
	}
	by := c.Input
	by.SignWith, by.PublicKey = "8AFrWqy5b9H82bdcDBdVYi9fTsCjXzZdzBsgWi4wzqU4", "6a60d4b5b180f197a7fa7e58eb416d8d39d285453654b4d83aabb9cbba41edc9"
	if s := signer(t, by); s.Public.Curve() != chain.Ed25519 {
		t.Fatal(s.Public.Curve())
	}
	c.Input = by
	view := show.New(known(t, &file, &c))
	if _, err := decoded.Payload(view, c.Input.Encoding, "HASH_FUNCTION_NOT_APPLICABLE", c.Input.Payload); err != nil {
		t.Fatal(err)
	}
	if d := view.Document(show.Header{}); bytes.Contains(d.Text(), []byte("MESSAGE_IS_TRANSACTION")) {
		t.Errorf("%s", d.Text())
	}
}

// What an authorization for the account's code is hashed from, for Ethereum with the nonce 7.
var authorization = "05" + hex.EncodeToString(rlp.AppendList(nil, rlp.AppendUint(nil, 1), rlp.AppendBytes(nil, bytes.Repeat([]byte{0xbb}, 20)), rlp.AppendUint(nil, 7)))

// A transaction of Tempo that brings a list of authorizations, which is not read.
var unreadTempo = func() string {
	call := rlp.AppendList(nil, rlp.AppendBytes(nil, bytes.Repeat([]byte{0xbb}, 20)), rlp.AppendUint(nil, 0), rlp.AppendBytes(nil, nil))
	var items []byte
	for _, n := range []uint64{4217, 1, 2, 100_000} {
		items = rlp.AppendUint(items, n)
	}
	items = append(append(items, rlp.AppendList(nil, call)...), rlp.AppendList(nil)...)
	for range 6 { // nonces, times, token, fee payer
		items = rlp.AppendUint(items, 0)
	}
	return "76" + hex.EncodeToString(rlp.AppendList(nil, items, rlp.AppendList(nil, rlp.AppendUint(nil, 1))))
}()

// tronOthers are transactions of tronweb with contracts that are not read.
func tronOthers(t *testing.T) (raw map[string]string) {
	t.Helper()
	b, err := os.ReadFile("../chain/tron/testdata/tronweb.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Refused []struct {
			Raw string `json:"raw_data_hex"`
		}
	}
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	raw = map[string]string{}
	for _, v := range d.Refused {
		b, err := hex.DecodeString(v.Raw)
		if err != nil {
			t.Fatal(err)
		}
		name, _, _ := tron.ContractOf(b)
		raw[name] = v.Raw
	}
	return raw
}

// What is signed as bytes and goes past the policies about it is told as what it is, though it is not read.
func TestUnreadAsBytes(t *testing.T) {
	file := readCases(t)
	i := slices.IndexFunc(file.Cases, func(c approvalCase) bool { return c.ID == "msg-h04" })
	c := file.Cases[i]
	shown := func(hash, payload string) show.Document {
		t.Helper()
		view := show.New(known(t, &file, &c))
		kind, err := decoded.Payload(view, "PAYLOAD_ENCODING_HEXADECIMAL", hash, payload)
		if err != nil || kind != "RAW_PAYLOAD" {
			t.Fatal(kind, err)
		}
		d := view.Document(show.Header{Kind: kind})
		isDocument(t, d)
		return d
	}
	holds := func(about string, d show.Document, severity show.Severity, all ...string) {
		t.Helper()
		if d.Severity() != severity {
			t.Errorf("%s weighs %v", about, d.Severity())
		}
		for _, want := range all {
			if !bytes.Contains(d.Text(), []byte(want)) {
				t.Errorf("%s: %s lacks %s", about, d.Text(), want)
			}
		}
	}
	const keccak, sha = "HASH_FUNCTION_KECCAK256", "HASH_FUNCTION_SHA256"
	to := chain.ChecksumAddress(bytes.Repeat([]byte{0xbb}, 20))
	holds("an authorization", shown(keccak, authorization), show.Danger, `"title":"Sign an authorization as bytes"`, `"is":"EIP7702_AUTHORIZATION"`, `"code":"MESSAGE_IS_TRANSACTION"`,
		`"code":"DELEGATION","severity":"DANGER","at":["parts.0.of.address"]`, `"of":{"input":{"encoding":"RLP"`, `"address":{"address":"`+to+`"},"chainId":"1","nonce":"7","authority":"`+c.Input.SignWith+`"`)
	back := "05" + hex.EncodeToString(rlp.AppendList(nil, rlp.AppendUint(nil, 0), rlp.AppendBytes(nil, make([]byte, 20)), rlp.AppendUint(nil, 7)))
	holds("one for no code, everywhere", shown(keccak, back), show.Danger, `"is":"EIP7702_AUTHORIZATION"`, `"code":"CHAIN_ANY"`, `"code":"MESSAGE_IS_TRANSACTION"`)
	holds("under another hash", shown(sha, authorization), show.Danger, `"code":"BLIND"`, `"title":"Sign bytes"`)
	holds("Tempo", shown(keccak, unreadTempo), show.Danger, `"is":"TEMPO_TRANSACTION"`, `"code":"MESSAGE_IS_TRANSACTION"`, `"code":"UNREAD"`, `"readable":"PARTIAL"`)
	others := tronOthers(t)
	if len(others) != 12 || others["TransferAssetContract"] == "" {
		t.Fatal(len(others))
	}
	for name, raw := range others {
		holds(name, shown(sha, raw), show.Danger, `"is":"TRON_TRANSACTION"`, `"contract":"`+name+`","unreadable":{"reason":"UNKNOWN_INSTRUCTION"`, `"code":"MESSAGE_IS_TRANSACTION"`, `"code":"UNREAD"`, `"readable":"PARTIAL"`)
		holds(name+" under another hash", shown(keccak, raw), show.Danger, `"code":"BLIND"`)
		b, err := hex.DecodeString(raw)
		if err != nil {
			t.Fatal(err)
		}
		if got := decoded.KindOf(keys.HashSHA256, b); got != decoded.KindTransaction {
			t.Errorf("%s is %s", name, got)
		}
	}
}

// What is signed as bytes is told to policies by its kind, whoever signs it. The cases' payloads have theirs.
func TestKinds(t *testing.T) {
	file := readCases(t)
	payloads := map[string]string{}
	for i := range file.Cases {
		c := &file.Cases[i]
		payloads[c.ID] = c.Input.Payload
		if c.Input.Type == "TRANSACTION_TYPE_SOLANA" {
			b, err := hex.DecodeString(c.Input.UnsignedTransaction)
			if err != nil {
				t.Fatal(err)
			}
			payloads[c.ID] = hex.EncodeToString(b[1+64*int(b[0]):])
		} else if c.Input.Type != "" {
			payloads[c.ID] = c.Input.UnsignedTransaction
		}
	}
	for _, c := range []struct {
		payload string
		hash    keys.HashFunction
		want    string
	}{
		{payloads["msg-01"], keys.HashKeccak256, decoded.KindMessage},
		{payloads["msg-01"], keys.HashSHA256, decoded.KindText}, // no wallet hashes a message so
		{payloads["msg-h03"], keys.HashNoOp, decoded.KindDigest},
		{payloads["msg-h03"], keys.HashKeccak256, decoded.KindDigest},
		{payloads["msg-h04"], keys.HashKeccak256, decoded.KindTransaction},
		{payloads["msg-h04"], keys.HashSHA256, decoded.KindBytes},
		{payloads["eth-01"], keys.HashKeccak256, decoded.KindTransaction},
		{payloads["eth-h15"], keys.HashKeccak256, decoded.KindTransaction},
		{payloads["tron-h01"], keys.HashSHA256, decoded.KindTransaction},
		{payloads["sol-01"], keys.HashNotApplicable, decoded.KindTransaction},
		{payloads["sol-h05"], keys.HashNotApplicable, decoded.KindTransaction},
		{"1901" + strings.Repeat("ab", 64), keys.HashKeccak256, decoded.KindDigest},
		{authorization, keys.HashKeccak256, decoded.KindTransaction},
		{authorization, keys.HashSHA256, decoded.KindBytes},
		{authorization + "00", keys.HashKeccak256, decoded.KindBytes},
		{"06" + authorization[2:], keys.HashKeccak256, decoded.KindBytes},
		{unreadTempo, keys.HashKeccak256, decoded.KindTransaction},
		{unreadTempo[:len(unreadTempo)-2], keys.HashKeccak256, decoded.KindBytes},
		{hex.EncodeToString([]byte("vote for Ada, and for nobody else in the list")), keys.HashKeccak256, decoded.KindText},
		{hex.EncodeToString([]byte("\n\nDear customer, pay at https://pay.example/protocol.TransferContract")), keys.HashSHA256, decoded.KindText},
		{hex.EncodeToString([]byte("hello")), keys.HashKeccak256, decoded.KindText},
		{hex.EncodeToString([]byte(strings.Repeat("\xff", 40))), keys.HashKeccak256, decoded.KindBytes},
		{"", keys.HashKeccak256, decoded.KindText},
	} {
		b, err := hex.DecodeString(c.payload)
		if err != nil {
			t.Fatal(err)
		}
		if got := decoded.KindOf(c.hash, b); got != c.want {
			t.Errorf("%.40s, %v: %s, want %s", c.payload, c.hash, got, c.want)
		}
	}
	if decoded.Worse(decoded.KindMessage, decoded.KindTransaction) != decoded.KindTransaction || decoded.Worse(decoded.KindDigest, decoded.KindText) != decoded.KindDigest {
		t.Error("the worse of two is not the worse")
	}
}
