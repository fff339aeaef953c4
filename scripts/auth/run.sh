#!/usr/bin/env bash
# The web client, unmodified, in a browser with an authenticator: every flow that the auth proxy carries, offline, with the
# simulator's inbox and identity provider.
#
#   scripts/auth/run.sh [FILE...]      all of node/ when none is named, without .mjs
#
# Needs bin/ as `make build` leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
here=$PWD/scripts/auth
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

flow() {
	CLOISTER_CREDENTIALS=$sim_credentials CLOISTER_HOST=$PWD/bin/cloister-host CLOISTER_PAGE=$work/page CLOISTER_CHROMIUM=$chromium \
		node --test --test-timeout=120000 --test-reporter=spec "$work/node/$1.mjs"
}

chromium=$(command -v chromium || true)
if [ -z "$chromium" ]; then
	left_out "log-in flows in a browser" "apt-get install chromium"
	finish
	exit
fi
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "log-in flows in a browser" "apt-get install nodejs npm"
	finish
	exit
fi
if ! node_modules "$here" auth; then
	left_out "log-in flows in a browser" "npm could not fetch the packages of scripts/auth/package.json"
	finish
	exit
fi
mkdir "$work/node" "$work/page"
cp "$here"/node/*.mjs "$work/node/"
cp "$here"/page/* "$work/page/"
ln -s "$modules/node_modules" "$work/node_modules"
"$modules/node_modules/.bin/esbuild" "$work/page/wallet.mjs" --bundle --format=esm --platform=browser --log-level=warning --outfile="$work/page/wallet.js"

start_sim "$work/data"
[ $# -gt 0 ] || set -- browser passkey code oauth
for name in "$@"; do
	stage "$name" flow "$name"
done
finish
