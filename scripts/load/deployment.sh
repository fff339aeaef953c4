# shellcheck shell=bash disable=SC2034,SC2154
# Sourced by the load tests: a PostgreSQL and a simulator of their own, and how they end. $tmp is the caller's folder.
sim='' pg=''

# stop ends what postgres and simulate have started.
stop() {
	[ -z "$sim" ] || { kill "$sim" 2>/dev/null || true; wait "$sim" 2>/dev/null || true; sim=''; }
	[ -z "$pg" ] || { kill -INT "$pg" 2>/dev/null || true; wait "$pg" 2>/dev/null || true; pg=''; }
}

# on CPU COMMAND: replaces the shell, so that what is killed is the program. With SPARE it may run anywhere.
on() { if [ -n "${SPARE:-}" ]; then exec "${@:2}"; else exec taskset -c "$1" "${@:2}"; fi; }

# postgres SETTING...: a server on a socket in $tmp/pg, over what an earlier one has left there.
postgres() {
	local bin account setting as=() settings=()
	bin=$(ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -1)
	bin=${bin:-$(dirname "$(command -v postgres)")}
	for setting; do settings+=(-c "$setting"); done
	mkdir -p "$tmp/pg"
	if [ "$(id -u)" = 0 ]; then # PostgreSQL does not run as root
		account=$(id -un postgres 2>/dev/null || id -un nobody)
		chmod 755 "$tmp"
		chown "$account" "$tmp/pg"
		as=(setpriv --reuid="$account" --regid="$(id -g "$account")" --clear-groups)
	fi
	[ -d "$tmp/pg/data" ] || (cd "$tmp/pg" && "${as[@]}" "$bin/initdb" -D "$tmp/pg/data" -U postgres -A trust -E UTF8 --locale=C --no-sync >"$tmp/pg/initdb.log")
	(cd "$tmp/pg" && exec "${as[@]}" nice -n "${NICE:-0}" "$bin/postgres" -D "$tmp/pg/data" -k "$tmp/pg" -c listen_addresses= "${settings[@]}" >"$tmp/pg.log" 2>&1) &
	pg=$!
	until [ -S "$tmp/pg/.s.PGSQL.5432" ] && "$bin/pg_isready" -q -h "$tmp/pg" -U postgres; do
		kill -0 "$pg" || { cat "$tmp/pg.log" >&2; exit 1; }
		sleep 0.1
	done
	store="postgres:///postgres?user=postgres&host=$tmp/pg"
}

# simulate PROGRAM PORT FLAG...: the simulator on CPU 0, with $tmp/data and no witnesses, which log.sh measures.
simulate() {
	mkdir -p "$tmp/data"
	on 0 "$1" -data-dir "$tmp/data" -api-addr "127.0.0.1:$2" -auth-proxy-addr "127.0.0.1:$(($2 + 1))" -log none -log-level warn "${@:3}" >"$tmp/sim.log" 2>&1 &
	sim=$!
	until grep -q 'Cloister is running' "$tmp/sim.log"; do
		kill -0 "$sim" || { cat "$tmp/sim.log" >&2; exit 1; }
		sleep 0.2
	done
}
