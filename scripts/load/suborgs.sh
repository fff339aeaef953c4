#!/usr/bin/env bash
# What sub-organizations cost as they grow in number, on PostgreSQL: finding one, using one, and the enclave's memory.
#
#   scripts/load/suborgs.sh [SIZES]        such as 1000,10000,100000; the table goes to standard output
#   STORE=sqlite                           on SQLite instead
#   SPARE=1                                without taskset: the machine may do something else
#
# Wants PostgreSQL's programs, which it starts a server of its own from, on a socket in a temporary folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
sizes=${1:-1000,10000,100000}
make --no-print-directory build >&2
tmp=$(mktemp -d /tmp/suborgs.XXXXXX)
. scripts/load/deployment.sh
trap 'stop; rm -rf "$tmp"' EXIT
store=sqlite:$tmp/data/cloister.db
[ "${STORE:-postgres}" != postgres ] || postgres
go build -o "$tmp/suborgs" ./scripts/load/suborgs
simulate bin/cloister-sim "${PORT:-18490}" -store "$store"
(on 1 "$tmp/suborgs" -data "$tmp/data" -sizes "$sizes" -c "${CLIENTS:-16}" -reps "${REPS:-200}")
[ -z "$pg" ] || du -sm "$tmp/pg/data" | awk '{print "database directory: " $1 " MiB"}'
