#!/bin/bash
# Everything that only a GPU can say, in one command: builds for the card it finds, runs every kernel
# on it against the scalar reference, again under compute-sanitizer's four tools, compares whole
# forward passes with the golden logits, and measures. Under ten minutes.
#
#   tests/device/run.sh [FOLDER]    writes FOLDER/gpu.json and FOLDER/gpu.md (default build/device)
#
# Needs nvcc 13, CMake, a compiler and this repository; with the packages of install/machine.sh also
# the golden comparison and the benchmark. Without a GPU it builds all of it, says so and ends with 3.
set -u
cd -- "$(dirname -- "$0")/../.." || exit 1
. install/machine.sh
out=${1:-build/device}
mkdir -p "$out" || fail "cannot write to $out"
start=$SECONDS
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) ||
  fail "there is no nvcc" "install the CUDA Toolkit 13, or add its bin folder to PATH"
export CUDACXX=$nvcc

gpu=$(nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | head -n 1)
architecture=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader 2>/dev/null | head -n 1 | tr -d .)
driver=$(nvidia-smi --query-gpu=driver_version --format=csv,noheader 2>/dev/null | head -n 1)
step "GPU: ${gpu:-none}${architecture:+ (sm_$architecture, driver $driver)}"

# ---- build ----
# shellcheck disable=SC2086  # lists of words
if [ -z "$(missing_packages $build_packages $test_packages 2>/dev/null)" ]; then
  source=. target=gpu_programs programs=tests/device whole=yes
else
  source=tests/device/bare target=gpu_kernels_test programs=. whole=no
  echo "packages of install/machine.sh are missing: only the kernels are built, no model is run"
fi
build=build/device-${architecture:-any}-$whole
step "building in $build"
{ cmake -S "$source" -B "$build" -DCMAKE_UNITY_BUILD=ON \
  -DCMAKE_CUDA_ARCHITECTURES="${architecture:-80;90}-real" &&
  cmake --build "$build" --target "$target" -j "$(build_jobs)"; } >"$out/build.log" 2>&1 ||
  { tail -n 20 "$out/build.log" >&2; fail "the build failed" "all of its output: $out/build.log"; }
programs=$build/$programs

# ---- run ----
results= # JSON members
markdown=
failed=0
# record NAME COMMAND...: passed or FAILED by its exit status, its last line as the detail
record() {
  local name=$1 begin=$SECONDS result=passed detail
  shift
  step "$name"
  "$@" >"$out/$name.log" 2>&1 || { result=FAILED failed=1; }
  detail=$(tail -n 1 "$out/$name.log" | tr -d '\042\134')
  echo "$result after $((SECONDS - begin)) s: $detail"
  results+="  \"$name\": {\"result\": \"$result\", \"seconds\": $((SECONDS - begin)), \"detail\": \"$detail\"},"$'\n'
  markdown+="| $name | $result | $((SECONDS - begin)) | $detail |"$'\n'
}

bench=null
if [ -n "$gpu" ]; then
  record kernels "$programs/gpu_kernels_test"
  sanitizer=$(command -v compute-sanitizer || command -v "$(dirname -- "$nvcc")/compute-sanitizer")
  for tool in memcheck racecheck synccheck initcheck; do
    if [ -n "$sanitizer" ]; then
      record "$tool" timeout 90 "$sanitizer" --tool "$tool" --error-exitcode 1 \
        "$programs/gpu_kernels_test" small
    else
      markdown+="| $tool | not run | 0 | compute-sanitizer is not installed |"$'\n'
    fi
  done
  if [ "$whole" = yes ]; then
    record golden "$programs/gpu_golden_test"
    step "benchmark"
    if "$programs/gpu_bench" install/models/engram-nano >"$out/bench.json" 2>"$out/bench.log"; then
      bench=$(cat "$out/bench.json")
      echo "$bench"
    else
      failed=1
      cat "$out/bench.log" >&2
    fi
  fi
else
  markdown="| - | not run | 0 | no GPU was found; everything was built |"$'\n'
fi

# ---- report ----
cat >"$out/gpu.json" <<END
{"gpu": "${gpu:-none}", "architecture": "${architecture:-none}", "driver": "${driver:-none}",
 "nvcc": "$("$nvcc" --version | sed -n 's/.*release \([0-9.]*\).*/\1/p')", "whole": "$whole",
 "commit": "$(git rev-parse --short HEAD 2>/dev/null)", "seconds": $((SECONDS - start)),
 "checks": {
$(printf '%s' "$results" | sed '$ s/,$//')
 },
 "bench": $bench}
END
cat >"$out/gpu.md" <<END
# GPU run: ${gpu:-no GPU was found}

${gpu:+sm_$architecture, driver $driver, }commit $(git rev-parse --short HEAD 2>/dev/null), $((SECONDS - start)) s.

| check | result | seconds | detail |
| --- | --- | --- | --- |
$markdown
\`\`\`json
$bench
\`\`\`
END
step "$out/gpu.json and $out/gpu.md written after $((SECONDS - start)) s"
if [ -z "$gpu" ]; then
  echo "no GPU was found: everything was built, nothing was run"
  exit 3
fi
exit "$failed"
