#!/usr/bin/env bash
# Transactions sent through the simulator to go-ethereum: many at once, with host and simulator killed in the middle, a gap
# repaired, nodes that are late or lie; balances and histories held against the chain, with a token that is deployed to it. Needs bin/ as `make build` leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

sent() {
	trap stop_engines EXIT # a stage is a shell of its own: what it starts it ends
	"$GO" build -o "$work/sending" ./scripts/sending
	with_station
	start_geth "$work/geth"
	"$work/sending" -sim bin/cloister-sim -dir "$work" -node "$geth_url" -rich "$geth_funded_key" -port "$(free_port)" -proxy-port "$(free_port)"
}

if geth_built; then
	stage "transactions sent to geth" sent
else
	left_out "transactions sent to geth" "the Go module proxy did not give github.com/ethereum/go-ethereum/cmd/geth@$GETH_VERSION"
fi
finish
