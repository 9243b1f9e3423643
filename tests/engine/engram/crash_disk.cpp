#include "tests/engine/engram/crash_disk.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include <sqlite3.h>

#include "config/assert.h"

namespace engramd::engine {
namespace {

constexpr std::int64_t kSectorBytes = 512;

void put(DiskBytes& file, std::int64_t offset, const std::uint8_t* bytes, std::size_t n) {
  const auto end = static_cast<std::size_t>(offset) + n;
  if (file.size() < end) file.resize(end);
  std::memcpy(file.data() + offset, bytes, n);
}

}  // namespace

DiskFiles DiskState::after_crash(Kept kept, std::mt19937& random) const {
  const auto keeps = [&] {
    return kept == Kept::kEverything || (kept == Kept::kRandom && random() % 2 == 0);
  };
  DiskFiles result;
  for (const auto& [name, file] : files) {
    if (!file.is_entry_synced && !keeps()) continue;
    DiskBytes bytes = file.synced;
    std::vector<const Change*> changes;
    for (const Change& change : file.unsynced) {
      if (keeps()) changes.push_back(&change);
    }
    if (kept == Kept::kRandom) std::ranges::shuffle(changes, random);
    for (const Change* change : changes) {
      if (change->truncate_bytes) {
        bytes.resize(static_cast<std::size_t>(*change->truncate_bytes));
      } else {
        put(bytes, change->offset, change->bytes.data(), change->bytes.size());
      }
    }
    result[name] = std::move(bytes);
  }
  for (const auto& [name, file] : removed) {
    if (!result.contains(name) && kept != Kept::kEverything && (random() % 2 == 0)) {
      result[name] = file.synced;
    }
  }
  return result;
}

struct CrashDisk::Impl {
  sqlite3_vfs vfs{};
  std::string name;
  DiskState state;
  std::function<void()> on_sync = [] {};
  std::function<void()> on_write = [] {};
  std::int64_t until_fault = -1;  // -1: none planned
  Fault fault = Fault::kEio;
  bool is_lasting = false;
  bool has_failed = false;

  bool fails() {
    if (until_fault < 0) return has_failed && is_lasting;
    if (until_fault-- > 0) return false;
    has_failed = true;
    return true;
  }
};

namespace {

struct OpenFile {
  sqlite3_file base;
  CrashDisk::Impl* disk;
  std::string* name;
  DiskState::File& file() const { return disk->state.files[*name]; }
};

OpenFile& of(sqlite3_file* file) {
  return *reinterpret_cast<OpenFile*>(file);
}
CrashDisk::Impl& disk_of(sqlite3_vfs* vfs) {
  return *static_cast<CrashDisk::Impl*>(vfs->pAppData);
}

int close_file(sqlite3_file* file) {
  delete of(file).name;
  return SQLITE_OK;
}

int read_file(sqlite3_file* file, void* to, int n, sqlite3_int64 offset) {
  const DiskBytes& seen = of(file).file().seen;
  const auto size = static_cast<sqlite3_int64>(seen.size());
  const auto available = std::clamp<sqlite3_int64>(size - offset, 0, n);
  if (available > 0) std::memcpy(to, seen.data() + offset, static_cast<std::size_t>(available));
  if (available == n) return SQLITE_OK;
  std::memset(static_cast<char*>(to) + available, 0, static_cast<std::size_t>(n - available));
  return SQLITE_IOERR_SHORT_READ;
}

int write_file(sqlite3_file* file, const void* from, int n, sqlite3_int64 offset) {
  CrashDisk::Impl& disk = *of(file).disk;
  const bool fails = disk.fails();
  if (fails && disk.fault == Fault::kEio) return SQLITE_IOERR_WRITE;
  if (fails && disk.fault == Fault::kEnospc) return SQLITE_FULL;
  const sqlite3_int64 end = offset + (fails ? n / 2 : n);
  const auto* bytes = static_cast<const std::uint8_t*>(from);
  DiskState::File& state = of(file).file();
  for (sqlite3_int64 at = offset; at < end;) {
    const sqlite3_int64 next = std::min(end, (at / kSectorBytes + 1) * kSectorBytes);
    const std::uint8_t* piece = bytes + (at - offset);
    put(state.seen, at, piece, static_cast<std::size_t>(next - at));
    state.unsynced.push_back({at, DiskBytes(piece, piece + (next - at)), {}});
    at = next;
  }
  disk.on_write();
  return fails ? SQLITE_FULL : SQLITE_OK;  // what the system's VFS makes of a short write
}

int truncate_file(sqlite3_file* file, sqlite3_int64 size) {
  if (of(file).disk->fails()) return SQLITE_IOERR_TRUNCATE;
  of(file).file().seen.resize(static_cast<std::size_t>(size));
  of(file).file().unsynced.push_back({0, {}, size});
  return SQLITE_OK;
}

// As on Linux after a failed fsync: the pages count as clean, and what was not written is lost.
int sync_file(sqlite3_file* file, int) {
  CrashDisk::Impl& disk = *of(file).disk;
  DiskState::File& state = of(file).file();
  if (disk.fails()) {
    state.unsynced.clear();
    return SQLITE_IOERR_FSYNC;
  }
  state.synced = state.seen;
  state.unsynced.clear();
  state.is_entry_synced = true;
  disk.on_sync();
  return SQLITE_OK;
}

int size_of(sqlite3_file* file, sqlite3_int64* size) {
  *size = static_cast<sqlite3_int64>(of(file).file().seen.size());
  return SQLITE_OK;
}

int lock(sqlite3_file*, int) {
  return SQLITE_OK;
}
int is_reserved(sqlite3_file*, int* result) {
  *result = 0;
  return SQLITE_OK;
}
int control(sqlite3_file*, int, void*) {
  return SQLITE_NOTFOUND;
}
int sector_size(sqlite3_file*) {
  return static_cast<int>(kSectorBytes);
}
// As the system's VFS says: a write changes no byte beside it.
int characteristics(sqlite3_file*) {
  return SQLITE_IOCAP_POWERSAFE_OVERWRITE;
}

const sqlite3_io_methods kMethods = [] {
  sqlite3_io_methods methods{};
  methods.iVersion = 1;  // no shared memory, no mapping: the edit log must not need them
  methods.xClose = close_file;
  methods.xRead = read_file;
  methods.xWrite = write_file;
  methods.xTruncate = truncate_file;
  methods.xSync = sync_file;
  methods.xFileSize = size_of;
  methods.xLock = lock;
  methods.xUnlock = lock;
  methods.xCheckReservedLock = is_reserved;
  methods.xFileControl = control;
  methods.xSectorSize = sector_size;
  methods.xDeviceCharacteristics = characteristics;
  return methods;
}();

int open_file(sqlite3_vfs* vfs, const char* name, sqlite3_file* file, int flags, int* out_flags) {
  CrashDisk::Impl& disk = disk_of(vfs);
  of(file).base.pMethods = nullptr;
  ENGRAMD_ASSERT(name);  // temporary files would be outside the table's folder
  if (!disk.state.files.contains(name)) {
    if (!(flags & SQLITE_OPEN_CREATE) || disk.fails()) return SQLITE_CANTOPEN;
    disk.state.files[name] = {};
  }
  of(file) = {{&kMethods}, &disk, new std::string(name)};
  if (out_flags) *out_flags = flags;
  return SQLITE_OK;
}

int delete_file(sqlite3_vfs* vfs, const char* name, int sync_folder) {
  CrashDisk::Impl& disk = disk_of(vfs);
  if (disk.fails()) return SQLITE_IOERR_DELETE;
  const auto found = disk.state.files.find(name);
  if (found == disk.state.files.end()) return SQLITE_IOERR_DELETE_NOENT;
  disk.state.removed.erase(name);
  if (found->second.is_entry_synced && !sync_folder) disk.state.removed[name] = found->second;
  disk.state.files.erase(found);
  if (sync_folder) {
    disk.state.removed.clear();
    disk.on_sync();
  }
  return SQLITE_OK;
}

int access_file(sqlite3_vfs* vfs, const char* name, int, int* result) {
  *result = disk_of(vfs).state.files.contains(name);
  return SQLITE_OK;
}

int full_path(sqlite3_vfs*, const char* name, int n, char* out) {
  sqlite3_snprintf(n, out, "%s", name);
  return SQLITE_OK;
}

}  // namespace

CrashDisk::CrashDisk(DiskFiles files) : impl_(std::make_unique<Impl>()) {
  for (auto& [name, bytes] : files) impl_->state.files[name] = {bytes, bytes, {}, true};
  const sqlite3_vfs* system = sqlite3_vfs_find(nullptr);
  impl_->vfs = *system;
  impl_->name = "crash_disk_" + std::to_string(reinterpret_cast<std::uintptr_t>(impl_.get()));
  impl_->vfs.zName = impl_->name.c_str();
  impl_->vfs.pNext = nullptr;
  impl_->vfs.pAppData = impl_.get();
  impl_->vfs.szOsFile = sizeof(OpenFile);
  impl_->vfs.xOpen = open_file;
  impl_->vfs.xDelete = delete_file;
  impl_->vfs.xAccess = access_file;
  impl_->vfs.xFullPathname = full_path;
  ENGRAMD_ASSERT(sqlite3_vfs_register(&impl_->vfs, 0) == SQLITE_OK);
}

CrashDisk::~CrashDisk() {
  sqlite3_vfs_unregister(&impl_->vfs);
}

const std::string& CrashDisk::name() const {
  return impl_->name;
}
const DiskState& CrashDisk::state() const {
  return impl_->state;
}
void CrashDisk::on_sync(std::function<void()> call) {
  impl_->on_sync = std::move(call);
}
void CrashDisk::on_write(std::function<void()> call) {
  impl_->on_write = std::move(call);
}
void CrashDisk::fail_at(std::int64_t n, Fault fault, bool is_lasting) {
  impl_->until_fault = n;
  impl_->fault = fault;
  impl_->is_lasting = is_lasting;
}
void CrashDisk::clear_fault() {
  impl_->until_fault = -1;
  impl_->is_lasting = false;
}
bool CrashDisk::has_failed() const {
  return impl_->has_failed;
}

}  // namespace engramd::engine
