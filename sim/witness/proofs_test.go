package witness_test

import (
	"strings"
	"testing"

	"cloister/attestation/tlog"
	"cloister/attestation/tlog/tlogtest"
	"cloister/sim/witness/witnesstest"
)

// What is a logged proof here is a tlog-proof to others: by the same policy, of the batch's leaf. What ties an organization
// to that leaf is for us alone to verify.
func TestTorchwoodTakesLoggedProofs(t *testing.T) {
	for generation, first := range map[string]tlog.Leaf{
		"1": {Adopt: &tlog.Adopt{How: tlog.HowFirst}},
		"2": {Adopt: &tlog.Adopt{How: tlog.HowRecovered, Origin: "log.example/00112233445566778899aabbccddeeff/0/1", Size: 8, Witnessed: 9}},
	} {
		w := tlogtest.New("log.example/00112233445566778899aabbccddeeff/0/"+generation, 3, 4)
		w.Beside = 3
		w.Append(first)
		for i := range byte(20) {
			w.Record(tlog.Facts{Organization: [16]byte{i % 3}, Mode: tlog.ModeStrict})
		}
		policy := "log " + w.Log.String() + "\n" + w.Policy()
		for seq := range uint64(5) {
			p := w.Prove([16]byte{1}, seq)
			text, err := p.Text()
			if err != nil {
				t.Fatal(err)
			}
			if why := witnesstest.Torchwood(t, policy, p.Entry.Leaf, text); why != "" {
				t.Errorf("generation %s, entry %d: %s\n%s", generation, seq, why, text)
			}
			if seq > 0 {
				continue
			}
			other := w.Prove([16]byte{2}, 3).Entry.Leaf
			few := strings.Replace(policy, "group all 3", "group all 4", 1)
			for name, why := range map[string]string{
				"another leaf":   witnesstest.Torchwood(t, policy, other, text),
				"a larger index": witnesstest.Torchwood(t, policy, p.Entry.Leaf, strings.Replace(text, "\nindex 2\n", "\nindex 3\n", 1)),
				"too few":        witnesstest.Torchwood(t, few, p.Entry.Leaf, text),
			} {
				if why == "" {
					t.Errorf("%s is taken", name)
				}
			}
		}
	}
}
