#!/usr/bin/env bash
# Sign-up and log-in by the tokens of a certified OpenID provider (oidc-provider) over TLS under a private root: authorization
# code with PKCE, every algorithm that is taken.
#
#   scripts/oidc/test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh

what="log-in by an OpenID provider"
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "$what" "apt-get install nodejs npm"
elif ! node_modules "$PWD/scripts/oidc" oidc; then
	left_out "$what" "npm could not fetch the packages of scripts/oidc/package.json"
else
	# Modules are found beside the file that asks for them.
	work=$(mktemp -d)
	trap 'rm -rf "$work"' EXIT
	cp scripts/oidc/provider.mjs "$work/"
	ln -s "$modules/node_modules" "$work/node_modules"
	OIDC_PROVIDER=$work/provider.mjs stage "$what" "$GO" test -count=1 -timeout 20m -tags oidc_real -run '^TestRealProvider' -v ./sim/rig
fi
finish
