#!/usr/bin/env bash
# Pages of on-ramp providers through the unmodified server SDK: MoonPay's own package judges the signatures, and a stand-in for
# Coinbase has jose verify each token. Needs bin/ as `make build` leaves it.
#
#   scripts/onramp/test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

judged() {
	node --test --test-timeout=120000 --test-reporter=spec "$work/judge.mjs"
}

what="pages of on-ramp providers"
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "$what" "apt-get install nodejs npm"
elif ! node_modules "$PWD/scripts/onramp" onramp; then
	left_out "$what" "npm could not fetch the packages of scripts/onramp/package.json"
else
	cp scripts/onramp/judge.mjs "$work/"
	ln -s "$modules/node_modules" "$work/node_modules"
	MOONPAY_PORT=$(free_port)
	COINBASE_PORT=$(free_port)
	export MOONPAY_PORT COINBASE_PORT
	export CLOISTER_ON_RAMPS="FIAT_ON_RAMP_PROVIDER_MOONPAY=http://127.0.0.1:$MOONPAY_PORT FIAT_ON_RAMP_PROVIDER_COINBASE=http://127.0.0.1:$COINBASE_PORT"
	start_sim "$work/sim"
	export CLOISTER_CREDENTIALS=$sim_credentials
	stage "$what" judged
fi
finish
