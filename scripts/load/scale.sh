#!/usr/bin/env bash
# What grows with use: see scale.py. A history of a million activities takes some ten minutes to make.
#
#   scripts/load/scale.sh [ORGANIZATIONS [ACTIVITIES]]
#   YARDSTICK=dir          where the load generator is, ../shared/bench unless said otherwise
set -euo pipefail
cd "$(dirname "$0")/../.."
yard=${YARDSTICK:-../shared/bench}
out=scripts/load/out
make --no-print-directory build
mkdir -p "$out"
out=$(realpath "$out")
src=$(mktemp -d)
cp -r "$yard/load" "$src"
chmod -R u+w "$src"
(cd "$src/load" && go build -o "$out/load" .)
rm -rf "$src"
exec python3 scripts/load/scale.py "$out" "${1:-100000}" "${2:-1000000}"
