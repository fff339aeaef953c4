#!/usr/bin/env bash
# The official SDKs, unmodified, against the simulator: everything is made, signed and judged, then every process is killed
# with -9, the simulator starts again on the same data, and all must still be there and sign.
#
#   scripts/interop/run.sh [passkeys] [replies] [sqlite] [postgres]      all when none is named
#
# passkeys needs no simulator: what the enclave says of registrations and assertions, good and altered, is held against what
# two other implementations say.
#
# Needs bin/ as `make build` leaves it. Node and PostgreSQL are used when they are there, and reported when they are not.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
here=$PWD/scripts/interop
bin=$PWD/bin
work=$(mktemp -d)
sim=''
database=''

stop_all() {
	[ -z "$sim" ] || kill_family "$sim"
	[ -z "$database" ] || kill_family "$database"
	sim='' database=''
}
trap 'stop_all; rm -rf "$work"' EXIT

# start_again: by the environment alone, the way an operator runs a second instance, with the addresses that the first start
# had: the measured configuration names those of the inbox. Waits up to five minutes.
start_again() {
	CLOISTER_AUTH_PROXY=false CLOISTER_DATA_DIR=$data CLOISTER_STORE=$store \
		CLOISTER_API_ADDR=127.0.0.1:$api CLOISTER_AUTH_PROXY_ADDR=127.0.0.1:$proxy \
		CLOISTER_CHAIN=eip155:11155111=http://127.0.0.1:$chain CLOISTER_INBOX_ADDR=127.0.0.1:$inbox CLOISTER_INBOX_SMTP_ADDR=127.0.0.1:$smtp \
		"$bin/cloister-sim" >>"$data.log" 2>&1 &
	sim=$!
	await "$sim" "$data.log" again_up
}

again_up() {
	[ -s "$data/credentials.json" ] && (ready "$api") 2>/dev/null
}

# start_database: a PostgreSQL of its own in the scratch folder; as root it runs as an ordinary user, as it insists on.
start_database() {
	local postgres port=$1 as=()
	postgres=$(dirname "$(compgen -G '/usr/lib/postgresql/*/bin/postgres' | sort -V | tail -n 1)")
	mkdir -p "$work/pg"
	if [ "$(id -u)" -eq 0 ]; then
		chmod 711 "$work"
		chown nobody "$work/pg"
		as=(setpriv --reuid=nobody --clear-groups --regid="$(id -g nobody)")
	fi
	"${as[@]}" "$postgres/initdb" -D "$work/pg/data" -U cloister -A trust -E UTF8 --locale=C >"$work/initdb.log" 2>&1 ||
		{ cat "$work/initdb.log"; return 1; }
	"${as[@]}" "$postgres/postgres" -D "$work/pg/data" -p "$port" -c listen_addresses=127.0.0.1 \
		-c unix_socket_directories='' >"$work/postgres.log" 2>&1 &
	database=$!
	local deadline=$((SECONDS + 300))
	until "$postgres/pg_isready" -q -h 127.0.0.1 -p "$port" -U cloister -d postgres; do
		[ $SECONDS -lt $deadline ] || { cat "$work/postgres.log"; return 1; }
		sleep 0.1
	done
}

have_node=no
if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
	left_out "the JavaScript SDKs" "apt-get install nodejs npm"
elif ! node_modules "$here" interop; then
	left_out "the JavaScript SDKs" "npm could not fetch the packages of scripts/interop/package.json"
else
	have_node=yes
	mkdir "$work/node"
	cp "$here"/node/*.mjs attestation/js/signed-replies.mjs attestation/js/verify.mjs "$work/node/"
	ln -s "$modules/node_modules" "$work/node/node_modules"
fi

have_go=no
if ! (cd "$here/gosdk" && GOFLAGS='' "$GO" list -deps .) >"$work/mod.log" 2>&1; then
	left_out "the Go SDK" "a Go module proxy must serve the modules of scripts/interop/gosdk/go.mod"
else
	have_go=yes
	(cd "$here/gosdk" && GOFLAGS='' "$GO" build -o "$work/gosdk" .)
fi

have_webauthn=no
if ! (cd "$here/webauthn" && GOFLAGS='' "$GO" list -deps .) >"$work/mod.log" 2>&1; then
	left_out "go-webauthn" "a Go module proxy must serve the modules of scripts/interop/webauthn/go.mod"
else
	have_webauthn=yes
	(cd "$here/webauthn" && GOFLAGS='' "$GO" build -o "$work/webauthn" .)
fi

# passkeys: a test of the enclave's room writes its cases with its verdicts, then the others judge them.
passkeys() {
	export CLOISTER_WEBAUTHN_CASES=$work/passkeys.json
	"$GO" test -count=1 -run '^TestCases$' ./enclave/internal/webauthn -args -corpus "$CLOISTER_WEBAUTHN_CASES"
	if [ "$have_webauthn" = yes ]; then
		"$work/webauthn" "$CLOISTER_WEBAUTHN_CASES"
	fi
	if [ "$have_node" = yes ]; then
		node --test --test-reporter=spec "$work/node/webauthn.mjs"
	fi
}

# replies: the check of signed replies for JavaScript, by itself.
replies() {
	[ "$have_node" = no ] || node --test --test-reporter=spec attestation/js/*.test.mjs
}

# sdks PHASE: made (everything is made) or kept (everything is still there).
sdks() {
	export CLOISTER_NODE_PORT=$chain CLOISTER_CREDENTIALS=$data/credentials.json CLOISTER_STATE=$data.state CLOISTER_VERIFY=$bin/cloister-verify CLOISTER_VERIFIER=$PWD/host/dashboard/verifier
	mkdir -p "$CLOISTER_STATE"
	if [ "$have_node" = yes ]; then
		node --test --test-reporter=spec --test-concurrency=1 "$work/node/$1"*.mjs
	fi
	if [ "$have_go" = yes ]; then
		"$work/gosdk" -credentials "$CLOISTER_CREDENTIALS" -state "$CLOISTER_STATE/gosdk.json" -verify "$CLOISTER_VERIFY" -phase "$1"
	fi
}

# whole NAME STORE: the line of this file's first sentence, on one store.
whole() {
	data=$work/$1
	store=$2
	api=$(free_port)
	proxy=$(free_port)
	inbox=$(free_port)
	smtp=$(free_port)
	chain=$(free_port)
	start_again
	sdks made
	kill_family "$sim"
	start_again
	sdks kept
	kill_family "$sim"
	sim=''
}

on_postgres() {
	local port
	if ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
		left_out "the SDKs on PostgreSQL" "apt-get install postgresql-15"
		return 0
	fi
	trap stop_all EXIT # a stage is a shell of its own: what it starts it ends
	port=$(free_port)
	start_database "$port"
	whole postgres "postgres://cloister@127.0.0.1:$port/postgres?sslmode=disable"
}

on_sqlite() {
	trap stop_all EXIT
	whole sqlite ''
}

[ $# -gt 0 ] || set -- passkeys replies sqlite postgres
for name in "$@"; do
	case $name in
	passkeys) stage "passkeys" passkeys ;;
	replies) stage "signed replies in JavaScript" replies ;;
	sqlite) stage "SDKs on SQLite" on_sqlite ;;
	postgres) stage "SDKs on PostgreSQL" on_postgres ;;
	*) echo "unknown stage: $name" >&2 && exit 2 ;;
	esac
done
finish
