package policy

// Walked is the set of which every expression is walked whole.
func (s *Set) Walked() *Set {
	walked := *s
	walked.short, walked.asks = make([]short, len(s.short)), make([]short, len(s.asks))
	return &walked
}

// Short tells which conditions are told from the views.
func (s *Set) Short() []bool {
	short := make([]bool, len(s.short))
	for i := range s.short {
		short[i] = s.short[i].known || s.asks[i].known
	}
	return short
}
