# Six releases of the public A2A SDKs, unmodified, against an open and a gated receiver. Sourced by `run`.

rigs_home=$(mktemp -d)
rigs_pid=""

cleanup() {
    rigs_stop
    rm -rf "$rigs_home"
}

rigs_stop() {
    if [ -n "$rigs_pid" ]; then
        kill "$rigs_pid" 2>/dev/null || true
        wait "$rigs_pid" 2>/dev/null || true
        rigs_pid=""
    fi
}

# Starts `serve` with the given flags; leaves its URL in $rigs_url.
rigs_serve() {
    local out="$rigs_home/serve.out"
    : >"$out"
    MURETAI_HOME="$rigs_home" ./target/release/muretai serve --listen 127.0.0.1:0 --rate-limit off "$@" \
        >"$out" 2>"$rigs_home/serve.err" </dev/null &
    rigs_pid=$!
    for _ in $(seq 1 200); do
        rigs_url=$(head -n 1 "$out")
        [ -n "$rigs_url" ] && return 0
        kill -0 "$rigs_pid" 2>/dev/null || break
        sleep 0.05
    done
    cat "$rigs_home/serve.err" >&2
    echo "serve did not print its URL" >&2
    return 1
}

# Runs one client; its last line must be `N passed, 0 failed`.
rig() {
    local name="$1" log="$CI_OUT/rig.log" closing
    shift
    local rc=0
    timeout 120 "$@" >"$log" 2>&1 </dev/null || rc=$?
    closing=$(grep -E '^[0-9]+ passed, [0-9]+ failed$' "$log" | tail -n 1 || true)
    if [ "$rc" = 0 ] && [[ "$closing" =~ ^([0-9]+)\ passed,\ 0\ failed$ ]] && [ "${BASH_REMATCH[1]}" -gt 0 ]; then
        printf 'ok   %-34s %s\n' "$name" "${BASH_REMATCH[1]} checks"
        count "${BASH_REMATCH[1]}" 0
    else
        printf 'FAIL %-34s exit %d\n' "$name" "$rc"
        cat "$log"
        count 0 1
    fi
}

rigs_all() {
    local kind="$1" v
    shift
    for v in 02 03 1; do
        rig "PyPI a2a-sdk $v, $kind" "$CI_OUT/venv-a2a$v/bin/python" "$RIGS/a2a_client.py" "$rigs_url" "$@"
    done
    for v in 0.2 0.3 1; do
        rig "npm @a2a-js/sdk $v, $kind" node "$CI_OUT/npm/a2a_client.mjs" "$rigs_url" --sdk "$v" "$@"
    done
}

if [ ! -f "$RIGS/a2a_client.py" ]; then
    missing "the A2A clients: set MURETAI_RIGS, or lay them at ../shared/rigs"
else
    for v in 02 03 1; do
        venv "a2a$v" -r "$RIGS/requirements-a2a$v.txt"
    done
    mkdir -p "$CI_OUT/npm"
    if ! cmp -s "$RIGS/package.json" "$CI_OUT/npm/package.json" || [ ! -d "$CI_OUT/npm/node_modules" ]; then
        install -m 644 "$RIGS/package.json" "$CI_OUT/npm/package.json"
        (cd "$CI_OUT/npm" && npm install --no-audit --no-fund --silent)
    fi
    install -m 644 "$RIGS/a2a_client.mjs" "$CI_OUT/npm/a2a_client.mjs"

    MURETAI_HOME="$rigs_home" ./target/release/muretai keygen rig >/dev/null
    rigs_serve --open-door
    rigs_all open
    rigs_stop
    rigs_serve
    rigs_all gated --expect-gated
    rigs_stop
fi
cleanup
