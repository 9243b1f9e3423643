#include "config/effective_config.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace engramd::config {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

// A folder of its own per test, removed afterwards.
class EffectiveConfigTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto* info = testing::UnitTest::GetInstance()->current_test_info();
    folder_ = fs::temp_directory_path() /
              ("engramd_" + std::string(info->name()) + "_" + std::to_string(::getpid()));
    fs::create_directories(folder_);
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::string write(const std::string& name, const std::string& text) {
    fs::create_directories((folder_ / name).parent_path());
    std::ofstream(folder_ / name, std::ios::binary) << text;
    return (folder_ / name).string();
  }
  void set_variable(const std::string& name, const std::string& value) {
    request_.environment[name] = {value, "environment " + name};
  }
  EffectiveConfig load_folder(std::vector<std::string> more = {}) {
    request_.arguments = {"--config-dir", folder_.string()};
    request_.arguments.insert(request_.arguments.end(), more.begin(), more.end());
    return load_effective_config(request_);
  }
  static const Setting& setting(const EffectiveConfig& config, std::string_view key) {
    for (const Setting& candidate : config.settings) {
      if (candidate.row->key == key) return candidate;
    }
    ADD_FAILURE() << key;
    return config.settings.front();
  }

  fs::path folder_;
  ConfigRequest request_;
};

TEST_F(EffectiveConfigTest, NothingGivenMeansDefaults) {
  const EffectiveConfig config = load_effective_config({});
  EXPECT_THAT(config.problems, IsEmpty());
  EXPECT_THAT(config.files_loaded, IsEmpty());
  ASSERT_EQ(config.settings.size(), option_table().size());
  for (const Setting& each : config.settings) {
    EXPECT_EQ(each.value, default_value(*each.row));
    EXPECT_EQ(each.origin, "default");
    EXPECT_EQ(each.row->member.get(config.options), each.value);
  }
}

// The same option in all five sources; each source is removed in turn.
TEST_F(EffectiveConfigTest, FlagThenEnvironmentThenTomlThenJsonThenDefault) {
  const std::string toml = write("config.toml", "sampling.temperature = 0.3\n");
  const std::string json = write("model_settings.json", "{\"temperature\": 0.2}");
  set_variable("ENGRAMD_SAMPLING_TEMPERATURE", "0.4");

  EffectiveConfig config = load_folder({"--temperature", "0.5"});
  EXPECT_EQ(config.options.sampling.temperature, 0.5);
  EXPECT_EQ(setting(config, "sampling.temperature").origin, "flag --temperature");
  EXPECT_THAT(config.notes, IsEmpty());

  config = load_folder();
  EXPECT_EQ(config.options.sampling.temperature, 0.4);
  EXPECT_EQ(setting(config, "sampling.temperature").origin,
            "environment ENGRAMD_SAMPLING_TEMPERATURE");

  request_.environment.clear();
  config = load_folder();
  EXPECT_EQ(config.options.sampling.temperature, 0.3);
  EXPECT_EQ(setting(config, "sampling.temperature").origin, toml + ":1");

  fs::remove(toml);
  config = load_folder();
  EXPECT_EQ(config.options.sampling.temperature, 0.2);
  EXPECT_EQ(setting(config, "sampling.temperature").origin, json + ":1");

  fs::remove(json);
  EXPECT_EQ(load_folder().options.sampling.temperature, 0.0);
}

TEST_F(EffectiveConfigTest, MoeRoutingRanksWithTheJsonFiles) {
  write("moe_routing.toml", "[moe]\nexperts_per_token = 5\n");
  EXPECT_EQ(load_folder().options.moe.top_k, 5);
  write("config.toml", "[moe]\ntop_k = 7\n");
  const EffectiveConfig config = load_folder();
  EXPECT_EQ(config.options.moe.top_k, 7);
  EXPECT_THAT(config.notes, IsEmpty());
}

TEST_F(EffectiveConfigTest, EqualRankMeansTheLaterWinsAndANote) {
  write("model_settings.json", "{\"default_model\": \"a\", \"base_url\": \"http://h\"}");
  write("taotoken.json", "{\"default_model\": \"b\", \"base_url\": \"http://h\"}");
  const EffectiveConfig config = load_folder();
  EXPECT_EQ(config.options.api.default_model, "b");
  EXPECT_THAT(config.notes, ElementsAre(HasSubstr("api.default_model: ")));
  EXPECT_THAT(config.notes[0], HasSubstr("says \"a\""));
  EXPECT_THAT(config.notes[0], HasSubstr("says \"b\"; the later one is used"));
}

TEST_F(EffectiveConfigTest, TwoSpellingsInOneFileMeanTheLaterLine) {
  write("config.toml", "[moe]\nnum_routed_experts = 5\nnum_experts = 6\n");
  const EffectiveConfig config = load_folder();
  EXPECT_EQ(config.options.moe.num_experts, 6);
  EXPECT_EQ(config.notes.size(), 1u);
}

TEST_F(EffectiveConfigTest, FilesByPathComeAfterTheFolderUnderAnyName) {
  write("config.toml", "moe.top_k = 1\n");
  const std::string toml = write("elsewhere/mine.toml", "moe.top_k = 2\n");
  const std::string json = write("elsewhere/any.json", "{\"top_p\": 0.5}");
  const EffectiveConfig config = load_folder({"--config", toml, "--config=" + json});
  EXPECT_EQ(config.options.moe.top_k, 2);
  EXPECT_EQ(config.options.sampling.top_p, 0.5);
  EXPECT_EQ(config.files_loaded.size(), 3u);
}

TEST_F(EffectiveConfigTest, UnknownFilesAreListedAndNotRead) {
  write("other.toml", "nonsense");
  write("cline_mcp_settings.json", "nonsense");
  write("notes.txt", "nonsense");
  const EffectiveConfig config = load_folder();
  EXPECT_THAT(config.problems, IsEmpty());
  EXPECT_THAT(config.files_loaded, IsEmpty());
  EXPECT_THAT(config.files_ignored, ElementsAre((folder_ / "cline_mcp_settings.json").string(),
                                                (folder_ / "other.toml").string()));
}

TEST_F(EffectiveConfigTest, AllMistakesOfAllSourcesAreReported) {
  write("config.toml", "moe.topk = 1\nmodel.dtype = 3\n");
  write("model_settings.json", "{\"top_p\": 7}");
  write(".env", "broken");
  set_variable("ENGRAMD_INFERENCE_THREADS", "x");
  const EffectiveConfig config = load_folder({"--bogus-flag"});
  EXPECT_EQ(config.problems.size(), 6u) << testing::PrintToString(config.problems);
}

TEST_F(EffectiveConfigTest, WithoutFlagsTheUsersFolderIsReadIfThere) {
  write("engramd/config.toml", "moe.top_k = 3\n");
  set_variable("XDG_CONFIG_HOME", folder_.string());
  EXPECT_EQ(load_effective_config(request_).options.moe.top_k, 3);

  write("home/.config/engramd/config.toml", "moe.top_k = 4\n");
  request_.environment.clear();
  set_variable("HOME", (folder_ / "home").string());
  EXPECT_EQ(load_effective_config(request_).options.moe.top_k, 4);

  set_variable("HOME", (folder_ / "nobody").string());
  const EffectiveConfig config = load_effective_config(request_);
  EXPECT_THAT(config.problems, IsEmpty());
  EXPECT_EQ(config.options.moe.top_k, 0);

  set_variable("ENGRAMD_CONFIG_DIR", (folder_ / "engramd").string());
  EXPECT_EQ(load_effective_config(request_).options.moe.top_k, 3);
}

TEST_F(EffectiveConfigTest, WhatIsNamedMustExist) {
  request_.arguments = {"--config-dir", "/nonexistent/folder", "--config", "/nonexistent/x.toml"};
  EXPECT_THAT(load_effective_config(request_).problems,
              ElementsAre("--config-dir /nonexistent/folder: expected a folder, found none",
                          "/nonexistent/x.toml: expected a configuration file, found none"));
}

TEST_F(EffectiveConfigTest, FilesAreBounded) {
  write("config.toml", "#" + std::string(kConfigFileBytesMax, 'x'));
  EXPECT_THAT(load_folder().problems, ElementsAre(HasSubstr("larger than 1048576 bytes")));
  write("config.toml", std::string(kConfigFileBytesMax, '#'));
  EXPECT_THAT(load_folder().problems, IsEmpty());
  fs::remove(folder_ / "config.toml");
  fs::create_directory(folder_ / "config.toml");
  EXPECT_THAT(load_folder().problems, ElementsAre(HasSubstr("expected a configuration file")));
}

TEST_F(EffectiveConfigTest, DotEnvGivesDefaultsForVariables) {
  write("config.toml", "api.base_url = \"http://toml\"\napi.api_key_env = \"MY_KEY\"\n");
  write(".env", "TAOTOKEN_BASE_URL=http://dotenv\nMY_KEY=sk-secret\n");
  EffectiveConfig config = load_folder();
  EXPECT_EQ(config.options.api.base_url, "http://dotenv");
  EXPECT_TRUE(config.api_key_set);
  EXPECT_EQ(find_variable(config.environment, "MY_KEY"), "sk-secret");
  EXPECT_EQ(setting(config, "api.base_url").origin,
            (folder_ / ".env").string() + ":1 TAOTOKEN_BASE_URL");

  set_variable("TAOTOKEN_BASE_URL", "http://process");
  config = load_folder();
  EXPECT_EQ(config.options.api.base_url, "http://process");
  fs::remove(folder_ / ".env");
  EXPECT_FALSE(load_folder().api_key_set);
}

TEST_F(EffectiveConfigTest, TheCommandsOwnFlagsComeBack) {
  request_.arguments = {"config", "--json"};
  request_.command_flags = {{"--json", "", "Print JSON."}};
  const EffectiveConfig config = load_effective_config(request_);
  EXPECT_THAT(config.positional, ElementsAre("config"));
  EXPECT_THAT(config.command_flags, ElementsAre(testing::Pair("--json", "")));
}

}  // namespace
}  // namespace engramd::config
