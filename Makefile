# The two commands: `make demo` and `make test`. Both install what the build needs first (scripts/setup.sh).
.PHONY: demo test lint setup engines clean

SHELL := /bin/sh
env = . ./.tools/env;

demo: setup
	$(env) cargo run --release --locked -- demo

test: engines
	$(env) cargo test --release --locked --workspace

lint: setup
	$(env) cargo fmt --all --check
	$(env) cargo clippy --release --locked --workspace --all-targets -- -D warnings

setup:
	./scripts/setup.sh

# ONNX Runtime's library for the tests that need it; without it they say that they were skipped.
engines: setup
	./scripts/setup.sh onnxruntime

clean:
	cargo clean
	rm -rf .tools
