#!/usr/bin/env bash
# Builds the enclave twice, in directories of different names and lengths, the second time with an empty build cache,
# another time zone and another umask, and compares the two files byte for byte.
#
#   scripts/reproduce.sh
set -euo pipefail
cd "$(dirname "$0")/.."
work=$(mktemp -d)
# The module cache is read-only by design; what is removed here was made here.
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

first=$work/a
second=$work/another-directory/with-a-longer-name/b
mkdir -p "$first" "$second"
tar -c --exclude=./.git --exclude=./bin . | tar -x -C "$first"
cp -a "$first/." "$second/"

"$first/scripts/enclave.sh" "$work/one"
(
	umask 077
	export GOCACHE=$work/cache TZ=Pacific/Auckland
	"$second/scripts/enclave.sh" "$work/two"
)
cmp "$work/one" "$work/two"
sha256sum "$work/one" | cut -d' ' -f1 | sed 's/^/two builds, one digest: sha256 /'
stat -c 'size: %s bytes' "$work/one"
