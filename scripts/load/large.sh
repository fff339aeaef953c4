#!/usr/bin/env bash
# What grows with a deployment's size, on PostgreSQL: accounts in one wallet, then sub-organizations, then activities,
# with what each costs at each mark. All entries are real ones, made by the enclave.
#
#   scripts/load/large.sh [FLAGS]      flags of the program large: -accounts, -suborgs, -activities, -until; see -help
#   LARGE=dir                          where everything is kept: a run goes on where the last one ended; default: a
#                                      temporary folder that is removed
#
# The whole wants some 25 GB, and hours. Wants PostgreSQL's programs, which it starts a server of its own from.
set -euo pipefail
cd "$(dirname "$0")/../.."
make --no-print-directory build >&2
tmp=${LARGE:-$(mktemp -d /tmp/large.XXXXXX)}
pg=''
finish() {
	[ -z "$pg" ] || { kill -INT "$pg" 2>/dev/null || true; wait "$pg" 2>/dev/null || true; }
	[ -n "${LARGE:-}" ] || rm -rf "$tmp"
}
trap finish EXIT
mkdir -p "$tmp/data" "$tmp/pg"
bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
bin=${bin:-$(dirname "$(command -v postgres)")}
as=()
if [ "$(id -u)" = 0 ]; then # PostgreSQL does not run as root
	account=$(id -un postgres 2>/dev/null || id -un nobody)
	chmod 755 "$tmp"
	chown "$account" "$tmp/pg"
	as=(setpriv --reuid="$account" --regid="$(id -g "$account")" --clear-groups)
fi
[ -d "$tmp/pg/data" ] || (cd "$tmp/pg" && "${as[@]}" "$bin/initdb" -D "$tmp/pg/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$tmp/pg/initdb.log")
# Checkpoints are far apart, as in a database that is written to all day; what is confirmed is on disk.
(cd "$tmp/pg" && exec "${as[@]}" nice -n "${NICE:-0}" "$bin/postgres" -D "$tmp/pg/data" -k "$tmp/pg" -c listen_addresses= -c shared_buffers=2GB \
	-c max_wal_size=4GB -c checkpoint_timeout=15min >"$tmp/pg.log" 2>&1) &
pg=$!
until [ -S "$tmp/pg/.s.PGSQL.5432" ] && "$bin/pg_isready" -q -h "$tmp/pg" -U postgres; do
	kill -0 "$pg" || { cat "$tmp/pg.log" >&2; exit 1; }
	sleep 0.1
done
go build -o "$tmp/large" ./scripts/load/large
nice -n "${NICE:-0}" "$tmp/large" -bin bin -data "$tmp/data" -store "postgres:///postgres?user=postgres&host=$tmp/pg" -database "$tmp/pg/data" "$@"
