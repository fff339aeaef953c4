#!/usr/bin/env bash
# What changes add to the production enclave: a row of a table for each pair of commits, with the packages that it links, the bytes
# of the program, and what runs before main: bytes and allocations, by Go's own trace of initialisation, and the shortest
# time of ten starts.
#
#   scripts/weigh.sh NAME COMMIT NAME COMMIT …   each is held against the one before; the first is what one begins with
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
work=$(mktemp -d)
trap 'git worktree remove --force "$work/tree" 2>/dev/null || true; rm -rf "$work"' EXIT

# starts prints bytes, allocations and microseconds of what runs before main.
starts() {
	for _ in 1 2 3 4 5 6 7 8 9 10; do
		GODEBUG=inittrace=1 timeout .5 "$1" 2>&1 | awk '$1 == "init" { us += $5 * 1000; bytes += $8; allocs += $10 } END { printf "%d %d %d\n", bytes, allocs, us }' || true
	done | sort -n -k3 | head -n 1
}

git worktree add --quiet --detach "$work/tree" HEAD
echo '| | commit | packages linked | program, KiB | before main: KiB | allocations | ms |'
echo '|---|---|---|---|---|---|---|'
while [ $# -ge 2 ]; do
	git -C "$work/tree" checkout --quiet --detach "$2"
	GO=$GO "$work/tree/scripts/enclave.sh" "$work/enclave"
	(cd "$work/tree" && CGO_ENABLED=0 GOEXPERIMENT=runtimesecret "$GO" list -deps ./enclave | sort) >"$work/linked"
	size=$(stat -c %s "$work/enclave")
	read -r bytes allocs us <<<"$(starts "$work/enclave")"
	packages=$(wc -l <"$work/linked")
	if [ -n "${before:-}" ]; then
		added=$(comm -13 "$work/linked.before" "$work/linked" | sed 's/.*/`&`/' | paste -sd, | sed 's/,/, /g')
		printf '| %s | %s | +%d%s | +%.1f | %+.1f | %+d | %+.2f |\n' "$1" "$(git rev-parse --short=7 "$2")" $((packages - packages_before)) "${added:+: $added}" \
			"$(((size - before) * 10 / 1024))e-1" "$(((bytes - bytes_before) * 10 / 1024))e-1" $((allocs - allocs_before)) "$((us - us_before))e-3"
	else
		printf '| %s | %s | %d | %.1f | %.1f | %d | %.2f |\n' "$1" "$(git rev-parse --short=7 "$2")" "$packages" "$((size * 10 / 1024))e-1" "$((bytes * 10 / 1024))e-1" "$allocs" "${us}e-3"
	fi
	before=$size packages_before=$packages bytes_before=$bytes allocs_before=$allocs us_before=$us
	mv "$work/linked" "$work/linked.before"
	shift 2
done
