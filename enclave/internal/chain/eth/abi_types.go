package eth

import (
	"math/big"
	"strconv"
	"strings"
)

// kind is what a type of Solidity is, in contract interfaces and in typed data.
type kind uint8

const (
	kindNone    kind = iota // no type
	kindBool                //
	kindUint                // size: bits
	kindInt                 // size: bits
	kindAddress             //
	kindFixed               // bytesN; size: bytes
	kindBytes               //
	kindString              //
	kindDecimal             // fixed and ufixed, which no compiler has; of interfaces only
	kindList                // T[], of interfaces only
	kindArray               // T[n], of interfaces only
	kindTuple               // of interfaces only
	kindStruct              // of typed data only
)

// elementary finds a type without parts by its name: size is in bits for uint and
// int, in bytes for bytesN. uint and int without a size are not among them.
func elementary(name string) (k kind, size int) {
	switch name {
	case "address":
		return kindAddress, 20
	case "bool":
		return kindBool, 0
	case "string":
		return kindString, 0
	case "bytes":
		return kindBytes, 0
	}
	base := strings.TrimRight(name, "0123456789")
	n, ok := decimal(name[len(base):], 1, 256)
	switch {
	case !ok:
	case base == "uint" && n%8 == 0:
		return kindUint, n
	case base == "int" && n%8 == 0:
		return kindInt, n
	case base == "bytes" && n <= 32:
		return kindFixed, n
	}
	return kindNone, 0
}

// decimal reads a number from least to most without leading zeros.
func decimal(text string, least, most int) (int, bool) {
	if text == "" || text[0] < '1' || text[0] > '9' {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil && n >= least && n <= most
}

// maxTypeText bounds the name of a type, in bytes; maxCount the length that an
// array's type can name.
const (
	maxTypeText = 255
	maxCount    = 1 << 31
)

// dimension cuts the last [] or [n] off the name of a type; count is -1 for [].
func dimension(name string) (of string, count int, ok bool) {
	open := strings.LastIndexByte(name, '[')
	if open < 0 || name[len(name)-1] != ']' {
		return "", 0, false
	}
	count, ok = -1, true
	if text := name[open+1 : len(name)-1]; text != "" {
		count, ok = decimal(text, 1, maxCount)
	}
	return name[:open], count, ok
}

// isIdentifier takes what Solidity allows as a name.
func isIdentifier(s string) bool {
	for i := range len(s) {
		c := s[i]
		if !(c == '_' || c == '$' || c|0x20 >= 'a' && c|0x20 <= 'z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != "" && len(s) <= maxTypeText
}

// numberFact is a number as policies read it: int64 if it fits, else *big.Int. A
// signed number beyond the int of policies, which has 128 bits, is absent: the
// documents say that such an argument cannot be used.
func numberFact(n *big.Int, signed bool) any {
	switch {
	case n.IsInt64():
		return n.Int64()
	case signed && !isInRange(n, 128, true):
		return nil
	}
	return n
}

// isInRange tells whether a number is in the range of an integer type.
func isInRange(n *big.Int, bits int, signed bool) bool {
	switch {
	case !signed:
		return n.Sign() >= 0 && n.BitLen() <= bits
	case n.Sign() < 0:
		return new(big.Int).Not(n).BitLen() < bits
	}
	return n.BitLen() < bits
}
