package tlog_test

import (
	"bytes"
	"strings"
	"testing"

	"cloister/attestation/tlog"
)

func TestOpeningRefusesPaths(t *testing.T) {
	hash := func(b byte) []byte { return bytes.Repeat([]byte{b}, 32) }
	o := tlog.Opening{Organization: [16]byte{1}, Count: 1 << 40, Root: [32]byte{2}, Salt: [16]byte{3}, Index: 6, Path: [][]byte{hash(4), hash(5), hash(6)}}
	for name, path := range map[string][][]byte{"short": {make([]byte, 31)}, "long": {make([]byte, 33)}, "none": {nil}, "deep": make([][]byte, 33)} {
		o.Path = path
		if err := o.Verify([32]byte{}); err == nil || !strings.Contains(err.Error(), "tlog: a path") && err.Error() != "tlog: an opening is too deep" {
			t.Errorf("a path that is %s: %v", name, err)
		}
	}
}
