// Package btc makes the addresses of Bitcoin and Dogecoin and reads what is to be
// signed for them: a PSBT of version 0 (BIP-174, with the taproot fields of
// BIP-371).
//
// Where the interface leaves open which script a single key has, P2SH is of P2WPKH
// (BIP-49), P2WSH of P2PK, and P2TR is BIP-86, without a script tree. A PSBT is taken
// apart strictly, and every input must tell the amount that it spends. All inputs that
// belong to the signer are signed, or none: ECDSA with SIGHASH_ALL, or the key path of
// taproot with SIGHASH_DEFAULT.
//
// Amounts are proven, so that fee and policies rest on what is true. A signature by the key path of taproot covers the
// amounts of all inputs. BIP-143 covers that of its own input alone, and before it none was covered: two PSBTs that each
// lie about the other's input would make one transaction with a high fee (CVE-2020-14199). So unless only taproot is
// signed, every input must come with its previous transaction (non_witness_utxo), which is held against its id and against
// the witness_utxo if there is one. The previous transaction alone is enough, for every kind of script.
//
// Dogecoin's inputs are Bitcoin's P2PKH inputs, byte for byte. Its network has no
// witnesses, so whatever needs them is refused there.
package btc

import (
	"github.com/btcsuite/btcd/btcutil/bech32"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/fault"
)

// Chain is Bitcoin on its four networks and Dogecoin on its two. The zero value is
// ready.
type Chain struct{}

var _ chain.Reader = Chain{}

// A network is what distinguishes a network's addresses and amounts.
type network struct {
	p2pkh, p2sh byte   // version bytes of base58check
	hrp         string // human-readable part of bech32, empty without witnesses
	money       int64  // the most that there can be, in the smallest unit

	name, unit, coin string // as people call them
}

const coin = 100_000_000

var (
	mainnet     = network{0x00, 0x05, "bc", 21_000_000 * coin, "Bitcoin", "sat", "BTC"}
	testnet     = network{0x6f, 0xc4, "tb", 21_000_000 * coin, "Bitcoin testnet", "sat", "tBTC"} // and signet
	regtest     = network{0x6f, 0xc4, "bcrt", 21_000_000 * coin, "Bitcoin regtest", "sat", "tBTC"}
	dogeMainnet = network{0x1e, 0x16, "", 10_000_000_000 * coin, "Dogecoin", "koinu", "DOGE"}
	dogeTestnet = network{0x71, 0xc4, "", 10_000_000_000 * coin, "Dogecoin testnet", "koinu", "tDOGE"}
)

// An account is what a format says of an address: network and kind of script.
type account struct {
	net  *network
	kind kind
}

var accounts = map[chain.Format]account{
	chain.BitcoinMainnetP2PKH:  {&mainnet, p2pkh},
	chain.BitcoinMainnetP2SH:   {&mainnet, p2sh},
	chain.BitcoinMainnetP2WPKH: {&mainnet, p2wpkh},
	chain.BitcoinMainnetP2WSH:  {&mainnet, p2wsh},
	chain.BitcoinMainnetP2TR:   {&mainnet, p2tr},
	chain.BitcoinTestnetP2PKH:  {&testnet, p2pkh},
	chain.BitcoinTestnetP2SH:   {&testnet, p2sh},
	chain.BitcoinTestnetP2WPKH: {&testnet, p2wpkh},
	chain.BitcoinTestnetP2WSH:  {&testnet, p2wsh},
	chain.BitcoinTestnetP2TR:   {&testnet, p2tr},
	chain.BitcoinSignetP2PKH:   {&testnet, p2pkh},
	chain.BitcoinSignetP2SH:    {&testnet, p2sh},
	chain.BitcoinSignetP2WPKH:  {&testnet, p2wpkh},
	chain.BitcoinSignetP2WSH:   {&testnet, p2wsh},
	chain.BitcoinSignetP2TR:    {&testnet, p2tr},
	chain.BitcoinRegtestP2PKH:  {&regtest, p2pkh},
	chain.BitcoinRegtestP2SH:   {&regtest, p2sh},
	chain.BitcoinRegtestP2WPKH: {&regtest, p2wpkh},
	chain.BitcoinRegtestP2WSH:  {&regtest, p2wsh},
	chain.BitcoinRegtestP2TR:   {&regtest, p2tr},
	chain.DogeMainnet:          {&dogeMainnet, p2pkh},
	chain.DogeTestnet:          {&dogeTestnet, p2pkh},
}

// Addresses are base58check for P2PKH and P2SH, bech32 (BIP-173) for P2WPKH and P2WSH
// and bech32m (BIP-350) for P2TR.
var Addresses = addresses()

func addresses() chain.Addresses {
	all := make(chain.Addresses, len(accounts))
	for f, a := range accounts {
		all[f] = a.address
	}
	return all
}

func (a account) address(p chain.PublicKey) (string, error) {
	script, ok := scriptOf(a.kind, p)
	if !ok {
		return "", fault.New(fault.InvalidArgument, "invalid public key: it has no taproot output")
	}
	text, _ := a.net.address(script)
	return text, nil
}

// address is the address of an output and its kind. The text is empty for a script that
// has no address on the network; the kind is none for a witness version without use yet.
func (n *network) address(script []byte) (string, kind) {
	k := kindOf(script)
	switch {
	case k == p2pkh:
		return chain.Base58Check(n.p2pkh, [20]byte(script[3:])), k
	case k == p2sh:
		return chain.Base58Check(n.p2sh, [20]byte(script[2:])), k
	case n.hrp == "":
		return "", none
	}
	version, program, ok := witness(script)
	if !ok || version == 0 && k == none {
		return "", none
	}
	return segwit(n.hrp, version, program), k
}

// segwit writes a witness program of 2 to 40 bytes.
func segwit(hrp string, version byte, program []byte) string {
	encode := bech32.EncodeM
	if version == 0 {
		encode = bech32.Encode
	}
	// Neither can fail: bits are padded, and the characters are those of our prefixes.
	groups, err := bech32.ConvertBits(program, 8, 5, true)
	if err != nil {
		return ""
	}
	text, err := encode(hrp, append([]byte{version}, groups...))
	if err != nil {
		return ""
	}
	return text
}
