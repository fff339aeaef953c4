package query

import (
	"slices"

	"cloister/enclave/internal/activity/organization"
	"cloister/enclave/internal/org"
	"cloister/enclave/internal/strictjson"
)

var webhooks = []*Query{
	stateQuery("list_webhook_endpoints", listWebhookEndpoints),
}

func listWebhookEndpoints(v *View, _ *OrganizationRequest) ([]byte, error) {
	var es []*org.WebhookEndpoint
	err := v.EachWebhookEndpoint(func(e *org.WebhookEndpoint) bool {
		es = append(es, e)
		return true
	})
	if err != nil {
		return nil, err
	}
	slices.SortFunc(es, func(a, b *org.WebhookEndpoint) int { return compareCreated(a.CreatedMs, a.ID, b.CreatedMs, b.ID) })
	dst := array(nil, `{"webhookEndpoints":`, es, func(dst []byte, e *org.WebhookEndpoint) []byte {
		w := organization.WebhookEndpointOf(v.ID, e)
		return strictjson.Append(dst, &w)
	})
	return append(dst, '}'), nil
}
