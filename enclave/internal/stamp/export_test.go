package stamp

// KeyCache is the cache of parsed keys.
type KeyCache struct{ c *keyCache[int] }

func NewKeyCache(size int) KeyCache { return KeyCache{newKeyCache[int](size)} }

func (k KeyCache) Get(name [33]byte) *int    { return k.c.get(name) }
func (k KeyCache) Put(name [33]byte, v *int) { k.c.put(name, v) }
func (k KeyCache) Len() int                  { return len(k.c.at) }

// CachedP256 and CachedSecp256k1 count the keys that v keeps.
func CachedP256(v *Verifier) int      { return len(v.p256.at) }
func CachedSecp256k1(v *Verifier) int { return len(v.k256.at) }

// SignatureOf is what the passkey is said to have signed with.
func SignatureOf(p *Passkey) []byte { return p.assertion.Signature }

// Text is what the enclave never reads of it as a whole.
func (u Unverified) Text() string { return string(u.text) }
