# shellcheck shell=bash disable=SC2034
# Sourced by the scripts beside it: naming, timing and counting of stages, and the list of what was left out.
#
# A stage is a named command. It passes, fails, or leaves something out: then it calls left_out and goes on. The list is a
# file (CLOISTER_LEFT_OUT) of scripts/stages, which runs these scripts, or else of the script that made it and prints it at
# the end. Under CLOISTER_TEST_REQUIRE=all anything on it is a failure.

GO=${GO:-go}
CACHE=${CLOISTER_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/cloister}

if [ -z "${CLOISTER_LEFT_OUT:-}" ]; then
	CLOISTER_LEFT_OUT=$(mktemp)
	export CLOISTER_LEFT_OUT
	list_is_mine=yes
fi

passed=0
failed=()
times=()

# A toolchain that knows runtime/secret builds the product with it, and so the tests.
if [ -z "${GOEXPERIMENT:-}" ] && GOEXPERIMENT=runtimesecret "$GO" version >/dev/null 2>&1; then
	export GOEXPERIMENT=runtimesecret
fi

# used: sets spent to the hundredths of a second that this shell's processes which have ended have had on processors, as the
# kernel counts them.
used() {
	local line
	read -r line <"/proc/$BASHPID/stat"
	# shellcheck disable=SC2086
	set -- ${line##*) }
	spent=$((${14} + ${15}))
}

# counted NAME STATUS SECONDS HUNDREDTHS-OF-PROCESSOR-TIME: takes a stage's end into the report.
counted() {
	local result=ok
	if [ "$2" -eq 0 ]; then
		passed=$((passed + 1))
	else
		failed+=("$1")
		result=FAILED
	fi
	times+=("$(printf '%5d s  %5d s of processors  %-6s %s' "$3" $(($4 / 100)) "$result" "$1")")
	printf '== %s: %s in %d s\n' "$1" "$result" "$3"
}

# left_out WHAT HOW-TO-GET-IT
left_out() {
	printf '%s (%s)\n' "$1" "$2" >>"$CLOISTER_LEFT_OUT"
}

# stage NAME COMMAND...: a failure is remembered and the next stage runs. The command runs in a shell of its own that
# stops at its first error; as the condition of an `if` it would not.
stage() {
	local name=$1 began=$SECONDS before spent status
	used
	before=$spent
	shift
	printf '\n== %s\n' "$name"
	set +e
	(
		set -e
		"$@"
	)
	status=$?
	set -e
	used
	counted "$name" "$status" $((SECONDS - began)) $((spent - before))
}

# finish: the closing report. Its status is that of the whole run.
finish() {
	if [ "${list_is_mine:-}" = yes ] && [ -s "$CLOISTER_LEFT_OUT" ]; then
		printf '\n'
		sort -u "$CLOISTER_LEFT_OUT" | sed 's/^/left out: /'
		if [ "${CLOISTER_TEST_REQUIRE:-}" = all ]; then
			failed+=("nothing may be left out under CLOISTER_TEST_REQUIRE=all")
		fi
	fi
	if [ "${list_is_mine:-}" = yes ]; then
		rm -f "$CLOISTER_LEFT_OUT"
	fi
	printf '\n'
	[ ${#times[@]} -eq 0 ] || printf '%s\n' "${times[@]}"
	[ ${#failed[@]} -eq 0 ] || printf 'failed: %s\n' "${failed[@]}"
	printf '\nstages: %d passed, %d failed\n' "$passed" "${#failed[@]}"
	[ ${#failed[@]} -eq 0 ]
}
