// ENGRAMD_ASSERT: programmer errors, always on, aborts with the expression and its place.
// Expected failures (bad files, bad requests) are Result<T>, never this. Standard library only, so
// that kernels and device code may include it.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace engramd {

[[noreturn]] inline void assertion_failed(const char* expression, const char* file, int line) {
  std::fprintf(stderr, "engramd: assertion failed: %s (%s:%d)\n", expression, file, line);
  std::abort();
}

}  // namespace engramd

#define ENGRAMD_ASSERT(expression)     \
  ((expression) ? static_cast<void>(0) \
                : ::engramd::assertion_failed(#expression, __FILE__, __LINE__))
