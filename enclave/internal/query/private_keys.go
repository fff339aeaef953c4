package query

import "cloister/enclave/internal/org"

var privateKeys = []*Query{
	stateQuery("get_private_key", getPrivateKey),
	stateQuery("list_private_keys", listPrivateKeys),
}

type privateKeyRequest struct {
	Head
	PrivateKeyID string `json:"privateKeyId" rule:"required"`
}

func getPrivateKey(v *View, in *privateKeyRequest) ([]byte, error) {
	k, err := findNamed("private key", "privateKeyId", in.PrivateKeyID, v.PrivateKey)
	return one(`{"privateKey":`, k, err, appendPrivateKey)
}

func listPrivateKeys(v *View, _ *organizationRequest) ([]byte, error) {
	ks, err := privateKeysInOrder(v)
	return many(`{"privateKeys":`, ks, err, appendPrivateKey)
}

func privateKeysInOrder(v *View) ([]*org.PrivateKey, error) {
	return inOrder(v.EachPrivateKey, func(k *org.PrivateKey) created { return created{k.CreatedMs, k.ID} })
}

func appendPrivateKey(dst []byte, k *org.PrivateKey) []byte {
	dst = ident(dst, `{"privateKeyId":`, k.ID)
	dst = text(dst, `,"publicKey":`, k.PublicKey)
	dst = text(dst, `,"privateKeyName":`, k.Name)
	dst = text(dst, `,"curve":`, k.Curve)
	dst = array(dst, `,"addresses":`, k.Addresses, func(dst []byte, a org.Address) []byte {
		dst = text(dst, `{"format":`, a.Format)
		return append(text(dst, `,"address":`, a.Address), '}')
	})
	dst = idents(dst, `,"privateKeyTags":`, k.Tags)
	dst = appendTimes(dst, k.CreatedMs, k.UpdatedMs)
	dst = flag(dst, `,"exported":`, k.Exported)
	return append(flag(dst, `,"imported":`, k.Imported), '}')
}
