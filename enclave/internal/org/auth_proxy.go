package org

// AuthProxy is the auth proxy configuration of a top-level organization, which has one at most.
type AuthProxy struct {
	ID     ID     `cbor:"1,keyasint"` // the configuration's id, which callers send
	User   ID     `cbor:"2,keyasint"` // user as whom it acts
	Key    ID     `cbor:"3,keyasint"` // that user's API key
	Policy ID     `cbor:"4,keyasint"` // policy that allows its activities
	Sealed []byte `cbor:"5,keyasint"` // the API key's private half, under the key's id

	Origins        []string `cbor:"6,keyasint,omitempty"` // "*" alone: any
	Methods        []string `cbor:"7,keyasint,omitempty"` // allowed log-in methods
	SenderEmail    string   `cbor:"8,keyasint,omitempty"`
	SenderName     string   `cbor:"9,keyasint,omitempty"`
	ReplyTo        string   `cbor:"10,keyasint,omitempty"`
	AppName        string   `cbor:"11,keyasint,omitempty"` // empty: the organization's name
	LogoURL        string   `cbor:"12,keyasint,omitempty"`
	MagicLink      string   `cbor:"13,keyasint,omitempty"` // template of a link
	Variables      string   `cbor:"14,keyasint,omitempty"` // of templates, a JSON object
	SMSTemplate    string   `cbor:"15,keyasint,omitempty"`
	OTPSeconds     uint32   `cbor:"16,keyasint,omitempty"` // life of a passcode
	OTPLength      uint32   `cbor:"17,keyasint,omitempty"`
	OTPNumeric     bool     `cbor:"18,keyasint,omitempty"`
	TokenSeconds   uint32   `cbor:"19,keyasint,omitempty"` // life of a verification token
	SessionSeconds uint32   `cbor:"20,keyasint,omitempty"`
	TokenForPII    bool     `cbor:"21,keyasint,omitempty"` // look-ups by contact need a token for it
	LinkingClients []string `cbor:"22,keyasint,omitempty"` // client ids whose identities may be linked by address

	SocialProviders []string          `cbor:"23,keyasint,omitempty"`
	OAuthClients    map[string]string `cbor:"24,keyasint,omitempty"` // client ids by provider
	OAuthRedirect   string            `cbor:"25,keyasint,omitempty"`

	CreatedMs uint64 `cbor:"26,keyasint"`
	UpdatedMs uint64 `cbor:"27,keyasint"`
}

// AuthProxy returns the organization's proxy if it has this id, else nil.
func (t *Tx) AuthProxy(id ID) (*AuthProxy, error) {
	return find[AuthProxy](t, collectionAuthProxies, id)
}

// OnlyAuthProxy returns the organization's proxy, or nil if it has none.
func (t *Tx) OnlyAuthProxy() (*AuthProxy, error) {
	return first[AuthProxy](t, key(collectionAuthProxies))
}

// PutAuthProxy stores p.
func (t *Tx) PutAuthProxy(p *AuthProxy) error {
	return put(t, key(collectionAuthProxies, raw(p.ID)), p)
}

// DeleteAuthProxy removes the record, and with it the private key.
func (t *Tx) DeleteAuthProxy(id ID) { t.del(key(collectionAuthProxies, raw(id))) }

// EachChangedAuthProxy visits the configurations that this change puts (is is true) or deletes.
func (t *Tx) EachChangedAuthProxy(visit func(id ID, is bool)) {
	for _, k := range t.order {
		if len(k) == 1+16 && Collection(k[0]) == collectionAuthProxies {
			visit(ID([]byte(k[1:])), t.changes[k] != nil)
		}
	}
}

// AuthProxyHandle is the handle by which the organization of a configuration is found.
func AuthProxyHandle(id ID) Handle { return Handle{handleAuthProxy, raw(id)} }
