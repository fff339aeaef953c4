package query

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/org"
)

var bills = []*Query{stateQuery("get_billing", getBilling)}

// Tariff returns the deployment's plans, nil if it has none, and their usage. Plans that must be loaded first are an *org.Retry.
type Tariff interface {
	Plans() (*billing.Plans, error)
	Meter
}

// getBilling answers a top-level organization's plan, usage and limits. Without plans nothing is counted.
func getBilling(v *View, in *Head) ([]byte, error) {
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	if !o.Parent.Zero() {
		return nil, activity.WrongCaller("billing is of top-level organizations: ask for the parent's")
	}
	plans, err := v.Tariff.Plans()
	if err != nil {
		return nil, err
	}
	old, err := v.Bill()
	if err != nil {
		return nil, err
	}
	bill := billing.Current(old, v.NowMs)
	plan := plans.Of(bill.Plan)
	dst := text(nil, `{"plan":{"id":`, plan.ID)
	dst = text(dst, `,"name":`, plan.Name)
	dst = flag(dst, `,"needsPaymentMethod":`, plan.NeedsPaymentMethod)
	dst = append(dst, `,"price":`...)
	dst = activity.AppendShape(dst, &plan.Price)
	from, to := billing.Period(bill.Month)
	dst = number(dst, `},"period":{"start":`, from)
	dst = number(dst, `,"end":`, to)
	dst = append(dst, '}')
	if plans != nil {
		// Drawn includes leased signatures, made or not: a sub-organization reports its use only when it leases again.
		dst = number(dst, `,"usage":{"signatures":`, bill.Drawn)
		dst = append(number(dst, `,"leased":`, bill.Leased), '}')
	}
	dst = flag(dst, `,"limits":{"sponsorship":`, plan.Sponsorship)
	if most := plan.SignaturesPerMonth; most != nil {
		dst = number(dst, `,"signaturesPerMonth":`, *most)
	}
	if plan.RequestsPerSecond > 0 {
		dst = number(dst, `,"requestsPerSecond":`, uint64(plan.RequestsPerSecond))
	}
	if most := plan.SubOrganizations; most != nil {
		dst = number(dst, `,"subOrganizations":`, *most)
	}
	dst = append(dst, '}')
	if bill.Email != "" {
		dst = text(dst, `,"paymentEmail":`, bill.Email)
	}
	if m := bill.Method; m != nil {
		dst = appendMethod(dst, m)
	}
	return append(dst, '}'), nil
}

func appendMethod(dst []byte, m *org.PaymentMethod) []byte {
	dst = text(dst, `,"paymentMethod":{"id":`, m.ID)
	dst = text(dst, `,"lastFour":`, m.LastFour)
	return append(text(dst, `,"cardHolderName":`, m.Name), '}')
}
