package org

// Records of customers' programs, which run in enclaves beside this one: an app has deployments, a deployment has one
// manifest, and members of two operator sets approve deployments and hold the app's key. The programs do not read these
// records.

// Limits of the number of each record in an organization.
const (
	MaxTVCApps         = 100
	MaxTVCOperators    = 1000
	MaxTVCOperatorSets = 500
	MaxTVCDeployments  = 1000
	MaxTVCQuorumKeys   = 100
)

// TVCOperator is an operator, who approves manifests, holds shares, or both. PublicKey is two points of P-256 in
// lower-case hex, for encryption and for signatures, 65 bytes each.
type TVCOperator struct {
	ID        ID     `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint"`
	PublicKey string `cbor:"3,keyasint"`
	CreatedMs uint64 `cbor:"4,keyasint"`
	// Wallet and Path are set if the operator's keys are two accounts of a wallet in this organization: at Path/0 and Path/1.
	Wallet ID     `cbor:"5,keyasint,omitempty"`
	Path   string `cbor:"6,keyasint,omitempty"`
}

// Keys are the two halves of PublicKey.
func (o *TVCOperator) Keys() (encrypt, sign string) {
	half := len(o.PublicKey) / 2
	return o.PublicKey[:half], o.PublicKey[half:]
}

// TVCOperatorSet is a set of operators with a threshold. It never changes.
type TVCOperatorSet struct {
	ID        ID     `cbor:"1,keyasint"`
	Name      string `cbor:"2,keyasint"`
	Operators []ID   `cbor:"3,keyasint"`
	Threshold uint32 `cbor:"4,keyasint"`
	CreatedMs uint64 `cbor:"5,keyasint"`
}

// TVCApp is an app: a key and the deployments that may use it.
type TVCApp struct {
	ID              ID     `cbor:"1,keyasint"`
	Name            string `cbor:"2,keyasint"`
	QuorumPublicKey string `cbor:"3,keyasint"` // as TVCOperator.PublicKey
	ManifestSet     ID     `cbor:"4,keyasint"`
	ShareSet        ID     `cbor:"5,keyasint"`
	// Debug allows deployments in debug mode. It never changes: such a deployment may have given the app's key away.
	Debug     bool   `cbor:"6,keyasint,omitempty"`
	Live      ID     `cbor:"7,keyasint,omitempty"` // the live deployment
	CreatedMs uint64 `cbor:"8,keyasint"`
	UpdatedMs uint64 `cbor:"9,keyasint"`
	LastNonce uint32 `cbor:"10,keyasint,omitempty"` // of its newest manifest
}

// TVCQuorumKey is an app's key that this enclave has generated: the public key, and the shares, each encrypted to one
// operator. Only Threshold operators together can recover the key.
type TVCQuorumKey struct {
	ID        ID         `cbor:"1,keyasint"`
	PublicKey string     `cbor:"2,keyasint"` // as TVCOperator.PublicKey
	Threshold uint32     `cbor:"3,keyasint"`
	Shares    []TVCShare `cbor:"4,keyasint"`
	CreatedMs uint64     `cbor:"5,keyasint"`
}

// TVCShare is one encrypted share of a TVCQuorumKey.
type TVCShare struct {
	ID         ID     `cbor:"1,keyasint"`
	EncryptKey string `cbor:"2,keyasint"` // an operator's, 65 bytes in lower-case hex
	Sealed     []byte `cbor:"3,keyasint"` // encrypted in the format of the operators' tools
}

// TVCOperator returns the operator with this id, or nil.
func (t *Tx) TVCOperator(id ID) (*TVCOperator, error) {
	return find[TVCOperator](t, collectionTVCOperators, id)
}

// PutTVCOperator stores o.
func (t *Tx) PutTVCOperator(o *TVCOperator) error {
	return put(t, key(collectionTVCOperators, raw(o.ID)), o)
}

// EachTVCOperator visits the operators in the order of their ids.
func (t *Tx) EachTVCOperator(visit func(*TVCOperator) bool) error {
	return each(t, collectionTVCOperators, visit)
}

// TVCOperatorSet returns the set with this id, or nil.
func (t *Tx) TVCOperatorSet(id ID) (*TVCOperatorSet, error) {
	return find[TVCOperatorSet](t, collectionTVCOperatorSets, id)
}

// PutTVCOperatorSet stores s.
func (t *Tx) PutTVCOperatorSet(s *TVCOperatorSet) error {
	return put(t, key(collectionTVCOperatorSets, raw(s.ID)), s)
}

// EachTVCOperatorSet visits the sets in the order of their ids.
func (t *Tx) EachTVCOperatorSet(visit func(*TVCOperatorSet) bool) error {
	return each(t, collectionTVCOperatorSets, visit)
}

// TVCApp returns the app with this id, or nil.
func (t *Tx) TVCApp(id ID) (*TVCApp, error) { return find[TVCApp](t, collectionTVCApps, id) }

// PutTVCApp stores a.
func (t *Tx) PutTVCApp(a *TVCApp) error { return put(t, key(collectionTVCApps, raw(a.ID)), a) }

// DeleteTVCApp removes the app's record, not its name.
func (t *Tx) DeleteTVCApp(id ID) { t.del(key(collectionTVCApps, raw(id))) }

// EachTVCApp visits the apps in the order of their ids.
func (t *Tx) EachTVCApp(visit func(*TVCApp) bool) error { return each(t, collectionTVCApps, visit) }

// TVCQuorumKey returns the key with this id, or nil.
func (t *Tx) TVCQuorumKey(id ID) (*TVCQuorumKey, error) {
	return find[TVCQuorumKey](t, collectionTVCQuorumKeys, id)
}

// PutTVCQuorumKey stores k.
func (t *Tx) PutTVCQuorumKey(k *TVCQuorumKey) error {
	return put(t, key(collectionTVCQuorumKeys, raw(k.ID)), k)
}

// EachTVCQuorumKey visits the keys in the order of their ids.
func (t *Tx) EachTVCQuorumKey(visit func(*TVCQuorumKey) bool) error {
	return each(t, collectionTVCQuorumKeys, visit)
}

// TVCDeployment is a deployment of an app, with the data from which its manifest was made.
type TVCDeployment struct {
	ID       ID     `cbor:"1,keyasint"`
	App      ID     `cbor:"2,keyasint"`
	Manifest ID     `cbor:"3,keyasint"`
	Version  string `cbor:"4,keyasint"` // of the base image
	Image    string `cbor:"5,keyasint"` // NAME@sha256:HEX
	Path     string `cbor:"6,keyasint"` // of the program in it
	// PullSecret is the registry's credential, encrypted by the client to a key of the enclave; empty: the image is public.
	PullSecret  string `cbor:"7,keyasint,omitempty"`
	HealthCheck string `cbor:"8,keyasint"` // TVC_HEALTH_CHECK_TYPE_…
	HealthPort  uint16 `cbor:"9,keyasint"`
	IngressPort uint16 `cbor:"10,keyasint"`
	Replicas    uint32 `cbor:"11,keyasint"`
	Debug       bool   `cbor:"12,keyasint,omitempty"`
	Deleted     bool   `cbor:"13,keyasint,omitempty"` // it may be restored
	Approved    bool   `cbor:"14,keyasint,omitempty"` // by the threshold: the host has the order to run it
	CreatedMs   uint64 `cbor:"15,keyasint"`
	UpdatedMs   uint64 `cbor:"16,keyasint"`
}

// TVCManifest is the manifest of a deployment, which operators read and approve.
type TVCManifest struct {
	ID         ID            `cbor:"1,keyasint"`
	Deployment ID            `cbor:"2,keyasint"`
	Bytes      []byte        `cbor:"3,keyasint"`
	Approvals  []TVCApproval `cbor:"4,keyasint,omitempty"` // of different operators, in the order of arrival
	CreatedMs  uint64        `cbor:"5,keyasint"`
}

// TVCApproval is an operator's approval of a manifest.
type TVCApproval struct {
	ID        ID     `cbor:"1,keyasint"`
	Operator  ID     `cbor:"2,keyasint"`
	Signature []byte `cbor:"3,keyasint"`
	CreatedMs uint64 `cbor:"4,keyasint"`
}

// TVCPostedShare is an operator's share of an app's key for an enclave of a deployment, encrypted to one boot of that
// enclave.
type TVCPostedShare struct {
	ID         ID     `cbor:"1,keyasint"`
	Deployment ID     `cbor:"2,keyasint"`
	Operator   ID     `cbor:"3,keyasint"`
	SetupKey   string `cbor:"4,keyasint"`
	Box        []byte `cbor:"5,keyasint"`
	Signature  []byte `cbor:"6,keyasint"`
	CreatedMs  uint64 `cbor:"7,keyasint"`
}

// TVCDeployment returns the deployment with this id, or nil.
func (t *Tx) TVCDeployment(id ID) (*TVCDeployment, error) {
	return find[TVCDeployment](t, collectionTVCDeployments, id)
}

// PutTVCDeployment stores d.
func (t *Tx) PutTVCDeployment(d *TVCDeployment) error {
	return put(t, key(collectionTVCDeployments, raw(d.ID)), d)
}

// DeleteTVCDeployment removes a deployment with its manifest and the shares that were posted.
func (t *Tx) DeleteTVCDeployment(d *TVCDeployment) error {
	t.del(key(collectionTVCDeployments, raw(d.ID)))
	t.del(key(collectionTVCManifests, raw(d.Manifest)))
	return t.clear(keysWithPrefix(key(collectionTVCShares, raw(d.ID))))
}

// EachTVCDeployment visits the deployments of all apps in the order of their ids.
func (t *Tx) EachTVCDeployment(visit func(*TVCDeployment) bool) error {
	return each(t, collectionTVCDeployments, visit)
}

// TVCManifest returns the manifest with this id, or nil.
func (t *Tx) TVCManifest(id ID) (*TVCManifest, error) {
	return find[TVCManifest](t, collectionTVCManifests, id)
}

// PutTVCManifest stores m.
func (t *Tx) PutTVCManifest(m *TVCManifest) error {
	return put(t, key(collectionTVCManifests, raw(m.ID)), m)
}

// TVCPostedShare returns an operator's newest share for a deployment, or nil.
func (t *Tx) TVCPostedShare(deployment, operator ID) (*TVCPostedShare, error) {
	return get[TVCPostedShare](t, key(collectionTVCShares, raw(deployment), raw(operator)))
}

// PutTVCPostedShare stores s and replaces the operator's earlier share.
func (t *Tx) PutTVCPostedShare(s *TVCPostedShare) error {
	return put(t, key(collectionTVCShares, raw(s.Deployment), raw(s.Operator)), s)
}
