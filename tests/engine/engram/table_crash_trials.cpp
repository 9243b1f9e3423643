// table_crash_trials [N]: at least N (20,000) crash trials of the table store; exit code 1 and the
// first failures when a promise was broken.
#include <cstdio>
#include <cstdlib>
#include <string>

#include "tests/engine/engram/crash_trials.h"

using engramd::engine::Fault;
using engramd::engine::TrialCount;

int main(int argc, char** argv) {
  const std::int64_t wanted = argc > 1 ? std::atoll(argv[1]) : 20000;
  std::int64_t n_trials = 0;
  bool is_kept = true;
  const auto report = [&](const char* name, const TrialCount& trials) {
    std::printf("%-22s %8lld trials, %zu failures\n", name, static_cast<long long>(trials.n_trials),
                trials.failures.size());
    for (const std::string& failure : trials.failures) std::printf("  %s\n", failure.c_str());
    n_trials += trials.n_trials;
    is_kept = is_kept && trials.failures.empty();
  };
  report("every sync", engramd::engine::exhaustive_crashes(2));
  report("EIO", engramd::engine::faults(Fault::kEio, 4));
  report("ENOSPC", engramd::engine::faults(Fault::kEnospc, 4));
  report("short writes", engramd::engine::faults(Fault::kShortWrite, 4));
  report("kill -9", engramd::engine::kills(1000, 1));
  report("across checkpoints", engramd::engine::long_run_crashes(500, 1));
  for (unsigned seed = 2; n_trials < wanted; ++seed) {
    report("kill -9", engramd::engine::kills(1000, seed));
    report("across checkpoints", engramd::engine::long_run_crashes(500, seed));
  }
  std::printf("%lld trials: %s\n", static_cast<long long>(n_trials),
              is_kept ? "nothing was lost" : "PROMISE BROKEN");
  return is_kept ? 0 : 1;
}
