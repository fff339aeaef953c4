package sol

import "github.com/mr-tron/base58"

// Blockhash is the recent blockhash of a wire transaction, all zeros where who
// made it left that to others. The errors are those of Read.
func Blockhash(tx []byte) (hash [32]byte, err error) {
	w, err := parse(tx)
	if err != nil {
		return hash, err
	}
	copy(hash[:], w.blockhash)
	return hash, nil
}

// BlockhashText is a blockhash as WithBlockhash takes it.
func BlockhashText(hash [32]byte) string { return base58.Encode(hash[:]) }
