// Ranks on several hosts: rings of shared memory inside a host, and the two-level algorithm.
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include "algorithms/algorithms.h"
#include "connection/ring_connection.h"
#include "tcp/tcp_transport.h"
#include "thread_ranks.h"

using namespace heddle;
using namespace heddle::comm_detail;
using namespace heddle::net_detail;
using heddle::test::run_ranks;
using heddle::test::text_of;

namespace {

using Bytes = std::vector<std::byte>;

struct Ends {
  std::unique_ptr<Connection> left, right;
};

Ends ring_ends() {
  int fds[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) != 0)
    throw CommError("socketpair");
  struct Both {
    Ring up{}, down{};
  };
  const auto memory = std::make_shared<Both>();
  return {ring_connection(plain_connection(Socket(fds[0])), memory->up, memory->down, memory),
          ring_connection(plain_connection(Socket(fds[1])), memory->down, memory->up, memory)};
}

Bytes random_bytes(std::size_t size, std::mt19937& random) {
  Bytes bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

void sleep_until(Connection& connection, bool to_send, bool to_receive) {
  if (auto wanted = connection.before_sleep(to_send, to_receive)) poll(&*wanted, 1, -1);
}

// Sends all of `out`, and receives until the other side has finished. Sends and receives pieces of random
// size, some as a head and a body. Sleeps while there is no progress in either direction.
Bytes exchange(Connection& connection, std::span<const std::byte> out, unsigned seed) {
  std::mt19937 random(seed);
  Bytes all, room(1 << 18);
  if (out.empty()) connection.finish_sending();
  for (bool over = false; !over || !out.empty();) {
    Step sent, received;
    if (!out.empty()) {
      const std::size_t head = random() % std::min<std::size_t>(out.size(), 200),
                        body = 1 + random() % (out.size() - head);
      sent = connection.send(out.first(head), out.subspan(head, body));
      if (sent.outcome == Step::Outcome::closed) throw CommError("closed while sending");
      out = out.subspan(sent.bytes);
      if (out.empty()) connection.finish_sending();
    }
    if (!over) {
      const auto space = std::span(room);
      const std::size_t head = random() % 300;
      received = connection.receive(space.first(head), space.subspan(head, 1 + random() % 100000));
      over = received.outcome == Step::Outcome::closed;
      all.insert(all.end(), room.begin(), room.begin() + static_cast<std::ptrdiff_t>(received.bytes));
    }
    if (sent.bytes + received.bytes == 0 && !over) sleep_until(connection, !out.empty(), true);
  }
  return all;
}

// Runs `f` on each rank. The list says on which host a rank is: rank r on hosts[r].
heddle::test::Outcomes on_hosts(const std::vector<int>& hosts, const std::function<void(Transport&)>& f,
                                std::chrono::microseconds spin = std::chrono::microseconds{50}) {
  return run_ranks(static_cast<int>(hosts.size()), [&](Rendezvous& rendezvous) {
    const int host = hosts[static_cast<std::size_t>(rendezvous.rank())];
    const auto transport = make_tcp_transport(rendezvous, {.host = std::to_string(host), .spin = spin});
    f(*transport);
  });
}

CallRecord call_of(std::size_t count, DType dtype = DType::i64) {
  CallRecord call;
  call.kind = Kind::all_reduce;
  call.dtype = dtype;
  call.count = count;
  call.set_agreement();
  return call;
}

std::int64_t value_of(int rank, std::size_t i) {
  return (rank + 1) * 1'000'003ll + static_cast<std::int64_t>(i * i);
}

void reduce_and_check(Transport& transport, std::size_t count) {
  std::vector<std::int64_t> values(count);
  for (std::size_t i = 0; i < count; ++i) values[i] = value_of(transport.rank(), i);
  transport.begin(call_of(count), "");
  hierarchical_all_reduce(
      transport,
      {reinterpret_cast<std::byte*>(values.data()), count, 8, combine_of(ReduceOp::sum, DType::i64)},
      transport.hosts());
  transport.end();
  for (std::size_t i = 0; i < count; ++i) {
    std::int64_t sum = 0;
    for (int rank = 0; rank < transport.size(); ++rank) sum += value_of(rank, i);
    if (values[i] != sum) throw std::runtime_error("a wrong sum at " + std::to_string(i));
  }
}

// Small integers, whose sums all tested types represent exactly.
template <class T> void reduce_small_and_check(Transport& transport, std::size_t count) {
  const auto of = [](int rank, std::size_t i) { return static_cast<int>((i * 7 + 3) % 11) - 5 + rank; };
  std::vector<T> values;
  for (std::size_t i = 0; i < count; ++i) values.push_back(T(of(transport.rank(), i)));
  transport.begin(call_of(count, dtype_of<T>), "");
  hierarchical_all_reduce(
      transport,
      {reinterpret_cast<std::byte*>(values.data()), count, sizeof(T), combine_of(ReduceOp::sum, dtype_of<T>)},
      transport.hosts());
  transport.end();
  for (std::size_t i = 0; i < count; ++i) {
    int sum = 0;
    for (int rank = 0; rank < transport.size(); ++rank) sum += of(rank, i);
    if (!(values[i] == T(sum))) throw std::runtime_error("a wrong sum at " + std::to_string(i));
  }
}

bool shares_memory() {
  std::ifstream maps("/proc/self/maps");
  const std::string all{std::istreambuf_iterator<char>(maps), {}};
  return all.find("memfd:heddle") != all.npos;
}

const std::vector<std::vector<int>> kPlacements{
    {0, 0, 1, 1},       {0, 1, 0, 1},          {0, 0, 0, 1, 1, 1}, {0, 0, 1}, {0, 1, 1, 0, 2},
    {0, 0, 1, 1, 2, 2}, {0, 0, 0, 0, 1, 1, 1}, {0, 1, 2},          {0, 0, 0}};

}  // namespace

TEST_CASE("ring: all bytes, in order, both ways at once, in any pieces") {
  std::mt19937 random(1);
  for (const std::size_t size : {1u, 100u, 200000u, 5000000u}) {
    const Ends ends = ring_ends();
    const Bytes up = random_bytes(size, random), down = random_bytes(size / 2, random);
    Bytes at_left, at_right;
    std::thread other([&] { at_right = exchange(*ends.right, down, 2); });
    at_left = exchange(*ends.left, up, 3);
    other.join();
    CHECK(at_right == up);
    CHECK(at_left == down);
    CHECK(ends.left->all_delivered());
  }
}

TEST_CASE("ring: what was written before the end is read, then it is closed") {
  Ends ends = ring_ends();
  const Bytes bytes(1000, std::byte{7});
  CHECK(ends.left->send(bytes, {}).bytes == 1000);
  CHECK_FALSE(ends.left->all_delivered());
  ends.left.reset();  // closes the connection, as the end of the process would
  Bytes room(4000);
  CHECK(ends.right->receive(room, {}).bytes == 1000);
  CHECK(ends.right->receive(room, {}).outcome == Step::Outcome::would_block);
  sleep_until(*ends.right, false, true);
  CHECK(ends.right->receive(room, {}).outcome == Step::Outcome::closed);
  CHECK(ends.right->send(bytes, {}).outcome == Step::Outcome::closed);
  CHECK(ends.right->all_delivered());
}

TEST_CASE("ring: counters that make no sense end the connection and touch nothing") {
  int fds[2];
  REQUIRE(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds) == 0);
  const Socket other(fds[1]);
  Ring out{}, in{};
  const auto connection = ring_connection(plain_connection(Socket(fds[0])), out, in, nullptr);
  Bytes room(100, std::byte{1});
  std::mt19937_64 random(6);
  for (int i = 0; i < 1000; ++i) {
    in.written = Ring::kBytes + 1 + random() % (std::uint64_t{1} << 63);
    CHECK(connection->receive(room, {}).outcome == Step::Outcome::closed);
    out.taken = 1 + random() % (std::uint64_t{1} << 62);
    CHECK(connection->send(room, {}).outcome == Step::Outcome::closed);
  }
  CHECK(room == Bytes(100, std::byte{1}));
}

TEST_CASE("hosts: the ranks of each are known to all, numbered by their first ones") {
  const auto errors = on_hosts({5, 3, 5, 4}, [](Transport& transport) {
    CHECK(transport.hosts() == std::vector<int>{0, 1, 0, 2});
    CHECK(shares_memory());
  });
  CHECK_FALSE(shares_memory());
  for (const auto& error : errors) CHECK(text_of(error) == "");
}

TEST_CASE("hosts: hierarchical all_reduce against sums, any placement, any size, with and without spinning") {
  for (const std::vector<int>& hosts : kPlacements) {
    for (const auto spin : {std::chrono::microseconds{50}, std::chrono::microseconds{0}}) {
      const auto errors = on_hosts(
          hosts,
          [](Transport& transport) {
            for (const std::size_t count : {0u, 1u, 2u, 7u, 1000u, 100003u})
              reduce_and_check(transport, count);
          },
          spin);
      for (const auto& error : errors) CHECK(text_of(error) == "");
    }
  }
}

TEST_CASE("hosts: all_reduce of elements of one and two bytes") {
  for (const std::vector<int>& hosts : kPlacements) {
    const auto errors = on_hosts(hosts, [](Transport& transport) {
      for (const std::size_t count : {1u, 3u, 1000u, 70001u}) {
        reduce_small_and_check<Float16>(transport, count);
        reduce_small_and_check<BFloat16>(transport, count);
        reduce_small_and_check<std::int8_t>(transport, count);
      }
    });
    for (const auto& error : errors) CHECK(text_of(error) == "");
  }
}

TEST_CASE("hosts: a rank with nothing to bring is heard of by all, whatever host it is on") {
  for (const std::vector<int>& hosts : {std::vector<int>{0, 0, 1, 1}, {0, 0, 0, 1, 1}}) {
    const int bad = static_cast<int>(hosts.size()) - 2;
    const auto errors = on_hosts(hosts, [&](Transport& transport) {
      std::vector<std::int64_t> values(5000);
      CallRecord call = call_of(values.size());
      call.failed = transport.rank() == bad;
      transport.begin(call, call.failed ? "out of flour" : "");
      hierarchical_all_reduce(
          transport,
          {reinterpret_cast<std::byte*>(values.data()), 5000, 8, combine_of(ReduceOp::sum, DType::i64)},
          transport.hosts());
      const Transport::Missing missing = transport.end();
      CHECK(missing.rank == bad);
      CHECK(missing.why == "out of flour");
      reduce_and_check(transport, 100);
    });
    for (const auto& error : errors) CHECK(text_of(error) == "");
  }
}

TEST_CASE("hosts: ranks of one host that call different things both hear it, with both places") {
  const auto errors = on_hosts({0, 0, 1}, [](Transport& transport) {
    reduce_and_check(transport, transport.rank() == 1 ? 4000 : 5000);
  });
  for (const auto& error : errors) {
    CHECK(heddle::test::kind_of(error) == "CommMismatch");
    CHECK(text_of(error).find("4000") != std::string::npos);
    CHECK(text_of(error).find("5000") != std::string::npos);
  }
}
