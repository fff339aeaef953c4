package eth_test

import (
	"runtime"
	"strconv"
	"strings"
	"testing"

	"cloister/enclave/internal/chain/eth"
)

// allocated is how many bytes f allocates in all, when it is not the first time.
func allocated(f func()) uint64 {
	f()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// Bounds on what reading allocates: a part for all, and so many bytes for each byte that is read.
const (
	fixedMemory = 1 << 20
	callMemory  = 16
)

func checkMemory(t *testing.T, what string, size, factor int, f func()) {
	t.Helper()
	if n := allocated(f); n > fixedMemory+uint64(factor*size) {
		t.Errorf("%s: %d bytes allocated for %d", what, n, size)
	}
}

const (
	someAddress = "abababababababababababababababababababab"
	someWords   = 15_000
)

func words(n int, w string) string { return strings.Repeat(w+" ", n) }

func hexOf(n int) string { return strconv.FormatInt(int64(n), 16) }

// The arguments of a call take at most so much memory for each byte, however their offsets lie.
func TestMemoryOfCalls(t *testing.T) {
	// Lists of lists whose outer offsets all lead to one list, 490 KB in all.
	shared := func(outer, inner int, of string) string {
		return "20 " + hexOf(outer) + " " + words(outer, hexOf(32*outer)) + hexOf(inner) + " " + words(inner, of) + words(someWords-outer-inner, "0")
	}
	apart := "20 " + hexOf(someWords/2) + " "
	for i := range someWords / 2 {
		apart += hexOf(32*(someWords/2+i)) + " "
	}
	apart += words(someWords/2, "0")
	flat := func(of string) string { return "20 " + hexOf(someWords) + " " + words(someWords, of) }
	for _, c := range []struct {
		typ, words string
		taken      bool
	}{
		{"address[][]", shared(15, 8000, someAddress), false},
		{"bytes32[][]", shared(15, 8000, ones), false},
		{"uint256[][]", shared(15, 8000, ones), false},
		{"uint256[][]", shared(2, 9000, ones), false},
		{"bytes[]", shared(14_000, 500, "0"), false},                              // one empty text
		{"bytes[]", "20 1000 " + words(4096, "20000") + words(10_000, "0"), true}, // twice each of its words, of 4096
		{"uint256[1][1][1][1][1][1][]", flat(ones), false},                        // each word in six arrays
		{"uint256[][]", shared(1, 14_000, ones), true},
		{"address[]", flat(someAddress), true},
		{"bytes32[]", flat(ones), true},
		{"uint256[]", flat(ones), true},
		{"uint256[1][]", flat(ones), true},
		{"uint8[1][1][1][]", flat("1"), true},
		{"bytes[]", apart, true},
		{"bool[][]", apart, true},
		{"bytes", "20 " + hexOf(32*someWords) + " " + words(someWords, ones), true},
		{"string", "20 " + hexOf(32*someWords) + " " + words(someWords, strings.Repeat("61ff", 16)), true},
	} {
		i := describe(t, oneFunction(c.typ))
		data := callOf(t, i, c.words)
		if _, _, _, ok := i.Call(data); ok != c.taken {
			t.Errorf("%s, %.30s…: taken is %v", c.typ, c.words, ok)
		}
		checkMemory(t, c.typ, len(data), callMemory, func() { i.Call(data) })
	}
	nothing := describe(t, `[{"type":"function","name":"f","inputs":[{"name":"v","type":"tuple[]","components":[]}]}]`)
	for n, taken := range map[int]bool{someWords: true, 5 * someWords: false} {
		data := callOf(t, nothing, "20 "+hexOf(n)+" "+words(someWords, "0"))
		if _, _, _, ok := nothing.Call(data); ok != taken {
			t.Errorf("%d tuples of nothing: taken is %v", n, ok)
		}
		checkMemory(t, "tuples of nothing", len(data), callMemory, func() { nothing.Call(data) })
	}
}

// Typed data take at most so much memory for each value that they hold.
func TestMemoryOfTypedData(t *testing.T) {
	const valueMemory = 512
	list := func(of string, n int) string { return "[" + strings.Repeat(of+",", n-1) + of + "]" }
	for _, c := range [][3]string{
		{"uint8", "1"}, {"bool", "true"}, {"S", "{}", `,"S":[]`}, {"uint8[]", "[]"}, {"string", `""`}, {"address", `"0x` + someAddress + `"`},
	} {
		text := `{"types":{"M":[{"name":"v","type":"` + c[0] + `[][]"}]` + c[2] + `},"primaryType":"M","domain":{},"message":{"v":` + list(list(c[1], 4990), 4) + `}}`
		d, err := eth.ParseTypedData([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		if got := d.Values(); got != 4*4990+4+1 {
			t.Errorf("%s: %d values", c[0], got)
		}
		checkMemory(t, c[0], 4*4990, valueMemory, func() { eth.ParseTypedData([]byte(text)) })
	}
}
