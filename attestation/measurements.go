package attestation

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// MaxMeasurements is the longest JSON of expected measurements in bytes.
const MaxMeasurements = 1 << 20

// ParseMeasurements reads expected PCRs and returns them by index, 0 to 31. raw is {"0": hex, …}, or the output of nitro-cli,
// whose member Measurements has them as PCR0 and so on beside HashAlgorithm. Any other name among them is an error, since a
// misspelt register would silently not be compared. The values are not checked: VerifyDocument refuses any but 48 bytes of hex.
func ParseMeasurements(raw []byte) (map[int]string, error) {
	pcrs, err := parseMeasurements(raw)
	if err != nil {
		return nil, fmt.Errorf("measurements: %w", err)
	}
	return pcrs, nil
}

func parseMeasurements(raw []byte) (map[int]string, error) {
	if err := scanJSON(raw, MaxMeasurements, maxJSONDepth, nil); err != nil {
		return nil, err
	}
	var registers map[string]json.RawMessage
	if json.Unmarshal(raw, &registers) != nil {
		return nil, errors.New("not a JSON object")
	}
	prefix := ""
	if inner, printed := registers["Measurements"]; printed {
		registers, prefix = nil, "PCR"
		if json.Unmarshal(inner, &registers) != nil {
			return nil, errors.New("not as nitro-cli prints them")
		}
		delete(registers, "HashAlgorithm")
	}
	pcrs := make(map[int]string)
	for name, value := range registers {
		digits, _ := strings.CutPrefix(name, prefix)
		i, err := strconv.Atoi(digits)
		if err != nil || prefix+strconv.Itoa(i) != name || i < 0 || i > 31 {
			return nil, fmt.Errorf("%.32q is no register: want %s0 to %s31", name, prefix, prefix)
		}
		var text *string
		if json.Unmarshal(value, &text) != nil || text == nil {
			return nil, fmt.Errorf("register %d is not a text", i)
		}
		pcrs[i] = *text
	}
	if len(pcrs) == 0 {
		return nil, errors.New("there are none")
	}
	return pcrs, nil
}
