package wire_test

import (
	"bytes"
	"encoding/hex"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"cloister/shared/wire"
)

var update = flag.Bool("update", false, "rewrite the golden encodings (only together with wire.Version)")

func id(b byte) wire.ID     { return wire.ID(bytes.Repeat([]byte{b}, 16)) }
func hash(b byte) wire.Hash { return wire.Hash(bytes.Repeat([]byte{b}, 32)) }

// samples is one message of each kind with every field set, and the barest of
// those with optional fields.
func samples() map[string]any {
	cursor := id(9)
	return map[string]any{
		"hello":           &wire.Hello{Version: 1, Role: wire.RoleStores},
		"hello_stream":    &wire.Hello{Version: 1, Role: wire.RoleStream, Ticket: &wire.Ticket{1, 2, 15: 3}},
		"call":            &wire.Call{Endpoint: wire.EndpointSubmit, Op: "sign_raw_payload", Head: []wire.Header{{Name: "X-Stamp", Value: "abc"}}, Body: []byte(`{"a":1}`), From: wire.From{Address: "192.0.2.1", Origin: "https://example.com"}, WithinMs: 30000},
		"call_bare":       &wire.Call{Endpoint: wire.EndpointBoot, Op: "status"},
		"reply":           &wire.Reply{Status: 200, Body: []byte("{}"), Request: hash(1), Phases: []uint32{1, 22, 333, 70000}},
		"reply_signed":    &wire.Reply{Status: 200, Body: []byte("{}"), Request: hash(1), Phases: []uint32{1}, Signed: &wire.Signed{Deployment: hash(2), LiveKey: []byte{4, 1, 4, 2}, TimeMs: 1767225600123, Signature: []byte{7, 8}}},
		"reply_rate":      &wire.Reply{Status: 429, Body: []byte("{}"), Request: hash(1), Phases: []uint32{1, 22, 333, 70000}, Limit: 10, Remaining: 300},
		"own":             &wire.Own{Action: wire.OwnTake, Boot: id(2), Expect: 1 << 40},
		"owned":           &wire.Owned{OK: true, Epoch: 3, Boot: id(2), Released: true, Batches: 77},
		"batch":           &wire.Batch{Boot: id(2), Epoch: 3, Number: 78, Header: []byte("header"), Entries: []wire.Entry{sampleEntry(), {Organization: id(4), Sealed: []byte{0}}}, Keys: []wire.WrappedKey{{Organization: id(3), KeyID: 1, Sealed: []byte("key")}}},
		"own_range":       &wire.Own{Action: wire.OwnTake, Boot: id(2), Expect: 1 << 40, Range: 63},
		"owned_beat":      &wire.Owned{OK: true, Epoch: 3, Boot: id(2), Batches: 77, Beat: 300},
		"batch_range":     &wire.Batch{Boot: id(2), Epoch: 3, Number: 78, Header: []byte("header"), Entries: []wire.Entry{sampleEntry()}, Range: 63},
		"ahead_range":     &wire.PutSnapshot{Organization: id(3), Count: 9, Pieces: [][]byte{[]byte("p")}, Boot: id(2), Epoch: 3, Range: 63},
		"reply_moved":     &wire.Reply{Status: 503, Body: []byte("{}"), Request: hash(1), Moved: 64},
		"opened_moved":    &wire.Opened{Moved: 64},
		"delivered_moved": &wire.Delivered{Moved: 64},
		"stored":          &wire.Stored{Number: 78, Verdict: wire.VerdictConflict},
		"load_org":        &wire.LoadOrganization{Organization: id(3), MaxBytes: 1 << 22},
		"org":             &wire.Organization{Count: 9, Keys: []wire.WrappedKey{{Organization: id(3), KeyID: 1, Sealed: []byte("key")}}, Snapshot: []byte("snapshot"), From: 7, Entries: [][]byte{[]byte("e7"), []byte("e8")}},
		"org_none":        &wire.Organization{},
		"load":            &wire.LoadEntries{Organization: id(3), From: 9, MaxBytes: 100},
		"entries":         &wire.Entries{Entries: [][]byte{[]byte("e9"), {}}},
		"pieces_ask":      &wire.LoadPieces{Organization: id(3), Pieces: []wire.Hash{hash(5), hash(6)}},
		"pieces":          &wire.Pieces{Pieces: [][]byte{[]byte("p"), {}}},
		"find":            &wire.Find{Organization: id(3), TreeSize: 10, Activities: []wire.ID{id(7)}, Seqs: []uint64{0, 300}},
		"page":            &wire.Page{Organization: id(3), TreeSize: 10, Types: []string{"ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2"}, Statuses: []uint8{1, 2}, Before: &cursor, After: &cursor, Limit: 100},
		"page_end":        &wire.Page{Organization: id(3), TreeSize: 10, Limit: 10, End: new(uint64(4))},
		"page_bare":       &wire.Page{Organization: id(3), TreeSize: 10, Limit: 10},
		"proven":          &wire.Proven{Entries: []wire.ProvenEntry{{Seq: 4, Sealed: []byte("e4"), Proof: []wire.Hash{hash(8)}}}, Unknown: true},
		"index":           &wire.Batch{Boot: id(2), Epoch: 3, Number: 79, Header: []byte("header"), Entries: []wire.Entry{{Organization: id(3), Seq: 9, Sealed: []byte("e9"), Index: []wire.IndexChange{{Key: hash(8), Rank: 1745383555000}, {Key: hash(9), Rank: 1745383555000, Drop: true}}}}},
		"count_ask":       &wire.CountActivities{Organization: id(3), TimesMs: []uint64{1745383555000, 1745469955000, 1745556355000}},
		"count":           &wire.ActivityCounts{Rows: []wire.ActivityCount{{Type: "ACTIVITY_TYPE_CREATE_WALLET", Status: 3, Counts: []uint64{0, 300}}}},
		"count_none":      &wire.ActivityCounts{},
		"rows_ask":        &wire.PageIndex{Key: hash(8), Before: &wire.IndexRow{Rank: 1745383555000, Organization: id(3)}, After: &wire.IndexRow{Organization: id(4)}, Limit: 100},
		"rows_first":      &wire.PageIndex{Key: hash(8), Limit: 10},
		"rows":            &wire.IndexRows{Rows: []wire.IndexRow{{Rank: 1745383555000, Organization: id(3)}, {Rank: 1745383555000, Organization: id(4)}}},
		"rows_none":       &wire.IndexRows{},
		"snapshot":        &wire.PutSnapshot{Organization: id(3), Count: 9, Snapshot: []byte("s"), Pieces: [][]byte{[]byte("p")}, Drop: []wire.Hash{hash(5)}, Boot: id(2), Epoch: 3, Over: 7},
		"ahead":           &wire.PutSnapshot{Organization: id(3), Count: 9, Pieces: [][]byte{[]byte("p")}, Boot: id(2), Epoch: 3},
		"keys_ask":        &wire.LoadKeys{From: id(3), FromKey: 2, To: id(4), Limit: 256},
		"keys":            &wire.Keys{Keys: []wire.WrappedKey{{Organization: id(3), KeyID: 1, Sealed: []byte("sealed")}}},
		"keys_put":        &wire.PutKeys{Range: 1, Boot: id(2), Epoch: 3, Keys: []wire.WrappedKey{{Organization: id(3), KeyID: 1, Sealed: []byte("sealed")}}},
		"headers_ask":     &wire.LoadHeaders{Range: 63, Epoch: 3, Number: 78, MaxBytes: 1 << 20},
		"headers":         &wire.Headers{Headers: [][]byte{[]byte("h78"), []byte("h79")}},
		"headers_none":    &wire.Headers{},
		"tips_ask":        &wire.LoadTips{From: id(3), To: id(4), Limit: 4096},
		"tips":            &wire.Tips{Tips: []wire.Tip{{Organization: id(3), Count: 9, Root: hash(5)}, {Organization: id(4), Count: 1 << 32, Root: hash(6)}}},
		"tips_none":       &wire.Tips{},
		"table_ask":       &wire.LoadTable{Range: 63},
		"table":           &wire.TipTable{Table: []byte("table")},
		"table_none":      &wire.TipTable{},
		"table_pages_ask": &wire.LoadPages{Range: 63, Pages: []wire.Hash{hash(5), hash(6)}},
		"table_put":       &wire.PutTable{Range: 63, Boot: id(2), Epoch: 3, Table: []byte("table"), Pages: [][]byte{[]byte("p")}, Drop: []wire.Hash{hash(5)}, Over: hash(6)},
		"witness":         &wire.Witness{Range: 1, Policy: "quorum none\n", Checkpoint: []byte("note")},
		"cosigned":        &wire.Cosigned{Lines: []string{"line"}},
		"logged_ask":      &wire.ProveLogged{Range: 63, Generation: 1, Organization: id(3), Seq: 8, Size: 300, Header: wire.Bytes("header")},
		"logged":          &wire.Logged{Header: []byte("h78"), Path: []wire.Hash{hash(5), hash(6)}, First: []byte("leaf"), FirstPath: []wire.Hash{hash(7)}},
		"logged_none":     &wire.Logged{},
		"table_ahead":     &wire.PutTable{Boot: id(2), Epoch: 3, Pages: [][]byte{[]byte("p")}},
		"batch_bare":      &wire.Batch{Boot: id(2), Epoch: 3, Number: 78, Header: []byte("header")},
		"put":             &wire.PutObject{Name: "genesis", Bytes: []byte("g"), Once: true},
		"get":             &wire.LoadObject{Name: "boot/", Newest: true},
		"object":          &wire.Object{Found: true, Bytes: []byte("g")},
		"done":            &wire.Done{OK: true},
		"failed":          &wire.Failed{Text: "busy"},
		"sends": &wire.Batch{Boot: id(2), Epoch: 3, Number: 80, Header: []byte("header"), Entries: []wire.Entry{{Organization: id(3), Seq: 9, Sealed: []byte("e9"),
			Sends: []wire.SendMark{{Kind: wire.SendTransaction, DueMs: 1745383555000}}}}},
		"open_send":      &wire.AboutSend{Send: wire.SendID{Organization: id(3), Seq: 9, Number: 1}},
		"opened":         &wire.Opened{Found: true, Kind: wire.SendTransaction, ExpiresMs: 1745383556000, Chain: "eip155:1", Signed: []byte("signed"), Name: "0xabc", From: []byte("from"), Nonce: 7},
		"opened_program": &wire.Opened{Found: true, Kind: wire.SendProgram, ExpiresMs: 1745383556000, Program: &wire.Program{Deployment: "d", Run: []byte("{}"), Auth: "u:p", Once: true, SetupKey: "04", Share: []byte("{}")}},
		"opened_none":    &wire.Opened{},
		"opened_late":    &wire.Opened{Found: true, Expired: true},
		"deliveries_ask": &wire.Deliveries{Receiver: id(7), Failed: true, After: &wire.DeliveryPlace{TimeMs: 1, Send: wire.SendID{Organization: id(3), Seq: 9, Number: 2}}, Limit: 50},
		"deliveries":     &wire.DeliveryList{Deliveries: []wire.Delivery{{Send: wire.SendID{Organization: id(3), Seq: 9}, State: wire.SendRefused, Tries: 3, Text: "HTTP status 500", TimeMs: 1e12}, {State: wire.SendWaiting}}},
		"states_ask":     &wire.Sends{Sends: []wire.SendID{{Organization: id(3), Seq: 9}, {Organization: id(3), Seq: 300, Number: 63}}},
		"states":         &wire.SendStates{Statuses: []wire.SendStatus{{State: wire.SendReverted, Text: "execution reverted", Revert: []byte("data")}, {}}},
		"chain":          &wire.Chain{Name: "eip155:1", Want: wire.WantNonces | wire.WantFees | wire.WantGas | wire.WantDelegation, From: []byte("from"), To: []byte("to"), Value: []byte{1, 0}, Data: []byte("data"), Account: []byte("account")},
		"chain_accounts": &wire.Chain{Name: "solana:mainnet", Want: wire.WantBlockhash | wire.WantExisting, Accounts: [][]byte{[]byte("a"), []byte("b")}},
		"chain_existing": &wire.ChainState{Verdict: wire.ChainKnown, Blockhash: hash(8), Existing: 2},
		"chain_bare":     &wire.Chain{Name: "solana:mainnet"},
		"chain_state":    &wire.ChainState{Verdict: wire.ChainKnown, Text: "text", Latest: 4, Pending: 5, BaseFee: 1e9, Tip: 1e8, Gas: 21000, Blockhash: hash(8), Delegate: []byte("delegate"), Executions: 7, Transactions: 6},
		"deliver":        &wire.AboutSend{Send: wire.SendID{Organization: id(3), Seq: 9, Number: 1}},
		"delivered":      &wire.Delivered{Found: true, Result: wire.DeliverPermanent, Code: 550, Text: "refused"},
		"delivered_none": &wire.Delivered{},
		"delivered_mail": &wire.Delivered{Found: true, Result: wire.DeliverByHost, Mail: &wire.Mail{From: "a@example.com", To: "b@example.com", Message: []byte("Subject: x\r\n\r\ny\r\n")}},
		"delivered_late": &wire.Delivered{Found: true, Expired: true},
		"about_program":  &wire.AboutProgram{Deployment: "d", Want: wire.WantSetup},
		"program_said":   &wire.ProgramStatus{Known: true, Desired: 3, Ready: 2, Document: []byte("document"), Output: [][]byte{[]byte("line\n")}},
		"pull":           &wire.Pull{Image: "registry.example/app@sha256:00", Auth: "user:password", Ticket: wire.Ticket{1, 2, 15: 3}, WithinMs: 15000},
		"dial":           &wire.Dial{Host: "mail.example", Port: 587, Ticket: wire.Ticket{1, 2, 15: 3}, WithinMs: 15000},
		"dialed":         &wire.Dialed{Verdict: wire.DialOpen},
		"read_chain":     &wire.ReadChain{Name: "eip155:1", Address: "0x1", Transactions: []string{"0x2"}},
		"reading": &wire.ChainReading{Verdict: wire.ChainKnown, Text: "text", Coin: []byte{1}, Tokens: []wire.Token{{CAIP19: "eip155:1/erc20:0x1", Symbol: "S", Name: "N", Decimals: 6, LogoURL: "https://a", Stable: true, Balance: []byte{2}}},
			Transactions: []wire.Mined{{Block: 7, Hash: "0x3", TimeMs: 8, Fee: []byte{3}, Failed: true, Final: true}, {}}},
		"chain_no_node": &wire.ChainState{Verdict: wire.ChainNoNode},
	}
}

func sampleEntry() wire.Entry {
	return wire.Entry{Organization: id(3), Seq: 8, Sealed: []byte("sealed"), Activity: id(7), Type: "ACTIVITY_TYPE_SIGN_RAW_PAYLOAD_V2",
		Status: 3, TimeMs: 1745383555000, Prior: 6}
}

func TestGoldenEncodings(t *testing.T) {
	for name, v := range samples() {
		t.Run(name, func(t *testing.T) {
			b, err := wire.Marshal(v)
			if err != nil {
				t.Fatal(err)
			}
			file := filepath.Join("testdata", name+".hex")
			if *update {
				if err := os.WriteFile(file, []byte(hex.EncodeToString(b)+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if want := strings.TrimSpace(string(text)); hex.EncodeToString(b) != want {
				t.Fatalf("got  %x\nwant %s", b, want)
			}
			back := reflect.New(reflect.TypeOf(v).Elem()).Interface()
			if err := wire.Unmarshal(b, back); err != nil {
				t.Fatal(err)
			}
			again, err := wire.Marshal(back)
			if err != nil || !bytes.Equal(b, again) {
				t.Fatalf("decoding and encoding again gives %x, %v", again, err)
			}
		})
	}
}

func TestIDsAreByteStrings(t *testing.T) {
	b, err := wire.Marshal(&wire.Own{Action: 1, Boot: id(2)})
	if err != nil {
		t.Fatal(err)
	}
	if want := append([]byte{0x02, 0x50}, bytes.Repeat([]byte{2}, 16)...); !bytes.Contains(b, want) {
		t.Fatalf("no byte string of 16 behind key 2 in %x", b)
	}
}

func TestEveryCutIsRefused(t *testing.T) {
	for name, v := range samples() {
		b, err := wire.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		for n := range b {
			if err := wire.Unmarshal(b[:n], reflect.New(reflect.TypeOf(v).Elem()).Interface()); !errors.Is(err, wire.ErrEncoding) {
				t.Fatalf("%s cut to %d of %d bytes: %v", name, n, len(b), err)
			}
		}
		if err := wire.Unmarshal(append(b, 0), reflect.New(reflect.TypeOf(v).Elem()).Interface()); !errors.Is(err, wire.ErrEncoding) {
			t.Fatalf("%s with a byte behind: %v", name, err)
		}
	}
}

func TestRefusedEncodings(t *testing.T) {
	zeros := strings.Repeat("00", 16)
	for _, c := range []struct{ name, bytes string }{
		{"key not shortest", "a2180118ff0203"},
		{"value not shortest", "a20118010201"},
		{"two-byte value not shortest", "a2011900ff0201"},
		{"four-byte value not shortest", "a2011a0000ffff0201"},
		{"eight-byte value not shortest", "a2011b00000000ffffffff0201"},
		{"keys not rising", "a202010101"},
		{"key twice", "a201010102"},
		{"unknown key", "a3010102010301"},
		{"text key", "a2613101613201"},
		{"negative key", "a120010201"},
		{"indefinite map", "bf01010201ff"},
		{"indefinite bytes", "a30101025f50" + zeros + "ff0301"},
		{"tag", "a201c1010201"},
		{"self-described", "d9d9f7a201010201"},
		{"null", "a201f60201"},
		{"undefined", "a201f70201"},
		{"float", "a201f93c000201"},
		{"double", "a201fb3ff00000000000000201"},
		{"simple value", "a201e00201"},
		{"bool for number", "a201f50201"},
		{"negative", "a201200201"},
		{"too large for the field", "a2011a000100000201"},
		{"bytes for number", "a20141010201"},
		{"array for map", "820101"},
		{"array longer than its bytes", "a2019bffffffffffffffff0201"},
		{"map longer than its bytes", "bbffffffffffffffff0101"},
		{"bytes longer than the rest", "a2015bffffffffffffffff0201"},
		{"reserved length", "a2011c0201"},
		{"number", "01"},
		{"empty", ""},
	} {
		b, err := hex.DecodeString(c.bytes)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if err := wire.Unmarshal(b, new(wire.Hello)); !errors.Is(err, wire.ErrEncoding) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	if err := wire.Unmarshal([]byte{0xa2, 1, 1, 2, 1}, new(wire.Hello)); err != nil {
		t.Fatalf("the one good encoding: %v", err)
	}
}

func TestIDsMustFit(t *testing.T) {
	for _, c := range []struct{ name, item string }{
		{"15 bytes", "4f" + strings.Repeat("01", 15)},
		{"17 bytes", "51" + strings.Repeat("01", 17)},
		{"none", "40"},
		{"text", "70" + strings.Repeat("61", 16)},
		{"array of numbers", "90" + strings.Repeat("01", 16)},
		{"null", "f6"},
	} {
		b, err := hex.DecodeString("a3010102" + c.item + "0301")
		if err != nil {
			t.Fatal(err)
		}
		if err := wire.Unmarshal(b, new(wire.Own)); !errors.Is(err, wire.ErrEncoding) {
			t.Errorf("%s: got %v", c.name, err)
		}
	}
	good, _ := hex.DecodeString("a301010250" + strings.Repeat("01", 16) + "0301")
	var own wire.Own
	if err := wire.Unmarshal(good, &own); err != nil || own.Boot != id(1) {
		t.Fatal(own, err)
	}
	// A Hash is held to 32 in the same way, also inside an array.
	for n, ok := range map[int]bool{31: false, 32: true, 33: false} {
		b := append([]byte{0xa2, 1, 0x50}, bytes.Repeat([]byte{1}, 16)...)
		b = append(b, 2, 0x81, 0x58, byte(n))
		b = append(b, make([]byte, n)...)
		if err := wire.Unmarshal(b, new(wire.LoadPieces)); (err == nil) != ok {
			t.Errorf("hash of %d bytes: %v", n, err)
		}
	}
}

func TestMoreRefusals(t *testing.T) {
	t.Run("invalid UTF-8", func(t *testing.T) {
		if err := wire.Unmarshal([]byte{0xa1, 1, 0x62, 0xff, 0xfe}, new(wire.Failed)); !errors.Is(err, wire.ErrEncoding) {
			t.Fatal(err)
		}
	})
	t.Run("text for bytes", func(t *testing.T) {
		if err := wire.Unmarshal([]byte{0xa2, 1, 0xf5, 2, 0x61, 'a'}, new(wire.Object)); !errors.Is(err, wire.ErrEncoding) {
			t.Fatal(err)
		}
	})
	t.Run("bytes for text", func(t *testing.T) {
		if err := wire.Unmarshal([]byte{0xa1, 1, 0x41, 'a'}, new(wire.Failed)); !errors.Is(err, wire.ErrEncoding) {
			t.Fatal(err)
		}
	})
	t.Run("nested deep", func(t *testing.T) {
		b := append([]byte{0xa1, 1}, bytes.Repeat([]byte{0x81}, 100)...)
		if err := wire.Unmarshal(append(b, 0), new(wire.Failed)); !errors.Is(err, wire.ErrEncoding) {
			t.Fatal(err)
		}
	})
	t.Run("array over the bound", func(t *testing.T) {
		b := append([]byte{0xa1, 1, 0x9a, 0, 1, 0, 1}, bytes.Repeat([]byte{0x40}, wire.MaxElements+1)...)
		if err := wire.Unmarshal(b, new(wire.Entries)); !errors.Is(err, wire.ErrEncoding) {
			t.Fatal(err)
		}
	})
	t.Run("no echo of the peer's bytes", func(t *testing.T) {
		err := wire.Unmarshal([]byte{0xa1, 1, 0x46, 's', 'e', 'c', 'r', 'e', 't'}, new(wire.Failed))
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Fatal(err)
		}
	})
}

func TestDecodedSharesNothing(t *testing.T) {
	b, _ := wire.Marshal(&wire.Object{Found: true, Bytes: []byte("keep")})
	var o wire.Object
	if err := wire.Unmarshal(b, &o); err != nil {
		t.Fatal(err)
	}
	clear(b)
	if string(o.Bytes) != "keep" {
		t.Fatalf("%q", o.Bytes)
	}
}

// Bytes lie in the message, and nothing else than a byte string is taken for them.
func TestBytes(t *testing.T) {
	for size := range 300 {
		want := bytes.Repeat([]byte{7}, size)
		b, err := wire.Marshal(&wire.ProvenEntry{Sealed: want})
		var p wire.ProvenEntry
		if err != nil || wire.Unmarshal(b, &p) != nil || !bytes.Equal(p.Sealed, want) {
			t.Fatalf("%d bytes: %x", size, p.Sealed)
		}
		if size == 0 {
			continue
		}
		at := len(b) - size
		if b[at]++; p.Sealed[0] != 8 {
			t.Fatalf("%d bytes are a copy", size)
		}
	}
	for name, item := range map[string]string{"text": "6161", "null": "f6", "array of numbers": "8101", "number": "01", "map": "a0", "false": "f4"} {
		b, _ := hex.DecodeString("a2010402" + item)
		if err := wire.Unmarshal(b, new(wire.ProvenEntry)); !errors.Is(err, wire.ErrEncoding) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// FuzzUnmarshal holds every decoder to: no panic, and what is accepted encodes
// to something that is accepted and stays as it is.
func FuzzUnmarshal(f *testing.F) {
	var kinds []any
	for _, v := range samples() {
		b, err := wire.Marshal(v)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
		kinds = append(kinds, v)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, k := range kinds {
			v := reflect.New(reflect.TypeOf(k).Elem()).Interface()
			if wire.Unmarshal(b, v) != nil {
				continue
			}
			again, err := wire.Marshal(v)
			if err != nil {
				t.Fatalf("%T does not encode again: %v", v, err)
			}
			twice := reflect.New(reflect.TypeOf(k).Elem()).Interface()
			if err := wire.Unmarshal(again, twice); err != nil {
				t.Fatalf("%T: own encoding refused: %v", v, err)
			}
			third, err := wire.Marshal(twice)
			if err != nil || !bytes.Equal(again, third) {
				t.Fatalf("%T: encoding is not stable", v)
			}
		}
	})
}
