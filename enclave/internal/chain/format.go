package chain

import (
	"fmt"
	"slices"
	"strings"

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
	if c.isKnown() {
		return curveTexts[c]
	}
	return fmt.Sprintf("curve-%d", uint8(c))
}

func (c Curve) isKnown() bool { return Secp256k1 <= c && c <= Ed25519 }

// ParseCurve reads the interface's name of a curve, exactly. The error is a
// *fault.Error: InvalidArgument, `invalid curve`.
func ParseCurve(text string) (Curve, error) {
	if i := slices.Index(curveTexts[:], text); i > 0 {
		return Curve(i), nil
	}
	return 0, fault.New(fault.InvalidArgument, "invalid curve")
}

// Format is an address format of the interface. The zero value is no format;
// what is stored is the text, so the numbers may change between releases.
type Format uint8

// The formats of the interface, in its order.
const (
	Uncompressed Format = 1 + iota
	Compressed
	Ethereum
	Solana
	Cosmos
	Tron
	Sui
	Aptos
	BitcoinMainnetP2PKH
	BitcoinMainnetP2SH
	BitcoinMainnetP2WPKH
	BitcoinMainnetP2WSH
	BitcoinMainnetP2TR
	BitcoinTestnetP2PKH
	BitcoinTestnetP2SH
	BitcoinTestnetP2WPKH
	BitcoinTestnetP2WSH
	BitcoinTestnetP2TR
	BitcoinSignetP2PKH
	BitcoinSignetP2SH
	BitcoinSignetP2WPKH
	BitcoinSignetP2WSH
	BitcoinSignetP2TR
	BitcoinRegtestP2PKH
	BitcoinRegtestP2SH
	BitcoinRegtestP2WPKH
	BitcoinRegtestP2WSH
	BitcoinRegtestP2TR
	Sei
	Xlm
	DogeMainnet
	DogeTestnet
	TonV3R2
	TonV4R2
	TonV5R1
	Xrp
	SparkMainnet
	SparkRegtest
	formats // one past the last
)

var (
	onlySecp256k1 = []Curve{Secp256k1}
	onlyEd25519   = []Curve{Ed25519}
)

// formatTable names each format, without the prefix ADDRESS_FORMAT_, and the
// curves that it allows.
var formatTable = [formats]struct {
	text   string
	curves []Curve
}{
	Uncompressed:         {"UNCOMPRESSED", []Curve{Secp256k1, P256}},
	Compressed:           {"COMPRESSED", []Curve{Secp256k1, P256, Ed25519}},
	Ethereum:             {"ETHEREUM", onlySecp256k1},
	Solana:               {"SOLANA", onlyEd25519},
	Cosmos:               {"COSMOS", onlySecp256k1},
	Tron:                 {"TRON", onlySecp256k1},
	Sui:                  {"SUI", onlyEd25519},
	Aptos:                {"APTOS", onlyEd25519},
	BitcoinMainnetP2PKH:  {"BITCOIN_MAINNET_P2PKH", onlySecp256k1},
	BitcoinMainnetP2SH:   {"BITCOIN_MAINNET_P2SH", onlySecp256k1},
	BitcoinMainnetP2WPKH: {"BITCOIN_MAINNET_P2WPKH", onlySecp256k1},
	BitcoinMainnetP2WSH:  {"BITCOIN_MAINNET_P2WSH", onlySecp256k1},
	BitcoinMainnetP2TR:   {"BITCOIN_MAINNET_P2TR", onlySecp256k1},
	BitcoinTestnetP2PKH:  {"BITCOIN_TESTNET_P2PKH", onlySecp256k1},
	BitcoinTestnetP2SH:   {"BITCOIN_TESTNET_P2SH", onlySecp256k1},
	BitcoinTestnetP2WPKH: {"BITCOIN_TESTNET_P2WPKH", onlySecp256k1},
	BitcoinTestnetP2WSH:  {"BITCOIN_TESTNET_P2WSH", onlySecp256k1},
	BitcoinTestnetP2TR:   {"BITCOIN_TESTNET_P2TR", onlySecp256k1},
	BitcoinSignetP2PKH:   {"BITCOIN_SIGNET_P2PKH", onlySecp256k1},
	BitcoinSignetP2SH:    {"BITCOIN_SIGNET_P2SH", onlySecp256k1},
	BitcoinSignetP2WPKH:  {"BITCOIN_SIGNET_P2WPKH", onlySecp256k1},
	BitcoinSignetP2WSH:   {"BITCOIN_SIGNET_P2WSH", onlySecp256k1},
	BitcoinSignetP2TR:    {"BITCOIN_SIGNET_P2TR", onlySecp256k1},
	BitcoinRegtestP2PKH:  {"BITCOIN_REGTEST_P2PKH", onlySecp256k1},
	BitcoinRegtestP2SH:   {"BITCOIN_REGTEST_P2SH", onlySecp256k1},
	BitcoinRegtestP2WPKH: {"BITCOIN_REGTEST_P2WPKH", onlySecp256k1},
	BitcoinRegtestP2WSH:  {"BITCOIN_REGTEST_P2WSH", onlySecp256k1},
	BitcoinRegtestP2TR:   {"BITCOIN_REGTEST_P2TR", onlySecp256k1},
	Sei:                  {"SEI", onlySecp256k1},
	Xlm:                  {"XLM", onlyEd25519},
	DogeMainnet:          {"DOGE_MAINNET", onlySecp256k1},
	DogeTestnet:          {"DOGE_TESTNET", onlySecp256k1},
	TonV3R2:              {"TON_V3R2", onlyEd25519},
	TonV4R2:              {"TON_V4R2", onlyEd25519},
	TonV5R1:              {"TON_V5R1", onlyEd25519},
	Xrp:                  {"XRP", onlySecp256k1},
	SparkMainnet:         {"SPARK_MAINNET", onlySecp256k1},
	SparkRegtest:         {"SPARK_REGTEST", onlySecp256k1},
}

const formatPrefix = "ADDRESS_FORMAT_"

// String is the interface's name, such as ADDRESS_FORMAT_ETHEREUM.
func (f Format) String() string {
	if f.isKnown() {
		return formatPrefix + formatTable[f].text
	}
	return fmt.Sprintf("address-format-%d", uint8(f))
}

func (f Format) isKnown() bool { return Uncompressed <= f && f < formats }

// ParseFormat reads the interface's name of a format, exactly. The error is a
// *fault.Error: InvalidArgument, `invalid address format`.
func ParseFormat(text string) (Format, error) {
	name, ok := strings.CutPrefix(text, formatPrefix)
	for f := Uncompressed; ok && f < formats; f++ {
		if formatTable[f].text == name {
			return f, nil
		}
	}
	return 0, fault.New(fault.InvalidArgument, "invalid address format")
}

// CurvesFor lists the curves that a format allows, none for an unknown one.
func CurvesFor(f Format) []Curve {
	if !f.isKnown() {
		return nil
	}
	return slices.Clone(formatTable[f].curves)
}

// Accept answers nil when keys on curve c can have addresses in format f. The
// error is a *fault.Error, InvalidArgument: `invalid address format` for no
// format, `invalid curve` for no curve or one that the format does not allow.
func (f Format) Accept(c Curve) error {
	switch {
	case !f.isKnown():
		return fault.New(fault.InvalidArgument, "invalid address format")
	case !slices.Contains(formatTable[f].curves, c):
		return fault.New(fault.InvalidArgument, "invalid curve: %v does not go with %v", c, f)
	}
	return nil
}
