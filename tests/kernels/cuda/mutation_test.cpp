// A test of the tests: every barrier, warp operation, strided range, tensor-core product and wait
// for copies of every kernel is broken once, and some case must notice, by a fault of the executor
// or by its numbers. A kernel whose barrier can be dropped unnoticed has one too many, or a test
// too few.
#include <fstream>
#include <map>
#include <sstream>

#include <gtest/gtest.h>

#include "tests/kernels/cuda/executor_backend.h"
#include "tests/kernels/cuda/kernel_cases.h"

namespace engramd::kernels::cuda {
namespace {

using Kind = Mutation::Kind;

constexpr std::int64_t kDeviceBytes = std::int64_t{16} << 20;  // of each mutant's device

std::vector<Kind> mutations_of(SiteKind kind) {
  switch (kind) {
    case SiteKind::kBarrier:
    case SiteKind::kWarpBarrier:
      return {Kind::kDropBarrier};
    case SiteKind::kShuffle:
    case SiteKind::kVote:
      return {Kind::kWrongLane};
    case SiteKind::kMma:
      return {Kind::kSwapOperands};
    case SiteKind::kRange:
      return {Kind::kRangeShort, Kind::kRangeLong};
    case SiteKind::kCopyWait:
      return {Kind::kDropCopyWait};
  }
  return {};
}

const char* name_of(Kind kind) {
  switch (kind) {
    case Kind::kNone:
      return "nothing";
    case Kind::kDropBarrier:
      return "dropped barrier";
    case Kind::kWrongLane:
      return "wrong lane";
    case Kind::kRangeShort:
      return "range one short";
    case Kind::kRangeLong:
      return "range one long";
    case Kind::kDropCopyWait:
      return "copies not waited for";
    case Kind::kSwapOperands:
      return "exchanged operands";
  }
  return "";
}

struct Mutant {
  KernelSite place;
  Kind kind = Kind::kNone;
  auto operator<=>(const Mutant&) const = default;
};
struct Verdict {
  bool by_fault = false, by_numbers = false;
  bool caught() const { return by_fault || by_numbers; }
};

std::set<KernelSite> sites_of(const KernelCase& tested) {
  HostedBackend backend(make_executor_backend(Schedule::kForward, false, kDeviceBytes));
  backend.inner().device().record_sites(true);
  EXPECT_LE(normalised_error(tested.run(backend), tested.expected), tested.tolerance)
      << tested.name;
  return backend.inner().device().sites();
}

void try_mutant(const KernelCase& tested, const Mutant& mutant, Verdict& verdict) {
  for (const Schedule schedule : {Schedule::kForward, Schedule::kReverse, Schedule::kShuffled}) {
    HostedBackend backend(make_executor_backend(schedule, false, kDeviceBytes));
    backend.inner().device().set_mutation({mutant.kind, mutant.place});
    try {
      if (normalised_error(tested.run(backend), tested.expected) > tested.tolerance) {
        verdict.by_numbers = true;
      }
    } catch (const Fault&) {
      verdict.by_fault = true;
    }
    if (verdict.caught()) return;
  }
}

// Shared pieces are called where a barrier of theirs protects nothing (a block's only sum): there
// it is enough that one kernel notices.
bool is_shared_piece(const KernelSite& place) {
  return std::string(place.site.file).ends_with("reductions.cuh");
}

std::string text_of(const Mutant& mutant) {
  const std::string file = mutant.place.site.file;
  return mutant.place.kernel + ": " + name_of(mutant.kind) + " at " +
         file.substr(file.rfind('/') + 1) + ":" + std::to_string(mutant.place.site.line);
}

// The table of kernels/cuda/README.md: per kernel and mutation, how many sites and what notices.
std::string table_of(const std::map<Mutant, Verdict>& verdicts) {
  struct Row {
    int n_sites = 0, by_fault = 0, by_numbers = 0;
  };
  std::map<std::pair<std::string, std::string>, Row> rows;
  for (const auto& [mutant, verdict] : verdicts) {
    if (!verdict.caught()) continue;  // a shared piece that protects nothing here
    Row& row = rows[{mutant.place.kernel, name_of(mutant.kind)}];
    ++row.n_sites;
    row.by_fault += verdict.by_fault ? 1 : 0;
    row.by_numbers += verdict.by_numbers ? 1 : 0;
  }
  std::ostringstream text;
  text << "| kernel | mutation | sites | noticed by a fault | by its numbers |\n"
          "| --- | --- | --- | --- | --- |\n";
  for (const auto& [key, row] : rows) {
    text << "| " << key.first << " | " << key.second << " | " << row.n_sites << " | "
         << row.by_fault << " | " << row.by_numbers << " |\n";
  }
  return text.str();
}

TEST(MutationTest, EveryMutationOfEveryKernelIsNoticed) {
  std::map<Mutant, Verdict> verdicts;
  for (const KernelCase& tested : all_cases(CaseSize::kSmall)) {
    for (const KernelSite& place : sites_of(tested)) {
      for (const Kind kind : mutations_of(place.kind)) {
        Verdict& verdict = verdicts[{place, kind}];
        if (!verdict.caught()) try_mutant(tested, {place, kind}, verdict);
      }
    }
  }
  std::set<std::pair<Site, Kind>> caught_anywhere;
  for (const auto& [mutant, verdict] : verdicts) {
    if (verdict.caught()) caught_anywhere.emplace(mutant.place.site, mutant.kind);
  }
  for (const auto& [mutant, verdict] : verdicts) {
    const bool noticed =
        verdict.caught() || (is_shared_piece(mutant.place) &&
                             caught_anywhere.contains({mutant.place.site, mutant.kind}));
    EXPECT_TRUE(noticed) << "nobody notices " << text_of(mutant);
  }
  EXPECT_GT(verdicts.size(), 150U);
  std::ifstream file(ENGRAMD_SOURCE_DIR "/kernels/cuda/README.md");
  const std::string readme{std::istreambuf_iterator<char>(file), {}};
  const std::string table = table_of(verdicts);
  EXPECT_NE(readme.find(table), std::string::npos)
      << "kernels/cuda/README.md should have this table:\n"
      << table;
}

}  // namespace
}  // namespace engramd::kernels::cuda
