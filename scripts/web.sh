#!/bin/sh
# Builds the explorer, the page of forecasts, into web/dist: any static host can serve that folder,
# and `vitempo serve` serves it where the program was built after it.
# Needs Node.js with npm and rustup; fetches the target wasm32-unknown-unknown, wasm-bindgen (into
# .tools/) and the packages of web/page.
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/.tools
die() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 1; }

command -v npm >/dev/null 2>&1 || die "npm is missing" "install Node.js 20 or later; everything but the explorer builds without it"
rustc --print target-libdir --target wasm32-unknown-unknown 2>/dev/null | xargs test -d 2>/dev/null ||
    rustup target add wasm32-unknown-unknown ||
    die "the target wasm32-unknown-unknown is missing" "install it with your Rust toolchain"

# The program has to have the version of the library.
version=$(awk '/^name = "wasm-bindgen"$/ { getline; gsub(/[^0-9.]/, ""); print; exit }' Cargo.lock)
bindgen=$tools/wasm-bindgen-$version/bin/wasm-bindgen
[ -x "$bindgen" ] || ! command -v wasm-bindgen >/dev/null 2>&1 || [ "$(wasm-bindgen --version)" != "wasm-bindgen $version" ] || bindgen=wasm-bindgen
command -v "$bindgen" >/dev/null 2>&1 ||
    CARGO_TARGET_DIR=$tools/wasm-bindgen-build cargo install --quiet wasm-bindgen-cli --version "$version" --no-default-features --root "$tools/wasm-bindgen-$version"
rm -rf "$tools/wasm-bindgen-build"

cargo build --profile web --locked --target wasm32-unknown-unknown -p vitempo-web
"$bindgen" --target web --omit-default-module-path --out-dir web/page/src/generated --out-name core \
    "${CARGO_TARGET_DIR:-target}/wasm32-unknown-unknown/web/vitempo_web.wasm"

cd web/page
npm ci --no-audit --no-fund --loglevel=error
node scripts/prepare.mjs
npm run --silent check
npm run --silent build -- --logLevel warn
# The next build of the program takes the page in.
touch ../../serve/build.rs
