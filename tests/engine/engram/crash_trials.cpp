#include "tests/engine/engram/crash_trials.h"

#include <algorithm>
#include <array>
#include <csignal>
#include <functional>
#include <map>
#include <random>
#include <utility>

#include <sys/wait.h>
#include <unistd.h>

#include "tests/engine/engram/table_fixture.h"

namespace engramd::engine {
namespace {

constexpr const char* kPath = "/edits.sqlite";

using State = std::map<EditTarget, std::pair<std::vector<std::uint8_t>, std::int64_t>>;

State state_of(const TableStore& store, const SmallTables& tables) {
  State state;
  store.overlay()->for_each([&](const EditTarget& target, const RowEdit& edit) {
    const RowFormat format = tables.rows[0]->format();
    const std::int64_t bytes = format.codes_bytes() + format.scales_bytes();
    state[target] = {{edit.image, edit.image + bytes}, edit.transaction};
  });
  return state;
}

// What was acknowledged so far.
struct Promise {
  std::vector<std::string> sha256;  // of transactions 1, 2, ...
  std::vector<std::string> snapshots;
  State state;
};

// A store and what it promised. Operations that the store refuses promise nothing.
class Session {
 public:
  Session(const SmallTables& tables, CrashDisk& disk, Promise promise = {})
      : tables_(tables), disk_(disk), promise_(std::move(promise)) {
    open();
  }
  const Promise& promise() const { return promise_; }
  bool is_open() const { return store_ != nullptr; }
  void close() { store_.reset(); }

  static constexpr int kOperations = 8;
  bool run(int operation) {
    if (!store_) return false;
    switch (operation) {
      case 0:
        return commit({set_edit(row_target(0, 1), value())});
      case 1:
        return commit({set_edit(row_target(0, 1), value()), set_edit(row_target(1, 2), value()),
                       set_edit(ngram_target(0, 3, 0xFEDCBA9876543210U), value())});
      case 2:
        return commit_many();
      case 3:
        return keep(store_->rollback(static_cast<std::int64_t>(promise_.sha256.size()), "t", ""));
      case 4:
        return keep(store_->restore(0, "t", "r"));
      case 5: {
        const std::string name = "s" + std::to_string(promise_.snapshots.size());
        const bool done = store_->snapshot(name).has_value();
        if (done) promise_.snapshots.push_back(name);
        return done;
      }
      case 6:
        return keep(store_->move_on(
            [](const EpochPointer&) {
              return Successor{"/next", 2, "crc32c 12345678"};
            },
            "t"));
      default:
        open();
        return is_open();
    }
  }

 private:
  void open() {
    store_.reset();
    auto opened = tables_.open(kPath, disk_.name());
    if (opened) store_ = std::move(*opened);
  }
  float value() { return static_cast<float>(promise_.sha256.size() % 100 + 1); }
  bool commit(std::vector<Edit> edits) {
    auto done = store_->commit(std::move(edits), "t", "r");
    return done ? keep(std::move(done->transaction)) : false;
  }
  bool commit_many() {
    std::vector<Edit> edits;
    for (std::int64_t row = 0; row < 100; ++row) {
      edits.push_back(set_edit(row_target(1, row), value()));
    }
    return commit(std::move(edits));
  }
  bool keep(Result<Transaction> done) {
    if (!done) return false;
    promise_.sha256.push_back(done->sha256);
    promise_.state = state_of(*store_, tables_);
    return true;
  }

  const SmallTables& tables_;
  CrashDisk& disk_;
  Promise promise_;
  std::unique_ptr<TableStore> store_;
};

// Empty when the files keep the promise, else what is wrong.
std::string broken_promise(const SmallTables& tables, DiskFiles files, const Promise& promise) {
  CrashDisk disk(std::move(files));
  auto opened = tables.open(kPath, disk.name());
  if (!opened) return "refused: " + opened.error().message;
  TableStore& store = **opened;
  const auto history = store.history({}, TableStore::kListMax).value();
  const std::size_t acknowledged = promise.sha256.size();
  if (history.size() < acknowledged) return "an acknowledged transaction is gone";
  if (history.size() > acknowledged + 1) return "more than the transaction under way";
  for (const Transaction& transaction : history) {
    const auto index = static_cast<std::size_t>(transaction.number - 1);
    if (index < acknowledged && transaction.sha256 != promise.sha256[index]) {
      return "transaction " + std::to_string(transaction.number) + " has other contents";
    }
  }
  if (store.current()->number() != history.size()) return "the epoch is not the newest transaction";
  if (history.size() == acknowledged && state_of(store, tables) != promise.state) {
    return "rows differ from what was acknowledged";
  }
  const auto snapshots = store.snapshots().value();
  for (const std::string& name : promise.snapshots) {
    if (std::ranges::find(snapshots, name, &Snapshot::name) == snapshots.end()) {
      return "snapshot " + name + " is gone";
    }
  }
  if (snapshots.size() > promise.snapshots.size() + 1) return "too many snapshots";
  const bool moved = !history.empty() && history.front().kind == TransactionKind::kMove;
  const auto after = store.commit({set_edit(row_target(0, 7), 1.0F)}, "t", "after");
  if (moved != after.has_error()) return moved ? "moved tables take edits" : "no commit goes on";
  return {};
}

void count(TrialCount& trials, const std::string& what, const std::string& broken) {
  ++trials.n_trials;
  if (!broken.empty() && trials.failures.size() < 5) trials.failures.push_back(what + broken);
}

// A moment at which the machine may stop.
struct Moment {
  DiskState disk;
  Promise promise;
};

void crash(TrialCount& trials, const SmallTables& tables, const Moment& moment, int n_random,
           std::mt19937& random, const std::string& what) {
  std::vector<Kept> ways = {Kept::kNothing, Kept::kEverything};
  ways.insert(ways.end(), static_cast<std::size_t>(n_random), Kept::kRandom);
  for (const Kept way : ways) {
    count(trials, what,
          broken_promise(tables, moment.disk.after_crash(way, random), moment.promise));
  }
}

// Runs the workload and crashes at every sync (and every write that follows none).
void crash_workload(TrialCount& trials, const SmallTables& tables, const DiskFiles& files,
                    const std::vector<int>& workload, int n_random, std::mt19937& random) {
  CrashDisk disk(files);
  std::vector<Moment> moments;
  const Promise nothing;
  const Promise* promise = &nothing;
  const auto record = [&] { moments.push_back({disk.state(), *promise}); };
  std::string what = "workload";
  for (const int operation : workload) what += " " + std::to_string(operation);
  disk.on_sync(record);
  int writes = 0;
  disk.on_write([&] {
    if (++writes % 5 == 0) record();  // a page of the WAL is two writes; 5 meets both in turn
  });
  {
    Session session(tables, disk);
    promise = &session.promise();
    for (const int operation : workload) session.run(operation);
    record();
    session.close();
    record();
    promise = &nothing;
    disk.on_sync([] {});
    for (const Moment& moment : moments) {
      crash(trials, tables, moment, n_random, random, what + ": ");
    }
  }
}

// Every sequence of one to three operations.
void for_each_workload(const std::function<void(const std::vector<int>&)>& visit) {
  for (int a = 0; a < Session::kOperations; ++a) {
    visit({a});
    for (int b = 0; b < Session::kOperations; ++b) {
      visit({a, b});
      for (int c = 0; c < Session::kOperations; ++c) visit({a, b, c});
    }
  }
}

DiskFiles made_file(const SmallTables& tables) {
  CrashDisk disk;
  Session(tables, disk).close();
  std::mt19937 random(0);
  return disk.state().after_crash(Kept::kEverything, random);
}

}  // namespace

TrialCount exhaustive_crashes(int n_random) {
  const SmallTables tables;
  std::mt19937 random(1);
  TrialCount trials;
  crash_workload(trials, tables, {}, {}, 20, random);  // while the file is made
  const DiskFiles files = made_file(tables);
  for_each_workload([&](const std::vector<int>& workload) {
    crash_workload(trials, tables, files, workload, n_random, random);
  });
  return trials;
}

TrialCount long_run_crashes(std::int64_t n_trials, unsigned seed) {
  const SmallTables tables;
  std::mt19937 random(seed);
  TrialCount trials;
  while (trials.n_trials < n_trials) {
    CrashDisk disk(made_file(tables));
    std::vector<Moment> moments;
    Session session(tables, disk);
    const auto record = [&] {
      if (random() % 200 == 0) moments.push_back({disk.state(), session.promise()});
    };
    disk.on_sync(record);
    disk.on_write(record);
    for (int i = 0; i < 500; ++i) session.run(static_cast<int>(random() % 3));
    disk.on_sync([] {});
    disk.on_write([] {});
    for (const Moment& moment : moments) crash(trials, tables, moment, 1, random, "long run: ");
  }
  return trials;
}

TrialCount faults(Fault fault, int n_random) {
  const SmallTables tables;
  const DiskFiles files = made_file(tables);
  std::mt19937 random(2);
  TrialCount trials;
  for (const auto& workload : {std::vector{0, 0, 1}, {1, 3, 0}, {2, 6, 4}, {5, 0, 5}, {6, 1, 6}}) {
    for (const bool is_lasting : {false, true}) {
      bool has_failed = true;
      for (std::int64_t n = 0; has_failed; ++n) {
        CrashDisk disk(files);
        Session session(tables, disk);
        disk.fail_at(n, fault, is_lasting);
        for (const int operation : workload) session.run(operation);
        has_failed = disk.has_failed();
        crash(trials, tables, {disk.state(), session.promise()}, n_random, random, "fault: ");
        session.close();
        disk.clear_fault();
        crash(trials, tables, {disk.state(), session.promise()}, n_random, random, "closed: ");
      }
    }
  }
  return trials;
}

namespace {

// Transaction n sets row n % 50 of both layers.
float value_of(std::int64_t n) {
  return static_cast<float>(n % 16 + 1);
}  // exact in e4m3

[[noreturn]] void commit_until_killed(const SmallTables& tables, const std::string& path,
                                      int pipe) {
  auto store = tables.open(path);
  if (!store) _exit(1);
  for (auto n = static_cast<std::int64_t>((*store)->current()->number()) + 1;; ++n) {
    const auto done = (*store)->commit({set_edit(row_target(0, n % 50), value_of(n)),
                                        set_edit(row_target(1, n % 50), value_of(n))},
                                       "child", "");
    if (!done || done->transaction.number != n) _exit(1);
    if (write(pipe, &n, sizeof n) != static_cast<ssize_t>(sizeof n)) _exit(1);
  }
}

std::string check_killed(const SmallTables& tables, const std::string& path,
                         std::int64_t promised) {
  auto store = tables.open(path);
  if (!store) return "refused: " + store.error().message;
  const EpochPointer epoch = (*store)->current();
  const auto last = static_cast<std::int64_t>(epoch->number());
  if (last < promised) return "an acknowledged transaction is gone";
  for (std::int64_t n = std::max<std::int64_t>(1, last - 49); n <= last; ++n) {
    for (int layer = 0; layer < 2; ++layer) {
      const RowEdit edit = epoch->row(layer, n % 50);
      const auto row = (*store)->get(row_target(layer, n % 50));
      if (!edit.image || edit.transaction != n || row->values[31] != value_of(n)) {
        return "transaction " + std::to_string(n) + " is not whole";
      }
    }
  }
  return {};
}

}  // namespace

TrialCount kills(std::int64_t n_trials, unsigned seed) {
  const SmallTables tables;
  const TemporaryFolder folder;
  const std::string path = folder / "edits.sqlite";
  std::mt19937 random(seed);
  TrialCount trials;
  for (std::int64_t trial = 0; trial < n_trials; ++trial) {
    std::array<int, 2> ends;
    ENGRAMD_ASSERT(pipe(ends.data()) == 0);
    const pid_t child = fork();
    ENGRAMD_ASSERT(child >= 0);
    if (child == 0) {
      close(ends[0]);
      commit_until_killed(tables, path, ends[1]);
    }
    close(ends[1]);
    std::int64_t promised = 0;
    bool is_alive = true;
    // The kill falls anywhere into the commits that follow the last number read.
    for (unsigned n = random() % 12; n > 0 && is_alive; --n) {
      is_alive = read(ends[0], &promised, sizeof promised) == sizeof promised;
    }
    kill(child, SIGKILL);
    while (read(ends[0], &promised, sizeof promised) == sizeof promised) {
    }
    close(ends[0]);
    waitpid(child, nullptr, 0);
    count(trials, "kill: ",
          is_alive ? check_killed(tables, path, promised) : std::string("the child gave up"));
  }
  return trials;
}

}  // namespace engramd::engine
