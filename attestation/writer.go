package attestation

// A writer writes one JSON object after the other's members, the same bytes as encodeJSON
// does of a struct. It is for what is written with every signature: reflection took a
// hundredth of a request.
type writer []byte

// name begins a member.
func (w *writer) name(name string) {
	if b := *w; b[len(b)-1] != '{' {
		*w = append(b, ',')
	}
	*w = append(append(append(*w, '"'), name...), '"', ':')
}

// text writes a member that is a string.
func (w *writer) text(name, value string) {
	w.name(name)
	w.quote(value)
}

// optional is text, or nothing for an empty value.
func (w *writer) optional(name, value string) {
	if value != "" {
		w.text(name, value)
	}
}

func (w *writer) quote(s string) {
	before, start := *w, 0
	*w = append(*w, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			*w = append(append(*w, s[start:i]...), '\\')
			start = i
		case c < ' ' || c > '~':
			text, _ := encodeJSON(s) // a string never fails
			*w = append(before, text...)
			return
		}
	}
	*w = append(append(*w, s[start:]...), '"')
}

func (w *writer) freshness(f *ClaimFreshness) {
	if f == nil {
		return
	}
	w.name("freshness")
	*w = append(*w, '{')
	w.text("mode", f.Mode)
	w.text("bootNumber", f.BootNumber)
	w.text("seedSource", f.SeedSource)
	*w = append(*w, '}')
}
