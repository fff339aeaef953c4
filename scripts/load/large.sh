#!/usr/bin/env bash
# What grows with a deployment's size, on PostgreSQL: accounts in one wallet, then sub-organizations, then activities,
# with what each costs at each mark. All entries are real ones, made by the enclave.
#
#   scripts/load/large.sh [FLAGS]      flags of the program large: -accounts, -suborgs, -activities, -until; see -help
#   LARGE=dir                          where everything is kept: a run goes on where the last one ended; default: a
#                                      temporary folder that is removed
#
# The whole wants some 25 GB, and hours. Wants PostgreSQL's programs, which it starts a server of its own from.
set -euo pipefail
cd "$(dirname "$0")/../.."
make --no-print-directory build >&2
tmp=${LARGE:-$(mktemp -d /tmp/large.XXXXXX)}
. scripts/load/deployment.sh
trap 'stop; [ -n "${LARGE:-}" ] || rm -rf "$tmp"' EXIT
mkdir -p "$tmp/data"
# Checkpoints are far apart, as in a database that is written to all day; what is confirmed is on disk.
postgres shared_buffers=2GB max_wal_size=4GB checkpoint_timeout=15min
go build -o "$tmp/large" ./scripts/load/large
nice -n "${NICE:-0}" "$tmp/large" -bin bin -data "$tmp/data" -store "$store" -database "$tmp/pg/data" "$@"
