package core

import "cloister/enclave/internal/org"

// storedEvents is activity.Tx.StoredEvents for a replay. Events of organizations whose histories are there are read from those; of
// others it takes what the entry has recorded: its repetitions, in the order of places, or its refusal.
func (s *replayed) storedEvents(places []org.SendPlace) ([]*org.StoredEvent, error) {
	events := make([]*org.StoredEvent, len(places))
	for i, at := range places {
		event, err := s.storedEvent(at)
		if err == nil && event != nil && event.Earlier != nil {
			at = *event.Earlier
			event, err = s.storedEvent(at)
		}
		if err != nil {
			return nil, err
		}
		if s.replay.histories[at.Organization] == nil {
			event, err = s.recordedEvent(i)
		}
		if err != nil {
			return nil, err
		}
		events[i] = event
	}
	return events, nil
}

// recordedEvent is what the entry's send of this number repeats, nil if it repeats nothing. The error is the recorded refusal.
func (s *replayed) recordedEvent(number int) (*org.StoredEvent, error) {
	e := s.main.Entry
	if e.Status == org.StatusFailed {
		f, err := faultOf(e.Failure)
		if err != nil {
			return nil, s.finding("failure", err.Error())
		}
		return nil, f
	}
	if number >= len(e.Sends) {
		return nil, nil
	}
	event, err := eventOf(org.SendPlace{}, &e.Sends[number])
	if err != nil || event == nil || event.Earlier == nil {
		return nil, err
	}
	event.Place, event.Earlier = *event.Earlier, nil
	return event, nil
}

// storedEvent is the event of a send in a history that is there, nil if there is none.
func (s *replayed) storedEvent(at org.SendPlace) (*org.StoredEvent, error) {
	h := s.replay.histories[at.Organization]
	if h == nil || at.Seq >= uint64(len(h.entries)) {
		return nil, nil
	}
	sends := h.entries[at.Seq].Entry.Sends
	if int(at.Number) >= len(sends) {
		return nil, nil
	}
	return eventOf(at, &sends[at.Number])
}

// eventOf is the event that a send holds, nil if it holds none.
func eventOf(at org.SendPlace, s *org.Send) (*org.StoredEvent, error) {
	if s.Kind != org.SendWebhook {
		return nil, nil
	}
	event, err := org.DecodeEvent(s.Content)
	if err != nil {
		return nil, err
	}
	return &org.StoredEvent{Event: *event, Place: at, ExpiresMs: s.ExpiresMs}, nil
}
