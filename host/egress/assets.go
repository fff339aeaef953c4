package egress

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"

	"github.com/mr-tron/base58"

	"cloister/shared/wire"
)

// Assets are the tokens in the file of -assets, by the CAIP-2 name of their chain. Native coins are
// not among them.
type Assets map[string][]token

// A token is an asset with its on-chain address: the 20 bytes of a contract or the 32 bytes of a mint.
type token struct {
	wire.Token
	address []byte
}

// maxDecimals is the number of decimals of the largest amount below 2^256.
const maxDecimals = 77

// ParseAssets parses the JSON list of -assets, whose fields are those of an asset in the public interface.
func ParseAssets(text []byte) (Assets, error) {
	var listed []struct {
		CAIP19   string `json:"caip19"`
		Symbol   string `json:"symbol"`
		Name     string `json:"name"`
		Decimals *uint8 `json:"decimals"`
		LogoURL  string `json:"logoUrl"`
		Stable   bool   `json:"stable"`
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&listed); err != nil {
		return nil, fmt.Errorf("want a list of caip19, symbol, name, decimals, logoUrl, stable: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("something follows the list")
	}
	assets, seen := Assets{}, map[string]bool{}
	for _, l := range listed {
		chain, id, _ := strings.Cut(l.CAIP19, "/")
		chain = canonical(chain)
		t := token{address: tokenAddress(chain, id)}
		if t.address == nil {
			return nil, fmt.Errorf("%q: want eip155:NUMBER/erc20:0x… or solana:NETWORK/token:MINT", l.CAIP19)
		}
		logo, err := url.Parse(l.LogoURL)
		switch {
		case seen[chain+string(t.address)]:
			return nil, fmt.Errorf("%s is given twice", l.CAIP19)
		case !isLabel(l.Symbol) || !isLabel(l.Name) || l.Decimals == nil || *l.Decimals > maxDecimals:
			return nil, fmt.Errorf("%s: want symbol and name, and decimals of at most %d", l.CAIP19, maxDecimals)
		case l.LogoURL != "" && (err != nil || logo.Scheme != "https" || len(l.LogoURL) > wire.MaxChainText):
			return nil, fmt.Errorf("%s: want a logoUrl that begins with https://", l.CAIP19)
		case len(assets[chain]) == wire.MaxTokens:
			return nil, fmt.Errorf("%s has more than %d assets", chain, wire.MaxTokens)
		}
		seen[chain+string(t.address)] = true
		t.Token = wire.Token{CAIP19: chain + "/" + id, Symbol: l.Symbol, Name: l.Name, Decimals: *l.Decimals, LogoURL: l.LogoURL, Stable: l.Stable}
		assets[chain] = append(assets[chain], t)
	}
	return assets, nil
}

// tokenAddress is the address in a token's CAIP-19 id, nil if it isn't a token of the chain.
func tokenAddress(chain, id string) (address []byte) {
	want := 20
	if _, ok := chainID(chain); ok {
		digits, _ := strings.CutPrefix(id, "erc20:0x")
		address, _ = hex.DecodeString(digits)
	} else if isKnownChain(chain) {
		want = 32
		mint, _ := strings.CutPrefix(id, "token:")
		address, _ = base58.Decode(mint)
	}
	if len(address) != want {
		return nil
	}
	return address
}

// isLabel reports whether text is 1 to 64 printable ASCII characters, so that no name imitates another.
func isLabel(text string) bool { return text != "" && len(text) <= 64 && clean(text) == text }
