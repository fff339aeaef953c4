package decoded_test

import (
	"fmt"
	"strings"
	"testing"

	"cloister/enclave/internal/decoded"
)

const usdc = `{"caip19":"eip155:1/erc20:0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48","symbol":"USDC","decimals":6}`

func TestReadTokens(t *testing.T) {
	const (
		mint = `{"caip19":"solana:5eykt4UsFv8P8NJdTREpY1vzqKqZKvdp/token:EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v","symbol":"USDC","decimals":6}`
		tron = `{"caip19":"tron:728126428/trc20:TR7NHqjeKQxGTCi8q8ZY4pL8otSzgjLj6t","symbol":"USDT","decimals":6}`
	)
	// The text is the same however the operator writes it: documents name it by its hash.
	text := "[" + usdc + "," + mint + "," + tron + "]"
	loose := "[" + strings.Replace(usdc, `"symbol"`, ` "name": "USD Coin", "stable": true,
		"symbol"`, 1) + " , " + mint + "," + tron + "]"
	for _, list := range []string{text, loose} {
		l, err := decoded.ReadTokens([]byte(list))
		if err != nil {
			t.Fatal(err)
		}
		if string(l.Text()) != text {
			t.Errorf("%s, want %s", l.Text(), text)
		}
	}
	if l, err := decoded.ReadTokens([]byte("[]")); err != nil || string(l.Text()) != "[]" {
		t.Error(l, err)
	}
	many := make([]string, decoded.MaxTokens+1)
	for i := range many {
		many[i] = strings.Replace(usdc, "0xA0b86991c6218b36c1d19D4a2e9Eb0cE3606eB48", fmt.Sprintf("0x%040x", i+1), 1)
	}
	if _, err := decoded.ReadTokens([]byte("[" + strings.Join(many[1:], ",") + "]")); err != nil {
		t.Error(err)
	}
	for name, list := range map[string]string{
		"nothing": "", "no list": "{}", "no object": "[1]", "not closed": "[" + usdc, "too many": "[" + strings.Join(many, ",") + "]",
		"one twice":            "[" + usdc + "," + strings.ToLower(strings.Replace(usdc, "USDC", "usdt", 1)) + "]",
		"no symbol":            strings.Replace("["+usdc+"]", "USDC", "", 1),
		"a symbol with blanks": strings.Replace("["+usdc+"]", "USDC", "US DC", 1),
		"a long symbol":        strings.Replace("["+usdc+"]", "USDC", strings.Repeat("A", 33), 1),
		"another alphabet":     strings.Replace("["+usdc+"]", "USDC", "USD\u0421", 1),
		"no decimals":          strings.Replace("["+usdc+"]", `,"decimals":6`, "", 1),
		"too many decimals":    strings.Replace("["+usdc+"]", "6}", "78}", 1),
		"another checksum":     strings.Replace("["+usdc+"]", "0xA0b8", "0xa0b8", 1),
		"no chain":             strings.Replace("["+usdc+"]", "eip155:1", "eip155", 1),
		"a coin":               strings.Replace("["+usdc+"]", "erc20", "slip44", 1),
		"no mint":              strings.Replace("["+mint+"]", "EPjF", "0PjF", 1),
		"no checksum of Tron":  strings.Replace("["+tron+"]", "TR7N", "TR7M", 1),
	} {
		if l, err := decoded.ReadTokens([]byte(list)); err == nil {
			t.Errorf("%s: %s", name, l.Text())
		}
	}
}
