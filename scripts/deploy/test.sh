#!/usr/bin/env bash
# The files of this folder against the programs that they are for: alerts and dashboard against the metrics of a running
# simulator, promtool and the tests of the rules, units against systemd, manifests against the types of Kubernetes' API,
# settings against the host's. Then the drill: a real Prometheus with the real rules while enclave, host and store are
# killed, taken away and rolled back. Needs bin/ as `make build` leaves it.
#
#   scripts/deploy/test.sh
set -euo pipefail
cd "$(dirname "$0")/../.."
. scripts/stage.sh
. scripts/engines.sh
here=scripts/deploy
work=$(mktemp -d)
trap 'stop_engines; rm -rf "$work"' EXIT

# Built once for each state of its sources. Nothing here is worth optimizing the API's types for.
checker() {
	checked=$CACHE/deploy-check-$(cat $here/check/go.sum $here/check/*.go <("$GO" version) | sha256sum | cut -c1-16)
	[ -x "$checked" ] && return 0
	mkdir -p "$CACHE"
	(cd $here/check && GOEXPERIMENT='' CGO_ENABLED=0 "$GO" build -gcflags='k8s.io/...=-N -l' -o "$work/check" .)
	mv "$work/check" "$checked"
}

together() {
	checker
	bin/cloister-host request -credentials "$sim_credentials" /public/v1/query/whoami '{}' >/dev/null
	exec 3<>"/dev/tcp/127.0.0.1/$sim_port"
	printf 'GET /metrics HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n' >&3
	cat <&3 >"$work/metrics"
	exec 3>&-
	bin/cloister-host serve -help >"$work/settings"
	bin/cloister-host backup -help >>"$work/settings"
	# This simulator has no certificate and no witnesses and waits for no shares; backups are told of by the unit that makes them.
	for each in 'cloister_certificate_expiry_timestamp_seconds host/api/watch.go' 'cloister_enclave_shares host/api/watch.go' \
		'cloister_log_rounds_total host/api/metrics.go' 'cloister_log_size host/api/watch.go' 'cloister_witness_size host/api/watch.go' 'cloister_witness_owing_seconds host/api/watch.go' 'cloister_witness_refuses host/api/watch.go' \
		"cloister_backup_last_success_timestamp_seconds $here/systemd/run-backup"; do
		read -r name by <<<"$each"
		grep -qw "$name" "$by"
		echo "$name 1" >>"$work/metrics"
	done
	"$checked" -dir $here -metrics "$work/metrics" -settings "$work/settings" -queries "$work/queries.yaml"
}

rules() {
	promtool check rules $here/prometheus/rules.yaml "$work/queries.yaml"
	promtool check config $here/prometheus/prometheus.yaml
	promtool test rules $here/prometheus/rules_test.yaml
}

# The programs that the units name are elsewhere here, and the allocator's unit is of a package that is not.
units() {
	mkdir "$work/units"
	for unit in "$here"/systemd/*.service "$here"/systemd/*.timer; do
		[ -e "$unit" ] || continue
		sed "s#/usr/local/bin/#$PWD/bin/#; s#/usr/local/lib/cloister/#$PWD/$here/systemd/#" "$unit" >"$work/units/$(basename "$unit")"
	done
	printf '[Service]\nType=oneshot\nExecStart=/bin/true\n' >"$work/units/nitro-enclaves-allocator.service"
	SYSTEMD_UNIT_PATH=$work/units: systemd-analyze verify --man=no "$work"/units/cloister-*
	systemd-analyze calendar "$(sed -n 's/^OnCalendar=//p' $here/systemd/cloister-backup.timer)" >/dev/null
	systemd-analyze security --offline=true --threshold=20 --no-pager "$work/units/cloister-host.service" | tail -n 1
	systemd-analyze security --offline=true --threshold=40 --no-pager "$work/units/cloister-enclave.service" | tail -n 1
	systemd-analyze security --offline=true --threshold=25 --no-pager "$work/units/cloister-backup.service" | tail -n 1
}

# The unit's script with a program in place of nitro-cli, which exists on its instances only: what is tried here is that
# the unit ends when the enclave does, and the enclave when the unit is stopped.
runner() {
	mkdir "$work/nitro"
	cat >"$work/nitro/nitro-cli" <<-'END'
		#!/bin/sh
		echo "$*" >>"$NITRO/asked"
		case $1 in
		run-enclave) touch "$NITRO/runs" ;;
		terminate-enclave) rm -f "$NITRO/runs" ;;
		describe-enclaves) if [ -e "$NITRO/runs" ]; then echo '[ { "EnclaveName": "cloister", "State": "RUNNING" } ]'; else echo '[]'; fi ;;
		esac
	END
	chmod +x "$work/nitro/nitro-cli"
	export NITRO=$work/nitro PATH=$work/nitro:$PATH
	set -a
	# shellcheck source=/dev/null
	. $here/systemd/enclave.env
	set +a
	local status=0
	# One that was left behind ends first; the unit's end is the enclave's.
	touch "$NITRO/runs"
	sh $here/systemd/run-enclave 2>"$work/said" &
	until grep -q '^run-enclave' "$NITRO/asked" 2>/dev/null; do sleep 0.1; done
	kill -TERM $!
	wait $! || status=$?
	[ "$status" = 0 ] && [ ! -e "$NITRO/runs" ]
	grep -q -- '^run-enclave --enclave-name cloister --enclave-cid 16 --cpu-count 2 --memory 4096 --eif-path /usr/local/lib/cloister/cloister.eif$' "$NITRO/asked"
	[ "$(grep -c '^terminate-enclave' "$NITRO/asked")" = 2 ]
	if grep -q -- --debug-mode "$NITRO/asked"; then return 1; fi
	# An enclave that ends by itself is a failure for systemd to act on.
	sed -i 's/^run-enclave) .*/run-enclave) : ;;/' "$NITRO/nitro-cli"
	if sh $here/systemd/run-enclave 2>"$work/said"; then return 1; fi
	grep -q 'has ended' "$work/said"
	echo "ends with the enclave, and ends it"
}

# The unit's script on the simulator's store; a backup that fails is not told of as good.
backed_up() {
	mkdir "$work/backups" "$work/told"
	export CLOISTER_HOST=$PWD/bin/cloister-host CLOISTER_DATA_DIR=$work/sim CLOISTER_BACKUP_TO=$work/backups BACKUP_METRICS=$work/told
	$here/systemd/run-backup
	[ "$(ls "$work/backups" | wc -l)" = 1 ]
	local told now
	told=$(sed -n 's/^cloister_backup_last_success_timestamp_seconds //p' "$work/told/cloister_backup.prom")
	now=$(date +%s)
	[ $((now - told)) -le 5 ] && [ $((now - told)) -ge 0 ]
	rm "$work/told/cloister_backup.prom"
	CLOISTER_BACKUP_TO=$work/sim/credentials.json/none
	if $here/systemd/run-backup 2>/dev/null; then return 1; fi
	[ ! -e "$work/told/cloister_backup.prom" ]
}

start_sim "$work/sim"
stage "files and programs agree" together
stage "what makes backups" backed_up
if command -v promtool >/dev/null; then
	stage "rules, their tests and the dashboard's queries" rules
else
	left_out "alerts and dashboard" "promtool: apt-get download prometheus, and its usr/bin/promtool into the PATH"
fi
if command -v systemd-analyze >/dev/null; then
	stage "units" units
else
	left_out "systemd units" "apt-get install systemd"
fi
stage "what runs the enclave" runner
if ! command -v prometheus >/dev/null; then
	left_out "alerts of a running deployment" "prometheus: apt-get download prometheus, and its usr/bin/prometheus into the PATH"
elif ! compgen -G '/usr/lib/postgresql/*/bin/postgres' >/dev/null; then
	left_out "alerts of a running deployment" "apt-get install postgresql"
else
	stage "drill" $here/drill.sh
fi
finish
