package attestation

// A writer is a JSON text in the making, to which methods append members: the same bytes as encodeJSON of a struct.
// It is for texts that are written with every signature: reflection took a hundredth of a request.
type writer []byte

// name begins a member.
func (w *writer) name(name string) {
	if b := *w; b[len(b)-1] != '{' {
		*w = append(b, ',')
	}
	*w = append(append(append(*w, '"'), name...), '"', ':')
}

// open begins a member that is an object; close ends it.
func (w *writer) open(name string) {
	w.name(name)
	*w = append(*w, '{')
}

func (w *writer) close() { *w = append(*w, '}') }

// value writes a member by reflection. v has only strings in it, so that nothing can fail.
func (w *writer) value(name string, v any) {
	w.name(name)
	w.encode(v)
}

func (w *writer) encode(v any) {
	text, _ := encodeJSON(v)
	*w = append(*w, text...)
}

// text writes a member that is a string.
func (w *writer) text(name, value string) {
	w.name(name)
	w.quote(value)
}

// optional writes a member that is a string, unless it is empty.
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
			*w = before
			w.encode(s)
			return
		}
	}
	*w = append(append(*w, s[start:]...), '"')
}

func (w *writer) freshness(f *ClaimFreshness) {
	if f == nil {
		return
	}
	w.open("freshness")
	w.text("mode", f.Mode)
	w.text("bootNumber", f.BootNumber)
	w.text("seedSource", f.SeedSource)
	w.close()
}
