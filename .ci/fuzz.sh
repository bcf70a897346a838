# Fuzz targets, briefly. Sourced by `run`. With cargo-fuzz: coverage-guided on the stable compiler; without: the loop
# of fuzz/ that mutates its corpus on stable.

FUZZ_SECONDS="${FUZZ_SECONDS:-5}"
if have cargo-fuzz; then
    fuzz_targets=$(cd fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz list)
    for target in $fuzz_targets; do
        (cd fuzz && RUSTC_BOOTSTRAP=1 cargo fuzz run "$target" -- -max_total_time="$FUZZ_SECONDS" -print_final_stats=0 2>&1 | tail -n 3)
        count 1 0
    done
else
    echo "cargo-fuzz is not installed: the stable loop"
fi
