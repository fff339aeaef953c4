package query

import (
	"slices"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/org"
)

var mails = []*Query{fetchQuery("list_email_events", fetchMailEvents, answerMailEvents)}

type mailEventsRequest struct {
	Head
	Email             string      `json:"email" rule:"required"`
	EventType         *string     `json:"eventType"`
	PaginationOptions *Pagination `json:"paginationOptions"`
}

// mailEventTypes are the names of events. Complaints are not recorded.
var mailEventTypes = map[string]org.MailEventKind{"Send": org.MailSent, "Delivery": org.MailDelivered, "DeliveryDelay": org.MailDelayed, "Bounce": org.MailBounced, "Complaint": 0}

func fetchMailEvents(in *mailEventsRequest, s *sources) (page []org.MailEvent, err error) {
	b, err := in.PaginationOptions.bounds()
	if err != nil {
		return nil, err
	}
	wanted := activity.TextOf(in.EventType)
	kind, known := mailEventTypes[wanted]
	if wanted != "" && !known {
		return nil, fault.Field("eventType", "must be Send, Delivery, DeliveryDelay, Bounce or Complaint")
	}
	all, err := s.MailEvents(strings.TrimSpace(in.Email))
	if err != nil {
		return nil, err
	}
	if wanted != "" {
		all = slices.DeleteFunc(all, func(e org.MailEvent) bool { return e.Kind != kind })
	}
	at := func(name string, id org.ID) (int, error) {
		i := slices.IndexFunc(all, func(e org.MailEvent) bool { return e.ID == id })
		if i < 0 {
			return 0, unknownCursor(name)
		}
		return i, nil
	}
	switch {
	case b.before != nil:
		end, err := at("before", *b.before)
		return all[max(0, end-b.limit):end], err
	case b.after != nil:
		last, err := at("after", *b.after)
		if err != nil {
			return nil, err
		}
		all = all[last+1:]
	}
	return all[:min(b.limit, len(all))], nil
}

func answerMailEvents(v *View, page []org.MailEvent) ([]byte, error) {
	return many(`{"emailEvents":`, page, nil, func(dst []byte, e org.MailEvent) []byte {
		dst = ident(dst, `{"id":`, e.ID)
		dst = ident(dst, `,"organizationId":`, v.ID)
		dst = text(dst, `,"messageId":`, e.Message)
		details := []byte(`{`)
		name := ""
		switch e.Kind {
		case org.MailSent:
			name = "Send"
		case org.MailDelivered:
			name = "Delivery"
			details = text(details, `"deliverySmtpResponse":`, e.Text)
			details = number(details, `,"deliveryProcessingTimeMillis":`, e.TookMs)
		case org.MailDelayed:
			name = "DeliveryDelay"
			kind := "General"
			if e.Away {
				kind = "TransientCommunicationFailure"
			}
			details = text(text(details, `"diagnosticCode":`, e.Text), `,"deliveryDelayType":`, kind)
		case org.MailBounced:
			name = "Bounce"
			details = append(text(details, `"diagnosticCode":`, e.Text), `,"bounceType":"Permanent","bounceSubType":"General"`...)
		}
		dst = text(dst, `,"eventType":`, name)
		dst = text(dst, `,"fromAddress":`, e.From)
		dst = text(dst, `,"toAddress":`, e.To)
		dst = number(dst, `,"timestamp":`, e.TimeMs)
		dst = number(dst, `,"createdAt":`, e.TimeMs)
		return append(append(append(dst, `,"details":`...), details...), `}}`...)
	})
}
