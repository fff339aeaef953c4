package query

import (
	"encoding/base64"
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var histories = []*Query{fetchQuery("get_history", fetchHistory, answerHistory)}

// HistoryMs is how long after an allowed export_history its initiator may query the history.
const HistoryMs = 60 * 60 * 1000

const typeExportHistory = "ACTIVITY_TYPE_EXPORT_HISTORY"

type historyRequest struct {
	Head
	ActivityID string `json:"activityId" rule:"required,uuid"` // of the export_history
	From       string `json:"from"`                            // the previous answer's next; empty: the first page
}

type historyPage struct {
	allowed *org.Entry
	page    []byte
	next    uint64
}

func fetchHistory(in *historyRequest, s *sources) (p historyPage, err error) {
	from := uint64(0)
	if in.From != "" {
		if from, err = strconv.ParseUint(in.From, 10, 64); err != nil {
			return p, fault.Field("from", "must be what the last answer had as next")
		}
	}
	act, err := id("activityId", in.ActivityID)
	if err != nil {
		return p, err
	}
	if p.allowed, err = s.Activity(act); err != nil {
		return p, err
	}
	if e := p.allowed; e == nil || e.Type != typeExportHistory || e.Status != org.StatusCompleted {
		return p, fault.New(fault.FailedPrecondition, "activityId names no export_history that was allowed")
	}
	p.page, p.next, err = s.Export(from)
	return p, err
}

func answerHistory(v *View, p historyPage) ([]byte, error) {
	switch {
	case v.Caller.ID != p.allowed.Initiator:
		return nil, fault.New(fault.PermissionDenied, "the history goes to who has submitted the export_history")
	case v.NowMs > p.allowed.TimeMs+HistoryMs:
		return nil, fault.New(fault.FailedPrecondition, "the export_history was allowed more than an hour ago: submit another one")
	}
	dst := append(make([]byte, 0, 64+base64.StdEncoding.EncodedLen(len(p.page))), `{"history":"`...)
	dst = append(base64.StdEncoding.AppendEncode(dst, p.page), '"')
	if p.next > 0 {
		dst = activity.AppendText(dst, `,"next":`, strconv.FormatUint(p.next, 10))
	}
	return append(dst, '}'), nil
}
