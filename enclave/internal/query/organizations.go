package query

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

var organizations = []*Query{
	stateQuery("whoami", whoami),
	stateQuery("get_organization", getOrganization),
	stateQuery("get_organization_configs", getOrganizationConfigs),
	stateQuery("get_ip_allowlist", getAllowlist),
	stateQuery("list_webhook_endpoints", listWebhookEndpoints),
}

// organizationRequest requests an object of which an organization has only one.
type organizationRequest struct{ Head }

// allowlistRequest requests the IP allowlist of an API key, or of the organization.
type allowlistRequest struct {
	Head
	PublicKey *string `json:"publicKey"`
}

func whoami(v *View, _ *organizationRequest) ([]byte, error) {
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

func getOrganizationConfigs(v *View, _ *organizationRequest) ([]byte, error) {
	o, err := v.Organization()
	if err != nil {
		return nil, err
	}
	dst := appendFeatures(nil, `{"configs":{"features":`, o)
	return append(appendQuorum(dst, `,"quorum":`, o), `}}`...), nil
}

func appendFeatures(dst []byte, key string, o *org.Organization) []byte {
	return array(dst, key, slices.Sorted(maps.Keys(o.Features)), func(dst []byte, name string) []byte {
		dst = text(dst, `{"name":`, name)
		if value := o.Features[name]; value != "" {
			dst = text(dst, `,"value":`, value)
		}
		return append(dst, '}')
	})
}

func appendQuorum(dst []byte, key string, o *org.Organization) []byte {
	dst = strconv.AppendUint(append(append(dst, key...), `{"threshold":`...), uint64(o.Threshold), 10)
	return append(idents(dst, `,"userIds":`, o.RootUsers), '}')
}

// getOrganization answers the organization without its unbounded lists.
func getOrganization(v *View, _ *organizationRequest) ([]byte, error) {
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
	invitations, err := inOrder(v.EachInvitation, func(i *org.Invitation) created { return created{i.CreatedMs, i.ID} })
	if err != nil {
		return nil, err
	}
	tags, err := tagsInOrder(v)
	if err != nil {
		return nil, err
	}

	dst := ident(nil, `{"organizationData":{"organizationId":`, o.ID)
	dst = text(dst, `,"name":`, o.Name)
	dst = array(dst, `,"users":`, us, activity.AppendUser)
	dst = array(dst, `,"policies":`, ps, appendPolicy)
	dst = array(dst, `,"privateKeys":`, ks, appendPrivateKey)
	dst = array(dst, `,"invitations":`, invitations, activity.AppendInvitation)
	dst = array(dst, `,"tags":`, tags, activity.AppendTag)
	dst = appendQuorum(dst, `,"rootQuorum":`, o)
	dst = appendFeatures(dst, `,"features":`, o)
	dst = array(dst, `,"wallets":`, ws, appendWallet)
	dst = array(dst, `,"smartContractInterfaceReferences":`, is, func(dst []byte, i *org.Interface) []byte {
		dst = ident(dst, `{"smartContractInterfaceId":`, i.ID)
		return append(text(dst, `,"smartContractAddress":`, i.Address), '}')
	})
	return append(dst, `}}`...), nil
}

// getAllowlist answers an allowlist without rules where there is none.
func getAllowlist(v *View, in *allowlistRequest) ([]byte, error) {
	key := strings.ToLower(activity.TextOf(in.PublicKey))
	a, err := v.Allowlist(key)
	if err != nil {
		return nil, err
	}
	set := a != nil
	if !set {
		a = new(org.Allowlist)
	}
	dst := ident(nil, `{"allowlist":{"organizationId":`, v.ID)
	dst = array(dst, `,"rules":`, a.Rules, func(dst []byte, r org.AllowlistRule) []byte {
		dst = text(dst, `{"cidr":`, r.CIDR)
		if r.Label != "" {
			dst = text(dst, `,"label":`, r.Label)
		}
		return append(number(dst, `,"createdAt":`, r.CreatedMs), '}')
	})
	if key != "" {
		dst = text(dst, `,"publicKey":`, key)
	} else {
		dst = flag(dst, `,"enabled":`, a.Enabled)
	}
	if set {
		dst = text(dst, `,"onEvaluationError":`, a.OnError)
	}
	return append(dst, `}}`...), nil
}

func listWebhookEndpoints(v *View, _ *organizationRequest) ([]byte, error) {
	es, err := inOrder(v.EachWebhookEndpoint, func(e *org.WebhookEndpoint) created { return created{e.CreatedMs, e.ID} })
	return many(`{"webhookEndpoints":`, es, err, func(dst []byte, e *org.WebhookEndpoint) []byte {
		w := organization.WebhookEndpointOf(v.ID, e)
		return strictjson.Append(dst, &w)
	})
}
