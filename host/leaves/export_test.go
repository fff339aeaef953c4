package leaves

// ParseHeader tells where the batch of a header stands, and its leaf, nil if there was no log yet.
func ParseHeader(b []byte) (leaf []byte, epoch, number uint64, err error) {
	one, err := parseHeader(b)
	if err != nil {
		return nil, 0, 0, err
	}
	if one.log != nil {
		leaf = one.log.Leaf
	}
	at, err := one.batchPlace()
	return leaf, at.epoch, at.number, err
}
