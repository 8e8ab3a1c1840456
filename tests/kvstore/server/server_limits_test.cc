// A faulty or hostile worker can take only its share from a server, and only for a bounded time.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <poll.h>
#include <string>
#include <sys/socket.h>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/server.h>

#include "arguments.h"
#include "connection/socket.h"
#include "core_host.h"
#include "transport/address.h"
#include "transport/frame.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace heddle::net_detail;
using namespace std::chrono_literals;

namespace {

using Floats = std::vector<float>;

Request init_of(bool has_value, std::size_t bytes, std::string key = "w") {
  return {.kind = Kind::init, .has_value = has_value, .bytes = bytes, .text = std::move(key)};
}
Request push_of(std::uint64_t clock) { return {.kind = Kind::push, .clock = clock}; }
Request pull_of(std::uint64_t clock) { return {.kind = Kind::pull, .clock = clock}; }

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}

// Two workers of a job with one key of two elements, both 0, whose pushes are added.
struct Two {
  explicit Two(const std::string& consistency, const ServerOptions& options = {})
      : host(options), a(host, hello_of(0, 2, consistency)), b(host, hello_of(1, 2, consistency)) {
    a.send(init_of(true, 8), bytes_of(Floats{0, 0}));
    b.send(init_of(false, 8));
    for (Link* one : {&a, &b}) one->send({.kind = Kind::set_optimizer, .text = "add"});
    settle();
    CHECK(a.replies.size() == 2);
    CHECK(b.replies.size() == 2);
  }
  void settle() {
    for (int i = 0; i < 3; ++i) a.settle(), b.settle();
  }
  Host host;
  Link a, b;
};

Floats floats_in(const std::pair<Reply, Bytes>& answer) {
  CHECK(answer.first.text == "");
  REQUIRE(answer.first.kind == Kind::value);
  return values_in<float>(answer.second);
}

}  // namespace

TEST_CASE("server: rounds meet again after a push was refused for memory and the errors were cleared") {
  Two two("sync", {.memory_limit = 16});
  CHECK(two.a.ask(push_of(1), bytes_of(Floats{1, 1})).first.kind == Kind::done);
  CHECK(two.b.ask(push_of(1), bytes_of(Floats{10, 10})).first.kind == Kind::failed);
  CHECK(two.a.ask({.kind = Kind::clear_errors}).first.kind == Kind::done);
  CHECK(floats_in(two.a.ask(pull_of(1))) == Floats{0, 0});
  CHECK(two.host.core.stats(two.host.now).waiting_bytes == 0);
  // Worker a's push of the second step. It waits for worker b's.
  CHECK(two.a.ask(push_of(2), bytes_of(Floats{2, 2})).first.kind == Kind::done);
  CHECK(two.b.ask({.kind = Kind::clear_errors}).first.kind == Kind::done);
  CHECK(two.host.core.stats(two.host.now).waiting_bytes == 8);
  Two other("sync", {.memory_limit = 24});
  for (const std::uint64_t clock : {1, 2}) {
    const auto kind = other.a.ask(push_of(clock), bytes_of(Floats{1, 1})).first.kind;
    CHECK(kind == Kind::done);
  }
  CHECK(other.b.ask(push_of(1), bytes_of(Floats{10, 10})).first.kind == Kind::failed);
  CHECK(other.b.ask({.kind = Kind::clear_errors}).first.kind == Kind::done);
  CHECK(other.b.ask(push_of(1), bytes_of(Floats{20, 20})).first.kind == Kind::done);
  // Worker a's first two pushes are lost with the failed round, of which worker a learns only now.
  CHECK(other.a.ask(push_of(3), bytes_of(Floats{3, 3})).first.kind == Kind::failed);
  CHECK(other.a.ask({.kind = Kind::clear_errors}).first.kind == Kind::done);
  CHECK(other.a.ask(push_of(3), bytes_of(Floats{3, 3})).first.kind == Kind::done);
  CHECK(floats_in(other.a.ask(pull_of(3))) == Floats{23, 23});
  CHECK(floats_in(other.b.ask(pull_of(1))) == Floats{23, 23});
}

TEST_CASE("server: jobs have limits of their own, and those without one that of all, after a restart too") {
  Host host({.memory_limit = 100'000,
             .job_memory_limit = 1'000,
             .job_memory_limits = {{"large", 50'000}, {"free", 0}, {"tiny", 100}}});
  const auto hello = [](const char* job) {
    Hello one = hello_of(0, 1, "async");
    one.job = job;
    return one;
  };
  Link other(host, hello("other")), large(host, hello("large")), free(host, hello("free")),
      tiny(host, hello("tiny"));
  const auto init = [](Link& worker, const char* key, std::size_t bytes) {
    return worker.ask(init_of(true, bytes, key), Bytes(bytes)).first.text;
  };
  CHECK(init(other, "a", 1'000).empty());
  CHECK(has(init(other, "b", 4), "the memory limit of the job: 1000 of 1000 bytes are in use"));
  CHECK(init(large, "a", 40'000).empty());
  CHECK(has(init(large, "b", 20'000), "the memory limit of the job: 40000 of 50000 bytes are in use"));
  CHECK(has(init(tiny, "a", 200), "the memory limit of the job: 0 of 100 bytes are in use"));
  CHECK(has(init(free, "a", 60'000), "the memory limit of the server: 41000 of 100000 bytes are in use"));
  CHECK(init(free, "b", 55'000).empty());
  host.replace_core();
  for (Link* const one : {&other, &large, &free, &tiny}) one->cut();
  CHECK(has(init(large, "c", 20'000), "the memory limit of the server"));
  CHECK(has(init(tiny, "b", 200), "the memory limit of the job: 0 of 100 bytes are in use"));
}

TEST_CASE("server: a worker hears that its value is refused when all pieces have come") {
  Two two("async", {.memory_limit = 100});
  Request first = push_of(1);
  first.number = 50, first.dtype = DType::i32, first.bytes = 8;
  two.host.receive(1, {encode(first), Bytes(3)});
  two.a.hear();
  CHECK(two.host.to_worker[1].empty());
  CHECK(two.a.replies.size() == 2);
  Request last = first;
  last.offset = 3;
  two.host.receive(1, {encode(last), Bytes(5)});
  REQUIRE(two.host.to_worker[1].size() == 1);
  const FromServer answer = decode_from_server(two.host.to_worker[1].front().head, 0);
  CHECK(std::get<Reply>(answer).number == 50);
  CHECK(has(std::get<Reply>(answer).text, "worker 0 has 8 bytes of i32, the key 8 of f32"));
  // The value of a key counts for the memory limit. The first worker sends this one, which does not fit.
  Request big = init_of(true, 400, "big");
  big.number = 51;
  two.host.receive(1, {encode(big), Bytes(200)});
  CHECK(two.host.to_worker[1].size() == 1);
  big.offset = 200;
  two.host.receive(1, {encode(big), Bytes(200)});
  REQUIRE(two.host.to_worker[1].size() == 2);
  CHECK(has(std::get<Reply>(decode_from_server(two.host.to_worker[1].back().head, 0)).text, "memory limit"));
}

TEST_CASE("server: keys without values and jobs count too, where memory is limited") {
  Two two("async", {.memory_limit = 1000});
  std::size_t refused = 0;
  std::string why;
  for (int i = 0; i < 10'000 && refused < 10; ++i) {
    const auto answer = two.a.ask(init_of(true, 0, "key" + std::to_string(i)));
    if (answer.first.kind == Kind::failed) ++refused, why = answer.first.text;
  }
  CHECK(refused == 10);
  // Worker b, which inits a new key without a value, gets the error too.
  CHECK(two.b.ask(init_of(false, 8, "key of the other")).first.kind == Kind::failed);
  CHECK(has(why, "jobs, workers and keys themselves would take"));
  CHECK(two.host.core.memory_used() < 3 << 20);
  Hello large = hello_of(0, 65'536, "async");
  large.job = "large";
  Link link(two.host, large);
  link.settle();
  CHECK(has(link.refusal, "jobs, workers and keys themselves would take"));
  // Keys that exist still work.
  CHECK(two.a.ask(push_of(1), bytes_of(Floats{1, 1})).first.kind == Kind::done);
}

TEST_CASE("server: requests that wait are so many at most") {
  Two two("ssp:0");
  two.a.ask(push_of(1), bytes_of(Floats{1, 1}));
  Request pull = pull_of(1);
  for (pull.number = 100; pull.number < 100 + 1024; ++pull.number) two.host.receive(1, {encode(pull), {}});
  CHECK_THROWS_AS(two.host.receive(1, {encode(pull), {}}), MalformedMessage);
  CHECK(floats_in(two.b.ask(pull_of(0))) == Floats{1, 1});
}

TEST_CASE("server: a worker is so many rounds ahead at most" * doctest::skip(test::kSanitized)) {
  Two two("sync");
  std::uint64_t clock = 1;
  std::pair<Reply, Bytes> answer;
  for (; clock < 20'000; ++clock) {
    Request push = push_of(clock);
    push.overwrite = true;
    answer = two.b.ask(push);
    if (answer.first.kind != Kind::done) break;
  }
  CHECK(clock == (1 << 14) + 1);
  CHECK(has(answer.first.text, "16384 rounds ahead"));
  CHECK(two.a.ask({.kind = Kind::ping}).first.kind == Kind::done);
}

TEST_CASE("server: who is refused is heard once, and who says nothing is let go") {
  Two two("async", {.worker_timeout = 10s});
  two.host.tick(1s);
  const Peer refused = two.host.connect(), silent = two.host.connect();
  Hello hello = hello_of(0, 2, "often");
  two.host.receive(refused, {encode(hello), {}});
  CHECK_THROWS_AS(two.host.receive(refused, {encode(hello), {}}), MalformedMessage);
  hello = hello_of(0, 1, "async");
  hello.job = "new\nline";
  const Peer third = two.host.connect();
  two.host.receive(third, {encode(hello), {}});
  REQUIRE(two.host.to_worker[third].size() == 1);
  CHECK(
      has(std::get<Reply>(decode_from_server(two.host.to_worker[third].front().head, 0)).text, "printable"));
  CHECK(two.host.core.peers().size() == 5);
  for (int i = 0; i < 4; ++i) {
    two.host.tick(4s);
    for (Link* one : {&two.a, &two.b}) CHECK(one->ask({.kind = Kind::ping}).first.kind == Kind::done);
  }
  CHECK(two.host.core.peers().size() == 2);
  CHECK_THROWS_AS(two.host.receive(silent, {encode(hello), {}}), MalformedMessage);
}

namespace {

// A process that writes the protocol's messages itself, and reads no answers.
class Deaf {
 public:
  explicit Deaf(const std::string& address)
      : socket_(connect_locally(local_name("net", parse_address(address)))) {
    REQUIRE(socket_);
    std::string hello("HDKH\1", 5);
    hello.resize(12);
    const std::uint32_t sum = checksum(std::as_bytes(std::span(hello)));
    for (int i = 0; i < 4; ++i) hello += static_cast<char>(sum >> 8 * i);
    write(std::as_bytes(std::span(hello)));
  }
  // Sends a message. Returns false if the server has closed the connection.
  bool send(const std::vector<std::byte>& head, std::size_t payload = 0) {
    const Bytes value(payload);
    return write(encode(preamble_of(head, value))) && write(head) && write(value);
  }

 private:
  bool write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      pollfd ready{socket_.fd(), POLLOUT, 0};
      ::poll(&ready, 1, 10'000);
      const ssize_t sent = ::send(socket_.fd(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent < 0 && errno != EAGAIN) return false;
      if (sent > 0) bytes = bytes.subspan(static_cast<std::size_t>(sent));
    }
    return true;
  }
  net_detail::Socket socket_;
};

}  // namespace

TEST_CASE("server: a worker that reads none of its replies is closed before they fill the memory") {
  std::atomic<int> lost{0};
  std::string why;  // written by the server's thread, and to be read after that thread's end
  ServerOptions options;
  options.log = [&](const ServerEvent& event) {
    if (event.name != "worker_lost") return;
    for (const auto& [name, value] : event.fields) {
      if (name == "why") why = value;
    }
    ++lost;
  };
  Server server(options);
  std::thread serving([&] { server.run(); });
  Deaf deaf(server.address());
  constexpr std::size_t kBytes = 1 << 20;
  CHECK(deaf.send(encode(hello_of(0, 1, "async"))));
  CHECK(deaf.send(
      encode(Request{.kind = Kind::init, .has_value = true, .number = 1, .bytes = kBytes, .text = "w"}),
      kBytes));
  std::uint64_t number = 2;
  for (; number < 100'000 && lost.load() == 0; ++number) {
    if (!deaf.send(encode(Request{.kind = Kind::pull, .number = number}))) break;
  }
  CHECK(number < 100'000);
  CHECK(number > 256);
  while (lost.load() == 0) std::this_thread::yield();
  server.stop();
  serving.join();
  CHECK(why == "it does not read its replies");
}

TEST_CASE(
    "server limits: a worker that comes after the first one was refused, and has left, does not wait for its "
    "value") {
  Host host({.memory_limit = 100});
  Link first(host, hello_of(0, 2, "sync")), second(host, hello_of(1, 2, "sync"));
  CHECK(has(first.ask(init_of(true, 200), Bytes(200)).first.text, "the memory limit of the server"));
  first.ask({.kind = Kind::leave});
  const std::string why = second.ask(init_of(false, 200)).first.text;
  CHECK(why == "key w: worker 0, whose value it would have, is gone");
}

TEST_CASE("server: who asks whether the server is there after the job's end stays connected") {
  Two two("sync");
  two.a.ask({.kind = Kind::leave});
  two.b.ask({.kind = Kind::leave});
  two.host.tick(1s);
  REQUIRE(!two.host.core.has_jobs());
  two.a.send({.kind = Kind::ping});
  CHECK_NOTHROW(two.a.step());
  two.host.tick(1s);
  CHECK(!two.host.core.has_jobs());
  CHECK(std::count(two.host.events.begin(), two.host.events.end(), "worker_lost") == 0);
}
