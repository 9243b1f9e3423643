// The legacy era, rule by rule, as requests and what their replies must contain. Rules are those of
// the specification's pages for 2024-11-05 to 2025-11-25.
#include <gtest/gtest.h>

#include "tests/mcp/peer.h"

namespace engramd::mcp {
namespace {

const std::vector<std::string> kLegacy = {"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"};

TEST(LegacySession, EchoesASupportedRevisionElseOffersTheNewest) {
  const auto negotiated = [](const std::string& requested) {
    Peer peer;
    const json reply =
        peer.ask(R"({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":")" +
                 requested + R"(","capabilities":{},"clientInfo":{"name":"t","version":"0"}}})");
    EXPECT_TRUE(contains(reply, {{"id", 0}, {"result", {{"instructions", "Ask away."}}}}));
    return reply["result"]["protocolVersion"].get<std::string>();
  };
  for (const std::string& revision : kLegacy) EXPECT_EQ(negotiated(revision), revision);
  for (const char* revision : {"2026-07-28", "2024-10-07", "2099-01-01", "", "x"}) {
    EXPECT_EQ(negotiated(revision), "2025-11-25");
  }
}

TEST(LegacySession, AnswersByTheRules) {
  const std::vector<Exchange> exchanges = {
      {"ping", R"({"jsonrpc":"2.0","id":"p","method":"ping"})",
       R"({"jsonrpc":"2.0","id":"p","result":{}})"},
      {"initialize wants a version",
       R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{}})",
       R"({"id":1,"error":{"code":-32602}})"},
      {"a second initialize negotiates again",
       R"({"jsonrpc":"2.0","id":1,"method":"initialize",
           "params":{"protocolVersion":"2025-11-25"}})",
       R"({"id":1,"result":{"protocolVersion":"2025-11-25"}})"},
      {"unknown method", R"({"jsonrpc":"2.0","id":1,"method":"tasks/list"})",
       R"({"id":1,"error":{"code":-32601}})"},
      {"subscribe",
       R"({"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://note"}})",
       R"({"id":1,"result":{}})"},
      {"unsubscribe",
       R"({"jsonrpc":"2.0","id":1,"method":"resources/unsubscribe","params":{"uri":"test://x"}})",
       R"({"id":1,"result":{}})"},
      {"subscribe to nothing",
       R"({"jsonrpc":"2.0","id":1,"method":"resources/subscribe","params":{"uri":"test://x"}})",
       R"({"id":1,"error":{"code":-32002,"data":{"uri":"test://x"}}})"},
      {"params that are no object", R"({"jsonrpc":"2.0","id":1,"method":"ping","params":[1]})",
       R"({"id":1,"error":{"code":-32602}})"},
      {"params null is none", R"({"jsonrpc":"2.0","id":1,"method":"ping","params":null})",
       R"({"id":1,"result":{}})"},
      {"unknown notification", R"({"jsonrpc":"2.0","method":"notifications/whatever"})", ""},
      {"a request method without id", R"({"jsonrpc":"2.0","method":"tools/list"})", ""},
      {"a response", R"({"jsonrpc":"2.0","id":1,"result":{}})", ""},
      {"log level",
       R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"info"}})",
       R"({"id":1,"result":{}})"},
      {"bad log level",
       R"({"jsonrpc":"2.0","id":1,"method":"logging/setLevel","params":{"level":"loud"}})",
       R"({"id":1,"error":{"code":-32602}})"},
      {"bad cursor", R"({"jsonrpc":"2.0","id":1,"method":"tools/list","params":{"cursor":"x"}})",
       R"({"id":1,"error":{"code":-32602}})"},
      {"resources", R"({"jsonrpc":"2.0","id":1,"method":"resources/list"})",
       R"({"result":{"resources":[{"uri":"test://note","name":"note","title":"Note",
           "description":"A note.","mimeType":"text/plain"},{"uri":"test://broken"}]}})"},
      {"resource templates", R"({"jsonrpc":"2.0","id":1,"method":"resources/templates/list"})",
       R"({"result":{"resourceTemplates":[]}})"},
      {"resource",
       R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://note"}})",
       R"({"result":{"contents":[{"uri":"test://note","mimeType":"text/plain",
           "text":"all is well"}]}})"},
      {"unknown resource",
       R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://x"}})",
       R"({"error":{"code":-32002,"data":{"uri":"test://x"}}})"},
      {"resource that fails",
       R"({"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://broken"}})",
       R"({"error":{"code":-32603,"message":"disk says no"}})"},
      {"resource without uri", R"({"jsonrpc":"2.0","id":1,"method":"resources/read"})",
       R"({"error":{"code":-32602}})"},
      {"prompts", R"({"jsonrpc":"2.0","id":1,"method":"prompts/list"})",
       R"({"result":{"prompts":[{"name":"greet","title":"Greeting","description":"Greets somebody.",
           "arguments":[{"name":"name","description":"who","required":true},
                        {"name":"tone","description":"how","required":false}]}]}})"},
      {"prompt",
       R"({"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greet",
           "arguments":{"name":"Ada"}}})",
       R"({"result":{"description":"Greets somebody.","messages":[
           {"role":"user","content":{"type":"text","text":"Hello, Ada!"}}]}})"},
      {"unknown prompt", R"({"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"x"}})",
       R"({"error":{"code":-32602}})"},
      {"prompt without its argument",
       R"({"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greet"}})",
       R"({"error":{"code":-32602,"message":"missing argument \"name\""}})"},
      {"prompt argument that is no string",
       R"({"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greet",
           "arguments":{"name":1}}})",
       R"({"error":{"code":-32602}})"},
      {"unknown prompt argument",
       R"({"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greet",
           "arguments":{"nam":"x"}}})",
       R"({"error":{"code":-32602}})"},
      {"prompt that refuses its argument",
       R"({"jsonrpc":"2.0","id":1,"method":"prompts/get","params":{"name":"greet",
           "arguments":{"name":"nobody"}}})",
       R"({"error":{"code":-32602,"message":"name: expected a person"}})"},
      {"completion",
       R"({"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
           "ref":{"type":"ref/prompt","name":"greet"},"argument":{"name":"tone","value":"w"}}})",
       R"({"result":{"completion":{"values":[],"total":0,"hasMore":false}}})"},
      {"completion of an unknown prompt",
       R"({"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
           "ref":{"type":"ref/prompt","name":"x"},"argument":{"name":"tone","value":"w"}}})",
       R"({"error":{"code":-32602}})"},
      {"completion of a resource",
       R"({"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
           "ref":{"type":"ref/resource","uri":"x"},"argument":{"name":"tone","value":"w"}}})",
       R"({"error":{"code":-32602}})"},
      {"completion without argument",
       R"({"jsonrpc":"2.0","id":1,"method":"completion/complete","params":{
           "ref":{"type":"ref/prompt","name":"greet"}}})",
       R"({"error":{"code":-32602}})"},
      {"tool",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",
           "arguments":{"text":"a","times":2}}})",
       R"({"id":1,"result":{"content":[{"type":"text","text":"echo: aa"}],
           "structuredContent":{"text":"aa"}}})"},
      {"unknown tool", R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"ecco"}})",
       R"({"error":{"code":-32602,
           "message":"unknown tool \"ecco\" (did you mean \"echo\"?); see tools/list"}})"},
      {"tool without name", R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}})",
       R"({"error":{"code":-32602}})"},
      {"arguments that are no object",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":[]}})",
       R"({"error":{"code":-32602}})"},
      {"progress token of a wrong type",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",
           "arguments":{"text":"a"},"_meta":{"progressToken":1.5}}})",
       R"({"error":{"code":-32602}})"},
      {"bad argument values are for the model to mend",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo",
           "arguments":{"text":"a","times":4}}})",
       R"({"id":1,"result":{"isError":true,"content":[{"type":"text","text":
           "invalid arguments for echo: times: expected an integer >= 1 and <= 3, got 4"}]}})"},
      {"a tool that breaks its schema is an error",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lie"}})",
       R"({"result":{"isError":true}})"},
      {"a tool that forgets its call is an error",
       R"({"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"drop"}})",
       R"({"result":{"isError":true}})"},
  };
  Peer peer;
  peer.initialize("2025-11-25");
  for (const Exchange& each : exchanges) {
    SCOPED_TRACE(each.rule);
    if (*each.reply == '\0') {
      EXPECT_TRUE(peer.send(each.request).empty());
      continue;
    }
    const json reply = peer.ask(each.request);
    EXPECT_TRUE(contains(reply, json::parse(each.reply)));
    // -32020 to -32022 would tell a probing client that the server is a modern one.
    const int code = reply.value("/error/code"_json_pointer, 0);
    EXPECT_FALSE(code <= -32020 && code >= -32022) << code;
  }
}

TEST(LegacySession, ShowsARevisionOnlyTheFieldsItKnows) {
  for (std::size_t age = 0; age < kLegacy.size(); ++age) {
    SCOPED_TRACE(kLegacy[age]);
    Peer peer;
    const json hello =
        peer.ask(R"({"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":")" +
                 kLegacy[age] + "\"}}");
    const json list = peer.ask(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})");
    const json call = peer.ask(
        R"({"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"echo",
           "arguments":{"text":"a"}}})");
    const json& tool = list["result"]["tools"][0];
    EXPECT_EQ(hello["result"]["capabilities"].contains("completions"), age >= 1);
    EXPECT_EQ(tool.contains("annotations"), age >= 1);
    EXPECT_EQ(tool.contains("outputSchema"), age >= 2);
    EXPECT_EQ(tool.contains("title"), age >= 2);
    EXPECT_EQ(hello["result"]["serverInfo"].contains("title"), age >= 2);
    EXPECT_EQ(call["result"].contains("structuredContent"), age >= 2);
    EXPECT_EQ(call["result"]["content"][0]["text"], "echo: a");
    for (const char* modern_field : {"resultType", "_meta", "ttlMs"}) {
      EXPECT_FALSE(list["result"].contains(modern_field)) << modern_field;
    }
  }
}

TEST(LegacySession, ListsToolsInOrderOfRegistration) {
  Peer peer;
  const json list = peer.ask(R"({"jsonrpc":"2.0","id":2,"method":"tools/list"})");
  std::vector<std::string> names;
  for (const json& tool : list["result"]["tools"]) names.push_back(tool["name"]);
  EXPECT_EQ(names, (std::vector<std::string>{"echo", "wait", "drop", "lie"}));
}

TEST(LegacySession, WritesAnUnreadableIdAsItsRevisionWants) {
  for (std::size_t age = 0; age < kLegacy.size(); ++age) {
    Peer peer;
    peer.initialize(kLegacy[age]);
    const json reply = peer.ask("garbage");
    EXPECT_EQ(reply["error"]["code"], -32700);
    EXPECT_EQ(reply.contains("id"), age < 3) << kLegacy[age];
    EXPECT_TRUE(reply.value("id", json()).is_null());
  }
}

TEST(LegacySession, TakesBatchesOnlyIn2025_03_26) {
  const std::string batch = R"([{"jsonrpc":"2.0","id":1,"method":"ping"}])";
  EXPECT_EQ(Peer().ask(batch)["error"]["code"], -32600);
  for (std::size_t age = 0; age < kLegacy.size(); ++age) {
    Peer peer;
    peer.initialize(kLegacy[age]);
    const json reply = peer.ask(batch);
    EXPECT_EQ(reply.is_array(), age == 1) << kLegacy[age];
    const json& refusal = age == 1 ? peer.ask("[]") : reply;
    EXPECT_EQ(refusal["error"]["code"], -32600);
  }
}

}  // namespace
}  // namespace engramd::mcp
