#!/usr/bin/env bash
# Runs the example plugins under valgrind: load, describe, open, calls, faults, close, in one process and through the
# same code as the child process of the host. Any error or definite leak fails. Needs cargo, a C compiler and valgrind.
set -euo pipefail
ROOT="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
cd "$ROOT"
TARGET="${CARGO_TARGET_DIR:-$ROOT/target}"
OUT="$TARGET/check-memory"
mkdir -p "$OUT"

cargo build --quiet --locked -p muretai-plugins --no-default-features --bin muretai-plugin-host
cargo build --quiet --locked -p muretai-example-units
make -s -C plugins/examples/allowlist "OUT=$OUT" all "$OUT/check-allowlist"
${CC:-cc} -std=c99 -g -shared -fPIC -w -Iplugins -o "$OUT/moody.so" plugins/tests/fixtures/moody.c
${CC:-cc} -std=c99 -g -w -Iplugins -o "$OUT/json_harness" plugins/tests/fixtures/json_harness.c

HOST="$TARGET/debug/muretai-plugin-host"
passed=0
checked() {
    local name="$1"
    shift
    if ! valgrind --quiet --error-exitcode=99 --leak-check=full --errors-for-leak-kinds=definite \
        "$@" >"$OUT/log" 2>&1; then
        printf 'FAIL %s\n' "$name"
        cat "$OUT/log"
        exit 1
    fi
    printf 'ok   %s\n' "$name"
    passed=$((passed + 1))
}
# One line of the last run's output.
says() {
    grep -qF -- "$1" "$OUT/log" || { printf 'FAIL: no `%s` in\n' "$1"; cat "$OUT/log"; exit 1; }
}

policy='{"op":"policy","method":"message/send","from":"did:key:zNorth","contact":"none",
"introduction":null,"domain":null,"now":1}'
list='{"dids":["did:key:zNorth"],"domains":["example.com"],"detail":"no"}'
checked "allow-list in C" "$HOST" rehearse "$OUT/liballowlist.so" "$list" \
    "$policy" "${policy/zNorth/zEast}" '{"op":"skill"}' 'garbage' '' "${policy/none/direct}"
says '{"decision":"allow"}'
says '{"decision":"refuse","code":-32010,"detail":"no"}'
says 'fault 19: the request is no JSON'
checked "allow-list in C, a config it does not want" "$HOST" rehearse "$OUT/liballowlist.so" '{"did":[]}'
says 'fault 19'
checked "allow-list in C, its own test" "$OUT/check-allowlist"

skill='{"op":"skill","skill":"units","text":"5 km in mi","from":{"did":"did:key:zNorth","contact":"direct"},
"messageId":"m","contextId":null,"now":1}'
checked "unit converter in Rust" "$HOST" rehearse "$TARGET/debug/libunits.so" '{"digits":5}' \
    "$skill" "${skill/5 km in mi/help}" "${skill/in mi/in kg}" "$policy" 'garbage' "${skill/5 km/1e18 ly}"
says '"text":"5 km'
says '"error":"`km` is length and `kg` is mass'
says 'fault 19: not JSON'
checked "unit converter in Rust, a config it does not want" "$HOST" rehearse "$TARGET/debug/libunits.so" '{"digits":0}'

# Failures, a caught panic that replaces the instance, an answer that is too large, a buffer that is none.
checked "faults" "$HOST" rehearse "$OUT/moody.so" 'x' fail panic z code large null garbage most z
says 'fault 20: the answer is 1048577 bytes'

# Every prefix of a document, each in a block of its own size.
python3 - >"$OUT/documents" <<'PYTHON' || { echo "SKIP the JSON header: no python3"; exit 0; }
import struct, sys
whole = '{"a\\u0041":[1,-2.5e3,true,null,"\\ud83d\\ude00é\\n",{}],"b":{"c":[[]]}}'.encode()
documents = [whole[:n] for n in range(len(whole) + 1)] + [b"[" * 100, b'"\\ud83d', b'"\xe2\x98', b"-", b"[1,2"]
sys.stdout.buffer.write(b"".join(struct.pack("=I", len(d)) + d for d in documents))
PYTHON
checked "JSON header" sh -c '"$0" <"$1" >/dev/null' "$OUT/json_harness" "$OUT/documents"

printf '%d passed, 0 failed\n' "$passed"
