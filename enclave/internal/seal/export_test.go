package seal

// OpenWith opens with any associated data, through the one path that Open takes.
func (k *Key) OpenWith(ad, sealed []byte) ([]byte, error) { return k.open(ad, sealed) }

// Bytes is the associated data of a name.
func (n Name) Bytes() []byte { return n.append(nil) }
