package image

// TestOnlySignatureSection puts other bytes where the signature was.
func (m *Image) TestOnlySignatureSection(raw []byte) { m.signature = raw }

// TestOnlySection are the bytes of the signature section.
func (m *Image) TestOnlySection() []byte { return m.signature }
