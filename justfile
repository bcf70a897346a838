# Short names for what is typed often. `just` alone lists them; everything works without just, as written here.

default:
    @just --list

# All that must hold before a commit, as CI runs it.
check:
    bash .ci/run

# Format in place.
fmt:
    cargo fmt --all

# Lints, as CI sees them.
lint:
    cargo clippy --workspace --all-targets -- -D warnings

# Unit, property and end-to-end tests.
test *ARGS:
    cargo test --workspace {{ARGS}}

# The benchmarks whose results README quotes.
bench:
    cargo bench --workspace

# Fuzz one target for a minute: just fuzz json
fuzz TARGET SECONDS="60":
    RUSTC_BOOTSTRAP=1 cargo fuzz run --features libfuzzer {{TARGET}} fuzz/corpus/{{TARGET}} fuzz/seeds/{{TARGET}} -- -max_total_time={{SECONDS}}

# Fuzz all targets on a stable toolchain.
fuzz-stable SECONDS="60":
    cargo run --manifest-path fuzz/Cargo.toml --bin loop -- {{SECONDS}}

# Known vulnerabilities in dependencies (needs the advisory database).
audit:
    cargo deny check advisories

# The main job, shown with real processes.
tour:
    cargo run --release -- tour
