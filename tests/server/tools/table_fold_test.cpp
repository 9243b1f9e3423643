// The tool table_fold on the bundled model: what it answers, its progress, and a client that
// changes its mind.
#include "server/tools/table_fold.h"

#include <filesystem>
#include <future>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include "tests/server/tools/test_services.h"

namespace engramd::server {
namespace {

using mcp::json;
using testing::HasSubstr;

class TableFoldTest : public testing::Test {
 protected:
  TableFoldTest() {
    std::string name = (std::filesystem::temp_directory_path() / "engramd_fold_XXXXXX").string();
    EXPECT_NE(::mkdtemp(name.data()), nullptr);
    folder_ = name;
    loader_.start();
    loaded_.get_future().get()();
    EXPECT_TRUE(loader_.current().has_value()) << loader_.current().error().message;
  }
  ~TableFoldTest() override { std::filesystem::remove_all(folder_); }

  Result<std::unique_ptr<engine::LocalEngine>> open() const {
    engine::LocalEngineOptions options;
    options.model_folder = ENGRAMD_SOURCE_DIR "/install/models/engram-nano";
    options.tables.edits_file = folder_ + "/edits";
    return engine::LocalEngine::open(options);
  }
  std::shared_ptr<RecordedCall> run(const json& arguments, bool is_cancelled = false) {
    const auto checked = mcp::validate(tool_.input, arguments);
    EXPECT_TRUE(checked.has_value()) << checked.error().message;
    auto call = std::make_shared<RecordedCall>(checked.value());
    if (is_cancelled) call->stop.request_stop();
    tool_.handler(call);
    test_.run_posted();
    EXPECT_TRUE(call->result);
    return call;
  }
  void zero(std::vector<engine::TokenId> tokens, engine::EditScope scope) {
    engine::EditRequest edit;
    edit.where.tokens = std::move(tokens);
    edit.scope = scope;
    edit.operation = engine::EditOperation::kZero;
    const auto done = (*loader_.current())->editor().edit({edit}, "test", "", false);
    ASSERT_TRUE(done.has_value()) << done.error().message;
  }

  std::string folder_;
  TestServices test_;
  std::promise<std::function<void()>> loaded_;
  ModelLoader loader_{[this] { return open(); },
                      [this](std::function<void()> f) { loaded_.set_value(std::move(f)); }};
  const Services services_{.config = test_.config,
                           .options = test_.options,
                           .loader = loader_,
                           .metrics = test_.metrics,
                           .post = test_.post(),
                           .table_thread = [](const std::function<void()>& f) { f(); },
                           .when_chat_ready = {},
                           .chat_log = {}};
  mcp::Tool tool_ = make_table_fold_tool(services_);
};

TEST_F(TableFoldTest, ServesTheNewFileAndSaysWhatBecameOfTheEdits) {
  zero({900, 901}, engine::EditScope::kRow);
  zero({902, 903}, engine::EditScope::kNgram);
  const auto stopped = run({{"file", "next.engram"}}, true);
  EXPECT_TRUE(stopped->result->is_error);
  EXPECT_THAT(stopped->result->text, HasSubstr("it continues"));

  const auto call = run({{"file", "next.engram"}, {"author", "me"}});
  ASSERT_FALSE(call->result->is_error) << call->result->text;
  const json& out = call->result->structured;
  const auto conforms = mcp::validate(tool_.output, out);
  EXPECT_TRUE(conforms.has_value()) << conforms.error().message;
  EXPECT_EQ(out.at("file"), folder_ + "/next.engram") << "beside the edits";
  EXPECT_EQ(out.at("generation"), 2);
  EXPECT_EQ(out.at("rows"), 8);
  EXPECT_EQ(out.at("ngrams_carried"), 8);
  ASSERT_GT(call->progressed.size(), 1U);
  EXPECT_TRUE(std::is_sorted(call->progressed.begin(), call->progressed.end()));
  EXPECT_EQ((*loader_.current())->editor().tables().edits_file(), out.at("edits_file"));

  const auto again = run({{"file", "next.engram"}});
  EXPECT_TRUE(again->result->is_error);
  EXPECT_THAT(again->result->text, HasSubstr("exists already"));
}

}  // namespace
}  // namespace engramd::server
