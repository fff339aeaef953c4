#!/usr/bin/env bash
# Spark's own software judges what Cloister signs and shares for it: its wasm aggregates the user's shares of FROST, with and
# without adaptor, opens the packages and proves the shares in them.
#
#   scripts/spark/test.sh
#
# Needs bin/ as `make build` leaves it. No operator is reached, and no network but that of the package registry.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

what="Spark's own software"
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "$what" "apt-get install nodejs npm"
elif ! node_modules "$PWD/scripts/spark" spark; then
	left_out "$what" "npm could not fetch the packages of scripts/spark/package.json"
else
	cp scripts/spark/spark.mjs "$work/"
	ln -s "$modules/node_modules" "$work/node_modules"
	start_sim "$work/sim"
	CLOISTER_CREDENTIALS=$sim_credentials stage "$what" node --test --test-timeout=120000 --test-reporter=spec "$work/spark.mjs"
fi
finish
