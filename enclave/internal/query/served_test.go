package query_test

import (
	"bytes"
	"flag"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"cloister/enclave/internal/activity"
	"cloister/enclave/internal/activity/kinds"
	"cloister/enclave/internal/fault"
	"cloister/enclave/internal/query"
)

var update = flag.Bool("update", false, "write enclave/INTERFACE.md anew")

const served = "../../INTERFACE.md"

// The table in enclave/INTERFACE.md is what the code answers to every operation of the description. What it calls served
// stays so: once all of the specification's list is, nothing of it can be taken back.
func TestServed(t *testing.T) {
	var types, queries, own bytes.Buffer
	var all, live, asked, askedLive, allQueries, liveQueries int
	for _, o := range api.Operations {
		answer := "served"
		row := func(err error) bool {
			if code(err) == fault.Unimplemented {
				answer = "`" + err.Error() + "`"
			} else if err != nil {
				t.Errorf("%s %s: %v", o.Name, o.Type, err)
			}
			return err == nil
		}
		mark := map[bool]string{true: "yes"}[o.Asked]
		switch o.Kind {
		case "submit":
			_, err := kinds.Live.Lookup(o.Name, o.Type)
			all++
			if row(err) {
				live++
			}
			if o.Asked {
				asked++
				if err == nil {
					askedLive++
				}
			}
			fmt.Fprintf(&types, "| %s | %s | %s | %s |\n", strings.TrimPrefix(o.Type, "ACTIVITY_TYPE_"), o.Name, mark, answer)
		case "query":
			_, err := query.Lookup(o.Name)
			allQueries++
			if row(err) {
				liveQueries++
			}
			fmt.Fprintf(&queries, "| %s | %s | %s |\n", o.Name, mark, answer)
		}
	}
	if all != 169 || allQueries != 74 || asked != 118 {
		t.Errorf("the description has %d types, %d of them asked for, and %d queries", all, asked, allQueries)
	}
	for _, typ := range slices.Sorted(maps.Keys(kinds.Live)) {
		if _, published := api.Activities[typ]; !published {
			fmt.Fprintf(&own, "- `/public/v1/submit/%s`, %s\n", kinds.Live[typ].Kind.Op, typ)
		}
	}
	for _, op := range slices.Sorted(maps.Keys(query.Live())) {
		if slices.Contains(query.Own, op) {
			fmt.Fprintf(&own, "- `/public/v1/query/%s`\n", op)
		}
	}
	text := fmt.Sprintf(`# Served activities and queries

Made from the code by `+"`go test ./enclave/internal/query -run TestServed -update`"+`, and held against the description of the published
interface of 2026-09-22 by the same test. Served: **%d of %d activity types** (of the %d that the project's specification lists, %d) and
**%d of %d queries**. The other operations answer 501, code 12, with the sentence in their row, once the stamp
is verified. Paths below `+"`/tkhq/api/v1`"+` are internal to the hosted service and answer 501 to everybody.

Types are written without ACTIVITY_TYPE_; the path is `+"`/public/v1/submit/`"+` followed by the operation.

| type | operation | specification | |
|---|---|---|---|
%s
| query | specification | |
|---|---|---|
%s
## Cloister's own operations

%s
`+"`evaluate_policies`"+` says how an activity would be decided if it were submitted now; nothing is done. It takes

- `+"`activity` (`type`, `parameters`), or `activityId`"+` of an activity that was submitted before;
- `+"`userId`"+`: who submits it, with all his credentials and without his MFA policies. Otherwise the caller does, with the credential that he
  uses and his MFA policies, or who submitted the activity before;
- `+"`policy` (`effect`, `policyName`, `consensus`, `condition`, `time`, `policyId`)"+`: a policy that is not saved. It is evaluated beside the others, or in
  the place of the one that `+"`policyId`"+` names;
- `+"`includeSuggestion`"+`: whether to write the narrowest policy that allows this request to this user.

The answer has `+"`outcome` and `status`, `basis`"+` (the rule that decided, such as BASIS_ROOT_QUORUM or BASIS_NO_POLICY), `+"`initiatorId`,\n`policyEvaluations`"+` as in get_policy_evaluations, of what was not allowed those first that deny or came nearest to allowing, where a new draft has
the id of zeros, and `+"`suggestion` (`effect`, `consensus`, `condition`)"+` where
policies can tell the request from more dangerous ones and the organization would allow it with that policy.

`+"`get_activity_counts`"+` says how many activities there are by the time of their last change, for charts. It takes `+"`timesMs`"+`, 2 to 64 ascending times
in milliseconds as decimal strings. Its answer has

- `+"`periods` (`fromMs`, `untilMs`, `counts`)"+`, one between each two neighbouring times, with its beginning and without its end: the activities whose
  last change lies in it, as `+"`activityType`, `activityStatus`, `count`"+`. The host counts them by what it keeps beside the sealed entries, and nothing
  proves its numbers;
- `+"`response` (`fromMs`, `count`, `medianMs`, `p95Ms`)"+`: for each hour of the last 24 that had requests for activities, how long the enclave took over
  them since it started, of the organization and its sub-organizations together. Times are rounded up by at most 19 percent. A
  sub-organization is told none.

`+"`list_webhook_deliveries` lists what was sent to a webhook endpoint. It takes `endpointId`, `failedOnly` (those that were not\ndelivered) and `paginationOptions` (`limit`, at most 50, and `after`, which is the last answer's `next`"+`). What is due last or ended last
comes first. Each of `+"`deliveries` has `deliveryId`, `eventId`, `eventType`, `organizationId`, `activityId`, `activityType`, `activityStatus`,\n`status`"+` (DELIVERY_STATUS_WAITING, DELIVERED, FAILED or EXPIRED), `+"`attempts`, `lastError`, `createdAt`, `nextAttemptAt` or `endedAt`, and\n`resendOf`"+` where an earlier delivery was sent again. The enclave reads the event from the entry that holds it; status, attempts, error and
times are what the host says, and nothing proves them. The host can also leave deliveries out.

`+"`resend_webhook_deliveries` takes `endpointId` and 1 to 40 `deliveryIds`"+` and sends their events again, each with its own event id, signed anew. It
wants an active endpoint, and works for 30 days after an event. Its policy resource is WEBHOOK_ENDPOINT, its action UPDATE. The result
has the new `+"`deliveryIds`"+`.

## Cloister's own members of queries

All are optional. Clients that do not know them leave them out.

- `+"`list_suborgs` and `list_verified_suborgs`: with `includeDetails` true, the answer also has `organizations` (`organizationId`,\n  `organizationName`, `createdAt`, of this page) and `total`, how many sub-organizations there are, whatever the filter"+`.
- `+"`list_wallet_accounts`: `address` selects the account that has it, of any wallet or of `walletId`"+`.
- `+"`list_activities`: `untilMs` leaves out activities that changed after this time in milliseconds"+`.
- `+"`get_wallet`, `list_wallets` and `walletDetails`: `keysExported` is true of a wallet of which an account's key was exported"+`.
- `+"`get_smart_contract_interface` and `list_smart_contract_interfaces`: `createdBy` is the user who asked for the interface. Those that an earlier\n  release stored have none"+`.
- `+"`list_activities`: with `includeDecoded` true, each activity that waits, and each that signs or sends something,\n  has `decodedSummary` (`title`, `severity`, `readable`, as in `decoded`), unless its body is longer than 8 KiB"+`.
- `+"`get_activity`: with `includeDecoded` true, an activity that is over has `decoded` and `decodedDigest` too, if it signs or sends\n  something: see [What approvers are shown](APPROVALS.md#what-was-approved-or-refused)"+`.
`, live, all, asked, askedLive, liveQueries, allQueries, types.String(), queries.String(), own.String())
	kept, err := os.ReadFile(served)
	for line := range strings.Lines(string(kept)) {
		if strings.HasSuffix(line, "| served |\n") && !strings.Contains(text, line) {
			t.Fatalf("no longer so: %s", line)
		}
	}
	if *update {
		kept, err = []byte(text), nil
		if err := os.WriteFile(served, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err != nil || string(kept) != text {
		t.Errorf("%v: enclave/INTERFACE.md is not what the code answers: go test ./enclave/internal/query -run TestServed -update", err)
	}
}

// Who asks for what will never be served is told what to do.
func TestNotLiveTellsWhatToDo(t *testing.T) {
	n := 0
	for _, o := range api.Operations {
		name := o.Name
		if !strings.Contains(name, "swap") && !strings.Contains(name, "earn") || o.Kind != "submit" && o.Kind != "query" {
			continue
		}
		n++
		err := activity.NotLive(name)
		if err.Code != fault.Unimplemented || !strings.HasPrefix(err.Message, "UNIMPLEMENTED: "+name+": ") || !strings.Contains(err.Message, "eth_send_transaction") && !strings.Contains(err.Message, "get_send_transaction_status") {
			t.Errorf("%s: %s", name, err.Message)
		}
	}
	if n != 23 {
		t.Errorf("%d operations of swaps and earning", n)
	}
	if got := activity.NotLive("validate_tvc_image").Message; got != "UNIMPLEMENTED: validate_tvc_image" {
		t.Error(got)
	}
}
