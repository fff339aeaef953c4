#!/usr/bin/env bash
# Leaves a small data directory of the release that this tree is, in sim/testdata/releases/VERSION, for the tests of all later
# ones. Once for each release, from its tag; what is there is not made again.
#
#   scripts/release-data.sh VERSION
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
[[ "${1:-}" =~ ^[0-9]+\.[0-9]+(\.[0-9]+)?$ ]] || { echo "usage: scripts/release-data.sh VERSION, such as 0.7" >&2; exit 2; }
if [ -z "${GOEXPERIMENT:-}" ] && GOEXPERIMENT=runtimesecret "$GO" version >/dev/null 2>&1; then
	export GOEXPERIMENT=runtimesecret
fi
"$GO" test -count=1 -v -run '^TestReleases$' ./sim/backup -release "$1"
