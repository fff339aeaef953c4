#!/usr/bin/env bash
# Builds a QEMU with the nitro-enclave machine from Debian's source and prints its path. Debian's own packages are built
# without libcbor and have no such machine, in any suite. Made once for a version: about six minutes of one processor and
# 1 GB of disk in ~/.cache/cloister. Needs root, because it installs Debian's packages for building.
#
#   scripts/nitro/qemu.sh         CLOISTER_QEMU_JOBS=N compiles N files at a time, otherwise one
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/debian-apt.sh

cache=${CLOISTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cloister}
version=1:10.0.13+ds-0+deb13u1 # in trixie; another one needs a new look at the two lines of sed below
place=$cache/qemu-10.0.13
built=$place/qemu-system-x86_64

if [ ! -x "$built" ]; then
	mkdir -p "$place"
	exec 9>"$place/lock"
	flock 9
fi
if [ ! -x "$built" ]; then
	{
		debian_apt "$cache/apt"
		export DEBIAN_FRONTEND=noninteractive
		APT_CONFIG=$DEBIAN_APT apt-get install -y -qq --no-install-recommends \
			meson/bookworm-backports ninja-build gcc libc6-dev pkg-config xz-utils flex bison \
			python3 python3-venv python3-distlib libcbor-dev libgnutls28-dev libglib2.0-dev libfdt-dev \
			dpkg-dev qemu-system-data seabios
		cd "$place"
		if ! APT_CONFIG=$DEBIAN_APT apt-get source -qq --download-only "qemu=$version"; then
			echo "Debian's mirror no longer has the source of QEMU $version: scripts/nitro/qemu.sh names the version"
			exit 1
		fi
		rm -rf source
		mkdir source
		tar xf qemu_*.orig.tar.xz -C source --strip-components=1
		cd source
		sed -i '/^pycotap/d' pythondeps.toml                           # for QEMU's own tests only; Debian lacks it
		sed -i 's/^if unpack_edk2_blobs/if false/' pc-bios/meson.build # blobs that Debian takes out of the source
		printf 'CONFIG_%s=y\n' NITRO_ENCLAVE MICROVM ISA_DEBUG >configs/devices/x86_64-softmmu/nitro.mak
		mkdir build
		cd build
		../configure --python=/usr/bin/python3 --target-list=x86_64-softmmu \
			--without-default-features --without-default-devices --with-devices-x86_64=nitro \
			--enable-system --enable-tcg --enable-gnutls --enable-libcbor --enable-fdt=system --enable-vhost-user \
			--disable-docs --disable-tools --disable-install-blobs
		nice -n 15 ninja -j "${CLOISTER_QEMU_JOBS:-1}" qemu-system-x86_64
		./qemu-system-x86_64 -M help | grep nitro-enclave
		# Linked into place last: what is there is whole. QEMU finds Debian's firmware by the path that test.sh gives it.
		strip -o "$built.new" qemu-system-x86_64
		mv "$built.new" "$built"
		rm -rf "$place/source"
	} >"$place/build.log" 2>&1 || {
		tail -n 20 "$place/build.log" >&2
		echo "QEMU was not built: $place/build.log" >&2
		exit 1
	}
fi
echo "$built"
