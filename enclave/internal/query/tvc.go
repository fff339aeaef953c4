package query

import (
	"encoding/hex"
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
)

var tvcApps = []*Query{
	stateQuery("get_tvc_app", getTVCApp),
	stateQuery("list_tvc_apps", listTVCApps),
	stateQuery("list_tvc_operators", listTVCOperators),
	stateQuery("list_tvc_quorum_keys", listTVCQuorumKeys),
	stateQuery("get_tvc_quorum_key", getTVCQuorumKey),
}

type tvcAppRequest struct {
	Head
	TVCAppID string `json:"tvcAppId" rule:"required"`
}

func getTVCApp(v *View, in *tvcAppRequest) ([]byte, error) {
	a, err := findNamed("app", "tvcAppId", in.TVCAppID, v.TVCApp)
	if err != nil {
		return nil, err
	}
	dst, err := v.appendTVCApp([]byte(`{"tvcApp":`), a)
	return append(dst, '}'), err
}

func listTVCApps(v *View, _ *organizationRequest) ([]byte, error) {
	as, err := inOrder(v.EachTVCApp, func(a *org.TVCApp) created { return created{a.CreatedMs, a.ID} })
	return v.manyTVC(`{"tvcApps":[`, len(as), err, func(dst []byte, i int) ([]byte, error) { return v.appendTVCApp(dst, as[i]) })
}

// manyTVC writes a list of n records by write, which may read other records.
func (v *View) manyTVC(key string, n int, err error, write func(dst []byte, i int) ([]byte, error)) ([]byte, error) {
	dst := []byte(key)
	for i := 0; err == nil && i < n; i++ {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst, err = write(dst, i)
	}
	return append(dst, `]}`...), err
}

func (v *View) appendTVCApp(dst []byte, a *org.TVCApp) ([]byte, error) {
	dst = ident(dst, `{"id":`, a.ID)
	dst = ident(dst, `,"organizationId":`, v.ID)
	dst = text(dst, `,"name":`, a.Name)
	dst = text(dst, `,"quorumPublicKey":`, a.QuorumPublicKey)
	dst, err := v.appendTVCSets(dst, a)
	dst = flag(dst, `,"enableEgress":`, false)
	dst = flag(dst, `,"enableDebugModeDeployments":`, a.Debug)
	dst = appendTimes(dst, a.CreatedMs, a.UpdatedMs)
	if !a.Live.Zero() {
		dst = ident(dst, `,"liveDeploymentId":`, a.Live)
	}
	domain := ""
	if v.Programs != nil {
		domain = "app-" + a.ID.String() + "." + v.Programs.Domain
	}
	return append(text(dst, `,"publicDomain":`, domain), '}'), err
}

func (v *View) appendTVCSets(dst []byte, a *org.TVCApp) ([]byte, error) {
	dst, err := v.appendTVCSet(append(dst, `,"manifestSet":`...), a.ManifestSet)
	if err != nil {
		return nil, err
	}
	return v.appendTVCSet(append(dst, `,"shareSet":`...), a.ShareSet)
}

func (v *View) appendTVCSet(dst []byte, id org.ID) ([]byte, error) {
	s, err := v.TVCOperatorSet(id)
	if s, err = activity.OrNotFound(s, err, "operator set", id.String()); err != nil {
		return nil, err
	}
	dst = ident(dst, `{"id":`, s.ID)
	dst = text(dst, `,"name":`, s.Name)
	dst = ident(dst, `,"organizationId":`, v.ID)
	dst = append(dst, `,"operators":[`...)
	for i, id := range s.Operators {
		if i > 0 {
			dst = append(dst, ',')
		}
		if dst, err = v.appendTVCOperator(dst, id); err != nil {
			return nil, err
		}
	}
	dst = strconv.AppendUint(append(dst, `],"threshold":`...), uint64(s.Threshold), 10)
	return append(appendTimes(dst, s.CreatedMs, s.CreatedMs), '}'), nil
}

func (v *View) appendTVCOperator(dst []byte, id org.ID) ([]byte, error) {
	o, err := v.TVCOperator(id)
	if o, err = activity.OrNotFound(o, err, "operator", id.String()); err != nil {
		return nil, err
	}
	return appendTVCOperator(dst, o), nil
}

func appendTVCOperator(dst []byte, o *org.TVCOperator) []byte {
	encrypt, sign := o.Keys()
	source := "EXTERNAL_KEY"
	if !o.Wallet.Zero() {
		source = "ORG_WALLET_ACCOUNT"
	}
	dst = ident(dst, `{"id":`, o.ID)
	dst = text(dst, `,"name":`, o.Name)
	dst = text(dst, `,"publicKey":`, o.PublicKey)
	dst = text(dst, `,"encryptPublicKey":`, encrypt)
	dst = text(dst, `,"signPublicKey":`, sign)
	dst = text(dst, `,"keySource":`, source)
	return append(appendTimes(dst, o.CreatedMs, o.CreatedMs), '}')
}

func listTVCOperators(v *View, _ *organizationRequest) ([]byte, error) {
	os, err := newestFirst(v.EachTVCOperator, func(o *org.TVCOperator) created { return created{o.CreatedMs, o.ID} })
	return many(`{"tvcOperators":`, os, err, appendTVCOperator)
}

// listTVCQuorumKeys answers the keys with the operators that have shares of them, as far as the organization has their records.
func listTVCQuorumKeys(v *View, _ *organizationRequest) ([]byte, error) {
	ks, err := newestFirst(v.EachTVCQuorumKey, func(k *org.TVCQuorumKey) created { return created{k.CreatedMs, k.ID} })
	if err != nil {
		return nil, err
	}
	byKey := map[string]org.ID{}
	err = v.EachTVCOperator(func(o *org.TVCOperator) bool {
		encrypt, _ := o.Keys()
		byKey[encrypt] = o.ID
		return true
	})
	return many(`{"tvcQuorumKeys":`, ks, err, func(dst []byte, k *org.TVCQuorumKey) []byte {
		holders := make([]org.ID, 0, len(k.Shares))
		for _, s := range k.Shares {
			if id, ok := byKey[s.EncryptKey]; ok {
				holders = append(holders, id)
			}
		}
		dst = ident(dst, `{"id":`, k.ID)
		dst = text(dst, `,"publicKey":`, k.PublicKey)
		dst = strconv.AppendUint(append(dst, `,"threshold":`...), uint64(k.Threshold), 10)
		dst = idents(dst, `,"operatorIds":`, holders)
		return append(appendTimes(dst, k.CreatedMs, k.CreatedMs), '}')
	})
}

type tvcQuorumKeyRequest struct {
	Head
	QuorumKeyID string `json:"quorumKeyId" rule:"required"`
}

// getTVCQuorumKey answers the shares of a key that the enclave created, each in the format of its operator's tool.
func getTVCQuorumKey(v *View, in *tvcQuorumKeyRequest) ([]byte, error) {
	k, err := findNamed("quorum key", "quorumKeyId", in.QuorumKeyID, v.TVCQuorumKey)
	return one(`{"quorumKey":`, k, err, func(dst []byte, k *org.TVCQuorumKey) []byte {
		dst = ident(dst, `{"quorumKeyId":`, k.ID)
		dst = text(dst, `,"quorumPublicKey":`, k.PublicKey)
		dst = strconv.AppendUint(append(dst, `,"threshold":`...), uint64(k.Threshold), 10)
		dst = array(dst, `,"shares":`, k.Shares, func(dst []byte, s org.TVCShare) []byte {
			dst = ident(dst, `{"shareId":`, s.ID)
			dst = text(dst, `,"operatorEncryptKey":`, s.EncryptKey)
			return append(text(dst, `,"encryptedShareHex":`, hex.EncodeToString(s.Sealed)), '}')
		})
		return append(activity.AppendTime(append(dst, `,"createdAt":`...), k.CreatedMs), '}')
	})
}
