package editor

// A Completion is what can stand in place of a part of a text.
type Completion struct {
	From    int      `json:"from"`
	To      int      `json:"to"`
	Options []Option `json:"options"` // at most 100, those that begin with what is typed first
}

// An Option is one text for that place.
type Option struct {
	Text   string `json:"text"`
	Label  string `json:"label"`
	Kind   string `json:"kind"`   // field, method, root, value or keyword
	Detail string `json:"detail"` // a type, or the id that a name stands for
	Note   string `json:"note"`
}
