package wallet

import (
	"encoding/hex"
	"errors"
	"fmt"
	"math/big"
	"strings"
	"time"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Gas are the kinds about sponsored transactions.
var Gas = activity.Family{
	activity.Kind[UpsertGasUsageConfig, GasUsageConfigID]{Name: "UPSERT_GAS_USAGE_CONFIG", Resource: "SPONSORSHIP", Action: "UPDATE", Plans: true, Run: upsertGasUsageConfig,
		Explain: func(tx *org.Tx, in *UpsertGasUsageConfig, o *show.Object) error { return in.explain(tx, o) }},
}

// UpsertGasUsageConfig sets the limits for sponsored transactions in any window of time: of the organization tree
// together and of each sub-organization.
type UpsertGasUsageConfig struct {
	OrgWindowLimitUSD     string        `json:"orgWindowLimitUsd" rule:"required,numeric"`
	SubOrgWindowLimitUSD  string        `json:"subOrgWindowLimitUsd" rule:"required,numeric"`
	WindowDurationMinutes string        `json:"windowDurationMinutes" rule:"required,numeric"`
	Enabled               *bool         `json:"enabled"`
	SolanaConfig          *SolanaConfig `json:"solanaConfig"`

	tree, each, minutes uint64
}

// SolanaConfig is the configuration for Solana: whether the sponsor also gives signers what their new accounts must hold.
type SolanaConfig struct {
	RentPrefundEnabled *bool `json:"rentPrefundEnabled"`
}

// maxLimitUSD bounds limits, so that sums of amounts do not overflow.
const maxLimitUSD = 1_000_000_000

func (in *UpsertGasUsageConfig) Check() (err error) {
	for _, m := range []struct {
		field, text string
		into        *uint64
	}{{"orgWindowLimitUsd", in.OrgWindowLimitUSD, &in.tree}, {"subOrgWindowLimitUsd", in.SubOrgWindowLimitUSD, &in.each}} {
		n, ok := ParseMicro(m.text)
		if !ok || n > maxLimitUSD*1_000_000 {
			return fault.Field(m.field, "must be 0 to %d with at most 6 decimals", maxLimitUSD)
		}
		*m.into = n
	}
	minutes, err := number("windowDurationMinutes", &in.WindowDurationMinutes)
	if err != nil || *minutes < 1 || *minutes > org.MaxWindowMinutes {
		return fault.Field("windowDurationMinutes", "must be 1 to %d", org.MaxWindowMinutes)
	}
	in.minutes = *minutes
	return nil
}

// ParseMicro parses a decimal number with at most 6 decimals, in millionths.
func ParseMicro(text string) (n uint64, ok bool) {
	whole, decimals, _ := strings.Cut(text, ".")
	if len(whole) < 1 || len(whole) > 12 || len(decimals) > 6 || strings.Trim(whole+decimals, "0123456789") != "" || strings.HasSuffix(text, ".") {
		return 0, false
	}
	for _, digit := range whole + decimals + strings.Repeat("0", 6-len(decimals)) {
		n = 10*n + uint64(digit-'0')
	}
	return n, true
}

// FormatMicro formats millionths as a decimal number without trailing zeros.
func FormatMicro(n uint64) string {
	text := fmt.Sprintf("%d.%06d", n/1_000_000, n%1_000_000)
	return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
}

// GasUsageConfigID is the result. The id is the same for every change.
type GasUsageConfigID struct {
	GasUsageConfigID string `json:"gasUsageConfigId"`
}

func upsertGasUsageConfig(tx *activity.Tx, in *UpsertGasUsageConfig) (*GasUsageConfigID, error) {
	if err := activity.CheckTopLevel(tx, "gas usage configurations"); err != nil {
		return nil, err
	}
	var plan string // empty: the default
	switch b, err := tx.Bill(); {
	case err != nil:
		return nil, err
	case b != nil:
		plan = b.Plan
	}
	if !tx.Plans.Of(plan).Sponsorship {
		return nil, fault.New(fault.FailedPrecondition, "the plan does not include sponsored transactions: send ACTIVITY_TYPE_ACTIVATE_BILLING_TIER for one that does")
	}
	old, err := tx.GasConfig()
	if err != nil {
		return nil, err
	}
	c := &org.GasConfig{Enabled: true, CreatedMs: tx.NowMs}
	if old != nil {
		*c = *old
	} else if c.ID, err = org.NewID(tx.Rand); err != nil {
		return nil, err
	}
	for _, s := range []struct {
		curve  chain.Curve
		public *string
		key    *[]byte
	}{{chain.Secp256k1, &c.PublicKey, &c.Key}, {chain.Ed25519, &c.SolanaPublicKey, &c.SolanaKey}} {
		if *s.public != "" {
			continue
		}
		if *s.public, *s.key, err = makeSponsor(tx, c.ID, s.curve); err != nil {
			return nil, err
		}
	}
	c.TreeLimit, c.EachLimit, c.WindowMinutes, c.UpdatedMs = in.tree, in.each, in.minutes, tx.NowMs
	activity.Set(&c.Enabled, in.Enabled)
	if in.SolanaConfig != nil {
		activity.Set(&c.RentPrefund, in.SolanaConfig.RentPrefundEnabled)
	}
	return &GasUsageConfigID{c.ID.String()}, tx.PutGasConfig(c)
}

// makeSponsor draws the key of a sponsor's account. It is not one of the organization's private keys: no activity signs
// with it on request, and none exports it.
func makeSponsor(tx *activity.Tx, id org.ID, c chain.Curve) (public string, sealed []byte, err error) {
	k, err := tx.Holder().NewSponsor(tx.Rand, c)
	if err != nil {
		return "", nil, err
	}
	defer k.Wipe()
	sealed, err = sealKey(tx, id, k)
	return hex.EncodeToString(k.Public().Bytes()), sealed, err
}

var errNoSponsor = errors.New("a sponsored transaction is to be signed without its sponsor")

// lookUpSponsor returns the configuration that pays for a sponsored transaction, nil for any other.
func lookUpSponsor(sponsored *bool, top func() (*org.Tx, error)) (*org.GasConfig, error) {
	if !activity.IsOn(sponsored) {
		return nil, nil
	}
	t, err := top()
	if err != nil {
		return nil, err
	}
	c, err := t.GasConfig()
	switch {
	case err != nil:
		return nil, err
	case c == nil:
		return nil, fault.New(fault.FailedPrecondition, "sponsor: the top-level organization has no gas usage configuration; upsert_gas_usage_config makes one")
	case !c.Enabled:
		return nil, fault.New(fault.FailedPrecondition, "sponsor: the gas usage configuration of the top-level organization is not enabled")
	}
	return c, nil
}

// priceOf is the price of a coin of a chain whose transactions are sponsored.
func priceOf(tx *activity.Tx, caip2 string) (uint64, error) {
	price, ok := tx.Capabilities.GasPrices[caip2]
	if !ok {
		return 0, fault.New(fault.FailedPrecondition, "sponsor: the deployment's configuration has no price for %s in gas.prices", caip2)
	}
	return price, nil
}

// sponsorAddress returns the address of the sponsor's account on Ethereum's chains.
func sponsorAddress(c *org.GasConfig) (address [20]byte, err error) {
	p, err := publicKey("CURVE_SECP256K1", c.PublicKey)
	if err != nil {
		return address, err
	}
	return p.KeccakAccount(), nil
}

// Station has the addresses for sponsored transactions: the payers, and the two contracts. Solana is empty in a configuration of
// earlier versions.
type Station struct{ Payer, Station, Delegate, Solana string }

// GasStation returns the addresses for sponsored transactions.
func GasStation(c *org.GasConfig) (*Station, error) {
	address, err := sponsorAddress(c)
	if err != nil {
		return nil, err
	}
	s := &Station{Payer: eth.Checksum(address), Station: eth.Checksum(eth.Station), Delegate: eth.Checksum(eth.Delegate)}
	if c.SolanaPublicKey != "" {
		account, err := solanaSponsor(c)
		if err != nil {
			return nil, err
		}
		s.Solana = sol.AddressText(account)
	}
	return s, nil
}

// maxGasSpends bounds the sponsored transactions in one window.
const maxGasSpends = 10_000

// GasUsage returns the maximal cost of the last window: of the whole tree, and of organization of. count is the number of the tree's transactions.
func GasUsage(top *org.Tx, c *org.GasConfig, of org.ID) (tree, each uint64, count int, err error) {
	err = top.EachGasSpend(c.WindowMinutes*60*1000, func(s *org.GasSpend) {
		count++
		tree += s.Micro
		if s.Organization == of {
			each += s.Micro
		}
	})
	return tree, each, count, err
}

// UsedUpUntil returns the time until which a configuration's windows count as used up because of a recovery at
// recoveredMs, 0 for none. What was spent in the lost time is not known, but all of it was before the recovery.
func UsedUpUntil(c *org.GasConfig, recoveredMs uint64) uint64 {
	if recoveredMs == 0 || c.CreatedMs > recoveredMs { // no key of a later configuration signed anything before
		return 0
	}
	return recoveredMs + c.WindowMinutes*60*1000
}

// recoveredAt precedes the recovery's time in the refusal for a window that counts as used up. Replays read it.
const recoveredAt = ": the store was recovered at "

// timeFormat is the format of times in refusals, in UTC.
const timeFormat = "2006-01-02T15:04:05.000Z"

func formatTime(ms uint64) string { return time.UnixMilli(int64(ms)).UTC().Format(timeFormat) }

// SpendGas adds the maximal cost of a transaction to the payer's usage, or refuses it if that exceeds a limit. The
// reply to an activity that spends waits for the log's witnesses in any mode, so no crash gives back what was spent.
func SpendGas(tx *activity.Tx, top *org.Tx, c *org.GasConfig, micro uint64) error {
	if until := UsedUpUntil(c, tx.RecoveredMs); until > tx.NowMs {
		return fault.New(fault.ResourceExhausted, "orgWindowLimitUsd counts as used up until %s%s%s without what was written last, so what sponsored transactions cost before is not known; stamp the request again then",
			formatTime(until), recoveredAt, formatTime(tx.RecoveredMs))
	}
	tree, each, count, err := GasUsage(top, c, tx.ID)
	if err != nil {
		return err
	}
	over := func(limit string, most, used uint64) error {
		return fault.New(fault.ResourceExhausted, "%s of %s USD in %d minutes would be passed: %s are used, and the transaction can cost %s",
			limit, FormatMicro(most), c.WindowMinutes, FormatMicro(used), FormatMicro(micro))
	}
	switch {
	case tree+micro > c.TreeLimit:
		return over("orgWindowLimitUsd", c.TreeLimit, tree)
	case top.ID != tx.ID && each+micro > c.EachLimit:
		return over("subOrgWindowLimitUsd", c.EachLimit, each)
	case count >= maxGasSpends:
		return activity.OverQuota(maxGasSpends, "sponsored transactions in a window")
	}
	if err := top.ForgetGasSpends(64); err != nil {
		return err
	}
	return top.PutGasSpend(tx.Activity, &org.GasSpend{Organization: tx.ID, Micro: micro})
}

// costOf returns the cost of gas at a fee in millionths of a dollar, rounded up; price is the price of a coin, 10^18 of the fee's unit.
func costOf(gas uint64, feeCap *big.Int, price uint64) (uint64, error) {
	n := new(big.Int).SetUint64(gas)
	micro, ok := microOf(n.Mul(n, feeCap), price, 1e18)
	if !ok {
		return 0, fault.Field("maxFeePerGas", "the transaction could cost more than any limit")
	}
	return micro, nil
}

// microOf converts an amount to millionths of a dollar, rounded up; price is the price of a coin of units. ok is false where
// it is more than can be counted.
func microOf(amount *big.Int, price uint64, units int64) (micro uint64, ok bool) {
	coin := big.NewInt(units)
	n := new(big.Int).Mul(amount, new(big.Int).SetUint64(price))
	n.Add(n, coin).Sub(n, big.NewInt(1)).Div(n, coin)
	return n.Uint64(), n.BitLen() <= 60
}
