package main

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/decred/dcrd/dcrec/secp256k1/v4"
	"github.com/decred/dcrd/dcrec/secp256k1/v4/ecdsa"
	"golang.org/x/crypto/sha3"
)

// A node is asked what is on the chain, past host and enclave.
type node struct{ url string }

func (n *node) call(into any, method string, params ...any) error {
	body, err := json.Marshal(object{"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
	if err != nil {
		return err
	}
	res, err := http.Post(n.url, "application/json", bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer res.Body.Close()
	var reply struct {
		Result json.RawMessage
		Error  *struct{ Message string }
	}
	if err := json.NewDecoder(res.Body).Decode(&reply); err != nil {
		return err
	}
	if reply.Error != nil {
		return fmt.Errorf("%s: %s", method, reply.Error.Message)
	}
	return json.Unmarshal(reply.Result, into)
}

func quantity(text string) (uint64, error) {
	return strconv.ParseUint(strings.TrimPrefix(text, "0x"), 16, 64)
}

func (n *node) count(account, tag string) (uint64, error) {
	var q string
	if err := n.call(&q, "eth_getTransactionCount", account, tag); err != nil {
		return 0, err
	}
	return quantity(q)
}

// includedNonce is the nonce of a transaction of an account that must be in a block.
func (n *node) includedNonce(hash, from string) (uint64, error) {
	var tx *struct{ From, Nonce, BlockNumber string }
	if err := n.call(&tx, "eth_getTransactionByHash", hash); err != nil {
		return 0, err
	}
	if tx == nil || tx.BlockNumber == "" || !strings.EqualFold(tx.From, from) {
		return 0, fmt.Errorf("%s is not in a block: %+v", hash, tx)
	}
	return quantity(tx.Nonce)
}

// A funder signs for an account with money. What it signs is of the legacy kind.
type funder struct {
	key     *secp256k1.PrivateKey
	address string
}

func newFunder(text string) (*funder, error) {
	b, err := hex.DecodeString(strings.TrimPrefix(text, "0x"))
	if err != nil {
		return nil, err
	}
	key := secp256k1.PrivKeyFromBytes(b)
	return &funder{key, "0x" + hex.EncodeToString(keccak(key.PubKey().SerializeUncompressed()[1:])[12:])}, nil
}

func keccak(b []byte) []byte {
	h := sha3.NewLegacyKeccak256()
	h.Write(b)
	return h.Sum(nil)
}

func (f *funder) pay(n *node, to string, value *big.Int) error {
	b, err := hex.DecodeString(to[2:])
	if err != nil {
		return err
	}
	_, err = f.send(n, b, value, nil)
	return err
}

func (f *funder) deploy(n *node, code string) (string, error) {
	b, err := hex.DecodeString(code)
	if err != nil {
		return "", err
	}
	return f.send(n, nil, new(big.Int), b)
}

func (f *funder) send(n *node, to []byte, value *big.Int, data []byte) (contract string, err error) {
	nonce, err := n.count(f.address, "pending")
	if err != nil {
		return "", err
	}
	body := legacy(nonce, to, value, data)
	sum := keccak(list(body, number(chainID), number(0), number(0)))
	compact := ecdsa.SignCompact(f.key, sum, false)
	v := uint64(compact[0]-27) + 35 + 2*chainID
	signed := list(body, number(v), bytesOf(bytes.TrimLeft(compact[1:33], "\x00")), bytesOf(bytes.TrimLeft(compact[33:], "\x00")))
	var hash string
	if err := n.call(&hash, "eth_sendRawTransaction", "0x"+hex.EncodeToString(signed)); err != nil {
		return "", err
	}
	for range 600 {
		var receipt *struct{ Status, ContractAddress string }
		if err := n.call(&receipt, "eth_getTransactionReceipt", hash); err == nil && receipt != nil {
			if receipt.Status != "0x1" {
				return "", errors.New("it failed")
			}
			return receipt.ContractAddress, nil
		}
		time.Sleep(100 * time.Millisecond)
	}
	return "", errors.New("it does not come into a block")
}

// unsignedTransfer is one wei, as sign_transaction takes it.
func unsignedTransfer(nonce uint64, to string) string {
	b, _ := hex.DecodeString(to[2:]) // a constant
	return hex.EncodeToString(list(legacy(nonce, b, big.NewInt(1), nil), number(chainID), number(0), number(0)))
}

func legacy(nonce uint64, to []byte, value *big.Int, data []byte) []byte {
	price, gas := uint64(10_000_000_000), uint64(200_000)
	return bytes.Join([][]byte{number(nonce), number(price), number(gas), bytesOf(to), bytesOf(value.Bytes()), bytesOf(data)}, nil)
}

// What follows writes recursive length prefix.

func number(n uint64) []byte { return bytesOf(new(big.Int).SetUint64(n).Bytes()) }

func bytesOf(b []byte) []byte {
	if len(b) == 1 && b[0] < 0x80 {
		return b
	}
	return append(head(0x80, len(b)), b...)
}

func list(items ...[]byte) []byte {
	b := bytes.Join(items, nil)
	return append(head(0xc0, len(b)), b...)
}

func head(base byte, n int) []byte {
	if n < 56 {
		return []byte{base + byte(n)}
	}
	size := new(big.Int).SetInt64(int64(n)).Bytes()
	return append([]byte{base + 55 + byte(len(size))}, size...)
}
