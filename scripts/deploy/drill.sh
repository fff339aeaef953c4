#!/usr/bin/env bash
# Walks through the runbook where a simulator can: host and enclave as processes of their own, the store a PostgreSQL
# with a password, and a Prometheus that reads the real rules (only their "for" is cut to nothing). Each step does what an
# incident does and waits for the alert, does what the runbook says and waits for its end.
#
#   scripts/deploy/drill.sh
#
# Walked: enclave gone, an enclave that waits for its operators, host down, store gone (and back, without a boot), an old
# copy of the store under a running enclave, an old copy of the store at a boot.
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
work=$(mktemp -d)
chmod 755 "$work"
trap 'stop_engines; rm -rf "$work"' EXIT

pgbin=$(compgen -G '/usr/lib/postgresql/*/bin' | sort -V | tail -n 1)
as=()
if [ "$(id -u)" = 0 ]; then # PostgreSQL does not run as root
	account=$(id -un postgres 2>/dev/null || id -un nobody)
	as=(setpriv --reuid="$account" --regid="$(id -g "$account")" --clear-groups)
fi
mkdir "$work/pg" "$work/data"
[ ${#as[@]} -eq 0 ] || chown "$account" "$work/pg"
pg_port=$(free_port)
password=drill-$RANDOM$RANDOM

postgres_up() { "$pgbin/pg_isready" -q -h 127.0.0.1 -p "$pg_port" -U postgres; }

start_postgres() {
	(cd "$work/pg" && exec "${as[@]}" "$pgbin/postgres" -D "$work/pg/data" -p "$pg_port" -k '' -c listen_addresses=127.0.0.1 -c max_connections=40) >>"$work/pg.log" 2>&1 &
	postgres=$!
	started+=("$postgres")
	await "$postgres" "$work/pg.log" postgres_up
}

stop_postgres() {
	kill -INT "$postgres"
	wait "$postgres" || true
}

printf '%s' "$password" >"$work/pg/password"
chmod 644 "$work/pg/password"
(cd "$work/pg" && "${as[@]}" "$pgbin/initdb" -D "$work/pg/data" -U postgres -A scram-sha-256 --pwfile="$work/pg/password" -E UTF8 --locale=C --no-sync >"$work/pg/log")
start_postgres
# The password as the unit has it: in a file.
printf '127.0.0.1:%s:postgres:postgres:%s\n' "$pg_port" "$password" >"$work/pgpass"
chmod 600 "$work/pgpass"

enclave_port=$(free_port)
api_port=$(free_port)
ops_port=$(free_port)

start_enclave() {
	bin/cloister-sim enclave -data-dir "$work/data" -enclave-addr "127.0.0.1:$enclave_port" -lease 1s >>"$work/enclave.log" 2>&1 &
	enclave=$!
	started+=("$enclave")
	await "$enclave" "$work/enclave.log" listening "$enclave_port"
}

boot() { bin/cloister-sim boot -data-dir "$work/data" -enclave-addr "127.0.0.1:$enclave_port" -api-addr "127.0.0.1:$api_port" -no-inbox >>"$work/boot.log" 2>&1; }

start_host() {
	PGPASSFILE=$work/pgpass CLOISTER_DATA_DIR=$work/data CLOISTER_STORE="postgres://postgres@127.0.0.1:$pg_port/postgres?sslmode=disable" \
		bin/cloister-host serve -enclave "tcp://127.0.0.1:$enclave_port" -api-addr "127.0.0.1:$api_port" -auth-proxy-addr off -request-timeout 3s -ops-addr "127.0.0.1:$ops_port" >>"$work/host.log" 2>&1 &
	host=$!
	started+=("$host")
	await "$host" "$work/host.log" listening "$ops_port"
}

# ended PID: kills it and waits.
ended() {
	kill -KILL "$1"
	wait "$1" 2>/dev/null || true
}

served() { (ready "$ops_port") 2>/dev/null; }

# submitted NAME: a decision that is stored; the organization's users and their names are nobody's here.
submitted() {
	bin/cloister-host request -credentials "$work/data/credentials.json" -submit ACTIVITY_TYPE_CREATE_USER_TAG \
		/public/v1/submit/create_user_tag "{\"userTagName\":\"$1\",\"userIds\":[]}" >"$work/reply" 2>&1
}

listed() {
	bin/cloister-host request -credentials "$work/data/credentials.json" /public/v1/query/list_user_tags '{}' >"$work/reply" 2>&1 && [ "$(grep -o "\"$1\"" "$work/reply" | wc -l)" = 1 ]
}

prometheus_port=$(free_port)
{
	cat <<-END
		global: {scrape_interval: 500ms, scrape_timeout: 500ms, evaluation_interval: 500ms}
		rule_files: [rules.yaml]
		scrape_configs:
		  - job_name: cloister
		    static_configs: [{targets: ["127.0.0.1:$ops_port"]}]
	END
} >"$work/prometheus.yaml"
sed -E 's/^( +for: ).*/\10s/' scripts/deploy/prometheus/rules.yaml >"$work/rules.yaml"

# alerts: the names of those that fire now.
alerts() {
	exec 4<>"/dev/tcp/127.0.0.1/$prometheus_port" || return 1
	printf 'GET /api/v1/alerts HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&4
	# Nobody makes backups here, and nobody is to.
	cat <&4 | grep -o '"alertname":"[A-Za-z]*"' | cut -d'"' -f4 | grep -vx CloisterBackupOld | sort -u
	exec 4>&-
}

# in_time WHAT COMMAND...: waits five minutes at most.
in_time() {
	local deadline=$((SECONDS + 300)) what=$1
	shift
	until "$@"; do
		if [ $SECONDS -ge $deadline ]; then
			echo "did not come: $what; alerts now: $(alerts | paste -sd ' ')"
			tail -n 5 "$work/host.log" "$work/enclave.log" "$work/boot.log"
			return 1
		fi
		sleep 0.2
	done
	echo "$what"
}

gone() { ! kill -0 "$1" 2>/dev/null; }
fires() { alerts | grep -qx "$1"; }
# quiet NAME...: none of these fires.
quiet() {
	local now name
	now=$(alerts) || return 1
	for name in "$@"; do
		if grep -qx "$name" <<<"$now"; then return 1; fi
	done
}
silent() { [ -z "$(alerts)" ]; }

start_enclave
start_host
boot
in_time "served" served
submitted first
prometheus --config.file="$work/prometheus.yaml" --storage.tsdb.path="$work/tsdb" --web.listen-address="127.0.0.1:$prometheus_port" --log.level=warn >"$work/prometheus.log" 2>&1 &
started+=($!)
await $! "$work/prometheus.log" listening "$prometheus_port"
sleep 2
in_time "all is well: no alert" silent

ended "$enclave"
in_time "enclave killed: CloisterEnclaveGone" fires CloisterEnclaveGone
start_enclave
in_time "started again, nobody has booted it: CloisterEnclaveWaits" fires CloisterEnclaveWaits
boot
in_time "booted: served" served
in_time "over" quiet CloisterEnclaveGone CloisterEnclaveWaits CloisterRecoveryStuck
submitted second

ended "$host"
in_time "host killed: CloisterHostDown" fires CloisterHostDown
start_host
in_time "started again: over" quiet CloisterHostDown
in_time "served, by the same boot" served

stop_postgres
in_time "store stopped: CloisterStoreGone" fires CloisterStoreGone
if submitted third; then echo "something was decided without a store"; exit 1; fi
# The copy that an attacker, or a mishap, brings back later.
cp -a "$work/pg/data" "$work/pg/old"
start_postgres
in_time "store back: served, by the same boot" served
in_time "over" quiet CloisterStoreGone
# What was asked for meanwhile was decided and waited, or was refused: asked again, it is there once.
again() { listed third || { submitted third; listed third; }; }
in_time "what was asked for meanwhile is done, once" again
submitted fourth
in_time "nobody has caught anybody yet" quiet CloisterRollbackDetected CloisterStoreTaken CloisterBootNumberFell

# One boot more than the copy counts.
ended "$enclave"
start_enclave
boot
in_time "a third boot: served" served
submitted again
sleep 1.5
stop_postgres
mv "$work/pg/data" "$work/pg/newest"
mv "$work/pg/old" "$work/pg/data"
start_postgres
submitted fifth || true
in_time "an old copy under a running enclave: CloisterStoreTaken" fires CloisterStoreTaken
if submitted sixth; then echo "something was decided on the old copy by the enclave that knows better"; exit 1; fi
if kill -0 "$enclave" 2>/dev/null; then in_time "it has ended itself" gone "$enclave"; fi
start_enclave
boot
in_time "a new boot believes it, as nobody can tell it otherwise: served" served
submitted seventh
in_time "but it is a boot that was counted before: CloisterBootNumberFell" fires CloisterBootNumberFell
