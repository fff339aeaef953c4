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
. scripts/load/deployment.sh
trap 'stop; rm -rf "$tmp"' EXIT
make --no-print-directory BIN="$tmp/bin" build >&2
go build -o "$tmp/bin/touched" ./scripts/load/touched
start() { simulate "$tmp/bin/cloister-sim" "${PORT:-18610}" -organizations "$organizations" -state-bytes "$state"; }
start
stop
start
(on 1 "$tmp/bin/touched" -data "$tmp/data" -state "$state" -c "${CLIENTS:-16}")
