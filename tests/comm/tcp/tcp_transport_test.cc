#include "tcp/tcp_transport.h"

#include <array>
#include <cstring>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include "arguments.h"
#include "connection/connection.h"
#include "thread_ranks.h"

using namespace heddle;
using namespace heddle::comm_detail;
using namespace heddle::net_detail;
using heddle::test::run_ranks;
using heddle::test::text_of;

namespace {

using Bytes = std::vector<std::byte>;

CallRecord call_of(DType dtype = DType::u8, std::uint64_t sequence = 0) {
  CallRecord call;
  call.kind = Kind::all_gather;
  call.dtype = dtype;
  call.sequence = sequence;
  call.set_agreement();
  return call;
}

// Bytes that differ for each sender, message and position.
Bytes pattern(int rank, std::size_t size, unsigned salt = 0) {
  Bytes bytes(size);
  std::uint32_t state = static_cast<std::uint32_t>(rank) * 7919u + salt * 104729u + 1u;
  for (std::byte& byte : bytes) {
    state = state * 1664525u + 1013904223u;
    byte = static_cast<std::byte>(state >> 24);
  }
  return bytes;
}

void all_without_error(int size, const std::function<void(Transport&)>& f, const TcpOptions& options = {}) {
  const auto errors = run_ranks(size, [&](Rendezvous& rendezvous) {
    const auto transport = make_tcp_transport(rendezvous, options);
    f(*transport);
  });
  for (const auto& error : errors) CHECK(text_of(error) == "");
}

void require(bool right, const char* what) {
  if (!right) throw std::runtime_error(what);
}

// Each rank sends to the rank whose number is larger by `by`, and receives from the rank whose number is
// smaller by `by`, modulo the number of ranks.
void shift(Transport& transport, int by, std::size_t size, unsigned salt = 0) {
  const int rank = transport.rank(), ranks = transport.size();
  const int to = (rank + by) % ranks, from = (rank - by + ranks) % ranks;
  const Bytes out = pattern(rank, size, salt);
  Bytes in(size);
  transport.transfer({.to = to, .out = out, .from = from, .in = in});
  require(in == pattern(from, size, salt), "other bytes than were sent");
}

void subtract(std::byte* to, const std::byte* a, const std::byte* b, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint64_t left, right;  // unsigned, since the subtraction may wrap around
    std::memcpy(&left, a + 8 * i, 8);
    std::memcpy(&right, b + 8 * i, 8);
    left -= right;
    std::memcpy(to + 8 * i, &left, 8);
  }
}

std::vector<std::int64_t> numbers(int rank, std::size_t count) {
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i)
    values[i] = rank * 1'000'000'007ll + static_cast<std::int64_t>(i * i);
  return values;
}

void combine_with_neighbour(Transport& transport, std::size_t count, bool arriving_first) {
  const int other = transport.size() - 1 - transport.rank();
  const auto mine = numbers(transport.rank(), count), theirs = numbers(other, count);
  auto result = mine;
  transport.transfer({.to = other,
                      .out = std::as_bytes(std::span(mine)),
                      .from = other,
                      .in = std::as_writable_bytes(std::span(result)),
                      .combine = subtract,
                      .arriving_first = arriving_first});
  for (std::size_t i = 0; i < count; ++i) {
    require(result[i] == (arriving_first ? theirs[i] - mine[i] : mine[i] - theirs[i]),
            "combined in another order");
  }
}

}  // namespace

TEST_CASE("tcp: rings and all shifts, any number of ranks, any size") {
  for (int ranks : {1, 2, 3, 5, 8}) {
    CAPTURE(ranks);
    all_without_error(ranks, [&](Transport& transport) {
      CHECK(transport.size() == ranks);
      unsigned salt = 0;
      for (std::size_t size : {0u, 1u, 7u, 1024u, (1u << 20) + 3u}) {
        transport.begin(call_of(DType::u8, ++salt), "");
        shift(transport, 1 % ranks, size, salt);
        if (size > 1024) continue;
        for (int by = 0; by < ranks; ++by) shift(transport, by, size, salt);
        transport.end();
      }
    });
  }
}

TEST_CASE("tcp: many MiB each way at the same time") {
  all_without_error(2, [](Transport& transport) {
    transport.begin(call_of(), "");
    shift(transport, 1, (heddle::test::kSanitized ? 16u : 64u) << 20);
  });
}

TEST_CASE("tcp: without spinning") {
  all_without_error(3,
                    [](Transport& transport) {
                      transport.begin(call_of(), "");
                      for (unsigned salt = 0; salt < 20; ++salt) shift(transport, 1, 1 + 5000 * salt, salt);
                    },
                    {.spin = std::chrono::microseconds(0)});
}

TEST_CASE("tcp: one direction only") {
  all_without_error(3, [](Transport& transport) {
    transport.begin(call_of(), "");
    const Bytes expected = pattern(0, 3'000'000);
    Bytes data = transport.rank() == 0 ? expected : Bytes(expected.size());
    if (transport.rank() > 0) transport.transfer({.from = transport.rank() - 1, .in = data});
    if (transport.rank() < 2) transport.transfer({.to = transport.rank() + 1, .out = data});
    require(data == expected, "not what rank 0 sent");
  });
}

TEST_CASE("tcp: what arrives is combined, on either side of what is there") {
  all_without_error(2, [](Transport& transport) {
    transport.begin(call_of(DType::i64), "");
    for (std::size_t count : {0u, 1u, 7u, 1024u, (1u << 20) + 3u}) {
      combine_with_neighbour(transport, count, false);
      combine_with_neighbour(transport, count, true);
    }
  });
}

TEST_CASE("tcp: combined with a message to oneself") {
  all_without_error(1, [](Transport& transport) {
    transport.begin(call_of(DType::i64), "");
    const auto values = numbers(3, 1000);
    auto result = values;
    transport.transfer({.to = 0,
                        .out = std::as_bytes(std::span(values)),
                        .from = 0,
                        .in = std::as_writable_bytes(std::span(result)),
                        .combine = subtract});
    require(result == std::vector<std::int64_t>(1000), "not subtracted");
  });
}

TEST_CASE("tcp: a rank that has nothing to send says why, and who hears that says it too") {
  for (std::size_t size : {0u, 1u, 16u, 8192u, 3'000'000u}) {
    for (const Combine combine : {Combine{}, Combine{subtract}}) {
      all_without_error(4, [&](Transport& transport) {
        const int rank = transport.rank();
        const std::size_t bytes = combine ? size / 8 * 8 : size;
        CallRecord call = call_of(DType::i64);
        call.failed = rank == 1;
        transport.begin(call, rank == 1 ? "no\ndata" : "");
        const Bytes out = pattern(rank, bytes), before = pattern(rank, bytes, 1);
        Bytes in = before;
        if (rank > 0) transport.transfer({.from = rank - 1, .in = in, .combine = combine});
        if (rank < 3) transport.transfer({.to = rank + 1, .out = out});
        const Transport::Missing missing = transport.end();
        require(missing.rank == (rank == 0 ? -1 : 1), "another rank is missing");
        require(missing.why == (rank == 0 ? "" : rank == 1 ? "no\ndata" : "no?data"), "another reason");
        if (rank > 1) require(in == before, "something was received");
        // Data that was missing in one call does not affect the next one.
        transport.begin(call_of(DType::u8, 1), "");
        for (int i = 0; i < 3; ++i) shift(transport, 1, bytes);
        require(transport.end().rank == -1, "still something missing");
      });
    }
  }
}

TEST_CASE("tcp: a rank that is ahead does not confuse one that still receives from another") {
  constexpr unsigned kMessages = 200;
  all_without_error(3, [](Transport& transport) {
    const int rank = transport.rank();
    for (unsigned i = 0; i < kMessages && rank == 0; ++i) {
      transport.begin(call_of(DType::u8, i), "");
      const Bytes out = pattern(0, 3 * i, i);
      transport.transfer({.to = 1, .out = out});
    }
    // Rank 2 waits for this message of rank 0, so all of rank 0's messages to rank 1 are then in flight.
    transport.begin(call_of(DType::u8, kMessages), "");
    if (rank == 0) transport.transfer({.to = 2});
    if (rank == 2) transport.transfer({.from = 0});
    for (int from : {2, 0}) {
      for (unsigned i = 0; i < kMessages; ++i) {
        transport.begin(call_of(DType::u8, i), "");
        const Bytes expected = pattern(from, 3 * i, i);
        Bytes in(expected.size());
        if (rank == 2 && from == 2) transport.transfer({.to = 1, .out = expected});
        if (rank == 1) transport.transfer({.from = from, .in = in});
        if (rank == 1) require(in == expected, "messages mixed up");
      }
    }
  });
}

TEST_CASE("tcp: messages to oneself wait until they are wanted") {
  all_without_error(2, [](Transport& transport) {
    const int rank = transport.rank(), other = 1 - rank;
    transport.begin(call_of(), "");
    const Bytes first = pattern(rank, 100, 1), second = pattern(rank, 50, 2);
    const Bytes mine = pattern(rank, 20, 3), theirs = pattern(other, 20, 3);
    Bytes one(100), two(50), from_other(20);
    transport.transfer({.to = rank, .out = first});
    transport.transfer({.to = other, .out = mine});
    transport.transfer({.to = rank, .out = second, .from = other, .in = from_other});
    transport.transfer({.from = rank, .in = one});
    transport.transfer({.from = rank, .in = two});
    require(one == first && two == second && from_other == theirs, "not what was sent");
  });
}

TEST_CASE("tcp: what was sent before leaving arrives, though the receiver's own messages were never read") {
  const auto errors = run_ranks(2, [](Rendezvous& rendezvous) {
    auto transport = make_tcp_transport(rendezvous, {});
    transport->begin(call_of(), "");
    const Bytes data = pattern(1, 300'000), unread(100'000);
    if (transport->rank() == 0) transport->transfer({.to = 1, .out = unread});
    rendezvous.all_gather("rank 0 has sent");
    if (transport->rank() == 1) {
      transport->transfer({.to = 0, .out = data});
      transport.reset();
    }
    rendezvous.all_gather("rank 1 has left");
    if (transport == nullptr) return;
    Bytes in(data.size());
    transport->transfer({.from = 1, .in = in});
    require(in == data, "not what rank 1 sent");
  });
  for (const auto& error : errors) CHECK(text_of(error) == "");
}

TEST_CASE("tcp: many communicators, one after the other, leave no descriptor open") {
  const int before = dup(0);
  close(before);
  for (int i = 0; i < 20; ++i) {
    all_without_error(4, [](Transport& transport) {
      transport.begin(call_of(), "");
      shift(transport, 1, 10);
    });
  }
  const int after = dup(0);
  close(after);
  CHECK(after == before);
}

TEST_CASE("tcp: ports come from a range, which is named when it is used up") {
  const auto errors = run_ranks(1, [](Rendezvous& rendezvous) {
    make_tcp_transport(rendezvous, {.ports = "39400-39500"});
    make_tcp_transport(rendezvous, {.ports = "39400-39300"});
  });
  CHECK(heddle::test::kind_of(errors[0]) == "InvalidArgument");
  CHECK(text_of(errors[0]).find("39400-39300") != std::string::npos);
}

TEST_CASE("tcp: a transfer with a rank that there is not") {
  const auto errors = run_ranks(1, [](Rendezvous& rendezvous) {
    const auto transport = make_tcp_transport(rendezvous, {});
    transport->begin(call_of(), "");
    transport->transfer({.to = 1});
  });
  CHECK(heddle::test::kind_of(errors[0]) == "InvalidArgument");
}

TEST_CASE("tcp: a connection that was reset has nothing on its way, whoever was told of the reset") {
  const Socket listener = listen_on("127.0.0.1", {}, 1);
  const auto near = plain_connection(connect_to("127.0.0.1", port_of(listener)));
  Socket far;
  while (!far) far = accept_from(listener);
  const std::vector<std::byte> much(1 << 20);
  while (near->send(much, {}).outcome == Step::Outcome::moved) {
  }
  CHECK_FALSE(near->all_delivered());
  far.close();  // closes with unread data, which resets the connection
  pollfd reset{near->socket().fd(), 0, 0};
  REQUIRE(::poll(&reset, 1, -1) == 1);
  CHECK(near->send(much, {}).outcome == Step::Outcome::closed);
  CHECK(near->all_delivered());
}
