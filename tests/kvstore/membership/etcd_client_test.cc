#include "membership/etcd_client.h"

#include <string>

#include <doctest/doctest.h>

#include "message_of.h"

using namespace heddle;
using namespace heddle::kv_detail;

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
