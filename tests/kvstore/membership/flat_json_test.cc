#include "membership/flat_json.h"

#include <map>
#include <random>
#include <string>

#include <doctest/doctest.h>

#include "arguments.h"
#include "membership/etcd_client.h"
#include "message_of.h"
#include "transport/bytes.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::net_detail;

TEST_CASE("flat json: paths and values") {
  const std::map<std::string, std::string> found = flat_json(
      R"( {"header":{"revision":"7","x":{}},"kvs":[{"key":"Zm9v"},{"n":-1.5e3}],"no":null,"yes":true,"s":"a\"\n\u0041\u00e9"} )");
  const std::map<std::string, std::string> wanted = {{"header.revision", "7"},
                                                     {"kvs.0.key", "Zm9v"},
                                                     {"kvs.1.n", "-1.5e3"},
                                                     {"yes", "true"},
                                                     {"s", "a\"\nA?"}};
  CHECK(found == wanted);
  for (const char* const wrong :
       {"", "{", "{\"a\"}", "{\"a\":1,}", "[1 2]", "{\"a\":\"b}", "{} x", "\"\\u00g0\"", "<html>", "\"\\"}) {
    CAPTURE(std::string(wrong));
    CHECK_THROWS_AS(flat_json(wrong), MalformedMessage);
  }
  CHECK_THROWS_AS(flat_json(std::string(100'000, '[')), MalformedMessage);
}

TEST_CASE("flat json: any bytes are read or refused") {
  std::mt19937_64 random(1);
  const std::string letters = "{}[]\":,\\ue1 -nat";
  int read = 0;
  for (int i = 0; i < (test::kSanitized ? 20'000 : 200'000); ++i) {
    std::string text;
    for (std::size_t length = random() % 12; text.size() < length;)
      text += letters[random() % letters.size()];
    try {
      flat_json(text);
      ++read;
    } catch (const MalformedMessage&) {
    }
  }
  CHECK(read > 100);
}

TEST_CASE("flat json: what is written can be read, and so can base64") {
  std::mt19937_64 random(2);
  for (std::size_t length = 0; length < 200; ++length) {
    std::string bytes;
    while (bytes.size() < length) bytes += static_cast<char>(random());
    CHECK(from_base64(base64(bytes)) == bytes);
    for (char& one : bytes) one = static_cast<char>(one & 0x7f);
    CHECK(flat_json("{\"a\":" + json_string(bytes) + "}") ==
          std::map<std::string, std::string>{{"a", bytes}});
  }
  CHECK(base64("foob") == "Zm9vYg==");
  for (const char* const wrong : {"Z", "Zm9=v", "Zm9 ", "====", "Z==="}) {
    CAPTURE(std::string(wrong));
    CHECK_THROWS_AS(from_base64(wrong), MalformedMessage);
  }
}

TEST_CASE("etcd client: addresses that cannot be are named") {
  const auto problem = [](EtcdOptions options) {
    return test::message_of<InvalidArgument>([&] { checked_urls(options); });
  };
  CHECK(checked_urls({.urls = "http://a:1,https://[::1]:2379"}).size() == 2);
  for (const char* const wrong :
       {"a:1", "http://a", "http://:1", "http://a:0", "http://a:1/", "ftp://a:1", "http://u@a:1", ""})
    CHECK(problem({.urls = wrong}) ==
          "etcd: '" + std::string(wrong) + "': want http://HOST:PORT or https://HOST:PORT");
  CHECK(problem({.urls = "http://a:1,"}) == "etcd: '': want http://HOST:PORT or https://HOST:PORT");
  CHECK(problem({.urls = "http://a:1", .prefix = "/"}).find("the prefix '/'") != std::string::npos);
  CHECK(problem({.urls = "http://a:1", .ca = "ca.pem"}) ==
        "etcd: there are certificates, but not all addresses begin with https://");
  CHECK(problem({.urls = "https://a:1", .key = "key.pem"}) ==
        "etcd: a certificate needs its key, and a key its certificate");
  CHECK(problem({.urls = "https://a:1", .lease = std::chrono::milliseconds(100)}) ==
        "etcd: the lease is shorter than 2 s");
  CHECK(problem({.urls = "https://a:1", .ca = "/none/ca.pem"}) ==
        "etcd: cannot read /none/ca.pem: No such file or directory");
}

TEST_CASE("etcd client: without an answer the error names each member") {
  EtcdClient client({.urls = "http://127.0.0.1:1,http://127.0.0.1:2"}, std::chrono::milliseconds(2000));
  const std::string why = test::message_of<Error>([&] { client.get("/a"); });
  CHECK(why.find("etcd http://127.0.0.1:1: ") == 0);
  CHECK(why.find("; etcd http://127.0.0.1:2: ") != std::string::npos);
  client.cancel();
  CHECK(test::message_of<Error>([&] { client.get("/a"); }) == "etcd: the request was cancelled");
}
