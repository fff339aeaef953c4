package decoded_test

import (
	"encoding/json"
	"strings"
	"testing"

	"cloister/enclave/internal/chain/show"
)

// texts are the values of a member, wherever it stands in a document.
func texts(v any, member string) (all []string) {
	switch v := v.(type) {
	case map[string]any:
		for key, value := range v {
			if s, ok := value.(string); ok && key == member {
				all = append(all, s)
			}
			all = append(all, texts(value, member)...)
		}
	case []any:
		for _, item := range v {
			all = append(all, texts(item, member)...)
		}
	}
	return all
}

// In lines every document names its addresses, amounts and functions, and says loudly what is unlimited.
func TestLinesOfCases(t *testing.T) {
	f := readCases(t)
	whole := 0
	for _, c := range f.Cases {
		if c.Input.UnsignedTransaction == "" && c.Input.Payload == "" {
			continue
		}
		view := show.New(known(t, &f, &c))
		kind, err := decode(t, view, c.Input)
		if err != nil {
			continue
		}
		d := view.Document(show.Header{Kind: kind})
		lines, more := d.Lines(200, 100_000)
		text := strings.Join(lines, "\n")
		if strings.ContainsFunc(text, func(r rune) bool { return r != '\n' && (r < 0x20 || r > 0x7e) }) || len(lines) == 0 || len(lines) > 200 {
			t.Errorf("%s: %q", c.ID, text)
		}
		if more {
			continue
		}
		whole++
		var document any
		if err := json.Unmarshal(d.Text(), &document); err != nil {
			t.Fatal(err)
		}
		parts := document.(map[string]any)["parts"]
		for _, member := range []string{"address", "function", "by", "chainId", "meaning", "label", "symbol", "reason", "title"} {
			for _, want := range texts(parts, member) {
				if !strings.Contains(text, want) {
					t.Errorf("%s: no %s %q in\n%s", c.ID, member, want, text)
				}
			}
		}
		if strings.Contains(string(d.Text()), `"unlimited":true`) != strings.Contains(text, "UNLIMITED") {
			t.Errorf("%s: unlimited or not:\n%s", c.ID, text)
		}
		short, more := d.Lines(5, 150)
		if n := len(strings.Join(short, "")); n > 150 || len(short) > 5 || !more && len(lines) > 5 {
			t.Errorf("%s: %d lines of %d bytes", c.ID, len(short), n)
		}
	}
	if whole < 30 {
		t.Errorf("%d cases", whole)
	}
}
