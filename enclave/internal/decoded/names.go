package decoded

import (
	"strings"
	"sync"

	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
)

// Names are the names that every document knows: of contracts and programs that are built in, of coins, and of tokens that
// everybody knows, which labels most often pretend to be.
var Names = sync.OnceValue(func() *show.Names {
	var contracts []show.Entry
	var symbols []string
	for _, m := range []map[string]string{eth.ContractNames(), sol.ProgramNames()} {
		for address, name := range m {
			contracts = append(contracts, show.Entry{Name: name, Address: address, From: show.FromImage})
		}
	}
	symbols = append(symbols, eth.CoinNames()...)
	symbols = append(symbols, strings.Split(tokens, ",")...)
	return show.NewNames(contracts, symbols)
})

const tokens = "BTC,SOL,TRX,Bitcoin,Solana,Tron,Ether,Ethereum,USDT,Tether,Tether USD,USDT0,USDC,USD Coin,USDC.e,DAI,USDS,USDe,PYUSD,FDUSD,TUSD,EURC,EURS," +
	"WETH,Wrapped Ether,WBTC,Wrapped Bitcoin,cbBTC,stETH,wstETH,wSOL,Wrapped SOL,LINK,UNI"
