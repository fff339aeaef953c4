//go:build cloister_insecure

package insecure

import (
	"encoding/hex"
	"io"
	"sync"
)

// A leak scan must know what to look for: in builds for tests the enclave tells
// the secrets that live long.
var (
	recordMu sync.Mutex
	recordTo io.Writer
)

// TestOnlyRecord makes the enclave write its secrets to w, one a line: kind, a
// space, and hex. It exists only in builds for tests.
func TestOnlyRecord(w io.Writer) {
	recordMu.Lock()
	recordTo = w
	recordMu.Unlock()
}

// Record writes secrets and leaves no copy of them in memory.
func Record(kind string, secrets ...[]byte) {
	recordMu.Lock()
	defer recordMu.Unlock()
	if recordTo == nil {
		return
	}
	for _, s := range secrets {
		line := make([]byte, 0, len(kind)+2*len(s)+2)
		line = append(append(line, kind...), ' ')
		line = append(hex.AppendEncode(line, s), '\n')
		if _, err := recordTo.Write(line); err != nil {
			panic("recording secrets for a test: " + err.Error())
		}
		clear(line)
	}
}
