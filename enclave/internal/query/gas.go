package query

import (
	"strconv"

	"cloister/enclave/internal/activity/wallet"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var gas = []*Query{
	stateQuery("get_gas_usage", getGasUsage),
	stateQuery("get_gas_station", getGasStation),
}

// gasUsageRequest requests the cost of an organization's sponsored transactions: for a top-level organization, those of
// its tree.
type gasUsageRequest struct{ Head }

var errNoGasConfig = fault.New(fault.FailedPrecondition, "no transactions are sponsored: the top-level organization has no gas usage configuration; upsert_gas_usage_config makes one")

// gasConfig returns the configuration of the top-level organization.
func gasConfig(v *View) (top *org.Tx, c *org.GasConfig, err error) {
	if top, err = v.top(); err != nil {
		return nil, nil, err
	}
	if c, err = top.GasConfig(); err == nil && c == nil {
		err = errNoGasConfig
	}
	return top, c, err
}

func getGasUsage(v *View, _ *gasUsageRequest) ([]byte, error) {
	top, c, err := gasConfig(v)
	if err != nil {
		return nil, err
	}
	used, each, _, err := wallet.GasUsage(top, c, v.ID)
	if err != nil {
		return nil, err
	}
	limit := c.TreeLimit
	if top.ID != v.ID {
		used, limit = each, c.EachLimit
	}
	if wallet.UsedUpUntil(c, v.RecoveredMs) > v.NowMs {
		used = max(used, limit)
	}
	dst := []byte(`{"windowDurationMinutes":`)
	dst = strconv.AppendUint(dst, c.WindowMinutes, 10)
	dst = text(dst, `,"windowLimitUsd":`, wallet.FormatMicro(limit))
	return append(text(dst, `,"usageUsd":`, wallet.FormatMicro(used)), '}'), nil
}

// gasStationRequest requests the accounts for sponsored transactions: on all of Ethereum's chains the same, and one on
// Solana's networks. The query is our own.
type gasStationRequest struct{ Head }

func getGasStation(v *View, _ *gasStationRequest) ([]byte, error) {
	_, c, err := gasConfig(v)
	if err != nil {
		return nil, err
	}
	s, err := wallet.GasStation(c)
	if err != nil {
		return nil, err
	}
	dst := text(nil, `{"sponsor":`, s.Payer)
	dst = text(dst, `,"station":`, s.Station)
	dst = text(dst, `,"delegate":`, s.Delegate)
	if s.Solana != "" {
		dst = text(dst, `,"solanaSponsor":`, s.Solana)
	}
	dst = append(dst, `,"rentPrefundEnabled":`...)
	dst = strconv.AppendBool(dst, c.RentPrefund)
	return append(dst, '}'), nil
}
