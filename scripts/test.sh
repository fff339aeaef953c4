#!/usr/bin/env bash
# Runs everything: checks of the source, all Go tests (they start and stop PostgreSQL themselves), the race detector where
# goroutines meet, the fuzz targets, two builds of the enclave compared, and the official SDKs against the simulator. Says
# at the end what it left out and how to get it; under CLOISTER_TEST_REQUIRE=all that is a failure.
#
# A folder of scripts with a file test.sh takes part: it is run with the built commands in bin/, fails by its status, and
# calls left_out (scripts/stage.sh) for what it cannot run.
#
#   scripts/test.sh [REGEXP]      only stages whose name matches
set -euo pipefail
cd "$(dirname "$0")/.."
. scripts/stage.sh

only=${1:-.}
scratch=$(mktemp -d)
# What was put aside and is still at it ends with this script, however this script ends.
trap '[ -z "${lane_pid:-}" ] || kill_family "$lane_pid"; rm -rf "$scratch"' EXIT
. scripts/engines.sh

chosen() {
	if [[ "$1" =~ $only ]]; then stage "$@"; fi
}

chosen_aside() {
	if [[ "$1" =~ $only ]]; then aside "$@"; fi
}

"$GO" build -o "$scratch/testlog" scripts/testlog.go

# The log is a pipe's first command; its failure is the second's to report, except when it prints no event at all. Vet is
# check.sh's, for both builds.
tested() {
	"$GO" test -json -vet=off "$@" 2>&1 | "$scratch/testlog"
}

# Tests of one package at a time, while those of the next two are built at the lowest priority: processes that are started,
# killed and waited for must not be short of processors because something else is tested or built. The time that a package is
# said to have taken counts its waiting for its turn, and so does the limit.
in_turn() {
	tested -p 3 -exec "flock -o $scratch/turn" -toolexec "nice -n 19" -timeout 25m "$@"
}

# Packages where goroutines, connections or processes meet. -short leaves out what only takes longer there. sim/crash and
# sim/leak look at processes that they build themselves, without the detector; sim/policies and sim/matrix ask one question
# after the other. They have run already.
raced() {
	if ! command -v "$("$GO" env CC)" >/dev/null; then
		left_out "-race" "apt-get install gcc libc6-dev"
		return 0
	fi
	local packages=() path
	for path in shared/wire host enclave/core enclave/internal/ledger enclave/internal/boot sim; do
		[ -d "$path" ] && packages+=("./$path/...")
	done
	mapfile -t packages < <("$GO" list "${packages[@]}" | grep -vE '/sim/(crash|leak|policies|matrix)$')
	CGO_ENABLED=1 in_turn -race -short "${packages[@]}"
}

# The build for toolchains without runtime/secret: the packages that use it, compiled and tested once more.
plain() {
	GOEXPERIMENT='' tested ./enclave/internal/keys/... ./enclave/internal/seal/...
}

# The tests that show what a check is for: in a build where it can be switched off, the attack that it stops succeeds. Only
# the tests of files with that build tag run; the others have run already.
weakened() {
	local files names packages
	files=$(grep -rlE --include='*_test.go' '^//go:build cloister_insecure$' enclave sim host 2>/dev/null || true)
	if [ -z "$files" ]; then
		echo "no test has the build tag cloister_insecure"
		return 1
	fi
	# shellcheck disable=SC2086
	names=$(grep -hoE '^func Test[A-Za-z0-9_]*' $files | cut -c6- | paste -sd '|')
	packages=$(printf '%s\n' "$files" | xargs -n1 dirname | sort -u | sed 's#^#./#')
	# shellcheck disable=SC2086
	tested -tags cloister_insecure -timeout 25m -run "^($names)\$" $packages
}

# Every long test has its own limit well below this; the limit is for one that hangs.
everything() {
	local rooms
	mapfile -t rooms < <("$GO" list ./... | grep -v '/sim/')
	tested -timeout 25m "${rooms[@]}"
	# The campaigns start many processes and kill them: one at a time, or they take the machine from each other.
	in_turn ./sim/...
}

chosen "build" make --no-print-directory build
chosen "go test" everything
chosen "attacks on a build without the check" weakened
chosen "go test -race" raced

# What only computes goes beside what mostly waits.
export FUZZ_BINARIES=$scratch/fuzz
chosen_aside "check" scripts/check.sh
chosen_aside "go test without runtime/secret" plain
chosen_aside "reproducible enclave" scripts/reproduce.sh
if [[ fuzz =~ $only ]]; then aside "fuzz targets built" scripts/fuzz.sh -build; fi
beside
chosen "official SDKs" scripts/interop/run.sh
for extra in scripts/*/test.sh; do
	[ -e "$extra" ] || continue
	chosen "$(dirname "$extra")" "$extra"
done
joined
# With the processors to itself: it is counted in seconds.
chosen "fuzz" scripts/fuzz.sh
finish
