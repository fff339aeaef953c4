package query

import (
	"slices"

	"cloister/enclave/internal/org"
)

var privateKeys = []*Query{
	stateQuery("get_private_key", getPrivateKey),
	stateQuery("list_private_keys", listPrivateKeys),
}

// PrivateKeyRequest names a private key.
type PrivateKeyRequest struct {
	Head
	PrivateKeyID string `json:"privateKeyId" rule:"required"`
}

func getPrivateKey(v *View, in *PrivateKeyRequest) ([]byte, error) {
	k, err := findNamed("private key", "privateKeyId", in.PrivateKeyID, v.PrivateKey)
	if err != nil {
		return nil, err
	}
	return append(appendPrivateKey([]byte(`{"privateKey":`), k), '}'), nil
}

func listPrivateKeys(v *View, _ *OrganizationRequest) ([]byte, error) {
	ks, err := privateKeysInOrder(v)
	if err != nil {
		return nil, err
	}
	return append(array(nil, `{"privateKeys":`, ks, appendPrivateKey), '}'), nil
}

// privateKeysInOrder are all private keys, in order of creation.
func privateKeysInOrder(v *View) ([]*org.PrivateKey, error) {
	var ks []*org.PrivateKey
	err := v.EachPrivateKey(func(k *org.PrivateKey) bool {
		ks = append(ks, k)
		return true
	})
	slices.SortFunc(ks, func(a, b *org.PrivateKey) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	return ks, err
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
	dst = array(dst, `,"privateKeyTags":`, k.Tags, func(dst []byte, id org.ID) []byte { return ident(dst, "", id) })
	dst = times(dst, k.CreatedMs, k.UpdatedMs)
	dst = flag(dst, `,"exported":`, k.Exported)
	return append(flag(dst, `,"imported":`, k.Imported), '}')
}
