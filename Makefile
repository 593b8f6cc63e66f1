# `make` builds the program, `make demo` shows it, `make test` tests it. All of them first install
# what the build needs (scripts/setup.sh).
.PHONY: build demo test python wheel program-wheel bench lint doc agent wasm web web-test web-bench man package sbom setup engines clean

SHELL := /bin/sh
env = . ./.tools/env;
# The service's metrics name the commit; empty outside of a checkout.
export VITEMPO_COMMIT := $(shell git rev-parse --short=12 HEAD 2>/dev/null)

build: setup
	$(env) cargo build --release --locked

demo: setup
	$(env) cargo run --release --locked --package vitempo-cli -- demo

test: engines
	$(env) cargo test --release --locked --workspace
	$(MAKE) python

# The Python package, installed into .tools/venv, and its tests with every warning an error.
python:
	./scripts/setup.sh python
	$(env) scripts/wheel.sh
	$(env) pip install --quiet --disable-pip-version-check --force-reinstall --no-deps target/wheels/vitempo-*.whl
	$(env) python -m pytest -q -W error python

# The wheel of the Python package, in target/wheels; an error where it is larger than 25 MiB.
wheel:
	./scripts/setup.sh python
	$(env) scripts/wheel.sh

# The program as a wheel of its own, in target/wheels: what `pip install vitempo[train]` adds.
program-wheel: build
	$(env) program="$${CARGO_TARGET_DIR:-target}/release/vitempo" && mkdir -p target/program && \
	strip -o target/program/vitempo "$$program" && python3 scripts/program_wheel.py target/program/vitempo target/wheels

# Compiled forests beside the libraries that trained them, the frame runtime beside plain loops,
# queries beside their targets, the service beside the library.
bench: setup
	$(env) cargo bench --locked -p vitempo-predictors --bench forest
	$(env) cargo bench --locked -p vitempo-aria --bench aria
	$(env) cargo bench --locked -p vitempo-cli --bench queries
	$(env) cargo bench --locked -p vitempo-serve --bench serve

lint: setup
	$(env) cargo fmt --all --check
	$(env) cargo clippy --release --locked --workspace --all-targets -- -D warnings

doc: setup
	$(env) RUSTDOCFLAGS="-D warnings" cargo doc --release --locked --workspace --no-deps

# The agent for boards, with the engines that need no library beside it; an error where it is larger
# than 20 MiB without symbols.
agent: setup
	$(env) cargo build --release --locked -p vitempo-profiler --bin vitempo-agent --no-default-features --features rten,litert,null
	$(env) program="$${CARGO_TARGET_DIR:-target}/release/vitempo-agent" && \
	strip -o "$$program-stripped" "$$program" && ls -l "$$program-stripped" && \
	test "$$(wc -c < "$$program-stripped")" -le 20971520

# What has to build for browsers; `rustup target add wasm32-unknown-unknown` comes first.
wasm: setup
	$(env) cargo check --locked --target wasm32-unknown-unknown -p vitempo-graph -p vitempo-search-space -p vitempo-planners -p vitempo-aria -p vitempo-predictors
	$(env) cargo check --locked --target wasm32-unknown-unknown -p vitempo

# The explorer, the page of forecasts, into web/dist; the next build of the program has it inside.
web: setup
	$(env) scripts/web.sh

# The page beside the program, and in Chromium; what cannot be had is skipped, and says so.
web-test: build web
	$(env) cd web/page && npm test

# WebAssembly beside the native library, in turns.
web-bench: web
	$(env) cd web/page && node scripts/bench.mjs

# Manual pages and completions, from the same definitions as --help.
man: setup
	$(env) cargo build --release --locked -p vitempo-cli
	$(env) program="$${CARGO_TARGET_DIR:-target}/release/vitempo"; \
	mkdir -p target/completions && \
	"$$program" man --out target/man && \
	"$$program" completions bash > target/completions/vitempo.bash && \
	"$$program" completions zsh > target/completions/_vitempo && \
	"$$program" completions fish > target/completions/vitempo.fish

# Makes every package, without building it; none is published yet.
package: setup
	$(env) scripts/package.sh

# Bill of materials of the binary (CycloneDX, JSON); an error if a component lacks a digest or a
# reference.
sbom: setup
	mkdir -p target
	$(env) scripts/sbom.py > target/vitempo.cdx.json

setup:
	./scripts/setup.sh

# Engines for the tests that need them; without one they say that they were skipped. What is there
# already is not fetched again.
engines: setup
	$(env) cargo test --release --locked --workspace --no-run
	$(env) "$${CARGO_TARGET_DIR:-target}/release/vitempo" backends install onnxruntime openvino litert || echo "warning: tests that need the engines named above are skipped" >&2

clean:
	cargo clean
	rm -rf .tools
