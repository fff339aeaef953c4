package query

import (
	"cmp"
	"slices"
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var activities = []*Query{
	fetchQuery("get_activity", fetchOneActivity, answerActivity),
	fetchQuery("list_activities", fetchActivities, answerActivities),
}

type activityRequest struct {
	Head
	ActivityID string `json:"activityId" rule:"required"`
}

type oneActivityRequest struct {
	Head
	ActivityID string `json:"activityId" rule:"required"`
	// IncludeDecoded, which is ours, asks for decoded of an activity that is over too.
	IncludeDecoded bool `json:"includeDecoded,omitempty"`
}

// oneActivity is an activity, and whether it is to be decoded although it is over.
type oneActivity struct {
	entry  *org.Entry
	decode bool
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
	UntilMs           *string          `json:"untilMs"` // ours: leaves out activities that changed later
	// IncludeDecoded, which is ours, asks for decodedSummary.
	IncludeDecoded bool `json:"includeDecoded,omitempty"`
}

// activityList is a page of activities, and whether what they do is to be said.
type activityList struct {
	entries []*org.Entry
	decode  bool
}

func fetchActivity(in *activityRequest, s *sources) (*org.Entry, error) {
	return findNamed("activity", "activityId", in.ActivityID, s.Activity)
}

func fetchOneActivity(in *oneActivityRequest, s *sources) (a oneActivity, err error) {
	find := s.Activity
	if a.decode = in.IncludeDecoded; a.decode {
		find = s.ActivityToDecode
	}
	a.entry, err = findNamed("activity", "activityId", in.ActivityID, find)
	return a, err
}

// decodable reports whether an activity can be decoded: of one that is over, the records that it was to change are gone.
func decodable(e *org.Entry) bool { return !e.Status.Terminal() || kinds.Live.ShowsBytes(e.Type) }

func answerActivity(v *View, a oneActivity) ([]byte, error) {
	e := a.entry
	w, err := newWriter(v)
	if err != nil {
		return nil, err
	}
	dst := w.write([]byte(`{"activity":`), e)
	if w.err == nil && decodable(e) && (a.decode || !e.Status.Terminal()) {
		dst, w.err = kinds.Live.AppendDecoded(dst, v.Tx, e, v.Tokens)
	}
	return append(dst, '}'), w.err
}

func fetchActivities(in *activitiesRequest, s *sources) (l activityList, err error) {
	b, err := in.PaginationOptions.bounds()
	if err != nil {
		return l, err
	}
	// By time, as the SDKs walk to older activities: before a cursor are older ones, which follow it in the list.
	p := Page{Before: b.after, After: b.before, Limit: b.limit}
	if text := activity.TextOf(in.UntilMs); text != "" {
		ms, err := strconv.ParseUint(text, 10, 63)
		if err != nil {
			return l, fault.Field("untilMs", "must be a time in milliseconds")
		}
		p.UntilMs = &ms
	}
	for _, status := range in.FilterByStatus {
		p.Statuses = append(p.Statuses, org.ParseStatus(string(status)))
	}
	for _, t := range in.FilterByType {
		p.Types = append(p.Types, string(t))
	}
	l.entries, err = s.Page(p)
	l.decode = in.IncludeDecoded
	return l, err
}

// mostListed is the longest body in bytes that is decoded for a list: many are, and their memory is not reserved.
const mostListed = 8 << 10

func answerActivities(v *View, l activityList) ([]byte, error) {
	w, err := newWriter(v)
	if err != nil {
		return nil, err
	}
	write := w.write
	if l.decode {
		write = w.writeSummary
	}
	return append(array(nil, `{"activities":`, l.entries, write), '}'), w.err
}

// writeSummary writes an activity, and of one that can be decoded what its document says first.
func (w *writer) writeSummary(dst []byte, e *org.Entry) []byte {
	dst = w.write(dst, e)
	if w.err != nil || !decodable(e) || len(e.Body) > mostListed {
		return dst
	}
	w.view.Tx.Pause()
	d, err := kinds.Live.Document(w.view.Tx, e, w.view.Tokens)
	if err != nil {
		if fault.Of(err) == nil { // a refused body is not shown by get_activity either
			w.err = err
		}
		return dst
	}
	dst = text(dst[:len(dst)-1], `,"decodedSummary":{"title":`, d.Title())
	dst = text(dst, `,"severity":`, d.Severity().String())
	dst = text(dst, `,"readable":`, d.Readable().String())
	return append(dst, '}', '}')
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
