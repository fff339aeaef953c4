package wire

import "slices"

// A State is the stage of its life that an enclave has reached. It only moves forward.
type State uint32

// The states of an enclave.
const (
	StateHello      State = iota
	StateSeed             // has its manifest and waits for the root secret
	StateRecovering       // opens the keyring and prepares to serve
	StateServing
	StateFenced // has ended its service, for good: the process is to exit
)

var stateNames = [...]string{"hello", "seed", "recovering", "serving", "fenced"}

// String returns the state's name, as the operation status reports it.
func (s State) String() string { return stateNames[s] }

// Names of the boot endpoint's operations: the values of Call.Op.
const (
	OpStatus             = "status"
	OpGenesis            = "genesis"
	OpShares             = "shares"
	OpManifest           = "manifest"
	OpKeyServiceRequest  = "key_service_request"
	OpSetupDocument      = "setup_document"
	OpKeyService         = "key_service"
	OpShare              = "share"
	OpTakeOver           = "take_over"
	OpHandOverNonce      = "hand_over_nonce"
	OpHandOver           = "hand_over"
	OpFarewell           = "farewell"
	OpRanges             = "ranges"
	OpLogs               = "logs"
	OpTake               = "take"
	OpGive               = "give"
	OpRetire             = "retire"
	OpKeys               = "keys"
	OpDiscoveryKeys      = "discovery_keys"
	OpDiscoveryBootProof = "discovery_boot_proof"
	OpIssuer             = "discovery_openid"
	OpIssuerKeys         = "discovery_openid_keys"
	OpWebhookKeys        = "webhook_jwks"
	OpCreateOrganization = "create_organization"
	OpPutPlans           = "put_plans"
)

// A BootOperation describes one operation of the boot endpoint. The endpoint trusts no caller for the connection
// that a call comes from: a call that needs authority proves it by its body or stamp.
type BootOperation struct {
	Name string
	// States are the states in which the operation is allowed, nil for all.
	States []State
	// Public means that hosts serve the operation to everybody, at POST /boot/v1/NAME. An operation that is
	// neither public nor has a Path is for hosts and operators, on separate connections: it moves ranges,
	// starts enclaves, and makes them sign and attest.
	Public bool
	// Path is the URL path at which hosts serve the operation to everybody by GET. {key} in it becomes the body.
	Path string
	// Looks means that the operation only reads: an idle enclave stays idle.
	Looks bool
	// Body and Reply describe the two bodies: JSON, or the Go type that is encoded as JSON. With an empty Body
	// the call's body is ignored. Does describes the operation in one line.
	Body, Reply, Does string
}

// In reports whether the operation is allowed in state s.
func (o *BootOperation) In(s State) bool { return o.States == nil || slices.Contains(o.States, s) }

var (
	inHello   = []State{StateHello}
	inSeed    = []State{StateSeed}
	inServing = []State{StateServing}
)

const (
	begun      = `{"manifestSha256","keys","bootNumber","deployment","nextQuorumPublicKey"}`
	orStanding = `that of manifest once nothing is missing, until then {"state","shares"}`
)

// BootOperations lists all operations of the boot endpoint, in the order of an enclave's life. The enclave
// dispatches by this table, hosts publish operations by it, and enclave/README.md prints it.
var BootOperations = []BootOperation{
	{Name: OpStatus, Public: true, Looks: true, Reply: `{"state","applicationDigest","counters",…}`,
		Does: "returns the state; in seed also the threshold and the operators whose shares have come, in serving the deployment, boot number, age of the attestation and whether it is a drill"},
	{Name: OpGenesis, States: inHello, Body: `{"ranges":n,"operators":{"threshold":m,"publicKeys":[…],"shareKeys":[…]},"keyService":{"ciphertextBlob","ciphertextForRecipient"}}`,
		Reply: `{"quorumPublicKey","deployment","shares"}`, Does: "creates a deployment and attests its share set; repeated, it returns the same reply"},
	{Name: OpShares, Body: `{"quorumPublicKey":hex}`, Reply: `{"quorumPublicKey","shares"}`, Does: "returns the newest share set of that secret from the store, with its attestation document"},
	{Name: OpManifest, States: inHello, Body: `{"manifest":b64,"approvals":[{"publicKey","signature"}],"predecessor":b64,"configuration":b64}`,
		Reply: begun + `, or {"manifestSha256","state","setupKey","shares"}`, Does: "sets the manifest to boot under; the enclave then serves, or waits for the root secret"},
	{Name: OpKeyServiceRequest, States: []State{StateHello, StateSeed}, Reply: "GenerateDataKey or Decrypt", Does: "returns the request to send to the key service, with this enclave as recipient"},
	{Name: OpSetupDocument, States: inSeed, Body: `{"nonce":hex of 32 bytes}`, Reply: "attestation.SetupAnswer",
		Does: "attests the setup key, to which shares are encrypted; a nonce can be used once, for ten minutes on the enclave's clock; at most 256 are open"},
	{Name: OpKeyService, States: inSeed, Body: "the key service's reply to Decrypt", Reply: orStanding, Does: "accepts the second factor"},
	{Name: OpShare, States: inSeed, Body: "attestation.ShareSubmission", Reply: orStanding, Does: "accepts a share, as `cloister-verify share` prints it"},
	{Name: OpTakeOver, States: inSeed, Body: "attestation.HandOver", Reply: begun, Does: "accepts the keyring from the predecessor"},
	{Name: OpHandOverNonce, States: inServing, Reply: `{"nonce"}`, Does: "draws the nonce for the next enclave's setup document"},
	{Name: OpHandOver, States: inServing, Body: `{"nonce","setup":attestation.SetupAnswer}`, Reply: "attestation.HandOver", Does: "gives the keyring to the next enclave"},
	{Name: OpFarewell, States: inServing, Reply: `{"state"}`, Does: "retires this enclave for good: its successor may then take any range"},
	{Name: OpRanges, States: inServing, Looks: true, Reply: "wire.SignedTable", Does: "returns the ranges that it owns"},
	{Name: OpLogs, States: inServing, Looks: true, Reply: `{"logs":[wire.LogStatus,…]}`, Does: "returns how far each range's log is, which witnesses are missing and what the enclave waits for"},
	{Name: OpTake, States: inServing, Body: `{"ranges":[n,…],"handed":bool}`, Reply: "wire.SignedTable", Does: "takes ranges"},
	{Name: OpGive, States: inServing, Body: `{"ranges":[n,…],"to":boot id}`, Reply: "wire.SignedTable", Does: "gives ranges away"},
	{Name: OpRetire, States: inServing, Reply: "wire.SignedTable", Does: "asks the hosts to move all ranges to other enclaves"},
	{Name: OpKeys, States: inServing, Public: true, Looks: true, Reply: "boot.PublicKeys", Does: "returns the public keys, without a proof"},
	{Name: OpDiscoveryKeys, States: inServing, Path: "/public/v1/discovery/keys", Looks: true, Reply: "attestation.KeysDocument", Does: "returns the public keys, signed by the live key"},
	{Name: OpDiscoveryBootProof, States: inServing, Public: true, Path: "/public/v1/discovery/boot_proof/{key}", Looks: true, Body: "the live key in hex",
		Reply: `{"bootProof":attestation.BootProof}`, Does: "returns the boot proof of a live key of the deployment"},
	{Name: OpIssuer, States: inServing, Path: "/.well-known/openid-configuration", Looks: true, Reply: "OpenID Connect Discovery", Does: "returns the issuer of identity tokens"},
	{Name: OpIssuerKeys, States: inServing, Path: "/.well-known/jwks.json", Looks: true, Reply: "JWK set", Does: "returns the keys of that issuer"},
	{Name: OpWebhookKeys, States: inServing, Path: "/public/v1/discovery/webhooks/jwks", Looks: true, Reply: "JWK set", Does: "returns the key that signs webhooks"},
	{Name: OpCreateOrganization, States: inServing, Public: true, Body: "stamped by the admission key", Reply: `{"organizationId","rootUserId","rootApiKeyId"}`,
		Does: "creates a top-level organization; a repeated body creates no second one"},
	{Name: OpPutPlans, States: inServing, Public: true, Body: "stamped by the admission key", Reply: `{"version","ranges":[n,…],"of":n}`,
		Does: "stores the plans of top-level organizations, in each range of this enclave"},
}

var bootOperations = func() map[string]*BootOperation {
	m := map[string]*BootOperation{}
	for i := range BootOperations {
		m[BootOperations[i].Name] = &BootOperations[i]
	}
	return m
}()

// BootOperationOf returns the operation with a name, or nil.
func BootOperationOf(name string) *BootOperation { return bootOperations[name] }
