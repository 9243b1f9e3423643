#include "server/upstream/token_budget.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include "server/daemon_lock.h"

namespace engramd::server {
namespace {

constexpr std::int64_t kSecondsPerDay = 86400;
constexpr std::size_t kLineBytes = 48;
constexpr std::int64_t kTokensMax = 999'999'999'999'999'999;  // 18 digits; saturates

std::int64_t day_of(std::time_t now) {
  return now / kSecondsPerDay;
}

// "2026-11-30 000000000000012345\n": always as long, so that one write replaces all of it.
class LockedFile {
 public:
  LockedFile(const std::string& path, int flags, int lock)
      : descriptor_(::open(path.c_str(), flags | O_CLOEXEC, 0600)) {
    if (descriptor_ >= 0 && ::flock(descriptor_, lock) != 0) close();
  }
  ~LockedFile() { close(); }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;

  bool is_open() const { return descriptor_ >= 0; }

  // Of the day of `now`: 0 when the file is about another one.
  std::int64_t read(std::time_t now) const {
    std::array<char, kLineBytes + 1> line{};
    if (::pread(descriptor_, line.data(), kLineBytes, 0) <= 0) return 0;
    std::tm date{};
    const char* const rest = ::strptime(line.data(), "%Y-%m-%d ", &date);
    long long tokens = 0;
    if (rest == nullptr || std::sscanf(rest, "%lld", &tokens) != 1 || tokens < 0) return 0;
    return day_of(::timegm(&date)) == day_of(now) ? std::min<std::int64_t>(tokens, kTokensMax) : 0;
  }

  bool write(std::time_t now, std::int64_t tokens) const {
    std::tm date{};
    ::gmtime_r(&now, &date);
    std::array<char, kLineBytes + 1> line{};
    const int length =
        std::snprintf(line.data(), line.size(), "%04d-%02d-%02d %018lld\n", date.tm_year + 1900,
                      date.tm_mon + 1, date.tm_mday, static_cast<long long>(tokens));
    return ::pwrite(descriptor_, line.data(), static_cast<std::size_t>(length), 0) == length;
  }

 private:
  void close() {
    if (descriptor_ >= 0) ::close(descriptor_);
    descriptor_ = -1;
  }

  int descriptor_;
};

}  // namespace

TokenBudget::TokenBudget(const std::string& state_folder, std::int64_t tokens_per_day_max)
    : state_folder_(state_folder),
      path_(state_folder + "/remote_tokens"),
      tokens_per_day_max_(tokens_per_day_max) {}

std::int64_t TokenBudget::used(std::time_t now) const {
  const LockedFile file(path_, O_RDONLY, LOCK_SH);
  return file.is_open() ? file.read(now) : 0;
}

Result<void> TokenBudget::add(std::int64_t tokens, std::time_t now) {
  if (const auto folder = ready_state_folder(state_folder_); folder.has_error()) {
    return folder.error();
  }
  const LockedFile file(path_, O_RDWR | O_CREAT, LOCK_EX);
  if (file.is_open() && file.write(now, std::min(file.read(now) + tokens, kTokensMax))) return {};
  return environment_error(path_ + ": " + std::strerror(errno) +
                           "; the tokens of remotes are not counted");
}

Result<void> TokenBudget::check(std::time_t now) const {
  if (tokens_per_day_max_ == 0) return {};
  const std::int64_t spent = used(now);
  if (spent < tokens_per_day_max_) return {};
  return unavailable("the budget api.tokens_per_day_max is used up: " + std::to_string(spent) +
                     " of " + std::to_string(tokens_per_day_max_) +
                     " tokens; it starts anew at midnight UTC");
}

}  // namespace engramd::server
