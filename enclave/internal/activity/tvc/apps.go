// Package tvc has the activities about customers' programs in enclaves of their own: apps, their operators, and
// deployments.
//
// No program runs in this enclave, and no running program calls it. The package promises that a manifest contains what
// the enclave itself has read from the image, that approvals are counted only once they are verified and each operator once,
// and that the key of an app leaves it only in shares, each encrypted to its operator. The host starts approved deployments;
// the program's own enclave verifies manifest and approvals again.
package tvc

import (
	"slices"
	"strings"
	"unicode"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
	"cloister/shared/tvc"
)

// Apps are the kinds about apps and their operators.
var Apps = activity.Family{
	activity.Kind[CreateApp, AppResult]{Name: "CREATE_TVC_APP", Resource: "TVC_APP", Action: "CREATE", Run: createApp,
		Explain: func(tx *org.Tx, in *CreateApp, o *show.Object) error { return in.explain(tx, o) }},
	createOperatorKind,
	activity.Kind[CreateQuorumKey, QuorumKeyResult]{Name: "CREATE_TVC_QUORUM_KEY", Resource: "TVC_QUORUM_KEY", Action: "CREATE", Run: createQuorumKey, Verify: verifyQuorumKey,
		Explain: func(tx *org.Tx, in *CreateQuorumKey, o *show.Object) error { return in.explain(tx, o) }},
}

// wellKnownQuorumKey is in the template of the hosted service's tool. Its private half is public.
const wellKnownQuorumKey = "04451028fc9d42cef6d8f2a3ebe17d65783c470dbc6f04663d500c12009930cf9b209e733f6ac6103cc28f07ecde2dbb55095738b828d6b7a55caf4ddf9d67f2ae" +
	"047827dcd2325b8d58694c2ea14e8f1e1f8a36c84438d291ff9b1b067debdb3e2ba3822984cde8bed4de2c237bd323526da4961d368bcc63cbd2d37d00e936683e"

// CreateApp creates an app. Each of its sets is an existing one or a new one.
type CreateApp struct {
	Name                       string             `json:"name" rule:"required"`
	QuorumPublicKey            string             `json:"quorumPublicKey" rule:"required"`
	ManifestSetID              *string            `json:"manifestSetId"`
	ManifestSetParams          *OperatorSetParams `json:"manifestSetParams"`
	ShareSetID                 *string            `json:"shareSetId"`
	ShareSetParams             *OperatorSetParams `json:"shareSetParams"`
	EnableEgress               *bool              `json:"enableEgress"`
	EnableDebugModeDeployments *bool              `json:"enableDebugModeDeployments"`

	quorum string // QuorumPublicKey in its stored encoding
}

// Check refuses an intent that is invalid whatever the organization's records are.
func (in *CreateApp) Check() error {
	if err := checkName("name", in.Name); err != nil {
		return err
	}
	in.quorum = strings.ToLower(in.QuorumPublicKey)
	if _, err := tvc.ParsePair(in.quorum); err != nil {
		return fault.Field("quorumPublicKey", "must be the hex of two points of P-256, 130 bytes: encryption and signing key")
	}
	if activity.IsOn(in.EnableEgress) {
		return fault.New(fault.FailedPrecondition, "programs have no way out: leave enableEgress off")
	}
	if in.quorum == wellKnownQuorumKey && !activity.IsOn(in.EnableDebugModeDeployments) {
		return fault.Field("quorumPublicKey", "everybody has the private half of this key: it is for apps of debug mode alone; create_tvc_quorum_key makes another")
	}
	for _, set := range []setChoice{{"manifestSet", in.ManifestSetID, in.ManifestSetParams, 1}, {"shareSet", in.ShareSetID, in.ShareSetParams, 2}} {
		if err := set.check(); err != nil {
			return err
		}
	}
	return nil
}

// checkName requires a name that approvers can read.
func checkName(field, name string) error {
	if len(name) > tvc.MaxText || strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) || strings.TrimSpace(name) != name {
		return fault.Field(field, "must be printable text of at most %d bytes, without blanks around it", tvc.MaxText)
	}
	return nil
}

// AppResult is the result of creating an app.
type AppResult struct {
	AppID                  string   `json:"appId"`
	ManifestSetID          string   `json:"manifestSetId"`
	ManifestSetOperatorIDs []string `json:"manifestSetOperatorIds"`
	ManifestSetThreshold   uint32   `json:"manifestSetThreshold"`
	ShareSetID             string   `json:"shareSetId"`
	ShareSetOperatorIDs    []string `json:"shareSetOperatorIds"`
	ShareSetThreshold      uint32   `json:"shareSetThreshold"`
}

func createApp(tx *activity.Tx, in *CreateApp) (*AppResult, error) {
	if err := activity.CheckTopLevel(tx, "apps"); err != nil {
		return nil, err
	}
	if err := checkCount(tx.EachTVCApp, org.MaxTVCApps, "apps"); err != nil {
		return nil, err
	}
	id, err := activity.NewNamed(tx, org.NameTVCApp, "app", "name", in.Name)
	if err != nil {
		return nil, err
	}
	manifests, err := (&setChoice{"manifestSet", in.ManifestSetID, in.ManifestSetParams, 1}).findOrCreate(tx)
	if err != nil {
		return nil, err
	}
	shares, err := (&setChoice{"shareSet", in.ShareSetID, in.ShareSetParams, 2}).findOrCreate(tx)
	if err != nil {
		return nil, err
	}
	err = tx.PutTVCApp(&org.TVCApp{ID: id, Name: in.Name, QuorumPublicKey: in.quorum, ManifestSet: manifests.ID, ShareSet: shares.ID,
		Debug: activity.IsOn(in.EnableDebugModeDeployments), CreatedMs: tx.NowMs, UpdatedMs: tx.NowMs})
	return &AppResult{AppID: id.String(), ManifestSetID: manifests.ID.String(), ManifestSetOperatorIDs: idStrings(manifests.Operators), ManifestSetThreshold: manifests.Threshold,
		ShareSetID: shares.ID.String(), ShareSetOperatorIDs: idStrings(shares.Operators), ShareSetThreshold: shares.Threshold}, err
}

func idStrings(ids []org.ID) []string { return activity.MapList(ids, (*org.ID).String) }

// checkCount refuses another object of a kind that each visits if there are most already.
func checkCount[T any](each func(func(*T) bool) error, most int, what string) error {
	n := 0
	err := each(func(*T) bool {
		n++
		return true
	})
	if err == nil && n >= most {
		err = activity.OverQuota(most, what)
	}
	return err
}

// OperatorSetParams is a set to be created of new and existing operators. An existing set with the same name, threshold
// and operators is used instead.
type OperatorSetParams struct {
	Name                string           `json:"name" rule:"required"`
	NewOperators        []OperatorParams `json:"newOperators,omitempty"`
	ExistingOperatorIDs []string         `json:"existingOperatorIds,omitempty"`
	Threshold           uint32           `json:"threshold" rule:"required"`
}

// OperatorParams is an operator with keys of his own. An existing one with the same name and keys is used instead.
type OperatorParams struct {
	Name      string `json:"name" rule:"required"`
	PublicKey string `json:"publicKey" rule:"required"`

	pair string // PublicKey in its stored encoding
}

// setChoice is one of an app's two sets: an existing one, or one to be created.
type setChoice struct {
	member string // of the intent, without the suffix Id or Params
	id     *string
	params *OperatorSetParams
	least  uint32 // minimal threshold
}

func (s *setChoice) check() error {
	if (s.id != nil) == (s.params != nil) {
		return fault.Field(s.member+"Params", "exactly one of %sId and %sParams must be set", s.member, s.member)
	}
	if s.id != nil {
		return nil
	}
	at := s.member + "Params."
	if err := checkName(at+"name", s.params.Name); err != nil {
		return err
	}
	switch n := len(s.params.NewOperators) + len(s.params.ExistingOperatorIDs); {
	case n == 0 || n > tvc.MaxMembers:
		return fault.Field(at+"newOperators", "a set has 1 to %d operators", tvc.MaxMembers)
	case s.params.Threshold < s.least || s.params.Threshold > uint32(n):
		return fault.Field(at+"threshold", "must be %d to the number of operators, %d", s.least, n)
	}
	for i := range s.params.NewOperators {
		o := &s.params.NewOperators[i]
		at := s.member + "Params.newOperators"
		if err := checkName(activity.FieldAt(at, i, "name"), o.Name); err != nil {
			return err
		}
		o.pair = strings.ToLower(o.PublicKey)
		if _, err := tvc.ParsePair(o.pair); err != nil {
			return fault.Field(activity.FieldAt(at, i, "publicKey"), "must be the hex of two points of P-256, 130 bytes: encryption and signing key")
		}
	}
	return nil
}

// findOrCreate finds the set, or creates it with its new operators.
func (s *setChoice) findOrCreate(tx *activity.Tx) (*org.TVCOperatorSet, error) {
	if s.id != nil {
		set, err := activity.FindField(tx.TVCOperatorSet, "operator set", s.member+"Id", *s.id)
		if err == nil && set.Threshold < s.least {
			err = fault.Field(s.member+"Id", "its threshold must be %d at least", s.least)
		}
		return set, err
	}
	var members []*org.TVCOperator
	for i := range s.params.NewOperators {
		o, err := addOperator(tx, &org.TVCOperator{Name: s.params.NewOperators[i].Name, PublicKey: s.params.NewOperators[i].pair})
		if err != nil {
			return nil, err
		}
		members = append(members, o)
	}
	for _, text := range s.params.ExistingOperatorIDs {
		o, err := activity.FindField(tx.TVCOperator, "operator", s.member+"Params.existingOperatorIds", text)
		if err != nil {
			return nil, err
		}
		members = append(members, o)
	}
	// Check the set as in the manifest: two operators with one key may be one person.
	whole := setOf(members, s.params.Threshold)
	if err := whole.Check(s.least); err != nil {
		return nil, fault.Field(s.member+"Params", "%s", err.Error())
	}
	set := &org.TVCOperatorSet{Name: s.params.Name, Threshold: s.params.Threshold, CreatedMs: tx.NowMs,
		Operators: activity.MapList(members, func(o **org.TVCOperator) org.ID { return (*o).ID })}
	return set, keepSet(tx, set)
}

// keepSet stores a set under a new id, or gives it the id of an equal set.
func keepSet(tx *activity.Tx, set *org.TVCOperatorSet) (err error) {
	var same *org.TVCOperatorSet
	err = tx.EachTVCOperatorSet(func(other *org.TVCOperatorSet) bool {
		if other.Name == set.Name && other.Threshold == set.Threshold && sameMembers(other.Operators, set.Operators) {
			same = other
		}
		return same == nil
	})
	if err != nil {
		return err
	}
	if same != nil {
		*set = *same
		return nil
	}
	if err := checkCount(tx.EachTVCOperatorSet, org.MaxTVCOperatorSets, "operator sets"); err != nil {
		return err
	}
	if set.ID, err = org.NewID(tx.Rand); err != nil {
		return err
	}
	kept := *set
	return tx.PutTVCOperatorSet(&kept)
}

// sameMembers compares lists without repetitions, in any order.
func sameMembers(a, b []org.ID) bool {
	return len(a) == len(b) && !slices.ContainsFunc(a, func(id org.ID) bool { return !slices.Contains(b, id) })
}

// setOf returns a set as in manifests.
func setOf(members []*org.TVCOperator, threshold uint32) tvc.Set {
	return tvc.Set{Threshold: threshold, Members: activity.MapList(members, func(o **org.TVCOperator) tvc.Member {
		return tvc.Member{Alias: (*o).Name, PubKey: (*o).PublicKey}
	})}
}

// membersOf returns the operators of a stored set.
func membersOf(tx *org.Tx, set *org.TVCOperatorSet) ([]*org.TVCOperator, error) {
	members := make([]*org.TVCOperator, len(set.Operators))
	for i, id := range set.Operators {
		o, err := tx.TVCOperator(id)
		if members[i], err = activity.OrNotFound(o, err, "operator", id.String()); err != nil {
			return nil, err
		}
	}
	return members, nil
}

// addOperator stores an operator under a new id, or finds an equal one.
func addOperator(tx *activity.Tx, o *org.TVCOperator) (*org.TVCOperator, error) {
	var same *org.TVCOperator
	err := tx.EachTVCOperator(func(other *org.TVCOperator) bool {
		if other.Name == o.Name && other.PublicKey == o.PublicKey {
			same = other
		}
		return same == nil
	})
	if err != nil || same != nil {
		return same, err
	}
	if err := checkCount(tx.EachTVCOperator, org.MaxTVCOperators, "operators"); err != nil {
		return nil, err
	}
	o.CreatedMs = tx.NowMs
	if o.ID, err = org.NewID(tx.Rand); err != nil {
		return nil, err
	}
	return o, tx.PutTVCOperator(o)
}
