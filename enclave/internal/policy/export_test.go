package policy

// Walked is the set of which every condition is walked whole.
func (s *Set) Walked() *Set {
	walked := *s
	walked.short = make([]short, len(s.short))
	return &walked
}

// Short tells which conditions are told from the views.
func (s *Set) Short() []bool {
	short := make([]bool, len(s.short))
	for i := range s.short {
		short[i] = s.short[i].known
	}
	return short
}
