package query

import (
	"cmp"
	"encoding/hex"
	"slices"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var activities = []*Query{
	fetchQuery("get_activity", fetchActivity, answerActivity),
	fetchQuery("list_activities", fetchActivities, answerActivities),
}

type activityRequest struct {
	Head
	ActivityID string `json:"activityId" rule:"required"`
}

// ActivityStatus is the interface's name of a status.
type ActivityStatus string

// Valid reports whether s is a status of the interface.
func (s ActivityStatus) Valid() bool { return org.ParseStatus(string(s)) != 0 }

// ActivityType is the interface's name of a version of a kind.
type ActivityType string

// Valid reports whether t is a type of the interface, live or not.
func (t ActivityType) Valid() bool { return activity.KnownType(string(t)) }

type activitiesRequest struct {
	Head
	FilterByStatus    []ActivityStatus `json:"filterByStatus,omitempty"`
	PaginationOptions *Pagination      `json:"paginationOptions"`
	FilterByType      []ActivityType   `json:"filterByType,omitempty"`
}

func fetchActivity(in *activityRequest, s *sources) (*org.Entry, error) {
	return findNamed("activity", "activityId", in.ActivityID, s.Activity)
}

func answerActivity(v *View, e *org.Entry) ([]byte, error) {
	w, err := newWriter(v)
	if err != nil {
		return nil, err
	}
	dst := w.write([]byte(`{"activity":`), e)
	if w.err == nil && !e.Status.Terminal() {
		dst, w.err = appendDecoded(dst, v, e)
	}
	return append(dst, '}'), w.err
}

// appendDecoded adds to a waiting activity what approvers are shown of it, and the digest by which a vote can name that. An old
// body that today's rules refuse is not decoded: only the root quorum can end such an activity.
func appendDecoded(dst []byte, v *View, e *org.Entry) ([]byte, error) {
	d, err := kinds.Live.Document(v.Tx, e)
	if fault.Of(err) != nil {
		return dst, nil
	}
	if err != nil {
		return dst, err
	}
	digest := d.Digest()
	dst = append(append(dst[:len(dst)-1], `,"decoded":`...), d.Text()...)
	return append(hex.AppendEncode(append(dst, `,"decodedDigest":"`...), digest[:]), '"', '}'), nil
}

func fetchActivities(in *activitiesRequest, s *sources) ([]*org.Entry, error) {
	b, err := in.PaginationOptions.bounds()
	if err != nil {
		return nil, err
	}
	// By time, as the SDKs walk to older activities: before a cursor are older ones, which follow it in the list.
	p := Page{Before: b.after, After: b.before, Limit: b.limit}
	for _, status := range in.FilterByStatus {
		p.Statuses = append(p.Statuses, org.ParseStatus(string(status)))
	}
	for _, t := range in.FilterByType {
		p.Types = append(p.Types, string(t))
	}
	return s.Page(p)
}

func answerActivities(v *View, es []*org.Entry) ([]byte, error) {
	w, err := newWriter(v)
	if err != nil {
		return nil, err
	}
	return append(array(nil, `{"activities":`, es, w.write), '}'), w.err
}

// writer writes activities as the caller sees them.
type writer struct {
	view         *View
	organization *org.Organization
	users        []*org.User
	err          error // the first error

	steps int // steps left for evaluating who may vote
}

func newWriter(v *View) (*writer, error) {
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	us, err := usersInOrder(v)
	return &writer{view: v, organization: o, users: us, steps: activity.VotableSteps}, err
}

func (w *writer) user(id org.ID) *org.User {
	if i := slices.IndexFunc(w.users, func(u *org.User) bool { return u.ID == id }); i >= 0 {
		return w.users[i]
	}
	return nil
}

func (w *writer) write(dst []byte, e *org.Entry) []byte {
	view := activity.ActivityView{Users: w.user}
	err := view.ReadPending(w.view.Tx, e)
	if err == nil && w.view.Home == nil {
		view.CanApprove, view.CanReject, err = kinds.Live.Votable(w.view.Tx, w.organization, e, w.view.Caller.ID, &w.steps)
	}
	w.err = cmp.Or(w.err, err)
	return kinds.Live.AppendActivity(dst, e, w.view.ID, view)
}
