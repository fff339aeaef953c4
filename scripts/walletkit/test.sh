#!/usr/bin/env bash
# pin-keys.mjs on the real packages, against the simulator. Needs bin/ as `make build` leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
bin=${CLOISTER_BIN:-$PWD/bin}

pinned() {
	CLOISTER_BIN=$bin CLOISTER_MODULES=$modules node --test --test-reporter=spec scripts/walletkit/walletkit.mjs
}

# The packages are those of the interop tests.
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "keys pinned in wallet kits" "apt-get install nodejs npm"
elif ! node_modules scripts/interop interop; then
	left_out "keys pinned in wallet kits" "npm could not fetch the packages of scripts/interop/package.json"
else
	stage "keys pinned in wallet kits" pinned
fi
finish
