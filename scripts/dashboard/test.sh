#!/usr/bin/env bash
# The dashboard in Chromium against the simulator: every flow, both themes, a phone's width, by keyboard, with passkeys of a
# virtual authenticator. Needs bin/ as `make build` leaves it.
#
#   scripts/dashboard/test.sh
#   CLOISTER_SCREENSHOTS=DIR scripts/dashboard/test.sh     keeps the pictures there
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
here=$PWD/scripts/dashboard
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

flows() {
	node --test --test-timeout=900000 --test-reporter=spec "$work/dashboard.mjs"
}

verifies() {
	node --test --test-timeout=900000 --test-reporter=spec "$work/verify.mjs"
}

chromium=$(command -v chromium || command -v chromium-browser || true)
if ! command -v node >/dev/null || ! command -v npm >/dev/null || [ -z "$chromium" ]; then
	left_out "the dashboard in a browser" "apt-get install chromium nodejs npm"
elif ! node_modules "$here" dashboard; then
	left_out "the dashboard in a browser" "npm could not fetch the packages of scripts/dashboard/package.json"
else
	cp "$here"/*.mjs "$work/"
	cp host/dashboard/web/stamp.js "$work/stamp.mjs"
	ln -s "$modules/node_modules" "$work/node_modules"
	CLOISTER_ORGANIZATIONS=1 start_sim "$work/sim"
	# The flows begin in an organization in which nothing has happened.
	export CLOISTER_SIM_CREDENTIALS=$work/sim/credentials.json CLOISTER_CREDENTIALS=$work/acme.json CLOISTER_URL=http://localhost:$sim_port
	node -e 'fs.writeFileSync(process.argv[2], JSON.stringify(JSON.parse(fs.readFileSync(process.argv[1]))[0]))' "$work/sim/organizations.json" "$CLOISTER_CREDENTIALS"
	export CHROMIUM=$chromium CLOISTER_SCREENSHOTS=${CLOISTER_SCREENSHOTS:-$work/screenshots}
	stage "dashboard" flows
	stage "dashboard: proofs verified in the browser" verifies
fi
finish
