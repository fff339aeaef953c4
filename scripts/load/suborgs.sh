#!/usr/bin/env bash
# What sub-organizations cost as they grow in number, on PostgreSQL: finding one, using one, and the enclave's memory.
#
#   scripts/load/suborgs.sh [SIZES]        such as 1000,10000,100000; the table goes to standard output
#   STORE=sqlite                           on SQLite instead
#   SPARE=1                                without taskset: the machine may do something else
#
# Wants PostgreSQL's programs, which it starts a server of its own from, on a socket in a temporary folder.
set -euo pipefail
cd "$(dirname "$0")/../.."
sizes=${1:-1000,10000,100000}
make --no-print-directory build >&2
tmp=$(mktemp -d /tmp/suborgs.XXXXXX)
sim='' pg=''
finish() {
	[ -z "$sim" ] || { kill "$sim" 2>/dev/null || true; wait "$sim" 2>/dev/null || true; }
	[ -z "$pg" ] || { kill -INT "$pg" 2>/dev/null || true; wait "$pg" 2>/dev/null || true; }
	rm -rf "$tmp"
}
trap finish EXIT
mkdir "$tmp/data"
store=sqlite:$tmp/data/cloister.db
if [ "${STORE:-postgres}" = postgres ]; then
	bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
	bin=${bin:-$(dirname "$(command -v postgres)")}
	mkdir "$tmp/pg"
	as=()
	if [ "$(id -u)" = 0 ]; then # PostgreSQL does not run as root
		account=$(id -un postgres 2>/dev/null || id -un nobody)
		chmod 755 "$tmp"
		chown "$account" "$tmp/pg"
		as=(setpriv --reuid="$account" --regid="$(id -g "$account")" --clear-groups)
	fi
	(cd "$tmp/pg" && "${as[@]}" "$bin/initdb" -D "$tmp/pg/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$tmp/pg/initdb.log")
	(cd "$tmp/pg" && exec "${as[@]}" "$bin/postgres" -D "$tmp/pg/data" -k "$tmp/pg" -c listen_addresses= >"$tmp/pg.log" 2>&1) &
	pg=$!
	until [ -S "$tmp/pg/.s.PGSQL.5432" ] && "$bin/pg_isready" -q -h "$tmp/pg" -U postgres; do
		kill -0 "$pg" || { cat "$tmp/pg.log" >&2; exit 1; }
		sleep 0.1
	done
	store="postgres:///postgres?user=postgres&host=$tmp/pg"
fi
on() { if [ -n "${SPARE:-}" ]; then exec "${@:2}"; else exec taskset -c "$1" "${@:2}"; fi; } # in a subshell, so that what is killed is the program
go build -o "$tmp/suborgs" ./scripts/load/suborgs
port=${PORT:-18490}
on 0 bin/cloister-sim -data-dir "$tmp/data" -store "$store" -api-addr "127.0.0.1:$port" -auth-proxy-addr "127.0.0.1:$((port + 1))" -log-level warn >"$tmp/sim.log" 2>&1 &
sim=$!
until grep -q 'Cloister is running' "$tmp/sim.log"; do
	kill -0 "$sim" || { cat "$tmp/sim.log" >&2; exit 1; }
	sleep 0.2
done
(on 1 "$tmp/suborgs" -data "$tmp/data" -sizes "$sizes" -c "${CLIENTS:-16}" -reps "${REPS:-200}")
[ -z "$pg" ] || du -sm "$tmp/pg/data" | awk '{print "database directory: " $1 " MiB"}'
