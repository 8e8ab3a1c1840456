#include "membership/etcd_messages.h"

#include <chrono>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "arguments.h"
#include "message_of.h"
#include "transport/bytes.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::net_detail;
using nlohmann::json;

namespace {

const std::string kNumberProblem = "a reply of etcd: TTL is 'soon', want a number";

std::string problem_of(auto&& read, const std::string& reply) {
  return test::message_of<MalformedMessage>([&] { read(reply); });
}

}  // namespace

TEST_CASE("etcd messages: requests") {
  CHECK(json::parse(get_request("foo")) == json{{"key", "Zm9v"}});
  CHECK(json::parse(grant_request(std::chrono::seconds(3))) == json{{"TTL", "3"}});
  CHECK(json::parse(lease_request(-5)) == json{{"ID", "-5"}});
  const auto wanted = json::parse(R"({
    "compare": [{"target": "CREATE", "result": "EQUAL", "key": "Zm9v", "create_revision": "7"},
                {"target": "MOD", "result": "EQUAL", "key": "YmFy", "mod_revision": "0"}],
    "success": [{"request_put": {"key": "Zm9vYg==", "value": "AP8i", "lease": "9223372036854775807"}}]})");
  using What = StoreCondition::What;
  CHECK(json::parse(put_if_request({{What::created, "foo", 7}, {What::modified, "bar", 0}}, "foob",
                                   std::string("\0\xff\"", 3), INT64_MAX)) == wanted);
  CHECK(json::parse(put_if_request({}, "", "", 0))["compare"] == json::array());
}

TEST_CASE("etcd messages: replies") {
  const auto entry = entry_from(
      R"({"header":{"revision":"7"},"kvs":[{"key":"Zm9v","value":"AP8i","create_revision":"2","mod_revision":"3",)"
      R"("lease":"9223372036854775807"}],"count":"1"})");
  REQUIRE(entry);
  CHECK(entry->value == std::string("\0\xff\"", 3));
  CHECK(entry->created == 2);
  CHECK(entry->modified == 3);
  CHECK(entry->lease == INT64_MAX);
  // Etcd leaves out fields that are empty or 0, here the value.
  CHECK(entry_from(R"({"kvs":[{"key":"Zm9v"}]})")->value.empty());
  for (const char* const nothing : {"{}", R"({"header":{}})", R"({"kvs":null})", R"({"kvs":[]})"})
    CHECK_FALSE(entry_from(nothing));

  CHECK(revision_from(R"({"header":{"revision":"7"},"succeeded":true})") == 7);
  CHECK_FALSE(revision_from(R"({"header":{"revision":"7"}})"));
  CHECK_FALSE(revision_from(R"({"header":{"revision":"7"},"succeeded":false})"));
  const StoreLease lease = lease_from(R"({"header":{},"ID":"12","TTL":"3"})");
  CHECK(lease.id == 12);
  CHECK(lease.time == std::chrono::seconds(3));
  CHECK(renewed_from(R"({"result":{"header":{},"ID":"12","TTL":"3"}})") == std::chrono::seconds(3));
  CHECK(renewed_from(R"({"result":{"header":{},"ID":"12"}})") == std::chrono::seconds(0));
  CHECK(test::message_of([] { renewed_from(R"({"error":{"message":"no leader"}})"); }) == "etcd: no leader");

  CHECK(error_from(R"({"error":"etcdserver: a\"\n\u00e9","code":14})") == "etcdserver: a\"\n\u00e9");
  CHECK(error_from(R"({"error":"short","message":"long","code":14})") == "long");
  CHECK(error_from("{}").empty());
}

TEST_CASE("etcd messages: what is no reply is refused, with the reason") {
  CHECK(problem_of(entry_from, "<html>") == "a reply of etcd: it is no JSON from byte 1 on");
  CHECK(problem_of(lease_from, R"({"a":1e999})") ==
        "a reply of etcd: it has a number beyond the range of double");
  CHECK(problem_of(lease_from, R"({"TTL":"soon"})") == kNumberProblem);
  CHECK(problem_of(renewed_from, R"({"result":{"TTL":"soon"}})") == kNumberProblem);
  CHECK(problem_of(lease_from, R"({"TTL":"-1"})") == "a reply of etcd: TTL is -1, want at most 1000000000");
  CHECK(problem_of(lease_from, R"({"ID":"9223372036854775808"})") ==
        "a reply of etcd: ID is '9223372036854775808', want a number");
  CHECK(problem_of(lease_from, R"({"ID":[]})") == "a reply of etcd: ID is of type array, want a string");
  CHECK(problem_of(entry_from, R"({"kvs":[{"value":"Z==="}]})") == "a reply of etcd: value is no base64");
  CHECK(problem_of(entry_from, R"({"kvs":[7]})") ==
        "a reply of etcd: want an object with value, not a value of type number");
  CHECK(problem_of(entry_from, R"({"kvs":{"a":1}})") == "a reply of etcd: kvs is of type object");
  CHECK(problem_of(revision_from, R"({"succeeded":"true"})") ==
        "a reply of etcd: succeeded is of type string");
  CHECK(problem_of(revision_from, R"({"succeeded":true})") ==
        "a reply of etcd: want an object with revision, not a value of type null");
  for (const std::string wrong : {"", "{", "{\"a\"}", "{\"a\":1,}", "[1 2]", "{\"a\":\"b}", "{} x", "[]",
                                  "\"\\u00g0\"", "\"\\", "7", "{\"a\":\"\xff\"}"}) {
    CAPTURE(wrong);
    for (const auto& problem :
         {problem_of(entry_from, wrong), problem_of(revision_from, wrong), problem_of(lease_from, wrong),
          problem_of(renewed_from, wrong), problem_of(error_from, wrong)})
      CHECK(problem.starts_with("a reply of etcd: "));
  }
}

TEST_CASE("etcd messages: deep replies do not exhaust the stack") {
  const std::string open(1'000'000, '['), close(1'000'000, ']');
  CHECK(problem_of(lease_from, open).starts_with("a reply of etcd: it is no JSON"));
  CHECK(problem_of(lease_from, "{\"ID\":" + open + close + "}") ==
        "a reply of etcd: ID is of type array, want a string");
  CHECK_FALSE(entry_from("{\"a\":" + open + close + "}"));
}

TEST_CASE("etcd messages: any bytes are read or refused") {
  std::mt19937_64 random(1);
  const std::string letters = "{}[]\":,\\ue1 -nat", good = R"({"kvs":[{"value":"YmFy","lease":"3"}]})";
  int read = 0, refused = 0;
  for (int i = 0; i < (test::kSanitized ? 5'000 : 20'000); ++i) {
    std::string text = good;
    for (std::size_t changes = random() % 4; changes > 0; --changes)
      text[random() % text.size()] = letters[random() % letters.size()];
    ++(problem_of(entry_from, text) == "no error" ? read : refused);
  }
  CHECK(refused > 1000);
  CHECK(read > 1000);
}
