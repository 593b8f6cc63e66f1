#!/bin/sh
# Builds the wheel of the Python package into target/wheels, for CPython 3.9 and later, and prints
# its size in bytes. More arguments go to `maturin build`.
set -eu
cd "$(dirname "$0")/.."
rm -rf target/wheels
maturin build --quiet --release --locked --manifest-path python/Cargo.toml --out target/wheels "$@"
wc -c target/wheels/vitempo-*.whl
test "$(cat target/wheels/vitempo-*.whl | wc -c)" -le 26214400
