# `make` builds the program, `make demo` shows it, `make test` tests it. All of them first install what
# the build needs (scripts/setup.sh).
.PHONY: build demo test bench lint setup engines clean

SHELL := /bin/sh
env = . ./.tools/env;

build: setup
	$(env) cargo build --release --locked

demo: setup
	$(env) cargo run --release --locked --package vitempo-cli -- demo

test: engines
	$(env) cargo test --release --locked --workspace

# Compiled forests beside the libraries that trained them, the frame runtime beside plain loops, queries beside their targets, the service beside the library.
bench: setup
	$(env) cargo bench --locked -p vitempo-predictors --bench forest
	$(env) cargo bench --locked -p vitempo-aria --bench aria
	$(env) cargo bench --locked -p vitempo-cli --bench queries
	$(env) cargo bench --locked -p vitempo-serve --bench serve

lint: setup
	$(env) cargo fmt --all --check
	$(env) cargo clippy --release --locked --workspace --all-targets -- -D warnings

setup:
	./scripts/setup.sh

# Engines for the tests that need them; without one they say that they were skipped. What is there already is not fetched again.
engines: setup
	$(env) cargo test --release --locked --workspace --no-run
	$(env) "$${CARGO_TARGET_DIR:-target}/release/vitempo" backends install onnxruntime openvino litert || echo "warning: tests that need the engines named above are skipped" >&2

clean:
	cargo clean
	rm -rf .tools
