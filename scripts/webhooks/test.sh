#!/usr/bin/env bash
# Ten thousand events to receivers that fail, close, are slow and hang, host and enclave killed with -9 on the way: each
# arrives at each, and the published verifier believes each. Needs bin/ as `make build` leaves it; Node when it is there.
#
#   scripts/webhooks/test.sh        CLOISTER_WEBHOOK_EVENTS=1000 for fewer
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

delivered() {
	mkdir "$work/run"
	"$GO" build -o "$work/webhooks" ./scripts/webhooks
	"$work/webhooks" -sim bin/cloister-sim -dir "$work/run" -port "$(free_port)" -proxy-port "$(free_port)" -events "${CLOISTER_WEBHOOK_EVENTS:-10000}"
}

judged() {
	cp scripts/webhooks/*.mjs "$work/"
	ln -s "$modules/node_modules" "$work/node_modules"
	node "$work/vectors.mjs" attestation/testdata/webhooks.json
	node "$work/judge.mjs" "$work/run"
}

stage "webhooks delivered" delivered
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "the published verifier of webhooks" "apt-get install nodejs npm"
elif ! node_modules "$PWD/scripts/interop" interop; then
	left_out "the published verifier of webhooks" "npm could not fetch the packages of scripts/interop/package.json"
else
	stage "webhooks judged by the published verifier" judged
fi
finish
