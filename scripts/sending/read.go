package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
)

// A token is written by hand, as small as one can be: balances lie in the storage under their holders, what one may take of another's under
// the hash of both. It has balanceOf, transfer, approve and transferFrom of ERC-20.
const tokenCode = "5f3560e01c806370a08231146030578063a9059cbb146079578063095ea7b314603b576323b872dd146050575b5f5ffd" + // which function
	"5b600435545f5260205ff3" + // balanceOf
	"5b335f5260043560205260243560405f20556094565b" + // approve
	"6004355f523360205260405f208054604435808210602c57900390556004356024356044356081565b" + // transferFrom
	"336004356024355b8254818110602c57819003835581540190555b60015f5260205ff3" // transfer

// deployToken makes a token of which the funder has all.
func (f *funder) deployToken(n *node, amount int64) (string, error) {
	return f.deploy(n, fmt.Sprintf("7f%064x73%s55609d8060405f395ff3%s", amount, f.address[2:], tokenCode))
}

func transferOf(to string, amount int64) string {
	return fmt.Sprintf("a9059cbb%064s%064x", strings.ToLower(to[2:]), amount)
}

// listTokens writes the operator's list of assets.
func (w *world) listTokens(tokens ...string) error {
	var list []object
	for i, t := range tokens {
		list = append(list, object{"caip19": caip2 + "/erc20:" + t, "symbol": fmt.Sprintf("T%d", i), "name": "Token", "decimals": 2})
	}
	b, err := json.Marshal(list)
	if err != nil {
		return err
	}
	w.assets = filepath.Join(w.Dir, "assets.json")
	return os.WriteFile(w.assets, b, 0o600)
}

// balances are what the API tells of the account, by the name of the asset.
func (w *world) balances() (map[string]object, error) {
	m, err := w.query("get_wallet_address_balances", object{"address": w.account, "caip2": caip2})
	all := map[string]object{}
	for _, b := range objects(m["balances"]) {
		all[text(b, "caip19")] = b
	}
	return all, err
}

func objects(v any) (all []object) {
	of, _ := v.([]any)
	for _, x := range of {
		o, _ := x.(object)
		all = append(all, o)
	}
	return all
}

// reads holds balances and history against what the node says itself.
func (w *world) reads(f *funder) error {
	token := w.listed[0]
	to, err := hex.DecodeString(token[2:])
	if err != nil {
		return err
	}
	data, err := hex.DecodeString(transferOf(w.account, 1250))
	if err != nil {
		return err
	}
	if _, err := f.send(&w.node, to, new(big.Int), data); err != nil {
		return err
	}
	for _, spent := range []int64{0, 5} {
		if spent > 0 {
			id, err := w.send(object{"calls": []object{{"to": token, "data": "0x" + transferOf(nowhere, spent)}}})
			if err != nil {
				return err
			}
			if _, err := w.until(id, "INCLUDED"); err != nil {
				return err
			}
		}
		all, err := w.balances()
		if err != nil {
			return err
		}
		var coin string
		if err := w.node.call(&coin, "eth_getBalance", w.account, "latest"); err != nil {
			return err
		}
		want, ok := new(big.Int).SetString(coin[2:], 16)
		if !ok || text(all[caip2+"/slip44:60"], "balance") != want.String() {
			return fmt.Errorf("%v, the chain says %s", all, coin)
		}
		// Of the second token there is none.
		has := all[caip2+"/erc20:"+token]
		if len(all) != 2 || text(has, "balance") != fmt.Sprint(1250-spent) || text(has, "display", "crypto") != strings.TrimRight(fmt.Sprintf("%.2f", float64(1250-spent)/100), "0") {
			return fmt.Errorf("%v after %d", all, spent)
		}
	}
	return w.history()
}

// history follows all pages, and holds each item against the chain.
func (w *world) history() error {
	seen, page := map[string]bool{}, object{"limit": "20"}
	for {
		m, err := w.query("list_eth_transaction_history", object{"address": w.account, "caip2": caip2, "paginationOptions": page})
		if err != nil {
			return err
		}
		for _, item := range objects(m["transactions"]) {
			hash := text(item, "transactionHash")
			var receipt struct{ BlockNumber, BlockHash, GasUsed, EffectiveGasPrice, Status, From, To string }
			var tx struct{ Value string }
			if err := w.node.call(&receipt, "eth_getTransactionReceipt", hash); err != nil {
				return err
			}
			if err := w.node.call(&tx, "eth_getTransactionByHash", hash); err != nil {
				return err
			}
			gas, _ := quantity(receipt.GasUsed)
			price, _ := quantity(receipt.EffectiveGasPrice)
			number, _ := quantity(receipt.BlockNumber)
			moves := objects(item["transfers"])
			moved := tx.Value != "0x0" && receipt.Status == "0x1"
			switch {
			case seen[hash]:
				return fmt.Errorf("%s is told twice", hash)
			case text(item, "block", "number") != fmt.Sprint(number), text(item, "block", "hash") != receipt.BlockHash, text(item, "fee", "amount") != fmt.Sprint(gas*price),
				!strings.EqualFold(text(item, "from"), receipt.From), !strings.EqualFold(text(item, "to"), receipt.To), (len(moves) == 1) != moved,
				moved && text(moves[0], "amount") != "1", !strings.HasPrefix(text(item, "turnkey", "activityFingerprint"), "sha256:"):
				return fmt.Errorf("%v, the chain says %+v %+v", item, receipt, tx)
			}
			seen[hash] = true
		}
		if after := text(m, "pageInfo", "endCursor"); after != "" && m["pageInfo"].(object)["hasNextPage"] == true {
			page = object{"limit": "20", "after": after}
			continue
		}
		break
	}
	count, err := w.node.count(w.account, "latest")
	if err != nil || uint64(len(seen)) != count {
		return fmt.Errorf("%d transactions are told of, the chain counts %d, %v", len(seen), count, err)
	}
	return nil
}
