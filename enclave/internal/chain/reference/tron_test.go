package reference_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"maps"
	"os"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protodesc"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/descriptorpb"
	"google.golang.org/protobuf/types/dynamicpb"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/tron"
)

// The messages of Tron's protocol that a transaction of a kind which we read can
// hold, and the fields that it must not: field = number and type, where a name in
// capitals is a message and * means repeated. Enums are numbers on the wire.
var tronMessages = map[string]string{
	"Raw": "ref_block_bytes=1bytes ref_block_num=3int64 ref_block_hash=4bytes expiration=8int64 auths=9*bytes data=10bytes contract=11*Contract " +
		"scripts=12bytes timestamp=14int64 fee_limit=18int64",
	"Contract":                        "type=1int32 parameter=2Any provider=3bytes ContractName=4bytes permission_id=5int32",
	"Any":                             "type_url=1string value=2bytes",
	"TransferContract":                "owner_address=1bytes to_address=2bytes amount=3int64",
	"TriggerSmartContract":            "owner_address=1bytes contract_address=2bytes call_value=3int64 data=4bytes call_token_value=5int64 token_id=6int64",
	"FreezeBalanceV2Contract":         "owner_address=1bytes frozen_balance=2int64 resource=3int32",
	"UnfreezeBalanceV2Contract":       "owner_address=1bytes unfreeze_balance=2int64 resource=3int32",
	"DelegateResourceContract":        "owner_address=1bytes resource=2int32 balance=3int64 receiver_address=4bytes lock=5bool lock_period=6int64",
	"UnDelegateResourceContract":      "owner_address=1bytes resource=2int32 balance=3int64 receiver_address=4bytes",
	"AccountPermissionUpdateContract": "owner_address=1bytes owner=2Permission witness=3Permission actives=4*Permission",
	"Permission":                      "type=1int32 id=2int32 permission_name=3string threshold=4int64 parent_id=5int32 operations=6bytes keys=7*Key",
	"Key":                             "address=1bytes weight=2int64",
}

var tronTypes = map[int64]protoreflect.Name{1: "TransferContract", 31: "TriggerSmartContract", 46: "AccountPermissionUpdateContract",
	54: "FreezeBalanceV2Contract", 55: "UnfreezeBalanceV2Contract", 57: "DelegateResourceContract", 58: "UnDelegateResourceContract"}

// tronFile compiles the messages with Google's library.
var tronFile = func() protoreflect.FileDescriptor {
	types := map[string]descriptorpb.FieldDescriptorProto_Type{"bytes": descriptorpb.FieldDescriptorProto_TYPE_BYTES, "string": descriptorpb.FieldDescriptorProto_TYPE_STRING,
		"int64": descriptorpb.FieldDescriptorProto_TYPE_INT64, "int32": descriptorpb.FieldDescriptorProto_TYPE_INT32, "bool": descriptorpb.FieldDescriptorProto_TYPE_BOOL}
	file := &descriptorpb.FileDescriptorProto{Name: proto.String("tron.proto"), Syntax: proto.String("proto3")}
	for name, text := range tronMessages {
		m := &descriptorpb.DescriptorProto{Name: &name}
		for _, field := range strings.Fields(text) {
			name, rest, _ := strings.Cut(field, "=")
			kind := strings.TrimLeft(rest, "0123456789")
			number := int32(0)
			for _, d := range rest[:len(rest)-len(kind)] {
				number = 10*number + d - '0'
			}
			label := descriptorpb.FieldDescriptorProto_LABEL_OPTIONAL
			if kind[0] == '*' {
				kind, label = kind[1:], descriptorpb.FieldDescriptorProto_LABEL_REPEATED
			}
			f := &descriptorpb.FieldDescriptorProto{Name: &name, Number: &number, Label: &label}
			if is, ok := types[kind]; ok {
				f.Type = is.Enum()
			} else {
				f.Type, f.TypeName = descriptorpb.FieldDescriptorProto_TYPE_MESSAGE.Enum(), proto.String("."+kind)
			}
			m.Field = append(m.Field, f)
		}
		file.MessageType = append(file.MessageType, m)
	}
	d, err := protodesc.NewFile(file, nil)
	if err != nil {
		panic(err)
	}
	return d
}()

// ofLibrary reads a message by the library and tells whether the library would
// write the same bytes.
func ofLibrary(name protoreflect.Name, raw []byte) (protoreflect.Message, bool) {
	m := dynamicpb.NewMessage(tronFile.Messages().ByName(name))
	if proto.Unmarshal(raw, m) != nil {
		return nil, false
	}
	again, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	return m, err == nil && bytes.Equal(again, raw)
}

// get is a field of a message by its name.
func get(m protoreflect.Message, name string) protoreflect.Value {
	return m.Get(m.Descriptor().Fields().ByName(protoreflect.Name(name)))
}

// tronFacts is a second opinion on what we read: nil for what we should refuse.
func tronFacts(raw []byte) map[string]any {
	m, ok := ofLibrary("Raw", raw)
	if !ok || get(m, "contract").List().Len() != 1 {
		return nil
	}
	c := get(m, "contract").List().Get(0).Message()
	parameter := get(c, "parameter").Message()
	name := tronTypes[get(c, "type").Int()]
	if name == "" || get(parameter, "type_url").String() != "type.googleapis.com/protocol."+string(name) {
		return nil
	}
	body, ok := ofLibrary(name, get(parameter, "value").Bytes())
	if !ok {
		return nil
	}
	facts, ok := tronStruct(m, "contract")
	contract, ok2 := tronStruct(body, "")
	permission := get(c, "permission_id").Int()
	if !ok || !ok2 || permission < 0 || len(c.GetUnknown())+len(parameter.GetUnknown()) > 0 || len(get(c, "provider").Bytes())+len(get(c, "ContractName").Bytes()) > 0 ||
		len(get(m, "ref_block_bytes").Bytes()) != 2 || len(get(m, "ref_block_hash").Bytes()) != 8 || get(m, "expiration").Int() == 0 {
		return nil
	}
	for _, gone := range []string{"ref_block_num", "auths", "scripts"} {
		if m.Has(m.Descriptor().Fields().ByName(protoreflect.Name(gone))) {
			return nil
		}
		delete(facts, gone)
	}
	contract["type"], contract["permission_id"] = string(name), float64(permission)
	facts["contract"] = []any{contract}
	return facts
}

// tronStruct puts a message in the terms of policies, without one field, and
// tells whether it can be.
func tronStruct(m protoreflect.Message, without string) (map[string]any, bool) {
	facts, ok := map[string]any{}, len(m.GetUnknown()) == 0
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		name, v := string(f.Name()), m.Get(f)
		nested := func(v protoreflect.Value) any {
			x, fine := tronStruct(v.Message(), "")
			ok = ok && fine && !proto.Equal(v.Message().Interface(), v.Message().New().Interface())
			return x
		}
		switch {
		case name == without:
		case f.IsList() && f.Message() != nil:
			list := []any{}
			for j := range v.List().Len() {
				list = append(list, nested(v.List().Get(j)))
			}
			ok = ok && (name != "actives" || len(list) <= 8) && (name != "keys" || len(list) <= 32)
			facts[name] = list
		case f.Message() != nil:
			if m.Has(f) {
				facts[name] = nested(v)
			}
		case strings.HasSuffix(name, "address"):
			ok = ok && len(v.Bytes()) == 21 && v.Bytes()[0] == 0x41
			facts[name] = "T"
		case name == "resource" || name == "type":
			names := map[string][]string{"resource": {"BANDWIDTH", "ENERGY", "TRON_POWER"}, "type": {"Owner", "Witness", "Active"}}[name]
			if v.Int() < 0 || v.Int() >= int64(len(names)) {
				return nil, false
			}
			facts[name] = names[v.Int()]
		case f.Kind() == protoreflect.BytesKind && !f.IsList():
			facts[name] = hex.EncodeToString(v.Bytes())
		case f.Kind() == protoreflect.StringKind:
			facts[name] = v.String()
		case f.Kind() == protoreflect.BoolKind:
			facts[name] = v.Bool()
		case f.Kind() == protoreflect.Int32Kind, f.Kind() == protoreflect.Int64Kind:
			ok = ok && v.Int() >= 0
			facts[name] = float64(v.Int())
		}
	}
	return facts, ok
}

// oursPlain writes our facts like those of tronFacts, where an address is T alone.
func oursPlain(v any) any {
	switch v := v.(type) {
	case chain.Struct:
		out := map[string]any{}
		for k, x := range v {
			out[k] = oursPlain(x)
			if strings.HasSuffix(k, "address") {
				out[k] = out[k].(string)[:1]
			}
		}
		return out
	case []any:
		out := []any{}
		for _, x := range v {
			out = append(out, oursPlain(x))
		}
		return out
	case chain.Hex:
		return string(v)
	case int64:
		return float64(v)
	}
	return v
}

// checkTron holds our reader against the library, both ways.
func checkTron(t *testing.T, raw []byte) bool {
	t.Helper()
	if len(raw) > 500<<10 {
		return false
	}
	p, err := chain.NewPublicKey(chain.Secp256k1, unhexTron(t, "0390c9c99541bfc8aa65747f8963c542e937454adb17233bb9f6f44fc8474269a8"))
	if err != nil {
		t.Fatal(err)
	}
	want := tronFacts(raw)
	tx, err := tron.Chain{}.Read(raw, chain.SigningKey{Public: p})
	if (err == nil) != (want != nil) {
		t.Fatalf("%x: %v, the library says %v", raw, err, want)
	}
	if err != nil {
		return false
	}
	facts, err := tx.Facts(nil)
	if err != nil {
		t.Fatal(err)
	}
	a, err := json.Marshal(oursPlain(facts))
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(a, b) {
		t.Fatalf("%x:\n%s, the library says\n%s", raw, a, b)
	}
	return true
}

func unhexTron(t testing.TB, text string) []byte {
	t.Helper()
	b, err := hex.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tronSamples are what tronweb has built.
func tronSamples(t testing.TB) map[string][]byte {
	t.Helper()
	b, err := os.ReadFile("../tron/testdata/tronweb.json")
	if err != nil {
		t.Fatal(err)
	}
	type sample struct {
		Name string
		Raw  string `json:"raw_data_hex"`
	}
	var d struct{ Read, Refused []sample }
	if err := json.Unmarshal(b, &d); err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, s := range append(d.Read, d.Refused...) {
		out[s.Name] = unhexTron(t, s.Raw)
	}
	return out
}

func TestTronAgainstTheLibrary(t *testing.T) {
	read, all := 0, 0
	try := func(raw []byte) {
		all++
		if checkTron(t, raw) {
			read++
		}
	}
	for _, raw := range tronSamples(t) {
		try(raw)
		for i := range raw {
			was := raw[i]
			for _, to := range []byte{0, 0x80, 0xff, was ^ 1, was ^ 8} {
				raw[i] = to
				try(raw)
			}
			raw[i] = was
			try(raw[:i])
			try(append(bytes.Clone(raw[:i]), raw[i+1:]...))
		}
	}
	if read < 20 {
		t.Errorf("%d read", read)
	}
	t.Logf("%d texts read alike, %d of them transactions", all, read)
}

func FuzzTronAgainstTheLibrary(f *testing.F) {
	for raw := range maps.Values(tronSamples(f)) {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw []byte) { checkTron(t, raw) })
}
