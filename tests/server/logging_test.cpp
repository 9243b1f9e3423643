#include "server/logging.h"

#include <cstdlib>

#include <gtest/gtest.h>
#include <unistd.h>

namespace engramd::server {
namespace {

// Leaves with 0 after logging into a pipe that nobody reads; SIGPIPE would be another end.
[[noreturn]] void log_to_nobody() {
  int ends[2] = {-1, -1};
  if (::pipe(ends) != 0 || ::dup2(ends[1], STDERR_FILENO) < 0) std::_Exit(1);
  ::close(ends[0]);
  log_warnings(*make_logger({}), {"nobody reads this"});
  std::_Exit(0);
}

TEST(Logging, OutlivesTheReaderOfStandardError) {
  EXPECT_EXIT(log_to_nobody(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace engramd::server
