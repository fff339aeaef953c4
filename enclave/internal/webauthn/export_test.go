package webauthn

// What the parsers read, for tests.

func ParseClientData(raw []byte) (typ, challenge, origin string, err error) {
	c, err := parseClientData(raw)
	if err != nil {
		return "", "", "", err
	}
	return c.typ, c.challenge, c.origin, nil
}

// ParseAuthenticatorData tells how many bytes the parts have that were taken for
// attested credential data, 0 for none.
func ParseAuthenticatorData(raw []byte) (rpIDHash [32]byte, counter uint32, attested int, err error) {
	d, err := parseAuthenticatorData(raw)
	if err != nil {
		return rpIDHash, 0, 0, err
	}
	if d.attested != nil {
		attested = 16 + 2 + len(d.attested.id) + len(d.attested.key)
	}
	return d.rpIDHash, d.counter, attested, nil
}

func ParseAttestation(raw []byte) (format string, data []byte, err error) {
	a, err := parseAttestation(raw)
	if err != nil {
		return "", nil, err
	}
	return a.format, a.data.raw, nil
}

func ParseKey(raw []byte) (alg int64, err error) {
	k, err := parseKey(raw)
	if err != nil {
		return 0, err
	}
	return k.alg, nil
}

func (o Origins) Accept(origin string, rpIDHash [32]byte) bool { return o.accept(origin, rpIDHash) }
