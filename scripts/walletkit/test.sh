#!/usr/bin/env bash
# pin-keys.mjs on the real packages, against the simulator. Needs bin/ as `make build` leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
bin=${CLOISTER_BIN:-$PWD/bin}
interop=$PWD/scripts/interop
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# node_modules: those of scripts/interop, installed once into the cache.
node_modules() {
	modules=$CACHE/interop-$(cat "$interop/package-lock.json" <(node --version) | sha256sum | cut -c1-16)
	[ -e "$modules/complete" ] && return 0
	mkdir -p "$modules"
	cp "$interop/package.json" "$interop/package-lock.json" "$interop/.npmrc" "$modules/"
	(cd "$modules" && npm ci --no-update-notifier >"$log" 2>&1) || { tail -n 20 "$log"; return 1; }
	touch "$modules/complete"
}

if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "keys pinned in wallet kits" "apt-get install nodejs npm"
elif ! node_modules; then
	left_out "keys pinned in wallet kits" "npm could not fetch the packages of scripts/interop/package.json"
else
	CLOISTER_BIN=$bin CLOISTER_MODULES=$modules node --test --test-reporter=spec scripts/walletkit/walletkit.mjs
fi
