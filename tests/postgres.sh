#!/usr/bin/env bash
# A throw-away PostgreSQL for tests, on loopback, in a folder of its own.
#
#   tests/postgres.sh start [FOLDER]   prints the URL; FOLDER is made, else a temporary one
#   tests/postgres.sh stop FOLDER      ends it and removes the folder
#   tests/postgres.sh run COMMAND…     starts one, runs the command with MURETAI_TEST_POSTGRES, stops it
#
# The programs come from Debian's package `postgresql`, or from PATH, or from MURETAI_POSTGRES_BIN. Root may not run
# the server, so it runs as `postgres` or `nobody` then.
set -euo pipefail

die() { printf 'error: %s\n' "$1" >&2; exit 1; }

find_bin() {
    local dir
    for dir in "${MURETAI_POSTGRES_BIN:-}" /usr/lib/postgresql/*/bin; do
        [ -n "$dir" ] && [ -x "$dir/initdb" ] && BIN="$dir"
    done
    [ -n "${MURETAI_POSTGRES_BIN:-}" ] && BIN="$MURETAI_POSTGRES_BIN"
    [ -z "${BIN:-}" ] && dir="$(command -v initdb)" && BIN="$(dirname "$dir")"
    [ -n "${BIN:-}" ] || die "PostgreSQL is not installed (Debian package postgresql)"
}

# Runs a command as somebody who may run the server.
as_user() {
    if [ "$(id -u)" != 0 ]; then
        "$@"
        return
    fi
    local user=nobody
    getent passwd postgres >/dev/null && user=postgres
    setpriv --reuid="$user" --regid="$(id -g "$user")" --clear-groups env HOME=/ "$@"
}

# Nobody else has it: the kernel chose it. It could be taken until the server binds it, so starting tries a few.
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

start() {
    local folder="${1:-}" port attempt
    find_bin
    if [ -z "$folder" ]; then
        folder="$(mktemp -d)"
    else
        mkdir "$folder"
    fi
    folder="$(cd "$folder" && pwd)"
    chmod 755 "$folder"
    mkdir "$folder/data"
    if [ "$(id -u)" = 0 ]; then
        as_user test -x "$folder" || die "$folder cannot be reached by the user of the server"
        local owner
        owner="$(as_user id -u)"
        chown "$owner" "$folder" "$folder/data"
    fi
    cd "$folder"
    as_user "$BIN/initdb" --pgdata "$folder/data" --username muretai --auth trust --encoding UTF8 --locale C.UTF-8 \
        >"$folder/initdb.log" 2>&1 || { cat "$folder/initdb.log" >&2; die "initdb failed"; }
    for attempt in 1 2 3 4 5; do
        port="$(free_port)"
        if as_user "$BIN/pg_ctl" --pgdata "$folder/data" --log "$folder/data/server.log" --wait --silent --options \
            "-c listen_addresses=127.0.0.1 -c port=$port -c unix_socket_directories= -c max_connections=200" start \
            >/dev/null 2>&1; then
            printf '%s' "$port" >"$folder/port"
            printf 'postgres://muretai@127.0.0.1:%s/postgres\n' "$port"
            return 0
        fi
    done
    cat "$folder/data/server.log" >&2
    die "the server did not start (attempt $attempt)"
}

stop() {
    local folder="${1:?the folder that start was given}"
    [ -f "$folder/data/PG_VERSION" ] || die "$folder holds no server"
    find_bin
    cd "$folder"
    as_user "$BIN/pg_ctl" --pgdata "$folder/data" --mode immediate --silent stop >/dev/null 2>&1 || true
    cd /
    rm -rf "$folder"
}

case "${1:-}" in
start)
    start "${2:-}"
    ;;
stop)
    stop "${2:-}"
    ;;
run)
    shift
    here="$PWD"
    home="$(mktemp -d)"
    trap 'stop "$home/server"; rm -rf "$home"' EXIT
    chmod 755 "$home"
    url="$(start "$home/server")"
    cd "$here"
    MURETAI_TEST_POSTGRES="$url" "$@"
    ;;
*)
    sed -n '2,9s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
