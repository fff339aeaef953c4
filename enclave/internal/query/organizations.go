package query

import (
	"maps"
	"slices"
	"strconv"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/org"
)

var organizations = []*Query{
	stateQuery("whoami", whoami),
	stateQuery("get_organization", getOrganization),
	stateQuery("get_organization_configs", getOrganizationConfigs),
}

// OrganizationRequest asks for something that there is one of.
type OrganizationRequest struct{ Head }

func whoami(v *View, _ *OrganizationRequest) ([]byte, error) {
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	if v.Home != nil {
		o = v.Home
	}
	dst := ident(nil, `{"organizationId":`, o.ID)
	dst = text(dst, `,"organizationName":`, o.Name)
	dst = ident(dst, `,"userId":`, v.Caller.ID)
	dst = text(dst, `,"username":`, v.Caller.Name)
	return append(dst, '}'), nil
}

func getOrganizationConfigs(v *View, _ *OrganizationRequest) ([]byte, error) {
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	dst := appendFeatures([]byte(`{"configs":{"features":`), o)
	return append(appendQuorum(append(dst, `,"quorum":`...), o), `}}`...), nil
}

func appendFeatures(dst []byte, o *org.Organization) []byte {
	return array(dst, "", slices.Sorted(maps.Keys(o.Features)), func(dst []byte, name string) []byte {
		dst = text(dst, `{"name":`, name)
		if value := o.Features[name]; value != "" {
			dst = text(dst, `,"value":`, value)
		}
		return append(dst, '}')
	})
}

func appendQuorum(dst []byte, o *org.Organization) []byte {
	dst = strconv.AppendUint(append(dst, `{"threshold":`...), uint64(o.Threshold), 10)
	dst = array(dst, `,"userIds":`, o.RootUsers, func(dst []byte, id org.ID) []byte { return ident(dst, "", id) })
	return append(dst, '}')
}

// getOrganization answers everything but what there may be any number of.
func getOrganization(v *View, _ *OrganizationRequest) ([]byte, error) {
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	us, err := usersInOrder(v)
	if err != nil {
		return nil, err
	}
	ps, err := policiesInOrder(v)
	if err != nil {
		return nil, err
	}
	ks, err := privateKeysInOrder(v)
	if err != nil {
		return nil, err
	}
	ws, err := walletsInOrder(v)
	if err != nil {
		return nil, err
	}
	is, err := interfacesInOrder(v)
	if err != nil {
		return nil, err
	}
	var invitations []*org.Invitation
	if err := v.EachInvitation(func(i *org.Invitation) bool { invitations = append(invitations, i); return true }); err != nil {
		return nil, err
	}
	slices.SortFunc(invitations, func(a, b *org.Invitation) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	var tags []*org.Tag
	if err := v.EachTag(func(t *org.Tag) bool { tags = append(tags, t); return true }); err != nil {
		return nil, err
	}
	slices.SortFunc(tags, func(a, b *org.Tag) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })

	dst := ident(nil, `{"organizationData":{"organizationId":`, o.ID)
	dst = text(dst, `,"name":`, o.Name)
	dst = array(dst, `,"users":`, us, activity.AppendUser)
	dst = array(dst, `,"policies":`, ps, appendPolicy)
	dst = array(dst, `,"privateKeys":`, ks, appendPrivateKey)
	dst = array(dst, `,"invitations":`, invitations, activity.AppendInvitation)
	dst = array(dst, `,"tags":`, tags, activity.AppendTag)
	dst = appendQuorum(append(dst, `,"rootQuorum":`...), o)
	dst = appendFeatures(append(dst, `,"features":`...), o)
	dst = array(dst, `,"wallets":`, ws, appendWallet)
	dst = array(dst, `,"smartContractInterfaceReferences":`, is, func(dst []byte, i *org.Interface) []byte {
		dst = ident(dst, `{"smartContractInterfaceId":`, i.ID)
		return append(text(dst, `,"smartContractAddress":`, i.Address), '}')
	})
	return append(dst, `}}`...), nil
}
