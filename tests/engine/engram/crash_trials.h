// Crash trials of the table store: run edits, crash, reopen, and hold the file to its promise:
// every acknowledged transaction is there and whole, at most the one under way besides, and the
// store goes on working. Used by crash_test (a few thousand) and table_crash_trials (any number).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tests/engine/engram/crash_disk.h"

namespace engramd::engine {

struct TrialCount {
  std::int64_t n_trials = 0;
  std::vector<std::string> failures;  // what was promised and not kept; the first few
};

// Every workload of one to three operations, crashed after every sync and write; each crash
// `n_random` times with random unsynced sectors, besides all and none of them.
TrialCount exhaustive_crashes(int n_random);
// Hundreds of commits, across checkpoints of the WAL, crashed at random writes.
TrialCount long_run_crashes(std::int64_t n_trials, unsigned seed);
// Every changing operation of the disk fails once or for good, then the machine crashes.
TrialCount faults(Fault fault, int n_random);
// Children that commit to a real file until they are killed.
TrialCount kills(std::int64_t n_trials, unsigned seed);

}  // namespace engramd::engine
