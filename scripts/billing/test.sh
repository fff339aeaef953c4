#!/usr/bin/env bash
# Payment methods and usage at Stripe's own mock, which holds each request against Stripe's published description, behind a recorder
# over TLS under a private root.
#
#   scripts/billing/test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
version=v0.203.0
tools=$CACHE/stripe-mock-$version
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

judged() {
	"$tools/stripe-mock" -http-addr "127.0.0.1:$port" -https-addr "127.0.0.1:$(free_port)" >"$work/mock.log" 2>&1 &
	local mock=$! status=0
	for _ in $(seq 300); do
		if (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then break; fi
		sleep 0.1
	done
	STRIPE_MOCK=http://127.0.0.1:$port "$GO" test -count=1 -timeout 10m -run '^TestStripeMock$' -v ./sim/rig || status=$?
	kill "$mock"
	return "$status"
}

what="payments at stripe-mock"
if ! [ -x "$tools/stripe-mock" ] && ! GOFLAGS=-mod=mod GOBIN="$tools" "$GO" install "github.com/stripe/stripe-mock@$version"; then
	left_out "$what" "go could not fetch github.com/stripe/stripe-mock@$version"
else
	port=$(free_port)
	stage "$what" judged
fi
finish
