# shellcheck shell=sh disable=SC2034  # the lists are used where this file is sourced
# What setup.sh, test.sh and .ci/run need of the machine: the packages (this is the one list of
# them), root rights for apt, and how many compilers fit into memory. Sourced, never run.

# Compiling and running engramd. libboost1.81-dev and not libboost-dev: Debian 12's default is 1.74.
build_packages="g++ cmake ninja-build pkg-config libboost1.81-dev libtomlplusplus-dev \
nlohmann-json3-dev libspdlog-dev libsqlite3-dev libpcre2-dev libutf8proc-dev nettle-dev \
liburing-dev libssl-dev"
# The tests, besides Node.js, which need_node below adds where it is missing.
test_packages="libgtest-dev libgmock-dev zlib1g-dev tinyproxy-bin libboost-context1.81-dev"
# What .ci/run adds: format and tidy, the compiler with libFuzzer, a linker that takes a quarter of
# the usual one's time on the sanitizers' large programs, and git for the list of files.
ci_packages="clang clang-format clang-tidy libclang-rt-14-dev lld git"

step() { printf '\n== %s\n' "$*"; }
fail() {
  printf 'error: %s\n' "$1" >&2
  shift
  for line in "$@"; do printf '       %s\n' "$line" >&2; done
  exit 1
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then "$@"; else sudo "$@"; fi
}

missing_packages() {
  for package in "$@"; do
    status=$(dpkg-query -W -f '${Status}' "$package" 2>/dev/null) || status=
    [ "$status" = "install ok installed" ] || printf '%s ' "$package"
  done
}

# A package that conflicts with an installed one (libboost1.74-dev) is replaced by apt; it says so.
need_packages() {
  missing=$(missing_packages "$@")
  [ -n "$missing" ] || return 0
  step "installing packages: $missing"
  need_debian_12 "$missing"
  need_disk /usr 1500 "the packages"
  if [ "$(id -u)" -ne 0 ] && ! command -v sudo >/dev/null; then
    fail "packages are missing, and you are neither root nor is there sudo" \
      "as root, run: apt-get install $missing" "and start this script again as yourself"
  fi
  as_root apt-get update -q ||
    fail "apt-get update failed (its message is above)" \
      "check the network and /etc/apt/sources.list, then start this script again"
  # shellcheck disable=SC2086  # a list of words
  as_root env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $missing ||
    fail "apt-get install failed (its message is above)" \
      "repair that, then start this script again: it continues where it stopped"
}

need_debian_12() {
  (
    ID=unknown VERSION_ID=
    # shellcheck disable=SC1091
    [ ! -r /etc/os-release ] || . /etc/os-release
    [ "$ID $VERSION_ID" = "debian 12" ] ||
      fail "this script installs packages on Debian 12 only, and this is $ID $VERSION_ID" \
        "install what corresponds to: $1" \
        "then: cmake --preset release && cmake --build build/release --target engramd" \
        "      cmake --install build/release --prefix /usr/local"
  ) || exit 1
}

# need_disk FOLDER MEGABYTES FOR-WHAT
need_disk() {
  free_mb=$(df -Pm "$1" | awk 'NR == 2 { print $4 }')
  [ "$free_mb" -ge "$2" ] ||
    fail "too little disk space for $3: $1 has $free_mb MB free, $2 MB are needed" \
      "free some space there and start this script again"
}

# Node.js runs the MCP clients and Hugging Face's tokenizers that the tests compare with. Any
# installed one will do (the clients bring the version they need); Debian's own otherwise.
need_node() {
  if ! command -v node >/dev/null || ! command -v npm >/dev/null; then
    need_packages nodejs npm ca-certificates
  fi
}

# The largest translation units (Boost.Asio, nlohmann::json) take up to 1.5 GB each.
build_jobs() {
  awk -v cores="$(nproc)" '/^MemTotal/ { fit = int($2 / 1500000) }
    END { n = fit < cores ? fit : cores; print n < 1 ? 1 : n }' /proc/meminfo
}
