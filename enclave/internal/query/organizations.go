package query

import (
	"maps"
	"slices"
	"strconv"

	"cloister/enclave/internal/org"
)

var organizations = []*Query{
	query("whoami", whoami),
	query("get_organization_configs", getOrganizationConfigs),
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
	names := slices.Sorted(maps.Keys(o.Features))
	dst := array(nil, `{"configs":{"features":`, names, func(dst []byte, name string) []byte {
		dst = text(dst, `{"name":`, name)
		if value := o.Features[name]; value != "" {
			dst = text(dst, `,"value":`, value)
		}
		return append(dst, '}')
	})
	dst = strconv.AppendUint(append(dst, `,"quorum":{"threshold":`...), uint64(o.Threshold), 10)
	dst = array(dst, `,"userIds":`, o.RootUsers, func(dst []byte, id org.ID) []byte { return ident(dst, "", id) })
	return append(dst, `}}}`...), nil
}
