# Fuzz targets, briefly. Sourced by `run`. The stable loop always runs; where cargo-fuzz is installed, each target also
# gets coverage-guided seconds on the stable compiler.

FUZZ_SECONDS="${FUZZ_SECONDS:-20}"

# One target folder with the tests: the same dependencies are not compiled twice.
CARGO_TARGET_DIR="$ROOT/target" cargo run --quiet --locked --manifest-path fuzz/Cargo.toml --bin loop -- \
    "$FUZZ_SECONDS" | tee "$CI_OUT/fuzz.log"
fuzz_targets=$(sed -n 's/^\([a-z_]*\): [0-9]* inputs$/\1/p' "$CI_OUT/fuzz.log")
[ -n "$fuzz_targets" ]
count "$(wc -l <<<"$fuzz_targets")" 0

if have cargo-fuzz; then
    for target in $fuzz_targets; do
        mkdir -p "fuzz/corpus/$target"
        RUSTC_BOOTSTRAP=1 cargo fuzz run --features libfuzzer "$target" "fuzz/corpus/$target" "fuzz/seeds/$target" \
            -- -max_total_time=$((FUZZ_SECONDS / 4)) >"$CI_OUT/fuzz-$target.log" 2>&1 \
            || { tail -n 40 "$CI_OUT/fuzz-$target.log"; exit 1; }
        tail -n 1 "$CI_OUT/fuzz-$target.log"
        count 1 0
    done
fi
