#!/bin/sh
# Builds a Release with all tests in build/release and runs them.
set -eu

usage() {
  cat <<'END'
usage: install/test.sh [--require-npm] [CTEST ARGUMENT...]

Installs the packages that the tests need (Debian 12, as root or with sudo), fetches the JavaScript
clients and tokenizers that they compare with, builds everything and runs ctest. Tests of JavaScript
packages that npm cannot fetch are skipped and say so.

  --require-npm   fail when npm cannot fetch them
  --help          this text
Other arguments go to ctest: install/test.sh -R tokenizer
END
}

require_npm=false
case ${1-} in
  --help | -h) usage && exit 0 ;;
  --require-npm) require_npm=true && shift ;;
esac

cd -- "$(dirname -- "$0")/.."
. install/machine.sh

# shellcheck disable=SC2086  # lists of words
need_packages $build_packages $test_packages
need_node

# npm_install FOLDER: leaves FOLDER/node_modules as FOLDER/package.json says, which names exact
# versions. No lock file: npm refuses one in which another system's optional package is missing. No
# package's own scripts are run.
npm_install() {
  stamp=$1/node_modules/.installed-for
  if [ -f "$stamp" ] && cmp -s "$1/package.json" "$stamp"; then return 0; fi
  step "npm install in $1"
  if (cd "$1" && npm install --no-package-lock --ignore-scripts --no-audit --no-fund \
    --loglevel=error); then
    cp "$1/package.json" "$stamp"
  elif $require_npm; then
    fail "npm could not install what $1/package.json names (its message is above)"
  else
    echo "npm could not install what $1/package.json names: the tests that need it are skipped" >&2
  fi
}
need_disk . 1500 "the packages from npm"
for package in tests/e2e tests/engine/tokenizer/huggingface; do
  if [ -f "$package/package.json" ]; then npm_install "$package"; fi
done
ENGRAMD_NPM_FOLDER=$PWD/tests/engine/tokenizer/huggingface/node_modules
export ENGRAMD_NPM_FOLDER

step "building Release with tests in build/release"
need_disk . 2000 "the build"
cmake --preset release -DENGRAMD_TESTS=ON -DENGRAMD_BENCH=ON
cmake --build build/release -j "$(build_jobs)"

step "ctest"
# Those that measure speed run alone (RUN_SERIAL).
ctest --test-dir build/release -j "$(build_jobs)" --output-on-failure --no-tests=error "$@"
