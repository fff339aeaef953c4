#!/usr/bin/env bash
# The host's certificates by ACME against pebble, Let's Encrypt's server for tests, with a private root: got at the first
# handshake, kept over a restart, renewed, and for nobody else's name. Needs bin/ as `make build` leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
PEBBLE=v2.10.1
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

pebble_built() {
	built pebble github.com/letsencrypt/pebble/v2/cmd/pebble "$PEBBLE" && pebble=$engine
	built pebble-challtestsrv github.com/letsencrypt/pebble/v2/cmd/pebble-challtestsrv "$PEBBLE" && names=$engine
}

acme() {
	GOEXPERIMENT='' "$GO" run ./scripts/tls -pebble "$pebble" -names "$names" -host "${CLOISTER_BIN:-$PWD/bin}/cloister-host" -dir "$work"
}

if pebble_built; then
	stage "certificates by ACME" acme
else
	left_out "certificates by ACME" "a Go module proxy must serve github.com/letsencrypt/pebble/v2@$PEBBLE"
fi
finish
