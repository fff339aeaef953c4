package chain

import (
	"fmt"

	"cloister/enclave/internal/fault"
)

// Curve is an elliptic curve of the interface. The numbers are stored and never
// change; the zero value is no curve.
type Curve uint8

// The curves.
const (
	Secp256k1 Curve = 1
	P256      Curve = 2
	Ed25519   Curve = 3
)

var curveTexts = [...]string{Secp256k1: "CURVE_SECP256K1", P256: "CURVE_P256", Ed25519: "CURVE_ED25519"}

// String is the interface's name, such as CURVE_SECP256K1.
func (c Curve) String() string {
	if c.known() {
		return curveTexts[c]
	}
	return fmt.Sprintf("curve-%d", uint8(c))
}

func (c Curve) known() bool { return Secp256k1 <= c && c <= Ed25519 }

// ParseCurve reads the interface's name of a curve, exactly. The error is a
// *fault.Error: InvalidArgument, `invalid curve`.
func ParseCurve(text string) (Curve, error) {
	for c := Secp256k1; c <= Ed25519; c++ {
		if curveTexts[c] == text {
			return c, nil
		}
	}
	return 0, fault.New(fault.InvalidArgument, "invalid curve")
}
