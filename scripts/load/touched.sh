#!/usr/bin/env bash
# The enclave's memory while many organizations are touched once each: it ends at what was allowed for opened ones.
#
#   scripts/load/touched.sh [ORGANIZATIONS [MIB]]      the table goes to standard output; MIB: for opened organizations
#   SPARE=1                                            without taskset: the machine may do something else
#
# The organizations are made by one run of the simulator and touched in another, which has opened none of them.
set -euo pipefail
cd "$(dirname "$0")/../.."
organizations=${1:-100000} state=$((${2:-64} << 20))
tmp=$(mktemp -d /tmp/touched.XXXXXX)
sim=''
stop() { [ -z "$sim" ] || { kill "$sim" 2>/dev/null || true; wait "$sim" 2>/dev/null || true; sim=''; }; }
trap 'stop; rm -rf "$tmp"' EXIT
make --no-print-directory BIN="$tmp/bin" build >&2
go build -o "$tmp/bin/touched" ./scripts/load/touched
on() { if [ -n "${SPARE:-}" ]; then exec "${@:2}"; else exec taskset -c "$1" "${@:2}"; fi; }
start() {
	on 0 "$tmp/bin/cloister-sim" -data-dir "$tmp/data" -api-addr "127.0.0.1:${PORT:-18610}" -auth-proxy-addr "127.0.0.1:$((${PORT:-18610} + 1))" \
		-log-level warn -organizations "$organizations" -state-bytes "$state" >"$tmp/sim.log" 2>&1 &
	sim=$!
	until grep -q 'Cloister is running' "$tmp/sim.log"; do
		kill -0 "$sim" || { cat "$tmp/sim.log" >&2; exit 1; }
		sleep 0.2
	done
}
mkdir "$tmp/data"
start
stop
start
(on 1 "$tmp/bin/touched" -data "$tmp/data" -state "$state" -c "${CLIENTS:-16}")
