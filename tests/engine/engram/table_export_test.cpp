// Exported checkpoint files: the bytes of the original but for the edited rows, and an export that
// was stopped or killed goes on where it was.
#include "engine/engram/table_export.h"

#include <csignal>
#include <fstream>
#include <iterator>

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/engine/engram/table_fixture.h"

namespace engramd::engine {
namespace {

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

class TableExportTest : public ::testing::Test {
 protected:
  TableExportTest() {
    LiveTablesOptions options;
    options.edits_file = folder_ / "edits";
    live_ = std::move(
        *LiveTables::open(tables_.layout, sha256_hex(tables_.token_map), tables_.layers, options));
    zero(0, 7);
    options_.sync_bytes = 1 << 20;
  }

  void zero(int layer, std::int64_t row) {
    Edit edit;
    edit.target = row_target(layer, row);
    edit.operation = EditOperation::kZero;
    ASSERT_TRUE((*live_->store())->commit({edit}, "test", "").has_value());
  }
  Result<ExportReport> export_to(const std::string& folder, const ExportOptions& options) {
    return export_shards(tables_.checkpoint, tables_.layout, live_->view(), folder, options);
  }
  std::string file_in(const std::string& folder) const { return folder + "/model.safetensors"; }

  const std::string model_ = std::string(ENGRAMD_SOURCE_DIR) + "/install/models/engram-nano";
  TemporaryFolder folder_;
  CheckpointTables tables_ = std::move(*open_checkpoint_tables(model_));
  std::unique_ptr<LiveTables> live_;
  ExportOptions options_;
};

TEST_F(TableExportTest, OnlyTheEditedRowsDiffer) {
  const std::string out = folder_ / "out";
  const auto report = export_to(out, options_);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->n_rows, 1);
  const std::string before = bytes_of(model_ + "/model.safetensors");
  const std::string after = bytes_of(file_in(out));
  ASSERT_EQ(after.size(), before.size());
  std::int64_t n_different = 0;
  for (std::size_t i = 0; i < before.size(); ++i) n_different += before[i] != after[i] ? 1 : 0;
  EXPECT_GT(n_different, 0);
  EXPECT_LE(n_different, live_->view().base->format(0).row_bytes());
  EXPECT_NE(export_to(out, options_).error().message.find("exists already"), std::string::npos);
}

TEST_F(TableExportTest, AStoppedOrKilledExportGoesOnWhereItWas) {
  const std::string whole = folder_ / "whole";
  const auto copied = export_to(whole, options_);
  ASSERT_TRUE(copied.has_value());
  if (copied->cloned) GTEST_SKIP() << "this file system clones: nothing is copied";
  const std::string expected = bytes_of(file_in(whole));

  const std::string out = folder_ / "out";
  std::stop_source stop;
  ExportOptions stopped = options_;
  stopped.stop = stop.get_token();
  stopped.progress = [&](std::int64_t done, std::int64_t total) {
    if (done > total / 4) stop.request_stop();
  };
  EXPECT_EQ(export_to(out, stopped).error().kind, ErrorKind::kCancelled);
  EXPECT_FALSE(std::filesystem::exists(file_in(out)));

  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ExportOptions killed = options_;
    killed.progress = [](std::int64_t done, std::int64_t total) {
      if (done > total / 2) ::raise(SIGKILL);
    };
    (void)export_to(out, killed);
    ::_exit(1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status)) << status;
  EXPECT_FALSE(std::filesystem::exists(file_in(out)));

  const auto resumed = export_to(out, options_);
  ASSERT_TRUE(resumed.has_value()) << resumed.error().message;
  const auto size = static_cast<std::int64_t>(expected.size());
  EXPECT_GT(resumed->resumed_bytes, size / 2 - 2 * options_.sync_bytes);
  EXPECT_EQ(bytes_of(file_in(out)), expected);
  EXPECT_FALSE(std::filesystem::exists(file_in(out) + ".partial"));
}

TEST_F(TableExportTest, WhatOtherEditsLeftIsNotContinued) {
  const std::string out = folder_ / "out";
  std::stop_source stop;
  ExportOptions stopped = options_;
  stopped.stop = stop.get_token();
  stopped.progress = [&](std::int64_t, std::int64_t) { stop.request_stop(); };
  if (export_to(out, stopped)) GTEST_SKIP() << "this file system clones: nothing is copied";
  zero(1, 9);
  const auto report = export_to(out, options_);
  ASSERT_TRUE(report.has_value()) << report.error().message;
  EXPECT_EQ(report->resumed_bytes, 0);
  EXPECT_EQ(report->n_rows, 2);
}

}  // namespace
}  // namespace engramd::engine
