#!/usr/bin/env bash
# Builds the enclave and its image twice and compares them byte for byte. The second time everything is different that may
# be: the directory and its length, the times of all files (2001) and the time of day, the time zone, the language, the umask, the
# folder for temporary files, the build cache (empty), the unpacked modules, settings that a user has for Go, and the user where
# this runs as root.
#
#   scripts/reproduce.sh
#
# The kernel is an input like any other: Debian's, if eif/debian-kernel.sh has fetched it, or else bytes that stand for one.
set -euo pipefail
cd "$(dirname "$0")/.."
GO=${GO:-go}
cache=${CLOISTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cloister}
work=$(mktemp -d)
# The module cache is read-only by design; what is removed here was made here.
trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT

first=$work/a
second=$work/another-directory/with-a-longer-name/b
own=$work/of-the-second
mkdir -p "$first" "$second" "$own/tmp" "$own/cache" "$own/modules"
tar -c --exclude=./.git --exclude=./bin . | tar -x -C "$first"
cp -a "$first/." "$second/"

. eif/debian-kernel.pin
kernel=$cache/kernel-${deb_sha256:0:16}
if [ -f "$kernel/sha256" ]; then
	cp -r "$kernel" "$work/kernel"
	echo "kernel: $package $version"
else
	mkdir -p "$work/kernel/modules"
	zeros() { head -c "$1" /dev/zero; }
	{ zeros 510; printf '\125\252\353\146HdrS\017\002'; zeros 9; printf '\001'; zeros 36; printf '\001\000'; seq 1000000; } >"$work/kernel/bzImage"
	{ printf '\177ELF\002\001\001'; zeros 9; printf '\001\000\076\000'; zeros 44; echo "or so it begins"; } >"$work/kernel/modules/01-some.ko"
	echo "kernel: some bytes, as eif/debian-kernel.sh has fetched none"
fi
chmod -R a+rX "$work/kernel"

# build DIRECTORY OUTPUT: the enclave and, from a build of its own, the image.
build() {
	"$1/scripts/enclave.sh" "$2/enclave"
	EIF_KERNEL=$work/kernel/bzImage EIF_MODULES=$work/kernel/modules EIF_KERNEL_NAME=kernel EIF_PLATFORM=qemu EIF_VERSION=reproduced \
		"$1/eif/build.sh" "$2/cloister.eif" >"$2/printed"
}

mkdir "$work/one"
build "$first" "$work/one"

# The modules are unpacked once more, from what was downloaded for the first build; go.sum says what they must be.
(
	export GOPROXY="file://$("$GO" env GOMODCACHE)/cache/download" GOSUMDB=off GOMODCACHE=$own/modules
	cd "$second"
	CGO_ENABLED=0 "$GO" list -deps ./enclave ./eif >/dev/null
)
printf '%s\n' GOFLAGS=-tags=of_the_second GOFIPS140=latest GOAMD64=v3 >"$own/settings"
find "$second" -exec touch -h -d '2001-02-03 04:05:06' {} +
as=()
nobody=(setpriv --reuid nobody --regid nogroup --clear-groups)
if [ "$(id -u)" -eq 0 ] && "${nobody[@]}" env HOME=/ "$GO" version >/dev/null 2>&1; then
	chmod 0711 "$work"
	chown -R nobody "$work/another-directory" "$own"
	as=("${nobody[@]}")
	echo "users: $(id -un) and nobody"
else
	echo "users: $(id -un) both times, as another one takes root, setpriv and a toolchain that all may read"
fi
(
	umask 077
	export GO work
	export -f build
	"${as[@]}" env HOME="$own" TMPDIR="$own/tmp" GOCACHE="$own/cache" GOMODCACHE="$own/modules" GOPROXY=off GOENV="$own/settings" \
		TZ=Pacific/Auckland LC_ALL=C.UTF-8 bash -euo pipefail -c 'mkdir "$2" && build "$1" "$2"' build "$second" "$own/two"
)

for file in enclave cloister.eif cloister.eif.json; do
	cmp "$work/one/$file" "$own/two/$file"
	printf 'two builds, one digest: sha256 %s %s, %s bytes\n' "$(sha256sum "$work/one/$file" | cut -d' ' -f1)" "$file" "$(stat -c %s "$work/one/$file")"
done
