// CrashDisk: a disk in memory behind an SQLite VFS, for tests of crashes. It keeps apart what was
// synced and what was only written. A crash keeps or drops every unsynced 512-byte sector of
// every write on its own, in any order, and every file whose creation or removal was not synced.
// It can also fail the nth changing operation: EIO, ENOSPC or a write that stops half way.
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

namespace engramd::engine {

using DiskBytes = std::vector<std::uint8_t>;
using DiskFiles = std::map<std::string, DiskBytes>;

enum class Fault { kEio, kEnospc, kShortWrite };
enum class Kept { kNothing, kEverything, kRandom };  // of what was not synced, in a crash

struct DiskState {
  struct Change {
    std::int64_t offset = 0;
    DiskBytes bytes;                             // a write, at most one sector
    std::optional<std::int64_t> truncate_bytes;  // or a new length
  };
  struct File {
    DiskBytes synced;
    DiskBytes seen;  // what reads get
    std::vector<Change> unsynced;
    bool is_entry_synced = false;
  };
  std::map<std::string, File> files;
  std::map<std::string, File> removed;  // removal not synced

  DiskFiles after_crash(Kept kept, std::mt19937& random) const;
};

class CrashDisk {
 public:
  explicit CrashDisk(DiskFiles files = {});  // registers the VFS name()
  ~CrashDisk();
  CrashDisk(const CrashDisk&) = delete;
  CrashDisk& operator=(const CrashDisk&) = delete;

  const std::string& name() const;
  const DiskState& state() const;
  // Called after every sync and, when asked, after every write.
  void on_sync(std::function<void()> call);
  void on_write(std::function<void()> call);
  // The nth (from 0) write, sync, truncation, creation or removal from now fails; kEio and
  // kEnospc go on failing until cleared when is_lasting.
  void fail_at(std::int64_t n, Fault fault, bool is_lasting);
  void clear_fault();
  bool has_failed() const;

  struct Impl;

 private:
  std::unique_ptr<Impl> impl_;
};

}  // namespace engramd::engine
