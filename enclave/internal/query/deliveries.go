package query

import (
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var deliveries = []*Query{fetchQuery("list_webhook_deliveries", fetchDeliveries, answerDeliveries)}

type deliveriesRequest struct {
	Head
	EndpointID        string      `json:"endpointId" rule:"required"`
	FailedOnly        bool        `json:"failedOnly,omitempty"`
	PaginationOptions *Pagination `json:"paginationOptions"` // after is the last answer's next
}

// maxDeliveries bounds the deliveries of one answer: each needs an entry of its own, or two.
const maxDeliveries = 50

type deliveryPage struct {
	all  []Delivery
	next *DeliveryPlace
}

func fetchDeliveries(in *deliveriesRequest, s *sources) (p deliveryPage, err error) {
	limit := defaultLimit
	var after *DeliveryPlace
	if o := in.PaginationOptions; o != nil {
		if text := activity.TextOf(o.Limit); text != "" {
			n, err := strconv.ParseUint(text, 10, 16)
			if err != nil || n < 1 || n > maxDeliveries {
				return p, fault.Field("paginationOptions.limit", "limit must be 1 to %d", maxDeliveries)
			}
			limit = int(n)
		}
		if activity.TextOf(o.Before) != "" {
			return p, fault.Field("paginationOptions.before", "deliveries are listed forward only, with after")
		}
		if after, err = parsePlace(activity.TextOf(o.After)); err != nil {
			return p, err
		}
	}
	endpoint, err := id("endpointId", in.EndpointID)
	if err == nil {
		p.all, p.next, err = s.Deliveries.Deliveries(endpoint, in.FailedOnly, after, limit)
	}
	return p, err
}

// String is the place as a cursor: the time, a dot and the send.
func (p *DeliveryPlace) String() string {
	return strconv.FormatUint(p.TimeMs, 10) + "." + p.Send.String()
}

// parsePlace reads a cursor, nil for none.
func parsePlace(text string) (*DeliveryPlace, error) {
	if text == "" {
		return nil, nil
	}
	ms, send, _ := strings.Cut(text, ".")
	at, err := strconv.ParseUint(ms, 10, 48)
	p := &DeliveryPlace{TimeMs: at}
	var ok bool
	if p.Send, ok = org.ParseSendPlace(send); !ok || err != nil || p.String() != text {
		return nil, unknownCursor("after")
	}
	return p, nil
}

var deliveryStates = map[org.SendState]string{org.SendWaiting: "WAITING", org.SendIncluded: "DELIVERED", org.SendRefused: "FAILED", org.SendExpired: "EXPIRED"}

// IsDeliveryState reports whether a delivery can be in a state.
func IsDeliveryState(s org.SendState) bool { return deliveryStates[s] != "" }

func answerDeliveries(_ *View, p deliveryPage) ([]byte, error) {
	dst := array(nil, `{"deliveries":`, p.all, func(dst []byte, d Delivery) []byte {
		dst = text(dst, `{"deliveryId":`, d.Place.String())
		if d.First != d.Place {
			dst = text(dst, `,"resendOf":`, d.First.String())
		}
		dst = ident(dst, `,"eventId":`, d.Event)
		dst = text(dst, `,"eventType":`, org.ActivityUpdates)
		dst = ident(dst, `,"organizationId":`, d.First.Organization)
		dst = ident(dst, `,"activityId":`, d.Activity)
		dst = text(dst, `,"activityType":`, d.Type)
		dst = text(dst, `,"activityStatus":`, d.Status.String())
		dst = text(dst, `,"status":`, "DELIVERY_STATUS_"+deliveryStates[d.State])
		dst = strconv.AppendUint(append(dst, `,"attempts":`...), uint64(d.Tries), 10)
		if d.Text != "" && d.State != org.SendIncluded {
			dst = text(dst, `,"lastError":`, d.Text)
		}
		dst = activity.AppendTime(append(dst, `,"createdAt":`...), d.CreatedMs)
		name := `,"endedAt":`
		if d.State == org.SendWaiting {
			name = `,"nextAttemptAt":`
		}
		return append(activity.AppendTime(append(dst, name...), d.TimeMs), '}')
	})
	if p.next != nil {
		dst = text(dst, `,"next":`, p.next.String())
	}
	return append(dst, '}'), nil
}
