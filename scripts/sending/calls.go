package main

import (
	"encoding/hex"
	"fmt"
	"math/big"
	"net/http"
	"strings"

	"cloister/attestation/request"
)

// What stands in the place of swaps and of earning: an approval and what it is for as two calls of one transaction, both done
// or none, by a user whose policies name the contracts, the functions and who receives.

// Both contracts are written by hand, for the token whose address is left out. Each takes what the caller has approved.
const (
	// A vault has deposit(uint256,address) of ERC-4626, one share for one token, and balanceOf(address) of shares.
	vaultCode = "5f3560e01c806370a0823114601c57636e553f65146027575b5f5ffd5b600435545f5260205ff3" +
		"5b6323b872dd60e01b5f52336004523060245260043560445260205f60645f5f73%s5af115601857" +
		"60243580546004350190556004355f5260205ff3"
	// An exchange has swap(uint256,uint256,address): two of another token for one, if that is at least the second argument.
	exchangeCode = "5f3560e01c63%s146012575b5f5ffd5b6323b872dd60e01b5f52336004523060245260043560445260205f60645f5f73%s5af115600e57" +
		"63a9059cbb60e01b5f526044356004526004358001806024526024358110600e5760205f60445f5f73%s5af115600e5760205ff3"
)

const (
	tokenABI    = `[{"type":"function","name":"approve","inputs":[{"name":"spender","type":"address"},{"name":"amount","type":"uint256"}]}]`
	vaultABI    = `[{"type":"function","name":"deposit","inputs":[{"name":"assets","type":"uint256"},{"name":"receiver","type":"address"}]}]`
	exchangeABI = `[{"type":"function","name":"swap","inputs":[{"name":"amount","type":"uint256"},{"name":"least","type":"uint256"},{"name":"receiver","type":"address"}]}]`
)

func selector(signature string) string { return hex.EncodeToString(keccak([]byte(signature))[:4]) }

// callOf is a call's data: a selector, then numbers and addresses.
func callOf(selector string, arguments ...any) string {
	data := "0x" + selector
	for _, a := range arguments {
		switch a := a.(type) {
		case int:
			data += fmt.Sprintf("%064x", a)
		case string:
			data += fmt.Sprintf("%064s", strings.ToLower(a[2:]))
		}
	}
	return data
}

// tokens is how much of a token, or of a vault's shares, an account has.
func (w *world) tokens(of, account string) (n uint64, err error) {
	var word string
	if err = w.node.call(&word, "eth_call", object{"to": of, "data": callOf("70a08231", account)}, "latest"); err != nil {
		return 0, err
	}
	return quantity("0x" + strings.TrimLeft(word[2:], "0") + map[bool]string{true: "0"}[strings.Trim(word[2:], "0") == ""])
}

func (w *world) made(typ string, parameters object, result ...string) (string, error) {
	m, err := w.submit(typ, parameters)
	return text(m, append([]string{"activity", "result"}, result...)...), err
}

// twoCalls has a user deposit and swap as policies allow it, and nothing else.
func (w *world) twoCalls(f *funder) error {
	token, other := w.listed[0], w.listed[1]
	vault, err := f.deploy(&w.node, fmt.Sprintf("6076806009"+"5f395ff3"+vaultCode, token[2:]))
	if err != nil {
		return err
	}
	exchange, err := f.deploy(&w.node, fmt.Sprintf("6094806009"+"5f395ff3"+exchangeCode, selector("swap(uint256,uint256,address)"), token[2:], other[2:]))
	if err != nil {
		return err
	}
	for of, to := range map[string]string{token: w.account, other: exchange} {
		contract, err := hex.DecodeString(of[2:])
		if err != nil {
			return err
		}
		data, err := hex.DecodeString(transferOf(to, 1000))
		if err != nil {
			return err
		}
		if _, err := f.send(&w.node, contract, new(big.Int), data); err != nil {
			return err
		}
	}
	for address, abi := range map[string]string{token: tokenABI, vault: vaultABI, exchange: exchangeABI} {
		if _, err := w.submit("ACTIVITY_TYPE_CREATE_SMART_CONTRACT_INTERFACE", object{"smartContractAddress": strings.ToLower(address), "smartContractInterface": abi,
			"type": "SMART_CONTRACT_INTERFACE_TYPE_ETHEREUM", "label": "of " + address[2:8]}); err != nil {
			return err
		}
	}
	key, err := request.ParseKey(hex.EncodeToString(keccak([]byte("a trader"))) + ":p256")
	if err != nil {
		return err
	}
	user, err := w.made("ACTIVITY_TYPE_CREATE_USERS_V3", object{"users": []object{{"userName": "Trader", "authenticators": []any{}, "oauthProviders": []any{}, "userTags": []any{},
		"apiKeys": []object{{"apiKeyName": "Key", "publicKey": key.Public(), "curveType": key.Curve()}}}}}, "createUsersResult", "userIds", "0")
	if err != nil {
		return err
	}
	// Each call is judged alone, and both sides of && are evaluated: one policy for each function, since a call of another has
	// other arguments.
	for _, may := range []struct{ contract, function, argument, is string }{
		{token, "approve", "spender", fmt.Sprintf("in ['%s', '%s']", strings.ToLower(vault), strings.ToLower(exchange))},
		{vault, "deposit", "receiver", fmt.Sprintf("== '%s'", strings.ToLower(w.account))},
		{exchange, "swap", "receiver", fmt.Sprintf("== '%s'", strings.ToLower(w.account))},
	} {
		condition := fmt.Sprintf("eth.tx.to == '%s' && eth.tx.function_name == '%s' && eth.tx.contract_call_args['%s'] %s", strings.ToLower(may.contract), may.function, may.argument, may.is)
		if _, err := w.submit("ACTIVITY_TYPE_CREATE_POLICY_V3", object{"policyName": "May " + may.function, "effect": "EFFECT_ALLOW", "notes": "",
			"consensus": fmt.Sprintf("approvers.any(user, user.id == '%s')", user), "condition": condition}); err != nil {
			return err
		}
	}
	root := w.API
	defer func() { w.API = root }()
	w.API = &request.API{URL: root.URL, OrganizationID: root.OrganizationID, Key: key, HTTP: root.HTTP}
	deposit := []object{{"to": token, "data": callOf("095ea7b3", vault, 100)}, {"to": vault, "data": callOf("6e553f65", 100, w.account)}}
	swap := []object{{"to": token, "data": callOf("095ea7b3", exchange, 50)}, {"to": exchange, "data": callOf(selector("swap(uint256,uint256,address)"), 50, 99, w.account)}}
	refused := map[string][]object{
		"a deposit for somebody else":   {deposit[0], {"to": vault, "data": callOf("6e553f65", 100, nowhere)}},
		"an approval for somebody else": {{"to": token, "data": callOf("095ea7b3", nowhere, 100)}, deposit[1]},
		"one call more":                 append([]object{{"to": nowhere, "value": "1"}}, swap...),
		"another function":              {swap[0], {"to": token, "data": "0x" + transferOf(nowhere, 1)}},
	}
	for what, calls := range refused {
		if status, m, err := w.post("/public/v1/submit/eth_send_transaction", w.body(sendType, w.params(object{"calls": calls}))); err != nil || status != http.StatusForbidden {
			return fmt.Errorf("%s: %d %v, %w", what, status, m, err)
		}
	}
	before, err := w.tokens(token, w.account)
	if err != nil {
		return err
	}
	for _, calls := range [][]object{deposit, swap} {
		id, err := w.send(object{"calls": calls})
		if err != nil {
			return err
		}
		if _, err := w.confirm(id); err != nil {
			return err
		}
	}
	// One token too few for what the caller asks at least: the approval before it is undone too.
	id, err := w.send(object{"calls": []object{swap[0], {"to": exchange, "data": callOf(selector("swap(uint256,uint256,address)"), 50, 101, w.account)}}})
	if err != nil {
		return err
	}
	if _, err := w.until(id, "FAILED"); err != nil {
		return err
	}
	for _, has := range []struct {
		of   string
		want uint64
	}{{token, before - 150}, {vault, 100}, {other, 100}} {
		if n, err := w.tokens(has.of, w.account); err != nil || n != has.want {
			return fmt.Errorf("%w: %d of %s, want %d, %v", errDiffers, n, has.of, has.want, err)
		}
	}
	return nil
}
