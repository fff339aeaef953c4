package query

import (
	"slices"

	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

var webhooks = []*Query{
	query("list_webhook_endpoints", listWebhookEndpoints),
}

func listWebhookEndpoints(v *View, _ *OrganizationRequest) ([]byte, error) {
	var es []*org.Endpoint
	err := v.EachEndpoint(func(e *org.Endpoint) bool {
		es = append(es, e)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(es, func(a, b *org.Endpoint) int { return older(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	dst := array(nil, `{"webhookEndpoints":`, es, func(dst []byte, e *org.Endpoint) []byte {
		w := organization.WebhookEndpointOf(v.ID, e)
		return strictjson.Append(dst, &w)
	})
	return append(dst, '}'), nil
}
