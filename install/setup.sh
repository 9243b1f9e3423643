#!/bin/sh
# From a fresh clone to an answer: packages, Release build, installation, one question.
set -eu

usage() {
  cat <<'END'
usage: install/setup.sh [--prefix DIR]

Sets engramd up on Debian 12, as root or with sudo:
  1. installs the Debian packages that are missing (install/machine.sh lists them),
  2. builds a Release in build/release,
  3. installs it to DIR (default /usr/local): bin/engramd, share/engramd/models, share/doc/engramd,
  4. asks the bundled model a question and prints its answer.
Run it again at any time: what is done already is skipped.

  --prefix DIR   where to install; a folder of your own needs no root
  --help         this text
END
}

prefix=/usr/local
folder=$(cd -- "$(dirname -- "$0")/.." && pwd)
. "$folder/install/machine.sh"

while [ $# -gt 0 ]; do
  case $1 in
    --prefix)
      [ $# -ge 2 ] || fail "--prefix needs a folder" "example: install/setup.sh --prefix ~/engramd"
      prefix=$2
      shift
      ;;
    --prefix=*) prefix=${1#--prefix=} ;;
    --help | -h) usage && exit 0 ;;
    *) fail "unknown argument: $1" "install/setup.sh --help lists the arguments" ;;
  esac
  shift
done
case $prefix in
  /*) ;;
  "") fail "--prefix is empty" "example: install/setup.sh --prefix ~/engramd" ;;
  *) prefix=$PWD/$prefix ;;
esac
cd "$folder"

# shellcheck disable=SC2086  # a list of words
need_packages $build_packages

step "building Release in build/release"
need_disk . 1000 "the build"
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || nvcc=
if [ -n "$nvcc" ]; then
  echo "with CUDA: $nvcc compiles the kernels for every GPU from sm_75 on, which takes a minute or two"
else
  echo "without CUDA: there is no nvcc; the CUDA Toolkit 13 and this script again add the GPU backend"
fi
# A tree in which test.sh has built the tests keeps them; a new one does without GoogleTest.
if [ -f build/release/CMakeCache.txt ]; then
  cmake --preset release
else
  cmake --preset release -DENGRAMD_TESTS=OFF -DENGRAMD_BENCH=OFF
fi
cmake --build build/release --target engramd -j "$(build_jobs)"

step "installing to $prefix"
existing=$prefix
while [ ! -e "$existing" ]; do existing=$(dirname -- "$existing"); done
if [ -w "$existing" ]; then
  cmake --install build/release --prefix "$prefix"
elif [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
  fail "you may not write to $existing, and there is no sudo" \
    "choose a folder of your own: install/setup.sh --prefix ~/engramd"
else
  as_root cmake --install build/release --prefix "$prefix"
fi

question="What is the capital of France?"
step "$prefix/bin/engramd chat \"$question\""
"$prefix/bin/engramd" chat "$question"

case :$PATH: in
  *:"$prefix/bin":*) ;;
  *) printf '\n%s is not in PATH; add it, or call %s by its full name.\n' \
    "$prefix/bin" "$prefix/bin/engramd" ;;
esac
