package activity

import (
	"encoding/hex"
	"strconv"

	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

// AppendTime writes a Timestamp object. The interface counts whole seconds.
func AppendTime(dst []byte, ms uint64) []byte {
	dst = append(dst, `{"seconds":"`...)
	dst = strconv.AppendUint(dst, ms/1000, 10)
	return append(dst, `","nanos":"0"}`...)
}

// appendID writes a member whose value is an id. key is `"name":` with what
// stands before it.
func appendID(dst []byte, key string, id org.ID) []byte {
	dst = append(append(dst, key...), '"')
	return append(id.Append(dst), '"')
}

// AppendHex writes a member whose value is hex. key is as for an id.
func AppendHex(dst []byte, key string, b []byte) []byte {
	dst = append(append(dst, key...), '"')
	return append(hex.AppendEncode(dst, b), '"')
}

// AppendText writes a member whose value is a string. key is as for an id.
func AppendText[text string | []byte](dst []byte, key string, s text) []byte {
	return strictjson.AppendString(append(dst, key...), s)
}
