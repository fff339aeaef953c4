#!/usr/bin/env bash
# What policies cost as they grow in number: see policies.py.
#
#   scripts/load/policies.sh [COUNTS [REPETITIONS [SECONDS]]]     such as 2,10,100,1000; the table goes to standard output
#   YARDSTICK=dir          where the load generator is, ../shared/bench unless said otherwise
#   SPARE=1                without taskset: the machine may do something else
set -euo pipefail
cd "$(dirname "$0")/../.."
yard=${YARDSTICK:-../shared/bench}
[ -d "$yard/load" ] || { echo "scripts/load: no load generator at $yard" >&2; exit 1; }
tmp=$(mktemp -d /tmp/policies.XXXXXX)
trap 'rm -rf "$tmp"' EXIT
make --no-print-directory BIN="$tmp/bin" build >&2
cp -r "$yard/load" "$tmp/src"
chmod -R u+w "$tmp/src"
(cd "$tmp/src" && go build -o "$tmp/bin/load" .)
python3 scripts/load/policies.py "$tmp" "${1:-2,10,100,1000}" "${2:-5}" "${3:-2}"
