#!/usr/bin/env bash
# Runs every fuzz target of the product's module with two workers: FUZZ_EACH seconds each (10), but never more than FUZZ_TOTAL
# seconds (240) in all, however many targets there are; building the instrumented tests is not counted.
#
#   scripts/fuzz.sh [REGEXP]      only targets whose "package Name" matches
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
each=${FUZZ_EACH:-10}
total=${FUZZ_TOTAL:-240}
only=${1:-.}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
corpus=${FUZZ_CACHE:-$work/corpus}

# Build first: a fuzz binary lists its own targets, and its build time is not fuzzing time.
targets=()
while read -r dir; do
	# Nothing is built for a package none of whose targets is wanted.
	wanted=no
	while read -r name; do
		if [[ "$dir $name" =~ $only ]]; then wanted=yes; fi
	done < <(grep -ho --include='*_test.go' '^func Fuzz[A-Za-z0-9_]*' "$dir"/*_test.go | cut -c6-)
	[ "$wanted" = yes ] || continue
	binary=$work/$(printf '%s' "$dir" | tr -c 'a-zA-Z0-9' _).test
	"$GO" test -c -vet=off -fuzz=^Fuzz -o "$binary" "$dir"
	while read -r name; do
		if [[ "$dir $name" =~ $only ]]; then
			targets+=("$dir $name $binary")
		fi
	done < <(cd "$dir" && "$binary" -test.list='^Fuzz' | grep '^Fuzz')
done < <(grep -rl --include='*_test.go' '^func Fuzz' attestation eif enclave host shared sim 2>/dev/null |
	xargs -r -n1 dirname | sort -u | while read -r dir; do
		# A module of its own has libraries of its own; its targets run over their seeds with its tests.
		[ -e "$dir/go.mod" ] || echo "./$dir"
	done)

if [ ${#targets[@]} -eq 0 ]; then
	echo "no fuzz target matches" >&2
	exit 1
fi

# fuzz DIR NAME BINARY SECONDS: one run. Up to Go 1.26 the end of -fuzztime can be reported as a failure of the target
# (golang/go#75804), which is tried again; a real finding always writes its input down.
fuzz() {
	local log=$work/log
	for _ in 1 2 3 4 5; do
		if (cd "$1" && "$3" -test.run='^$' -test.fuzz="^$2\$" -test.fuzztime="$4s" -test.parallel=2 \
			-test.fuzzminimizetime=5s -test.fuzzcachedir="$corpus/$1/$2") >"$log" 2>&1; then
			grep -o 'execs: [0-9]*' "$log" | tail -n 1
			return 0
		fi
		if ! grep -q 'context deadline exceeded' "$log" || grep -q 'Failing input written' "$log"; then
			break
		fi
	done
	cat "$log"
	return 1
}

began=$SECONDS
left=${#targets[@]}
bad=0
for target in "${targets[@]}"; do
	read -r dir name binary <<<"$target"
	# What remains is shared evenly among the targets that remain; a second is the least that fuzzing takes.
	seconds=$(((total - (SECONDS - began)) / left))
	seconds=$((seconds > each ? each : seconds))
	seconds=$((seconds < 1 ? 1 : seconds))
	left=$((left - 1))
	if ran=$(fuzz "$dir" "$name" "$binary" "$seconds"); then
		printf 'ok    %s %s (%d s, %s)\n' "$dir" "$name" "$seconds" "$ran"
	else
		printf 'FAIL  %s %s\n%s\n' "$dir" "$name" "$ran"
		bad=$((bad + 1))
	fi
done
printf 'counted: fuzz targets: %d passed, %d failed, %d s\n' $((${#targets[@]} - bad)) "$bad" $((SECONDS - began))
[ "$bad" -eq 0 ]
