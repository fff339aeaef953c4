package wire_test

import (
	"reflect"
	"testing"

	"cloister/shared/wire"
)

// The table names each kind once, and each of its messages is among the samples, which
// are encoded for good and which FuzzUnmarshal reads.
func TestQuestions(t *testing.T) {
	sampled := map[reflect.Type]bool{}
	for _, v := range samples() {
		sampled[reflect.TypeOf(v).Elem()] = true
	}
	names, kinds, answers := map[string]bool{}, map[wire.Kind]bool{}, map[wire.Kind]reflect.Type{}
	for _, q := range wire.Questions {
		if q.Name == "" || names[q.Name] || kinds[q.Kind] || wire.QuestionOf(q.Kind).Name != q.Name {
			t.Errorf("%s, kind %d: twice", q.Name, q.Kind)
		}
		names[q.Name], kinds[q.Kind] = true, true
		if q.Role < wire.RoleCalls || q.Role > wire.Roles || q.AskedBy != wire.SideHost && q.AskedBy != wire.SideEnclave || (q.AskedBy == wire.SideHost) != (q.Role == wire.RoleCalls) {
			t.Errorf("%s: role %d, asker %d", q.Name, q.Role, q.AskedBy)
		}
		if q.Most <= 0 || q.Most > wire.MaxFrame || q.MostAnswer <= 0 || q.MostAnswer > wire.MaxFrame {
			t.Errorf("%s: %d bytes, %d of the answer", q.Name, q.Most, q.MostAnswer)
		}
		for _, v := range []any{q.Asks, q.Tells} {
			if !sampled[reflect.TypeOf(v)] {
				t.Errorf("%s: no sample of %T", q.Name, v)
			}
		}
		if was := answers[q.Answer]; was != nil && was != reflect.TypeOf(q.Tells) {
			t.Errorf("%s: kind %d holds two messages", q.Name, q.Answer)
		}
		answers[q.Answer] = reflect.TypeOf(q.Tells)
	}
	for kind := range answers {
		if kinds[kind] || wire.QuestionOf(kind) != nil {
			t.Errorf("kind %d is a question and an answer", kind)
		}
	}
	for _, kind := range []wire.Kind{0, wire.KindHello, wire.KindFailed, wire.KindCancel, 255} {
		if q := wire.QuestionOf(kind); q != nil {
			t.Errorf("%+v", q)
		}
	}
}
