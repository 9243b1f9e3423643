#!/bin/bash
# What the compiler gives each kernel: registers, shared memory, spills; one line a kernel, sorted.
# Fails when one is over its limit or spills, and when the products on tensor cores are not there.
#
#   tests/device/kernel_resources.sh [ARCHITECTURE]    default 80, the first with bf16 tensor cores
set -u
cd -- "$(dirname -- "$0")/../.." || exit 1
architecture=${1:-80}
registers_max=168      # three blocks of 128 threads fit into a multiprocessor's 65,536
shared_bytes_max=49152 # what a launch may have without asking
nvcc=$(command -v nvcc || command -v /usr/local/cuda/bin/nvcc) || { echo "there is no nvcc" >&2; exit 1; }
scratch=$(mktemp -d)
trap 'rm -rf -- "$scratch"' EXIT

for source in kernels/cuda/cuda_*.cu; do
  "$nvcc" -std=c++20 -O3 --expt-relaxed-constexpr -Xptxas -v -I . -keep -keep-dir "$scratch" \
    -gencode "arch=compute_$architecture,code=sm_$architecture" -cubin \
    -o "$scratch/$(basename "$source").cubin" "$source" 2>>"$scratch/log" ||
    { cat "$scratch/log" >&2; exit 1; }
done

# ptxas names a function, then its stack and spills, then its registers and shared memory.
awk -v registers_max=$registers_max -v shared_max=$shared_bytes_max '
  /Compiling entry function/ { split($0, part, "\047"); name = part[2] }
  /spill stores/ { spills = 0; for (i = 2; i <= NF; i++) if ($i == "spill") spills += $(i - 2) }
  /Used [0-9]+ registers/ {
    shared = 0; registers = 0
    for (i = 2; i <= NF; i++) {
      if ($i ~ /^registers/) registers = $(i - 1)
      if ($i ~ /^smem/) shared = $(i - 2)
    }
    printf "%4d registers %6d bytes shared %4d bytes spilled  %s\n", registers, shared, spills, name
    if (registers > registers_max || shared > shared_max || spills > 0) bad = 1
    n++
  }
  END { if (n < 30) { print "expected at least 30 kernels, got " n; bad = 1 } exit bad }
' "$scratch/log" >"$scratch/table"
status=$?
c++filt <"$scratch/table" | sed 's/void engramd::kernels::cuda::run_kernel<engramd::kernels::cuda:://; s/>(.*//; s/engramd::kernels::cuda:://g' | sort -k7
[ $status -eq 0 ] || echo "limits: $registers_max registers, $shared_bytes_max bytes of shared memory, no spills" >&2
if [ "$architecture" -ge 80 ] && ! grep -q 'mma\.sync.*bf16' "$scratch"/cuda_tiles*.ptx; then
  echo "cuda_tiles.cu has no product on tensor cores" >&2
  status=1
fi
exit $status
