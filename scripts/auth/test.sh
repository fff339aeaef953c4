#!/usr/bin/env bash
# The web client, unmodified, in a browser with an authenticator: every flow that the auth proxy carries, offline. Mail goes to
# aiosmtpd and identity is told by oidc-provider, both over TLS under a private root; text messages go to the simulator's inbox, and
# transactions to go-ethereum.
#
#   scripts/auth/test.sh [FILE...]      all of node/ when none is named, without .mjs
#
# Needs bin/ as `make build` leaves it.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
here=$PWD/scripts/auth
what="log-in flows in a browser"
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

# certificates: a root of our own, and a server's for localhost under it.
certificates() {
	local of=$1
	mkdir "$of"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 2 -subj "/CN=A private root" \
		-addext basicConstraints=critical,CA:TRUE -addext keyUsage=critical,keyCertSign -keyout "$of/root.key" -out "$of/root.pem" 2>"$of/log"
	openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=localhost" -keyout "$of/key.pem" -out "$of/request.pem" 2>>"$of/log"
	printf 'subjectAltName=DNS:localhost\nextendedKeyUsage=serverAuth\nbasicConstraints=CA:FALSE\n' >"$of/extensions"
	openssl x509 -req -in "$of/request.pem" -CA "$of/root.pem" -CAkey "$of/root.key" -CAcreateserial -days 2 -extfile "$of/extensions" \
		-out "$of/cert.pem" 2>>"$of/log"
}

# serve OUT COMMAND...: until the end; such programs stop when their input ends, so it is kept open.
serve() {
	local out=$1
	shift
	"$@" <"$work/open" >"$out" 2>"$out.err" &
	started+=($!)
	await $! "$out.err" test -s "$out"
}

flow() {
	CLOISTER_CREDENTIALS=$sim_credentials CLOISTER_HOST=$PWD/bin/cloister-host CLOISTER_PAGE=$work/page CLOISTER_CHROMIUM=$chromium \
		GETH_URL=${geth_url:-} GETH_KEY=${geth_funded_key:-} \
		CLOISTER_MAILS=$work/mails CLOISTER_MOONPAY_PORT=$moonpay_port CLOISTER_OPENID_ISSUER=$issuer NODE_EXTRA_CA_CERTS=$work/tls/root.pem \
		node --test --test-timeout=900000 --test-reporter=spec "$work/node/$1.mjs"
}

chromium=$(command -v chromium || true)
lacking=()
[ -n "$chromium" ] || lacking+=(chromium)
command -v node >/dev/null || lacking+=(nodejs)
command -v npm >/dev/null || lacking+=(npm)
command -v openssl >/dev/null || lacking+=(openssl)
/usr/bin/python3 -c 'import aiosmtpd' 2>/dev/null || lacking+=(python3-aiosmtpd)
if [ ${#lacking[@]} -gt 0 ]; then
	left_out "$what" "apt-get install ${lacking[*]}"
	finish
	exit
fi
for packages in oidc auth; do
	if ! node_modules "$PWD/scripts/$packages" "$packages"; then
		left_out "$what" "npm could not fetch the packages of scripts/$packages/package.json"
		finish
		exit
	fi
	mkdir -p "$work/$packages"
	ln -s "$modules/node_modules" "$work/$packages/node_modules"
done
mkdir "$work/node" "$work/page"
cp scripts/oidc/provider.mjs "$work/oidc/"
cp "$here"/node/*.mjs "$work/node/"
cp "$here"/page/* "$work/page/"
ln -s "$modules/node_modules" "$work/node_modules"
esbuild() {
	"$modules/node_modules/.bin/esbuild" "$work/page/$1.mjs" --bundle --minify --define:process.env.NODE_ENV='"production"' --format="$2" --platform=browser --log-level=warning --outfile="$work/page/$1.js"
}
esbuild wallet esm
esbuild kit esm
esbuild extension iife

certificates "$work/tls"
mkfifo "$work/open"
exec 7<>"$work/open"
serve "$work/mails" /usr/bin/python3 scripts/outward/mail.py "$work/tls/cert.pem" "$work/tls/key.pem"
port=$(free_port)
issuer=https://localhost:$port
serve "$work/provider" node "$work/oidc/provider.mjs" "$issuer" "$work/tls/cert.pem" "$work/tls/key.pem" "$port"
mail_port=$(head -n 1 "$work/mails" | sed 's/.*"tls": *\([0-9]*\).*/\1/')
moonpay_port=$(free_port)
CLOISTER_ON_RAMPS=FIAT_ON_RAMP_PROVIDER_MOONPAY=http://127.0.0.1:$moonpay_port \
	CLOISTER_SMTP=smtps://user:pass%20word@localhost:$mail_port CLOISTER_ISSUER_ROOTS=$work/tls/root.pem CLOISTER_AUTH_PROXY_UNLIMITED=true \
	start_sim "$work/data"
[ $# -gt 0 ] || set -- browser passkey code encrypted oauth openid wallet leads session onramp secrets sponsored
credentials=$sim_credentials
for name in "$@"; do
	sim_credentials=$credentials
	if [ "$name" = sponsored ]; then
		if ! geth_built; then
			left_out "$what: sponsored transactions" "the Go module proxy did not give github.com/ethereum/go-ethereum/cmd/geth@$GETH_VERSION"
			continue
		fi
		# A simulator of its own: a configuration takes the place of all that the flags say.
		with_station
		start_geth "$work/geth"
		printf '{"gas":{"prices":{"eip155:%s":2500000000}}}' "$geth_chain_id" >"$work/configuration"
		CLOISTER_CHAIN=eip155:$geth_chain_id=$geth_url CLOISTER_CONFIGURATION=$work/configuration CLOISTER_AUTH_PROXY_UNLIMITED=true \
			start_sim "$work/sponsored"
	fi
	stage "$name" flow "$name"
done
finish
