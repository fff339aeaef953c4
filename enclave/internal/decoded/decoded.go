// Package decoded shows approvers what a signature would be of, from the very bytes that would be signed: a transaction of
// any chain, typed data, an authorization, a message, or bytes that nobody can read, which it says.
//
// It depends on the bytes and on show.Known alone, so that the enclave, a command and a browser come to one document.
package decoded

import (
	"encoding/hex"
	"slices"
	"unicode/utf8"

	"cloister/enclave/internal/chain"
	"cloister/enclave/internal/chain/btc"
	"cloister/enclave/internal/chain/eth"
	"cloister/enclave/internal/chain/show"
	"cloister/enclave/internal/chain/sol"
	"cloister/enclave/internal/chain/tempo"
	"cloister/enclave/internal/chain/tron"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/keys"
)

// readers are the chains by the interface's names of their transactions, and how those are encoded.
var readers = map[string]struct {
	chain    chain.Reader
	encoding string
}{
	"TRANSACTION_TYPE_ETHEREUM": {eth.Chain{}, "RLP"},
	"TRANSACTION_TYPE_SOLANA":   {sol.Chain{}, "SOLANA_WIRE"},
	"TRANSACTION_TYPE_TRON":     {tron.Chain{}, "PROTOBUF"},
	"TRANSACTION_TYPE_BITCOIN":  {btc.Chain{}, "PSBT"},
	"TRANSACTION_TYPE_TEMPO":    {tempo.Chain{}, "RLP"},
}

// schemes are what signatures are called beside digests.
var schemes = map[chain.Scheme]string{chain.ECDSA: "ECDSA", chain.EdDSA: "EDDSA_ED25519", chain.Taproot: "BIP340_TAPROOT", chain.Schnorr: "BIP340"}

// Transaction shows an unsigned transaction of a type of the interface in a part of its own, and answers its kind. The
// errors are those of chain.Reader, and of the view's interfaces.
func Transaction(v *show.View, typ string, unsigned []byte) (kind string, err error) {
	r := readers[typ]
	if r.chain == nil {
		return "", chain.Unsupported("of type %s", typ)
	}
	tx, err := r.chain.Read(unsigned, v.Signer())
	if err != nil {
		return "", err
	}
	return transaction(v, v.Part(), tx, r.encoding, unsigned)
}

func transaction(v *show.View, o *show.Object, tx chain.Transaction, encoding string, unsigned []byte) (kind string, err error) {
	o.Input(encoding, unsigned)
	list := o.List("signs")
	for _, d := range tx.Digests() {
		signs(v, list.Object(), d)
	}
	shown := tx.(show.Transaction) // as those of all readers
	return shown.Kind(), shown.Show(v, o)
}

// signs tells what is signed: 32 bytes, or of a whole message the SHA-256, as app proofs have it.
func signs(v *show.View, o *show.Object, d chain.Digest) {
	by := v.Signer()
	scheme := schemes[d.Scheme]
	if d.Scheme == chain.ECDSA {
		scheme += "_SECP256K1"
		if by.Public.Curve() == chain.P256 {
			scheme = "ECDSA_P256"
		}
	}
	digest := d.Message
	if d.Scheme == chain.EdDSA {
		digest = show.Sum(digest)
	}
	o.Plain("scheme", scheme)
	o.Plain("digest", hex.EncodeToString(digest))
	if by.Address != "" {
		o.Plain("by", by.Address)
	} else {
		o.Plain("by", hex.EncodeToString(by.Public.Compressed()))
	}
}

// The encodings of payloads.
const (
	encodingTyped         = "PAYLOAD_ENCODING_EIP712"
	encodingAuthorization = "PAYLOAD_ENCODING_EIP7702_AUTHORIZATION"
)

// kindAuthorization is the kind of documents about an authorization.
const kindAuthorization = "EIP7702_AUTHORIZATION"

// Payload shows a raw payload of an encoding and a hash function of the interface, and answers its kind. The errors are
// *fault.Error, as for a request to sign it.
func Payload(v *show.View, encoding, hash, payload string) (kind string, err error) {
	by := v.Signer()
	scheme := chain.SchemeOf(by.Format, by.Public.Curve())
	switch encoding {
	case encodingTyped:
		t, err := eth.ReadTypedMessage([]byte(payload))
		if err != nil {
			return "", err
		}
		o := begin(v, "JSON", []byte(payload), chain.Digest{Scheme: scheme, Message: bytesOf(t.Digest())})
		return "EIP712", t.Show(v, o)
	case encodingAuthorization:
		a, err := eth.ParseAuthorization([]byte(payload))
		if err != nil {
			return "", err
		}
		o := begin(v, "JSON", []byte(payload), chain.Digest{Scheme: scheme, Message: bytesOf(a.Digest())})
		a.Show(v, o, by.Public)
		return kindAuthorization, nil
	}
	b, err := keys.DecodePayload(encoding, payload)
	if err != nil {
		return "", err
	}
	h, err := keys.ParseHashFunction(hash)
	if err != nil {
		return "", err
	}
	digest, err := keys.Digest(by.Public.Curve(), h, b)
	if err != nil {
		return "", err
	}
	o := begin(v, "BYTES", b, chain.Digest{Scheme: scheme, Message: digest})
	return raw(v, o, h, b)
}

func bytesOf(d [32]byte) []byte { return d[:] }

func begin(v *show.View, encoding string, input []byte, d chain.Digest) *show.Object {
	o := v.Part()
	o.Input(encoding, input)
	signs(v, o.List("signs").Object(), d)
	return o
}

// digestSize is the size of what is taken for a hash: nobody can tell of what.
const digestSize = 32

// raw shows bytes, under the hash function that they are signed with: a message of Ethereum, a transaction in disguise, a
// hash, a text, or none of these.
func raw(v *show.View, o *show.Object, h keys.HashFunction, b []byte) (kind string, err error) {
	by := v.Signer()
	if message, ok := eth.MessageOf(b); ok && h == keys.HashKeccak256 {
		eth.ShowMessage(v, o, message, by.Public)
		return "ETHEREUM_MESSAGE", nil
	}
	const kindRaw = "RAW_PAYLOAD"
	if a, ok := authorizationOf(h, b); ok && by.Public.Curve() == chain.Secp256k1 {
		o.Warn(show.MessageIsTransaction)
		o.Plain("is", kindAuthorization)
		v.Title("Sign an authorization as bytes")
		of := o.Object("of")
		of.Input("RLP", b)
		a.Show(v, of, by.Public)
		return kindRaw, nil
	}
	if tx, encoding := asTransaction(h, b, by); tx != nil {
		o.Warn(show.MessageIsTransaction)
		o.Plain("is", tx.Kind())
		v.Title("Sign a transaction as bytes")
		of := o.Object("of")
		of.Input(encoding, b)
		return kindRaw, tx.Show(v, of)
	}
	v.Title("Sign bytes")
	switch {
	case isDigest(h, b):
		o.Unreadable(show.Digest, b)
	case utf8.Valid(b) && len(b) > 0:
		o.Lines("lines", string(b))
	default:
		o.Unreadable(show.DoesNotDecode, b)
		o.Warn(show.BlindSignature)
		v.Blind()
	}
	return kindRaw, nil
}

// authorizationOf reads bytes as what an authorization is hashed from.
func authorizationOf(h keys.HashFunction, b []byte) (*eth.Authorization, bool) {
	if h != keys.HashKeccak256 {
		return nil, false
	}
	return eth.AuthorizationOf(b)
}

// asTransaction reads bytes as a transaction whose signature theirs would be.
func asTransaction(h keys.HashFunction, b []byte, by chain.SigningKey) (show.Transaction, string) {
	signer := chain.SigningKey{Public: by.Public} // whatever address was named: the signature is the key's
	for _, c := range candidates(h, b) {
		if c.chain == nil {
			if tx, err := sol.ReadMessage(b, by.Public); err == nil {
				return tx.(show.Transaction), c.encoding
			}
			continue
		}
		tx, err := c.chain.Read(b, signer)
		if err == nil {
			return tx.(show.Transaction), c.encoding
		}
		if c.unread != nil && by.Public.Curve() == chain.Secp256k1 {
			if tx, ok := c.unread(b, err); ok {
				return tx, c.encoding
			}
		}
	}
	return nil, ""
}

// An unread is a transaction that its chain takes and that is not read: of a kind that is not known here, or in another form.
type unread struct {
	kind, contract string // contract is empty where there is none
	content        []byte
}

func (t unread) Kind() string { return t.kind }

func (t unread) Show(_ *show.View, o *show.Object) error {
	if t.contract != "" {
		o.Text("contract", t.contract)
	}
	o.Unreadable(show.UnknownInstruction, t.content)
	return nil
}

func unreadTron(b []byte, _ error) (unread, bool) {
	contract, parameter, ok := tron.ContractOf(b)
	return unread{"TRON_TRANSACTION", contract, parameter}, ok
}

func unreadTempo(b []byte, err error) (unread, bool) {
	f := fault.Of(err)
	return unread{"TEMPO_TRANSACTION", "", b}, f != nil && f.Name == chain.UnsupportedName
}

// A candidate is a chain that bytes may be a transaction of, nil for Solana, of which the message alone is signed. unread tells a
// transaction that Read refuses with an error; nil for none.
type candidate struct {
	chain    chain.Reader
	encoding string
	unread   func(b []byte, err error) (unread, bool)
}

// candidates are told by the hash function and the first bytes, so that nothing is read of what cannot be one.
func candidates(h keys.HashFunction, b []byte) []candidate {
	switch {
	case len(b) < 32:
	case h == keys.HashKeccak256 && (b[0] >= 0xc0 || b[0] >= 1 && b[0] <= 4):
		return []candidate{{eth.Chain{}, "RLP", nil}}
	case h == keys.HashKeccak256 && b[0] == 0x76:
		return []candidate{{tempo.Chain{}, "RLP", unreadTempo}}
	case h == keys.HashSHA256 && b[0] == 0x0a:
		return []candidate{{tron.Chain{}, "PROTOBUF", unreadTron}}
	case h == keys.HashNotApplicable && (b[0] == 0x80 || b[0] >= 1 && b[0] <= 19): // as many signatures fit
		return []candidate{{nil, "SOLANA_MESSAGE", nil}}
	}
	return nil
}

// The kinds of what is signed as bytes, as policies read them: from what tells a reader most to what tells him least, and last
// what goes past the policies about transactions.
const (
	KindDocument    = "DOCUMENT"    // typed data or an authorization
	KindMessage     = "MESSAGE"     // of Ethereum, with the prefix of EIP-191
	KindText        = "TEXT"        // any other text
	KindBytes       = "BYTES"       // nothing that is known
	KindDigest      = "DIGEST"      // 32 bytes, or what is hashed of typed data: nobody can tell of what
	KindTransaction = "TRANSACTION" // a transaction of a chain whose transactions are read, or the bytes of an authorization
)

var kindOrder = []string{KindDocument, KindMessage, KindText, KindBytes, KindDigest, KindTransaction}

// Worse is the kind of two that tells less, or is more dangerous.
func Worse(a, b string) string {
	if slices.Index(kindOrder, a) > slices.Index(kindOrder, b) {
		return a
	}
	return b
}

// KindOf tells what bytes are that are signed under a hash function, whoever signs them.
func KindOf(h keys.HashFunction, b []byte) string {
	if _, ok := eth.MessageOf(b); ok && h == keys.HashKeccak256 {
		return KindMessage
	}
	_, authorizes := authorizationOf(h, b)
	tx, _ := asTransaction(h, b, chain.SigningKey{Public: anybody})
	isSolana := func(c candidate) bool { return c.chain == nil && sol.IsMessage(b) }
	if authorizes || tx != nil || slices.ContainsFunc(candidates(h, b), isSolana) {
		return KindTransaction
	}
	switch {
	case isDigest(h, b):
		return KindDigest
	case utf8.Valid(b):
		return KindText
	}
	return KindBytes
}

// anybody is a key with which transactions are read whoever signs them: the generator.
var anybody = func() chain.PublicKey {
	g, err := hex.DecodeString("0279be667ef9dcbbac55a06295ce870b07029bfcdb2dce28d959f2815b16f81798")
	if err != nil {
		panic(err)
	}
	p, err := chain.NewPublicKey(chain.Secp256k1, g)
	if err != nil {
		panic(err)
	}
	return p
}()

// isDigest tells a hash, and what typed data are hashed from.
func isDigest(h keys.HashFunction, b []byte) bool {
	return len(b) == digestSize || h == keys.HashKeccak256 && eth.IsDigest(b)
}
