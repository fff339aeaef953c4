package activity_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/activitytest"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/stamp"
)

// FuzzIntent decodes parameters of every live version. What is taken is
// repeated in the shape of the interface, and that repetition is taken again as
// the same.
func FuzzIntent(f *testing.F) {
	types := slices.Sorted(maps.Keys(kinds.Live))
	for i, typ := range types {
		f.Add(uint8(i), activitytest.JSON(activitytest.SampleIntent(typ)))
	}
	f.Add(uint8(0), []byte(`{"users":null}`))
	f.Fuzz(func(t *testing.T, i uint8, params []byte) {
		v := kinds.Live[types[int(i)%len(types)]]
		in, err := v.Decode(params)
		if err != nil {
			if fault.Of(err) == nil {
				t.Fatalf("internal error: %v", err)
			}
			if len(err.Error()) > 1000 {
				t.Fatalf("message of %d bytes", len(err.Error()))
			}
			return
		}
		b := v.AppendIntent(nil, in)
		if wrong := activitytest.API.Check("Intent", b); len(wrong) > 0 && !slices.Contains(own, v.Type) {
			t.Fatalf("%s: %q", b, wrong)
		}
		var m map[string]json.RawMessage
		if err := json.Unmarshal(b, &m); err != nil {
			t.Fatal(err)
		}
		if v.Secret() {
			return // what is shown is not what was sent
		}
		again, err := v.Decode(m[v.IntentKey])
		if err != nil {
			t.Fatalf("%s is refused: %v", b, err)
		}
		if string(v.AppendIntent(nil, again)) != string(b) {
			t.Fatalf("%s becomes %s", b, v.AppendIntent(nil, again))
		}
	})
}

// FuzzSubmit takes envelopes apart: what is taken holds one object.
func FuzzSubmit(f *testing.F) {
	f.Add([]byte(goodBody))
	f.Add([]byte(strings.ReplaceAll(goodBody, "M", "_m")))
	f.Fuzz(func(t *testing.T, body []byte) {
		s, err := activity.ParseStored(stamp.StoredBody(body))
		if err != nil {
			if e := fault.Of(err); e == nil || e.Code != fault.InvalidArgument {
				t.Fatalf("%v", err)
			}
			return
		}
		if !json.Valid(s.Parameters) || s.Type == "" || s.Organization.Zero() {
			t.Fatalf("%+v", s)
		}
	})
}

// FuzzFailure shows any stored failure as an object of the interface.
func FuzzFailure(f *testing.F) {
	f.Add(activity.AppendError(nil, fault.WithCode(3, "REQUEST_INVALID", "x")))
	f.Add([]byte(`{"code":1,"details":[{}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		w := activitytest.New(t)
		e := w.Entry("ACTIVITY_TYPE_UPDATE_WALLET", object{"walletId": w.Root})
		e.Failure = body
		if b := kinds.Live.AppendActivity(nil, e, w.ID, view(w)); !json.Valid(b) {
			t.Fatalf("%s", b)
		}
	})
}
