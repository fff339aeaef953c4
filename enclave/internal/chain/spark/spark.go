// Package spark makes Spark addresses: a protocol buffer with the compressed
// identity key in field 1, in Bech32m (BIP-350).
//
// The encoding is that of Spark's public software. Optional parts of an address,
// such as a payment request, are not made.
package spark

import (
	"github.com/btcsuite/btcd/btcutil/bech32"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// Chain is Spark, mainnet and regtest. The zero value is ready.
type Chain struct{}

// Formats lists ADDRESS_FORMAT_SPARK_MAINNET and ADDRESS_FORMAT_SPARK_REGTEST.
func (Chain) Formats() []chain.Format {
	return []chain.Format{chain.SparkMainnet, chain.SparkRegtest}
}

// Address is lower-case Bech32m of 35 bytes, with the prefix spark or sparkrt.
func (Chain) Address(f chain.Format, p chain.PublicKey) (string, error) {
	prefix := ""
	switch f {
	case chain.SparkMainnet:
		prefix = "spark"
	case chain.SparkRegtest:
		prefix = "sparkrt"
	default:
		return "", fault.New(fault.InvalidArgument, "invalid address format")
	}
	if err := f.Accept(p.Curve()); err != nil {
		return "", err
	}
	key := p.Compressed()
	field := append([]byte{1<<3 | 2, byte(len(key))}, key...) // field 1, length-delimited
	words, err := bech32.ConvertBits(field, 8, 5, true)
	if err != nil {
		return "", err
	}
	return bech32.EncodeM(prefix, words)
}
