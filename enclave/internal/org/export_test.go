package org

// Raw access to a change, for tests that hold the state against a plain map.

// PutRaw writes bytes under a key.
func (t *Tx) PutRaw(key string, b []byte) { t.set(key, &record{bytes: b}) }

// DeleteRaw deletes a key.
func (t *Tx) DeleteRaw(key string) { t.del(key) }

// GetRaw reads a key's bytes; nil when there is none.
func (t *Tx) GetRaw(key string) ([]byte, error) {
	v, err := t.lookUp(key)
	if v == nil || err != nil {
		return nil, err
	}
	return v.bytes, nil
}

// ScanRaw visits keys and bytes.
func (t *Tx) ScanRaw(prefix, from string, visit func(key string, b []byte) bool) error {
	return t.scan(keyRange{from: max(prefix, from), to: nextPrefix(prefix)}, func(k string, v *record) bool { return visit(k, v.bytes) })
}

// ScanDownRaw visits keys and bytes, the highest first.
func (t *Tx) ScanDownRaw(prefix, to string, visit func(key string, b []byte) bool) error {
	return t.scan(keyRange{prefix, to, true}, func(k string, v *record) bool { return visit(k, v.bytes) })
}

// Same tells whether two changes see one decoded record under a key.
func (t *Tx) Same(u *Tx, key string) bool {
	a, _ := t.lookUp(key)
	b, _ := u.lookUp(key)
	return a != nil && a == b
}

// UnsavedBytes is how many bytes of writes no snapshot holds yet.
func (s *State) UnsavedBytes() int { return s.overlayBytes }
