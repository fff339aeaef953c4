package organization

import (
	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/billing"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

// Billing are the kinds about plans and their payment.
var Billing = activity.Family{
	activity.Kind[ActivateBillingTier, BillingTier]{Name: "ACTIVATE_BILLING_TIER", Resource: "SUBSCRIPTION", Action: "CREATE", Plans: true, Run: activateBillingTier},
	// Policies read nothing of the intent: a refusal contains the values from which clauses decided.
	activity.Kind[SetPaymentMethod, PaymentMethod]{Name: "SET_PAYMENT_METHOD", Resource: "PAYMENT_METHOD", Action: "UPDATE", Plans: true, Run: setPaymentMethod,
		Older: []activity.Older{activity.Never(activity.Upgrade(func(v *SetPaymentMethodV1) SetPaymentMethod { return SetPaymentMethod{} }), errCardNumbers)}},
	activity.Kind[UpdatePaymentMethod, UpdatePaymentMethod]{Name: "UPDATE_PAYMENT_METHOD", Resource: "PAYMENT_METHOD", Action: "UPDATE", Plans: true, Run: updatePaymentMethod},
	activity.Kind[DeletePaymentMethod, PaymentMethodID]{Name: "DELETE_PAYMENT_METHOD", Resource: "PAYMENT_METHOD", Action: "DELETE", Plans: true, Run: deletePaymentMethod},
}

// ActivateBillingTier puts the organization on another plan.
type ActivateBillingTier struct {
	ProductID string `json:"productId" rule:"required"`
	// OrbPlanID is an id of the hosted service. It is ignored.
	OrbPlanID *string `json:"orbPlanId"`
}

// BillingTier is the result of changing the plan.
type BillingTier struct {
	ProductID string `json:"productId"`
}

// activateBillingTier changes the organization's plan at once. Its usage of the month counts on the new plan.
func activateBillingTier(tx *activity.Tx, in *ActivateBillingTier) (*BillingTier, error) {
	o, err := payer(tx)
	if err != nil {
		return nil, err
	}
	plan := tx.Plans.Find(in.ProductID)
	if plan == nil {
		return nil, fault.New(fault.NotFound, "no plan has this productId")
	}
	old, err := tx.Bill()
	if err != nil {
		return nil, err
	}
	gas, err := tx.GasConfig()
	if err != nil {
		return nil, err
	}
	a := billing.Current(old, tx.NowMs)
	switch quota, most := plan.SignaturesPerMonth, plan.SubOrganizations; {
	case plan.NeedsPaymentMethod && a.Method == nil:
		return nil, fault.New(fault.FailedPrecondition, "plan needs a payment method: send ACTIVITY_TYPE_SET_PAYMENT_METHOD_V2 first")
	case quota != nil && a.Drawn > *quota:
		return nil, fault.New(fault.FailedPrecondition, "the plan has %d signatures a month, and this month has %d already", *quota, a.Drawn)
	case gas != nil && gas.Enabled && !plan.Sponsorship:
		return nil, fault.New(fault.FailedPrecondition, "the plan does not include sponsored transactions: turn them off first, with ACTIVITY_TYPE_UPSERT_GAS_USAGE_CONFIG")
	case most != nil && o.Children > *most:
		return nil, fault.New(fault.FailedPrecondition, "the plan has %d sub-organizations, and there are %d", *most, o.Children)
	}
	a.Plan, a.Quota = plan.ID, plan.SignaturesPerMonth
	return &BillingTier{in.ProductID}, tx.PutBill(&a)
}

// errCardNumbers refuses a card's number. The host reads the number in clear, and its digits can be guessed from a hash of the body, such as
// the fingerprint: an activity would disclose it to every reader of the organization.
var errCardNumbers = fault.New(fault.FailedPrecondition, "card numbers are not taken here: tokenise the card with your processor's library and send ACTIVITY_TYPE_SET_PAYMENT_METHOD_V2")

// SetPaymentMethodV1 has the card's number.
type SetPaymentMethodV1 struct {
	Number          string `json:"number" rule:"required,max=16,numeric"`
	CVV             string `json:"cvv" rule:"required,max=4,numeric"`
	ExpiryMonth     string `json:"expiryMonth" rule:"required,numeric,len=2"`
	ExpiryYear      string `json:"expiryYear" rule:"required,numeric,len=4"`
	CardHolderEmail string `json:"cardHolderEmail" rule:"required,email,email_ext"`
	CardHolderName  string `json:"cardHolderName" rule:"required,label,label_length"`
}

// SetPaymentMethod sets a payment method that the processor's library has made from a card.
type SetPaymentMethod struct {
	PaymentMethodID string `json:"paymentMethodId" rule:"required,max=256"`
	CardHolderEmail string `json:"cardHolderEmail" rule:"required,email,email_ext"`
	CardHolderName  string `json:"cardHolderName" rule:"required,label,label_length"`
}

// PaymentMethod is the result. It has no id: the submitter has sent it.
type PaymentMethod struct {
	LastFour        string `json:"lastFour"`
	CardHolderName  string `json:"cardHolderName"`
	CardHolderEmail string `json:"cardHolderEmail"`
}

// Check requires an id that the processor can have issued: it becomes part of a path.
func (in *SetPaymentMethod) Check() error { return checkMethod(in.PaymentMethodID) }

func checkMethod(id string) error {
	if id != "" && !billing.IsName(id) { // empty: of the version that is always refused
		return fault.Field("paymentMethodId", "must be letters, digits and underscores")
	}
	return nil
}

// setPaymentMethod attaches a payment method to the organization at the processor. It replaces the previous one.
func setPaymentMethod(tx *activity.Tx, in *SetPaymentMethod) (*PaymentMethod, error) {
	b, err := billOf(tx)
	if err != nil {
		return nil, err
	}
	of := tx.Activity.String()
	if b.Customer == "" {
		if err := makeCustomer(tx, b, in.CardHolderEmail, in.CardHolderName); err != nil {
			return nil, err
		}
	}
	a, err := tx.Providers.Pay(billing.Attach(in.PaymentMethodID, b.Customer, of))
	if err != nil {
		return nil, err
	}
	four, err := a.LastFour(in.PaymentMethodID, b.Customer)
	if err != nil {
		return nil, fault.New(fault.FailedPrecondition, "the payment processor did not attach a card")
	}
	if b.Method != nil && b.Method.ID != in.PaymentMethodID {
		if err := detach(tx, b.Method.ID); err != nil {
			return nil, err
		}
	}
	b.Method = &org.PaymentMethod{ID: in.PaymentMethodID, LastFour: four, Name: in.CardHolderName, Email: in.CardHolderEmail}
	return &PaymentMethod{four, in.CardHolderName, in.CardHolderEmail}, tx.PutBill(b)
}

// makeCustomer makes the organization a customer of the processor. It is one even if what follows is refused.
func makeCustomer(tx *activity.Tx, b *org.Bill, email, name string) error {
	made, err := tx.Providers.Pay(billing.MakeCustomer(tx.ID.String(), email, name, tx.Activity.String()))
	if err != nil {
		return err
	}
	b.Customer = made.ID
	known := *b
	tx.ChangeDespiteRefusal(func(t *org.Tx) { err = t.PutBill(&known) })
	return err
}

// UpdatePaymentMethod sets the address to which the payment processor sends the organization's invoices. It is also the result.
type UpdatePaymentMethod struct {
	PaymentEmail string `json:"paymentEmail" rule:"required,email,email_ext"`
}

func updatePaymentMethod(tx *activity.Tx, in *UpdatePaymentMethod) (*UpdatePaymentMethod, error) {
	b, err := billOf(tx)
	if err != nil {
		return nil, err
	}
	if b.Customer == "" {
		o, err := tx.Organization()
		if err == nil {
			err = makeCustomer(tx, b, in.PaymentEmail, o.Name)
		}
		if err != nil {
			return nil, err
		}
	} else if _, err := tx.Providers.Pay(billing.UpdateCustomer(b.Customer, in.PaymentEmail, tx.Activity.String())); err != nil {
		return nil, err
	}
	b.Email = in.PaymentEmail
	return in, tx.PutBill(b)
}

// detach removes a payment method at the processor. If the processor refuses, it is removed there already.
func detach(tx *activity.Tx, method string) error {
	_, err := tx.Providers.Pay(billing.Detach(method, tx.Activity.String()))
	if f := fault.Of(err); f != nil && f.Code == fault.FailedPrecondition {
		return nil
	}
	return err
}

// DeletePaymentMethod removes the organization's payment method.
type DeletePaymentMethod struct {
	PaymentMethodID string `json:"paymentMethodId" rule:"required"`
}

// Check is SetPaymentMethod.Check.
func (in *DeletePaymentMethod) Check() error { return checkMethod(in.PaymentMethodID) }

// PaymentMethodID is the result of removing a payment method.
type PaymentMethodID struct {
	PaymentMethodID string `json:"paymentMethodId"`
}

func deletePaymentMethod(tx *activity.Tx, in *DeletePaymentMethod) (*PaymentMethodID, error) {
	b, err := billOf(tx)
	switch {
	case err != nil:
		return nil, err
	case b.Method == nil || b.Method.ID != in.PaymentMethodID:
		return nil, fault.New(fault.NotFound, "payment method not found: %s", in.PaymentMethodID)
	case tx.Plans.Of(b.Plan).NeedsPaymentMethod:
		return nil, fault.New(fault.FailedPrecondition, "plan needs a payment method: set another one, or activate another plan first")
	}
	if err := detach(tx, in.PaymentMethodID); err != nil {
		return nil, err
	}
	b.Method = nil
	return &PaymentMethodID{in.PaymentMethodID}, tx.PutBill(b)
}

// billOf returns a copy of the bill of a top-level organization. It requires a payment processor.
func billOf(tx *activity.Tx) (*org.Bill, error) {
	if _, err := payer(tx); err != nil {
		return nil, err
	}
	if !tx.Capabilities.Payments {
		return nil, activity.ErrNoProcessor
	}
	old, err := tx.Bill()
	b := billing.Current(old, tx.NowMs)
	return &b, err
}

// payer returns the organization's record. It refuses a sub-organization, whose top-level organization pays.
func payer(tx *activity.Tx) (*org.Organization, error) {
	o, err := tx.Organization()
	if err == nil && !o.Parent.Zero() {
		err = activity.WrongCaller("billing is of top-level organizations: ask in the parent organization")
	}
	return o, err
}
