#!/usr/bin/env bash
# The dashboard in Chromium against the simulator: every flow, both themes, a phone's width, by keyboard, with passkeys of a
# virtual authenticator. Needs bin/ as `make build` leaves it.
#
#   scripts/dashboard/test.sh
#   scripts/dashboard/test.sh approvals find               runs only these files of flows
#   CLOISTER_SCREENSHOTS=DIR scripts/dashboard/test.sh     keeps the pictures there
#   scripts/dashboard/test.sh scale [SECONDS]              measures the pages of a large organization instead, see scale.mjs
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
here=$PWD/scripts/dashboard
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

# flow FILE NUMBER runs a file of flows, in an organization in which nothing has happened.
flow() {
	organization "$2" "$work/$1.json"
	CLOISTER_CREDENTIALS=$work/$1.json node --test --test-timeout=900000 --test-reporter=spec "$work/$1.mjs"
}

scale() {
	CLOISTER_URL=http://localhost:$sim_port CLOISTER_CREDENTIALS=$sim_credentials node "$work/scale.mjs" "$@"
}

# organization NUMBER FILE: the credentials of one of the simulator's organizations.
organization() {
	node -e 'fs.writeFileSync(process.argv[3], JSON.stringify(JSON.parse(fs.readFileSync(process.argv[1]))[process.argv[2]]))' "$work/sim/organizations.json" "$1" "$2"
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
	export CHROMIUM=$chromium CLOISTER_SCREENSHOTS=${CLOISTER_SCREENSHOTS:-$work/screenshots}
	rm -f "$CLOISTER_SCREENSHOTS/pages.txt"
	if [ "${1:-}" = scale ]; then
		# An organization has at most 100 policies, users and wallets unless that is raised.
		CLOISTER_QUOTAS=policies=1000,users=1000,wallets=1000 start_sim "$work/sim"
		stage "dashboard: a large organization" scale "${@:2}"
		finish
		exit
	fi
	CLOISTER_ORGANIZATIONS=14 CLOISTER_WEBHOOK_LOOPBACK=true start_sim "$work/sim"
	export CLOISTER_SIM_CREDENTIALS=$work/sim/credentials.json CLOISTER_URL=http://localhost:$sim_port
	while read -r file number name <&3; do
		if [ $# = 0 ] || [[ " $* " == *" $file "* ]]; then
			stage "$name" flow "$file" "$number"
		fi
	done 3<<-FLOWS
		dashboard 0 dashboard
		find 1 dashboard: find and sub-organizations
		approvals 2 dashboard: approvals
		policies 3 dashboard: policies
		refusals 4 dashboard: refusals
		editor 5 dashboard: policy editor
		users 6 dashboard: users
		try 7 dashboard: tests of requests
		wallets 8 dashboard: wallets and private keys
		settings 9 dashboard: settings
		webhooks 10 dashboard: webhooks
		signin 11 dashboard: sign-in
		look 12 dashboard: charts and names
		rights 13 dashboard: changes of rights
		verify 0 dashboard: proofs verified in the browser
	FLOWS
	if [ $# = 0 ]; then
		stage "dashboard: a picture of every page" node "$here/pages.mjs" host/dashboard/web/main.js
	fi
fi
finish
