package keys

import (
	"strconv"
	"strings"

	"cloister/enclave/internal/fault"
)

// hardened is the bit that marks a hardened step.
const hardened = 1 << 31

// A Path is a derivation path, with its text as given. The zero value derives nothing.
type Path struct {
	text  string
	steps []uint32
}

// ParsePath reads `m`, or `m/` and steps separated by `/`: each a decimal number
// below 2^31 without leading zeros, hardened by a trailing apostrophe; at most
// MaxPathSteps. One path has one text. The error is a *fault.Error:
// InvalidArgument, `invalid path`.
func ParsePath(text string) (Path, error) {
	refuse := fault.New(fault.InvalidArgument, "invalid path")
	if len(text) > MaxPathText {
		return Path{}, refuse
	}
	steps := strings.Split(text, "/")
	if steps[0] != "m" || len(steps) > 1+MaxPathSteps {
		return Path{}, refuse
	}
	p := Path{text: text}
	for _, step := range steps[1:] {
		digits, isHard := strings.CutSuffix(step, "'")
		n, err := strconv.ParseUint(digits, 10, 31)
		if err != nil || digits[0] == '0' && len(digits) > 1 {
			return Path{}, refuse
		}
		if isHard {
			n |= hardened
		}
		p.steps = append(p.steps, uint32(n))
	}
	return p, nil
}

// String is the text that ParsePath read.
func (p Path) String() string { return p.text }
