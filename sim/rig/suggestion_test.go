package rig_test

import (
	"strings"
	"testing"

	"cloister/sim/client"
	"cloister/sim/rig"
)

// Who was refused learns what would allow just that: the suggestion of evaluate_policies, saved as a policy, allows the same
// transaction and one like it, and none to another recipient, for more, or by another user.
func TestSuggestedPolicyAllowsJustThis(t *testing.T) {
	root := rig.Start(t, rig.Options{}).Root()
	agent, other := root.NewUser("Agent"), root.NewUser("Other")
	address := root.Do("CREATE_WALLET", client.Wallet("Treasury", client.Ethereum))["addresses"].([]any)[0]
	sign := func(by *client.User, unsigned string) client.Reply {
		return by.Submit("SIGN_TRANSACTION_V2", client.Object{"signWith": address, "unsignedTransaction": unsigned, "type": "TRANSACTION_TYPE_ETHEREUM"})
	}
	change := func(from, to string) string {
		t.Helper()
		if strings.Count(unlimited, from) != 1 {
			t.Fatal(from)
		}
		return strings.Replace(unlimited, from, to, 1)
	}
	if got := sign(agent, unlimited); got.Status != 403 {
		t.Fatal(got)
	}
	list := root.Query("list_activities", client.Object{"filterByType": []any{"ACTIVITY_TYPE_SIGN_TRANSACTION_V2"}})
	asked := client.Object{"activityId": list.Text("activities", "0", "id"), "includeSuggestion": true}
	for _, by := range []*client.User{root, agent, other} { // about the agent, whoever asks
		got := by.Query("evaluate_policies", asked)
		if got.Status != 200 || got.Text("initiatorId") != agent.User || got.Text("basis") != "BASIS_NO_POLICY" {
			t.Fatal(got)
		}
	}
	s := root.Query("evaluate_policies", asked).Get("suggestion").(map[string]any)
	policy := client.Object{"policyName": "just this", "notes": ""}
	for name, v := range s {
		policy[name] = v
	}
	root.Do("CREATE_POLICY_V3", policy)
	for name, c := range map[string]struct {
		by       *client.User
		unsigned string
		want     int
	}{
		"the same":          {agent, unlimited, 200},
		"its next":          {agent, change("0107843b", "0108843b"), 200},
		"for a lower fee":   {agent, change("8506fc23ac00", "8506fc23abff"), 200},
		"for a higher fee":  {agent, change("8506fc23ac00", "8506fc23ac01"), 403},
		"more gas":          {agent, change("830186a0", "830186a1"), 403},
		"another spender":   {agent, change("35cdf80606c5", "35cdf80606c6"), 403},
		"another amount":    {agent, change("ffffffffffffc0", "fffffffffffec0"), 403},
		"another token":     {agent, change("a0b86991c6218b36c1d19d4a2e9eb0ce3606eb48", "dac17f958d2ee523a2206206994597c13d831ec7"), 403},
		"another chain":     {agent, change("02f86e0107", "02f86e0a07"), 403},
		"some ether too":    {agent, change("eb4880b844", "eb4801b844"), 403},
		"by another":        {other, unlimited, 403},
		"in another's name": {other, change("0107843b", "0109843b"), 403},
	} {
		if got := sign(c.by, c.unsigned); got.Status != c.want {
			t.Errorf("%s: %v, want %d", name, got, c.want)
		}
	}
	if got := agent.Submit("EXPORT_WALLET_ACCOUNT", client.Object{"address": address, "targetPublicKey": "04" + strings.Repeat("11", 64)}); got.Status == 200 {
		t.Errorf("exported: %v", got)
	}
	if got := agent.Submit("SIGN_RAW_PAYLOAD_V2", client.Object{"signWith": address, "payload": unlimited, "encoding": "PAYLOAD_ENCODING_HEXADECIMAL", "hashFunction": "HASH_FUNCTION_KECCAK256"}); got.Status != 403 {
		t.Errorf("signed as a raw payload: %v", got)
	}
}
