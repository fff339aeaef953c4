package wallet

import (
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/addressonly"
	"cloister/enclave/internal/chain/btc"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/chain/tempo"
	"cloister/enclave/internal/chain/tron"
	"cloister/enclave/internal/fault"
)

// addresses are all address formats that the enclave can encode.
var addresses = chain.Join(addressonly.Addresses, eth.Addresses, sol.Addresses, btc.Addresses, tron.Addresses)

// readers are the chains whose transactions can be signed, each with the language of its contract interfaces.
var readers = map[TransactionType]struct {
	chain  chain.Reader
	speaks InterfaceType
}{
	"TRANSACTION_TYPE_ETHEREUM": {eth.Chain{}, interfaceEthereum},
	"TRANSACTION_TYPE_SOLANA":   {sol.Chain{}, interfaceSolana},
	"TRANSACTION_TYPE_TRON":     {tron.Chain{}, ""},
	"TRANSACTION_TYPE_BITCOIN":  {btc.Chain{}, ""},
	"TRANSACTION_TYPE_TEMPO":    {tempo.Chain{}, ""},
}

// Curve is the interface's name of a curve.
type Curve string

// Valid reports whether c is a curve of the interface.
func (c Curve) Valid() bool { return valid(chain.ParseCurve(string(c))) }

// AddressFormat is the interface's name of an address format.
type AddressFormat string

// Valid reports whether f is a format of the interface, live or not.
func (f AddressFormat) Valid() bool { return valid(chain.ParseFormat(string(f))) }

// PathFormat is the interface's name of a format of derivation paths.
type PathFormat string

const pathBIP32 PathFormat = "PATH_FORMAT_BIP32"

// Valid reports whether f is a path format of the interface.
func (f PathFormat) Valid() bool { return f == pathBIP32 }

func valid[T any](_ T, err error) bool { return err == nil }

// formatFor returns curve and format by their names, and refuses a pair that does not match.
func formatFor(path string, curve Curve, format AddressFormat) (chain.Curve, chain.Format, error) {
	c, _ := chain.ParseCurve(string(curve)) // both are Valid
	f, _ := chain.ParseFormat(string(format))
	if err := f.Accept(c); err != nil {
		if e := fault.Of(err); e != nil {
			return 0, 0, fault.Field(path, "%s", e.Message)
		}
		return 0, 0, err
	}
	return c, f, nil
}
