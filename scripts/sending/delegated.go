package main

import (
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"cloister/scripts/internal/deployment"
)

// The delegate and the station stand at their published addresses: see testdata.
const (
	delegate = "0x2a31ef110e4cdb9c332aa1d8633510214299c48b"
	station  = "0x1cbbd58e521e1133f09e2ba207e3e75c4db404d5"
)

// coinPrice is 2,500 dollars, in millionths.
const coinPrice = 2_500_000_000

// configure writes the enclave's configuration: which chain is sponsored, and at what price.
func (w *world) configure(dir string) (setting string, err error) {
	path := filepath.Join(dir, "configuration-of-gas.json")
	return "CLOISTER_CONFIGURATION=" + path, os.WriteFile(path, fmt.Appendf(nil, `{"gas":{"prices":{%q:%d}}}`, caip2, coinPrice), 0o600)
}

// onChain is a transaction as the node decodes it.
type onChain struct {
	From, To, Type, Gas, MaxFeePerGas, BlockNumber, Input string
	AuthorizationList                                     []struct{ Address string }
}

func (w *world) confirm(id string) (*onChain, error) {
	m, err := w.until(id, "INCLUDED")
	if err != nil {
		return nil, err
	}
	var tx *onChain
	if err := w.node.call(&tx, "eth_getTransactionByHash", text(m, "eth", "txHash")); err != nil {
		return nil, err
	}
	if tx == nil || tx.BlockNumber == "" {
		return nil, fmt.Errorf("%v is not in a block", m)
	}
	return tx, nil
}

func (w *world) codeOf(account string) (code string, err error) {
	return code, w.node.call(&code, "eth_getCode", account, "latest")
}

func (w *world) balanceOf(account string) (*big.Int, error) {
	var q string
	if err := w.node.call(&q, "eth_getBalance", account, "latest"); err != nil {
		return nil, err
	}
	n, ok := new(big.Int).SetString(strings.TrimPrefix(q, "0x"), 16)
	if !ok {
		return nil, fmt.Errorf("balance %q", q)
	}
	return n, nil
}

// executions is the delegate's nonce of an account, as clients ask for it.
func (w *world) executions(account string) (string, error) {
	m, err := w.query("get_nonces", object{"address": account, "caip2": caip2, "gasStationNonce": true})
	return text(m, "gasStationNonce"), err
}

var errDiffers = errors.New("it is not as it should be")

// batches has an account pay for several calls at a time, which takes on the delegate's code with the first.
func (w *world) batches() error {
	one, two := "0x00000000000000000000000000000000000a0001", "0x00000000000000000000000000000000000a0002"
	calls := []object{{"to": one, "value": "1"}, {"to": two, "value": "2"}}
	for i, kind := range []string{"0x4", "0x2"} { // it has the code by the second
		id, err := w.send(object{"calls": calls})
		if err != nil {
			return err
		}
		tx, err := w.confirm(id)
		if err != nil {
			return err
		}
		code, err := w.codeOf(w.account)
		if err != nil {
			return err
		}
		first, err := w.balanceOf(one)
		if err != nil {
			return err
		}
		second, err := w.balanceOf(two)
		if err != nil {
			return err
		}
		n, err := w.executions(w.account)
		if err != nil {
			return err
		}
		if tx.Type != kind || !strings.EqualFold(tx.From, w.account) || !strings.EqualFold(tx.To, w.account) || code != "0xef0100"+delegate[2:] ||
			first.Int64() != int64(i+1) || second.Int64() != int64(2*(i+1)) || n != fmt.Sprint(i+1) {
			return fmt.Errorf("%w: %+v, code %s, balances %v %v, %s executions", errDiffers, tx, code, first, second, n)
		}
	}
	// One call fails, and so nothing is done.
	id, err := w.send(object{"calls": []object{{"to": one, "value": "1"}, {"to": two, "value": "999000000000000000000"}}})
	if err != nil {
		return err
	}
	if _, err := w.until(id, "FAILED"); err != nil {
		return err
	}
	if n, err := w.balanceOf(one); err != nil || n.Int64() != 2 {
		return fmt.Errorf("%w: %v, %v", errDiffers, n, err)
	}
	return nil
}

func (w *world) limit(tree string) error {
	_, err := w.submit("ACTIVITY_TYPE_UPSERT_GAS_USAGE_CONFIG", object{"orgWindowLimitUsd": tree, "subOrgWindowLimitUsd": "0", "windowDurationMinutes": "60"})
	return err
}

// sponsor has an account without any coins send, and undelegates another.
func (w *world) sponsor(funder *funder) error {
	if status, m, err := w.post("/public/v1/submit/eth_send_transaction", w.body(sendType, w.params(object{"sponsor": true}))); err != nil || status != http.StatusBadRequest {
		return fmt.Errorf("a sponsored transaction without a configuration: %d %v, %w", status, m, err)
	}
	if err := w.limit("1000"); err != nil {
		return err
	}
	m, err := w.query("get_gas_station", object{})
	if err != nil {
		return err
	}
	w.payer = text(m, "sponsor")
	if !strings.EqualFold(text(m, "delegate"), delegate) || !strings.EqualFold(text(m, "station"), station) {
		return fmt.Errorf("%w: %v", errDiffers, m)
	}
	if err := funder.pay(&w.node, w.payer, new(big.Int).Exp(big.NewInt(10), big.NewInt(18), nil)); err != nil {
		return err
	}
	if m, err = w.submit("ACTIVITY_TYPE_CREATE_WALLET", object{"walletName": "Poor", "accounts": []object{deployment.Ethereum(0)}}); err != nil {
		return err
	}
	w.poor = text(m, "activity", "result", "createWalletResult", "addresses", "0")
	for i, more := range []object{{}, {"gasStationNonce": "1"}} {
		id, err := w.send(object{"from": w.poor, "sponsor": true, "calls": []object{{"to": nowhere, "data": "0x1234"}}, "gasStationNonce": more["gasStationNonce"]})
		if err != nil {
			return err
		}
		tx, err := w.confirm(id)
		if err != nil {
			return err
		}
		code, err := w.codeOf(w.poor)
		if err != nil {
			return err
		}
		n, err := w.executions(w.poor)
		if err != nil {
			return err
		}
		if !strings.EqualFold(tx.From, w.payer) || !strings.EqualFold(tx.To, station) || code != "0xef0100"+delegate[2:] || len(tx.AuthorizationList) != 1-i || n != fmt.Sprint(i+1) {
			return fmt.Errorf("%w: %+v, code %s, %s executions", errDiffers, tx, code, n)
		}
	}
	// The same number makes no second execution.
	id, err := w.send(object{"from": w.poor, "sponsor": true, "calls": []object{{"to": nowhere, "data": "0x5678"}}, "gasStationNonce": "1"})
	if err != nil {
		return err
	}
	if _, err := w.until(id, "FAILED"); err != nil {
		return err
	}
	if m, err = w.submit("ACTIVITY_TYPE_ETH_UNDELEGATE_7702", object{"from": w.account, "caip2": caip2}); err != nil {
		return err
	}
	if _, err := w.confirm(text(m, "activity", "result", "ethUndelegate7702Result", "sendTransactionStatusId")); err != nil {
		return err
	}
	if code, err := w.codeOf(w.account); err != nil || code != "0x" {
		return fmt.Errorf("undelegated: %s, %w", code, err)
	}
	return nil
}
