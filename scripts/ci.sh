#!/usr/bin/env bash
# Asks here what CI asks: .ci/run on a clean clone of HEAD in a scratch folder, with ../shared beside it and CI's environment.
# What is not committed is not in it. FRESH=1 begins without compiled packages, modules and npm packages, as a new machine does.
#
#   scripts/ci.sh
set -euo pipefail
cd "$(dirname "$0")/.."

uncommitted=$(git status --porcelain)
[ -z "$uncommitted" ] || printf 'not committed, so not in what CI sees:\n%s\n\n' "$uncommitted"

scratch=$(mktemp -d)
cleared() {
	chmod -R u+w "$scratch" # the module cache is written without it
	rm -rf "$scratch"
}
trap cleared EXIT
git clone -q --no-local . "$scratch/main"
[ ! -d ../shared ] || ln -s "$(realpath ../shared)" "$scratch/shared"

# A developer's settings, and make's own, are no part of CI's environment.
for name in $(compgen -e); do
	case $name in
	CLOISTER_CACHE) ;; # where it is cold or warm is FRESH's to say
	CLOISTER_* | GOFLAGS | GOEXPERIMENT | GOTOOLCHAIN | GOCACHE | GOMODCACHE | GO | MAKE* | MFLAGS) unset "$name" ;;
	esac
done
if [ -n "${FRESH:-}" ]; then
	export GOCACHE=$scratch/go-build GOMODCACHE=$scratch/modules CLOISTER_CACHE=$scratch/cache npm_config_cache=$scratch/npm
fi
export CI=true

commit=$(git rev-parse --short HEAD)
status=0
cd "$scratch/main"
SECONDS=0
bash .ci/run </dev/null || status=$?
printf '\nmake ci: %s on %s in %d min %d s\n' "$([ $status -eq 0 ] && echo green || echo "RED (exit $status)")" "$commit" $((SECONDS / 60)) $((SECONDS % 60))
exit $status
