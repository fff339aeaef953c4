# shellcheck shell=bash
# Sourced. debian_apt DIR prepares, under DIR, an apt configuration of its own that knows besides the machine's Debian
# suites bookworm-backports (packages) and trixie (sources only), from the same mirror; it sets DEBIAN_APT, to be used as
# `APT_CONFIG=$DEBIAN_APT apt-get ...`. The machine's own configuration stays as it is. Signatures are checked against
# Debian's keyring as always.
debian_apt() {
	local dir=$1 source=/etc/apt/sources.list.d/debian.sources mirror keyring=/usr/share/keyrings/debian-archive-keyring.gpg
	if ! command -v apt-get >/dev/null || [ ! -f "$keyring" ]; then
		echo "this needs Debian's apt and keyring" >&2
		return 1
	fi
	mkdir -p "$dir/parts" "$dir/lists/partial" "$dir/cache/archives/partial"
	mirror=${CLOISTER_DEBIAN_MIRROR:-}
	if [ -f "$source" ]; then
		cp "$source" "$dir/parts/machine.sources"
		[ -n "$mirror" ] || mirror=$(awk '/^URIs:/ { print $2; exit }' "$source")
	fi
	mirror=${mirror:-http://deb.debian.org/debian}
	local kind suite
	while read -r kind suite; do
		printf 'Types: %s\nURIs: %s\nSuites: %s\nComponents: main\nSigned-By: %s\n' "$kind" "$mirror" "$suite" "$keyring" \
			>"$dir/parts/$suite.sources"
	done <<-'SUITES'
		deb bookworm-backports
		deb-src trixie
	SUITES
	# apt's own unprivileged user could not read a cache in a home directory: it fetches as whoever runs this.
	cat >"$dir/apt.conf" <<-CONF
		Dir::Etc::sourcelist "/dev/null";
		Dir::Etc::sourceparts "$dir/parts";
		Dir::State::lists "$dir/lists";
		Dir::Cache "$dir/cache";
		APT::Sandbox::User "$(id -un)";
	CONF
	DEBIAN_APT=$dir/apt.conf
	APT_CONFIG=$DEBIAN_APT apt-get update -qq
}
