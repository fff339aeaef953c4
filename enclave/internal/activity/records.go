package activity

import "cloister/enclave/internal/org"

// Find looks up a record that an intent names by a UUID. The error NotFound means that there is none.
func Find[T any](find func(org.ID) (*T, error), what, text string) (*T, error) {
	id, _ := org.ParseID(text) // its rule requires a UUID
	r, err := find(id)
	return OrNotFound(r, err, what, text)
}

// FindField is Find for a field that has no rule.
func FindField[T any](find func(org.ID) (*T, error), what, field, text string) (*T, error) {
	if _, err := ParseID(field, text); err != nil {
		return nil, err
	}
	return Find(find, what, text)
}

// FindUser finds the user whom an intent names by a UUID.
func FindUser(tx *Tx, text string) (*org.User, error) { return Find(tx.Tx.User, "user", text) }

// CheckTopLevel returns an error in a sub-organization, for things that only a top-level organization may have.
func CheckTopLevel(tx *Tx, what string) error {
	o, err := tx.Organization()
	if err == nil && !o.Parent.Zero() {
		err = WrongCaller(what + " live in the parent organization")
	}
	return err
}

// Collect returns the records that each visits and keep accepts.
func Collect[T any](each func(visit func(*T) bool) error, keep func(*T) bool) (all []*T, err error) {
	err = each(func(r *T) bool {
		if keep(r) {
			all = append(all, r)
		}
		return true
	})
	return all, err
}

// A Quota is the maximal number of objects of one kind in an organization.
type Quota struct {
	what  string
	limit func(*org.Limits) int
	count func(*org.Organization) *uint32
}

// Quotas of the objects that the organization's record counts.
var (
	Users       = Quota{"users", func(l *org.Limits) int { return l.Users }, func(o *org.Organization) *uint32 { return &o.Users }}
	Policies    = Quota{"policies", func(l *org.Limits) int { return l.Policies }, func(o *org.Organization) *uint32 { return &o.Policies }}
	Tags        = Quota{"tags", func(l *org.Limits) int { return l.Tags }, func(o *org.Organization) *uint32 { return &o.Tags }}
	TagsOfChild = Quota{"tags", func(l *org.Limits) int { return l.TagsOfChild }, func(o *org.Organization) *uint32 { return &o.Tags }}
	Wallets     = Quota{"wallets", func(l *org.Limits) int { return l.Wallets }, func(o *org.Organization) *uint32 { return &o.Wallets }}
	PrivateKeys = Quota{"private keys", func(l *org.Limits) int { return l.PrivateKeys }, func(o *org.Organization) *uint32 { return &o.PrivateKeys }}
	Interfaces  = Quota{"smart contract interfaces", func(l *org.Limits) int { return l.Interfaces }, func(o *org.Organization) *uint32 { return &o.Interfaces }}
	Profiles    = Quota{"session profiles", func(l *org.Limits) int { return l.Profiles }, func(o *org.Organization) *uint32 { return &o.Profiles }}
	Endpoints   = Quota{"webhook endpoints", func(*org.Limits) int { return org.MaxEndpoints }, func(o *org.Organization) *uint32 { return &o.Endpoints }}
	Secrets     = Quota{"secrets", func(*org.Limits) int { return org.MaxSecrets }, func(o *org.Organization) *uint32 { return &o.Secrets }}
)

// Add adds n to the count in the organization's record, and returns OverQuota if that exceeds the limit. A
// negative n, for removed things, is never refused.
func (q *Quota) Add(tx *Tx, n int) error {
	old, err := tx.Organization()
	if err != nil {
		return err
	}
	o := *old
	count, most := q.count(&o), q.limit(&tx.Limits)
	total := int(*count) + n
	if n >= 0 && total > most {
		return OverQuota(most, q.what)
	}
	*count = uint32(total)
	return tx.PutOrganization(&o)
}

// Send queues content, to be sent once the activity's entry is stored, until it expires.
func (t *Tx) Send(kind org.SendKind, content interface{ Encode() ([]byte, error) }, expiresMs uint64) error {
	encoded, err := content.Encode()
	if err == nil {
		t.Sends = append(t.Sends, org.Send{Kind: kind, DueMs: t.NowMs, ExpiresMs: expiresMs, Content: encoded})
	}
	return err
}

// NewNamed draws an id for a new object and registers its name, which must be free.
func NewNamed(tx *Tx, what byte, called, field, name string) (org.ID, error) {
	id, err := org.NewID(tx.Rand)
	if err != nil {
		return org.ID{}, err
	}
	return id, TakeName(tx, what, called, field, name, id)
}

// TakeName registers the name of the object with this id. It must be free.
func TakeName(tx *Tx, what byte, called, field, name string, id org.ID) error {
	holder, err := tx.IDByName(what, name)
	if err != nil {
		return err
	}
	if !holder.Zero() {
		return NotUnique(called, field)
	}
	return tx.TakeName(what, name, id)
}

// Rename changes a name that must be unique among the objects of one kind.
func Rename(tx *Tx, what byte, called, field, from, to string, id org.ID) error {
	holder, err := tx.IDByName(what, to)
	switch {
	case err != nil || holder == id:
		return err
	case !holder.Zero():
		return NotUnique(called, field)
	}
	tx.FreeName(what, from)
	return tx.TakeName(what, to, id)
}
