// The queues of a client: calls without a reply, and messages waiting for a connection.
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "client/call_ring.h"
#include "client/client_options.h"
#include "transport/send_queue.h"

using namespace heddle::kv_detail;
using namespace heddle::net_detail;

TEST_CASE("client: a connection is given up soon after the scheduler would know that a backup is gone") {
  using namespace std::chrono_literals;
  CHECK(ClientOptions{}.most_silent() == 4s);
  CHECK(ClientOptions{.timeout = 40'000ms}.most_silent() == 4s);
  CHECK(ClientOptions{.timeout = 400ms}.most_silent() == 200ms);
}

TEST_CASE("call ring: finds, takes and visits what is there, in any order") {
  std::mt19937_64 random(1);
  CallRing<std::string> ring;
  std::map<std::uint64_t, std::string> model;
  std::uint64_t next = 1;
  for (int step = 0; step < 20'000; ++step) {
    const bool adds = random() % 100 < (step / 2000 % 2 == 0 ? 60u : 40u);
    if (adds) {
      next += random() % 10 == 0 ? 3 : 1;  // leaves gaps between the numbers of calls
      model[next] = std::to_string(next);
      CHECK(ring.add(next, std::to_string(next)) == model[next]);
    } else if (!model.empty()) {
      auto which = random() % 2 == 0 ? model.begin() : model.lower_bound(1 + random() % next);
      if (which == model.end()) which = model.begin();
      REQUIRE(ring.find(which->first));
      CHECK(ring.take(which->first) == which->second);
      model.erase(which);
    }
    const std::uint64_t any = random() % (next + 5);
    const std::string* found = ring.find(any);
    CHECK((found != nullptr) == model.contains(any));
    CHECK(ring.size() == model.size());
    CHECK(ring.empty() == model.empty());
  }
  auto expected = model.begin();
  ring.each([&](std::uint64_t number, const std::string& call) {
    REQUIRE(expected != model.end());
    CHECK(number == expected->first);
    CHECK(call == expected++->second);
  });
  CHECK(expected == model.end());
}

TEST_CASE("send queue: of the largest priority the oldest first, however many wait") {
  for (const int priorities : {1, 4}) {
    std::mt19937_64 random(2);
    SendQueue queue;
    // Sizes of the queued messages' heads, by priority.
    std::map<int, std::vector<std::size_t>, std::greater<>> model;
    std::size_t next = 0, bytes = 0;
    for (int step = 0; step < 30'000; ++step) {
      if (random() % 100 < (step < 15'000 ? 60u : 40u)) {
        const int priority = static_cast<int>(random() % static_cast<unsigned>(priorities));
        queue.push({.head = std::vector<std::byte>(++next % 97), .priority = priority});
        model[priority].push_back(next % 97);
        bytes += next % 97;
      } else if (!model.empty()) {
        auto& first = model.begin()->second;
        CHECK(queue.front().head.size() == first.front());
        CHECK(queue.pop().head.size() == first.front());
        bytes -= first.front();
        first.erase(first.begin());
        if (first.empty()) model.erase(model.begin());
      }
      CHECK(queue.bytes() == bytes);
      CHECK(queue.empty() == model.empty());
    }
  }
}
