// TokenBudget: the tokens that remotes were paid for on a UTC day, kept in a file of the state
// folder that all of a user's engramds share, and whether more may be spent. A file that cannot be
// read counts as an empty one. Any thread.
#pragma once

#include <cstdint>
#include <ctime>
#include <string>

#include "config/result.h"

namespace engramd::server {

class TokenBudget {
 public:
  // tokens_per_day_max: 0: as many as wanted; they are counted all the same.
  TokenBudget(const std::string& state_folder, std::int64_t tokens_per_day_max);

  // Of the day in which `now` lies.
  std::int64_t used(std::time_t now) const;
  Result<void> add(std::int64_t tokens, std::time_t now);
  // An error that names the option and both numbers when nothing is left.
  Result<void> check(std::time_t now) const;

 private:
  const std::string state_folder_;
  const std::string path_;
  const std::int64_t tokens_per_day_max_;
};

}  // namespace engramd::server
