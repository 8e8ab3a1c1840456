// A worker that has left its job.
#include <chrono>

#include <doctest/doctest.h>

#include <heddle/store_error.h>

#include "client/client.h"
#include "recording_server.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;

TEST_CASE("client: who has left its job begins none of that name again") {
  test::RecordingServer server;
  Client client({.servers = {server.address}});
  client.call(0, {.request = {.kind = Kind::barrier}});
  client.leave(60s);
  CHECK_THROWS_WITH_AS(client.call(0, {.request = {.kind = Kind::barrier}}),
                       "server 0: this worker has left its job", StoreError);
  CHECK_FALSE(client.has_failed());
}
