package tiles

// ParsePath gives a path as it is written, and whether it is one.
func ParsePath(path string) (string, bool) {
	t, err := parse(path)
	if err != nil {
		return "", false
	}
	return t.path(), true
}
