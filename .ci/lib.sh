# Shared by the scripts of this folder: stages with their seconds, counts, skips. Sourced, never run.

CI_OUT="$ROOT/target/ci"
mkdir -p "$CI_OUT"

STAGE_NAME=""
STAGE_START=0

# Closes the stage before, opens the next one.
stage() {
    stage_end
    STAGE_NAME="$1"
    STAGE_START=$SECONDS
    printf '\n=== %s\n' "$STAGE_NAME"
}

stage_end() {
    [ -z "$STAGE_NAME" ] && return 0
    printf -- '--- %s: %d s\n' "$STAGE_NAME" "$((SECONDS - STAGE_START))"
    printf '%6d s  %s\n' "$((SECONDS - STAGE_START))" "$STAGE_NAME" >>"$CI_OUT/times"
    STAGE_NAME=""
}

# What a stage that started something ends by its id; a stage overrides it.
cleanup() { :; }

# Ends the database server of the tests, when one runs; `.ci/postgres.sh` started it.
postgres_stop() {
    [ -n "${postgres_folder:-}" ] || return 0
    bash tests/postgres.sh stop "$postgres_folder/server" || true
    rm -rf "$postgres_folder"
    postgres_folder=""
    unset MURETAI_TEST_POSTGRES
}

# Servers are in sbin, which is not on everybody's path.
have() { PATH="$PATH:/usr/sbin" command -v "$1" >/dev/null 2>&1; }

# Something that this run needs is not there: a fault in CI, a printed skip on a developer's machine.
missing() {
    if [ "${CI:-}" = true ]; then
        printf 'error: %s\n' "$1" >&2
        exit 1
    fi
    printf 'SKIP %s\n' "$1"
    SKIPPED=$((SKIPPED + 1))
}

# Adds to the totals of the closing line.
count() {
    PASSED=$((PASSED + $1))
    FAILED=$((FAILED + $2))
}

# Sums the `test result:` lines of a cargo test log into the totals.
count_cargo_test() {
    local sums
    sums=$(awk '/^test result:/ { for (i = 1; i < NF; i++) {
        if ($(i + 1) == "passed;") p += $i
        if ($(i + 1) == "failed;") f += $i } } END { print p + 0, f + 0 }' "$1")
    # shellcheck disable=SC2086 # two numbers
    count $sums
}

# Installs Debian packages, when this is a Debian that we may change.
apt_install() {
    have apt-get && [ "$(id -u)" = 0 ] || return 1
    DEBIAN_FRONTEND=noninteractive apt-get -qq update
    DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@" >/dev/null
}

# Makes sure that a command exists: `need COMMAND PACKAGE`.
need() {
    have "$1" || apt_install "$2" || true
    have "$1" || missing "$1 is not installed (Debian package $2)"
}

# A Python environment inside target/: `venv NAME REQUIREMENT…`, kept while its requirements stay the same.
venv() {
    local dir="$CI_OUT/venv-$1"
    shift
    local want
    want=$(printf '%s\n' "$@"; for a in "$@"; do [ -f "$a" ] && cat "$a"; done; python3 --version)
    if [ -x "$dir/bin/python" ] && [ "$(cat "$dir/.want" 2>/dev/null)" = "$want" ]; then
        return 0
    fi
    rm -rf "$dir"
    python3 -m venv "$dir"
    "$dir/bin/pip" install --disable-pip-version-check --quiet "$@"
    printf '%s' "$want" >"$dir/.want"
}
