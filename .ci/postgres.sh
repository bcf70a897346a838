# A PostgreSQL server for the tests of the relay: of Debian's package, on a loopback port, in a folder of its own.
# Sourced by `run`. Ended by `postgres_stop`, after the tests or when a stage fails.

postgres_is_there() {
    have initdb || compgen -G '/usr/lib/postgresql/*/bin/initdb' >/dev/null
}

if [ -n "${MURETAI_TEST_POSTGRES:-}" ]; then
    printf 'the server that MURETAI_TEST_POSTGRES names\n'
elif postgres_is_there || apt_install postgresql && postgres_is_there; then
    # Whoever runs the server is another user, who can reach it here.
    postgres_folder=$(mktemp -d)
    chmod 755 "$postgres_folder"
    MURETAI_TEST_POSTGRES=$(bash tests/postgres.sh start "$postgres_folder/server")
    export MURETAI_TEST_POSTGRES
    printf '%s\n' "$MURETAI_TEST_POSTGRES"
else
    missing "PostgreSQL is not installed (Debian package postgresql)"
fi
