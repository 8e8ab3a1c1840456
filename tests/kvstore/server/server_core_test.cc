// The answers of a server's core, case by case.
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/optimizer.h>

#include "core_host.h"
#include "stores/update_rule.h"
#include "wire/state_blob.h"

using namespace heddle;
using namespace heddle::kv_detail;
using namespace std::chrono_literals;

namespace {

using Floats = std::vector<float>;
constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();

Request init_of(bool has_value, std::size_t bytes, std::string key = "w") {
  return {.kind = Kind::init, .has_value = has_value, .bytes = bytes, .text = std::move(key)};
}
Request push_of(std::uint64_t clock, double lr = kNoRate) {
  return {.kind = Kind::push, .clock = clock, .lr = lr};
}
Request pull_of(std::uint64_t clock) { return {.kind = Kind::pull, .clock = clock}; }
Request optimizer_of(const std::string& text) { return {.kind = Kind::set_optimizer, .text = text}; }

Floats floats_in(const std::pair<Reply, Bytes>& answer) {
  CHECK(answer.first.text == "");
  REQUIRE(answer.first.kind == Kind::value);
  return values_in<float>(answer.second);
}
std::string failure_in(const std::pair<Reply, Bytes>& answer) {
  CHECK(answer.first.kind == Kind::failed);
  return answer.first.text;
}
bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}

// Two workers of a job with one key of two elements, both 0.
struct Two {
  explicit Two(const std::string& consistency, const ServerOptions& options = {})
      : host(options), a(host, hello_of(0, 2, consistency)), b(host, hello_of(1, 2, consistency)) {
    const std::uint64_t first = a.send(init_of(true, 8), bytes_of(Floats{0, 0})),
                        second = b.send(init_of(false, 8));
    settle();
    CHECK(a.take(first).first.kind == Kind::done);
    CHECK(b.take(second).first.kind == Kind::done);
  }
  void settle() {
    for (int i = 0; i < 3; ++i) a.settle(), b.settle();
  }
  void set_optimizer(const std::string& text) {
    const std::uint64_t first = a.send(optimizer_of(text)), second = b.send(optimizer_of(text));
    settle();
    CHECK(a.take(first).first.kind == Kind::done);
    CHECK(b.take(second).first.kind == Kind::done);
  }
  Host host;
  Link a, b;
};

}  // namespace

TEST_CASE("server core: a round ends when all workers have pushed, and a pull waits for it") {
  Two two("sync");
  CHECK(two.a.ask(push_of(1), bytes_of(Floats{1, 2})).first.kind == Kind::done);
  const std::uint64_t pull = two.a.send(pull_of(1));
  two.settle();
  CHECK(!two.a.has_reply(pull));
  CHECK(floats_in(two.b.ask(pull_of(0))) == Floats{0, 0});
  two.b.ask(push_of(1), bytes_of(Floats{10, 20}));
  two.settle();
  CHECK(floats_in(two.a.take(pull)) == Floats{11, 22});
}

TEST_CASE(
    "server core: workers with different learning rates in a round are named, and clear_errors goes on") {
  Two two("sync");
  two.set_optimizer("sgd lr=0.5");
  two.a.ask(push_of(1, 0.5), bytes_of(Floats{1, 1}));
  two.b.ask(push_of(1, 0.25), bytes_of(Floats{1, 1}));
  const std::string why = failure_in(two.a.ask(pull_of(1)));
  CHECK(has(why, "key w, round 1: worker 0 pushed with lr 0.5"));
  CHECK(has(why, "worker 1 with lr 0.25"));
  CHECK(failure_in(two.b.ask(push_of(2, 0.5), bytes_of(Floats{1, 1}))) == why);
  for (Link* const link : {&two.a, &two.b}) link->ask({.kind = Kind::clear_errors});
  CHECK(floats_in(two.a.ask(pull_of(1))) == Floats{0, 0});
  two.a.ask(push_of(2, 0.5), bytes_of(Floats{1, 1}));
  two.b.ask(push_of(2, 0.5), bytes_of(Floats{1, 1}));
  CHECK(floats_in(two.a.ask(pull_of(2))) == Floats{-1, -1});
}

TEST_CASE("server core: an optimizer of the server gives what it gives in one process") {
  for (const std::string text : {"sgd lr=0.5 momentum=0.9", "adam lr=0.1", "adamw lr=0.1 weight_decay=0.1"}) {
    CAPTURE(text);
    Two two("sync");
    two.set_optimizer(text);
    const UpdateRule rule = parse_update_rule(text);
    const auto oracle = create_optimizer(rule.name, rule.params);
    NDArray weight = zeros({2});
    for (std::uint64_t step = 1; step <= 3; ++step) {
      const float x = static_cast<float>(step);
      two.b.ask(push_of(step, 0.25), bytes_of(Floats{x, 0.1f}));
      two.a.ask(push_of(step, 0.25), bytes_of(Floats{2 * x, 0.7f}));
      NDArray sum = array<float>({2 * x, 0.7f});
      sum += array<float>({x, 0.1f});
      oracle->update(0, weight, sum, {.lr = 0.25});
      CHECK(floats_in(two.a.ask(pull_of(step))) == weight.to_vector<float>());
    }
    // Pulls the optimizer's state, restarts the optimizer, and sets the state again.
    const auto [reply, blob] = two.a.ask({.kind = Kind::get_state, .clock = 3});
    const StateArrays state = decode_state(blob);
    CHECK(state.at("updates").item<std::int64_t>() == 3);
    CHECK(state.size() == oracle->state().size());
    two.set_optimizer(text);
    CHECK(decode_state(two.a.ask({.kind = Kind::get_state, .clock = 3}).second).empty());
    CHECK(two.a.ask({.kind = Kind::set_state}, blob).first.kind == Kind::done);
    CHECK(two.a.ask({.kind = Kind::get_state, .clock = 3}).second == blob);
  }
}

// The answer to a set_state is lost; another worker pushes before the set_state is repeated.
TEST_CASE("server core: a state that is set twice, since its answer was lost, counts once") {
  Two two("async");
  two.set_optimizer("sgd lr=0.5 momentum=0.9");
  two.a.ask(push_of(1), bytes_of(Floats{1, 2}));
  const Bytes state = two.a.ask({.kind = Kind::get_state, .clock = 1}).second;
  for (const bool another_core : {false, true}) {
    CAPTURE(another_core);
    const std::uint64_t number = two.a.send({.kind = Kind::set_state}, state);
    two.a.step();
    two.b.ask(push_of(another_core ? 2 : 1), bytes_of(Floats{3, 5}));
    const Bytes after = two.b.ask({.kind = Kind::get_state, .clock = 1}).second;
    CHECK(after != state);
    if (another_core) {  // another core takes over the saved state
      two.b.die();
      two.a.die();
      two.host.replace_core();
      two.b.cut();
    }
    two.a.cut();
    two.a.settle();
    CHECK(two.a.take(number).first.kind == Kind::done);
    CHECK(two.b.ask({.kind = Kind::get_state, .clock = 1}).second == after);
  }
  CHECK(two.a.ask({.kind = Kind::set_state}, state).first.kind == Kind::done);
  CHECK(two.a.ask({.kind = Kind::get_state, .clock = 1}).second == state);
}

TEST_CASE("server core: workers whose weights are others are named; who does not say goes on") {
  const auto ask = [](Two& two, std::uint64_t first, std::uint64_t second) {
    const std::uint64_t a = two.a.send({.kind = Kind::set_optimizer, .text = "add", .keys_digest = first}),
                        b = two.b.send({.kind = Kind::set_optimizer, .text = "add", .keys_digest = second});
    two.settle();
    const Reply one = two.a.take(a).first, other = two.b.take(b).first;
    CHECK(one.text == other.text);
    return one.text;
  };
  Two two("sync");
  CHECK(has(ask(two, 7, 8),
            "weights of worker 0 differ from those of worker 1 in name, shape, dtype or order"));
  CHECK(ask(two, 7, 0) == "");  // 0: the worker's version sends no digest of weights
  CHECK(ask(two, 7, 7) == "");
}

TEST_CASE("server core: workers that want different optimizers are told who wants which") {
  Two two("async");
  const std::uint64_t a = two.a.send(optimizer_of("sgd lr=0.5")), b = two.b.send(optimizer_of("sgd lr=0.25"));
  two.settle();
  const std::string why = failure_in(two.a.take(a));
  CHECK(has(why, "worker 0 has called set_optimizer sgd lr=0.5, worker 1 set_optimizer sgd lr=0.25"));
  CHECK(failure_in(two.b.take(b)) == why);
  const std::uint64_t c = two.a.send(optimizer_of("nonsense")), d = two.b.send(optimizer_of("nonsense"));
  two.settle();
  CHECK(has(failure_in(two.a.take(c)), "there is no optimizer 'nonsense'"));
  CHECK(failure_in(two.b.take(d)) != "");
}

TEST_CASE("server core: a value that is being sent stays as it was") {
  Two two("async");
  two.set_optimizer("add");
  const std::uint64_t number = two.a.send(pull_of(0));
  // Holds back the reply, and reads its payload after the next push, as a slow connection would.
  two.a.settle();
  two.a.take(number);
  Host& host = two.host;
  host.core.received(1, encode(Request{.kind = Kind::pull, .number = 99}), 0, host.now);
  const Outbox held = host.core.take_outbox();
  REQUIRE(held.replies.size() == 1);
  two.b.ask(push_of(1), bytes_of(Floats{5, 6}));
  const std::span<const std::byte> old = held.replies[0].payload.bytes;
  CHECK(values_in<float>({old.begin(), old.end()}) == Floats{0, 0});
  CHECK(floats_in(two.a.ask(pull_of(0))) == Floats{5, 6});
}

TEST_CASE("server core: a worker that is gone too long is left out, and comes back") {
  for (const bool same_process : {true, false}) {
    CAPTURE(same_process);
    Two two("sync", {.worker_timeout = 10s});
    two.set_optimizer("add");
    two.b.die();
    two.a.ask(push_of(1), bytes_of(Floats{1, 1}));
    const std::uint64_t pull = two.a.send(pull_of(1));
    two.host.tick(9s);
    two.a.settle();
    CHECK(!two.a.has_reply(pull));
    two.host.tick(2s);
    two.a.settle();
    CHECK(floats_in(two.a.take(pull)) == Floats{1, 1});
    CHECK(std::count(two.host.events.begin(), two.host.events.end(), "worker_dropped") == 1);
    Hello hello = hello_of(1, 2, "sync");
    if (!same_process) hello.incarnation = 77;
    Link again(two.host, hello);
    const auto [reply, value] = again.ask(init_of(false, 8));
    REQUIRE(reply.kind == Kind::done);
    if (!same_process) CHECK(again.ask(optimizer_of("add")).first.kind == Kind::done);
    CHECK(floats_in(again.ask(pull_of(reply.clock))) == Floats{1, 1});
    two.a.ask(push_of(2), bytes_of(Floats{1, 1}));
    const std::uint64_t second = two.a.send(pull_of(2));
    two.a.settle();
    CHECK(!two.a.has_reply(second));
    again.ask(push_of(reply.clock + 1), bytes_of(Floats{2, 2}));
    two.a.settle();
    CHECK(floats_in(two.a.take(second)) == Floats{4, 4});
  }
}

TEST_CASE("server core: a worker that is silent too long is left out though it is connected") {
  Two two("sync", {.worker_timeout = 10s});
  two.set_optimizer("add");
  two.host.tick(6s);
  two.a.ask(push_of(1), bytes_of(Floats{1, 1}));
  two.host.tick(6s);
  CHECK(floats_in(two.a.ask(pull_of(1))) == Floats{1, 1});
  two.host.tick(6s);
  CHECK(two.a.ask({.kind = Kind::ping}).first.kind == Kind::done);
  two.host.tick(6s);
  CHECK(two.a.ask({.kind = Kind::ping}).first.kind == Kind::done);
  CHECK(std::count(two.host.events.begin(), two.host.events.end(), "worker_dropped") == 1);
}

TEST_CASE("server core: who waits in a barrier has pushed all it has, and is not waited for") {
  for (const std::string consistency : {"sync", "ssp:1"}) {
    CAPTURE(consistency);
    Two two(consistency);
    two.set_optimizer("add");
    const std::uint64_t first = two.a.send({.kind = Kind::barrier});
    two.settle();
    for (std::uint64_t step = 1; step <= 4; ++step) {
      two.b.ask(push_of(step), bytes_of(Floats{1, 2}));
      CHECK(floats_in(two.b.ask(pull_of(step)))[1] == 2 * static_cast<float>(step));
    }
    two.settle();
    CHECK(!two.a.has_reply(first));
    CHECK(two.b.ask({.kind = Kind::barrier}).first.kind == Kind::done);
    two.settle();
    CHECK(two.a.take(first).first.kind == Kind::done);
  }
}

TEST_CASE("server core: with bounded staleness nobody waits for a worker that has been away") {
  Two two("ssp:1", {.worker_timeout = 10s});
  two.set_optimizer("add");
  two.b.die();
  for (std::uint64_t step = 1; step <= 5; ++step) two.a.ask(push_of(step), bytes_of(Floats{1, 1}));
  const std::uint64_t ahead = two.a.send(pull_of(5));
  two.a.settle();
  CHECK(!two.a.has_reply(ahead));
  two.host.tick(6s);
  two.a.ask({.kind = Kind::ping});
  two.host.tick(6s);
  two.a.settle();
  CHECK(floats_in(two.a.take(ahead)) == Floats{5, 5});
  Hello hello = hello_of(1, 2, "ssp:1");
  hello.incarnation = 77;
  Link again(two.host, hello);
  CHECK(again.ask(init_of(false, 8)).first.clock == 0);
  CHECK(floats_in(two.a.ask(pull_of(5))) == Floats{5, 5});
  two.a.ask(push_of(6), bytes_of(Floats{1, 1}));
  CHECK(floats_in(two.a.ask(pull_of(6))) == Floats{6, 6});
  two.a.ask(push_of(7), bytes_of(Floats{1, 1}));
  const std::uint64_t waits = two.a.send(pull_of(7));
  two.a.settle();
  CHECK(!two.a.has_reply(waits));
  again.ask(push_of(1), bytes_of(Floats{1, 1}));
  two.a.settle();
  CHECK(floats_in(two.a.take(waits)) == Floats{8, 8});
}

TEST_CASE("server core: what would exceed a memory limit is refused, and the rest goes on") {
  Two two("sync", {.memory_limit = 100});
  const auto big = two.a.ask(init_of(true, 400, "big"), Bytes(400));
  CHECK(has(failure_in(big),
            "key big, worker 0: 400 bytes more would exceed the memory limit of the server: 8 of 100 bytes"));
  CHECK(two.a.ask(init_of(true, 80, "fits"), Bytes(80)).first.kind == Kind::done);
  two.a.ask(push_of(1), bytes_of(Floats{1, 2}));
  CHECK(has(failure_in(two.b.ask(push_of(1), bytes_of(Floats{1, 2}))), "96 of 100 bytes are in use"));
  CHECK(two.host.core.stats(two.host.now).refused == 2);
}

TEST_CASE("server core: who does not fit the job, the server or the protocol is refused with a reason") {
  Two two("sync");
  const auto refusal = [&](const Hello& hello) {
    Link link(two.host, hello);
    link.settle();
    return link.refusal;
  };
  Hello hello = hello_of(1, 2, "sync");
  hello.incarnation = 5;
  CHECK(has(refusal(hello), "worker 1 of job 'job' is connected already"));
  CHECK(has(refusal(hello_of(1, 3, "sync")), "has sync, 3 workers, 1 servers; the job has sync, 2 workers"));
  CHECK(has(refusal(hello_of(1, 2, "async")), "has async, 2 workers"));
  CHECK(has(refusal(hello_of(1, 2, "often")), "'often' is no consistency"));
  hello = hello_of(7, 2, "sync");
  CHECK(has(refusal(hello), "worker 7 of 2"));
  hello = hello_of(0, 2, "sync");
  hello.oldest = hello.newest = kProtocol + 1;
  CHECK(has(refusal(hello), "the worker speaks versions 5 to 5 of the protocol, this server 1 to 4"));
  hello = hello_of(0, 2, "sync");
  hello.servers = 3;
  CHECK(has(refusal(hello), "number 0 of 3; it is number 0 of 1"));
  two.host.core.drain();
  hello = hello_of(0, 2, "sync");
  hello.job = "another";
  CHECK(has(refusal(hello), "draining"));
}

TEST_CASE(
    "server core: another shape or dtype is named, values come in pieces of any length, and disorder is "
    "refused") {
  Two two("sync");
  CHECK(has(failure_in(two.b.ask(init_of(false, 12))), "worker 1 has 12 bytes of f32, the key 8 of f32"));
  Request wrong = push_of(1);
  wrong.dtype = DType::i32;
  CHECK(has(failure_in(two.a.ask(wrong, Bytes(8))), "8 bytes of i32, the key 8 of f32"));
  const auto piece = [&](std::uint64_t offset, std::size_t bytes) {
    Request request = push_of(1);
    request.number = 50, request.offset = offset, request.bytes = 8;
    two.host.receive(1, {encode(request), Bytes(bytes, std::byte{1})});
  };
  piece(0, 3);
  CHECK_THROWS_AS(piece(4, 4), MalformedMessage);
  piece(3, 5);
  CHECK_THROWS_AS(piece(3, 6), MalformedMessage);
  CHECK_THROWS_AS(two.host.receive(1, {encode(push_of(3)), {}}), MalformedMessage);
  Request unknown = pull_of(0);
  unknown.key = 8;
  CHECK_THROWS_AS(two.host.receive(1, {encode(unknown), {}}), MalformedMessage);
  const Peer stranger = two.host.connect();
  CHECK_THROWS_AS(two.host.receive(stranger, {encode(pull_of(0)), {}}), MalformedMessage);
}

TEST_CASE("server core: a job ends when its workers have left, and its memory is free") {
  Two two("sync");
  two.host.core.drain();
  CHECK(two.host.core.has_jobs());
  CHECK(two.host.core.stats(two.host.now).value_bytes == 8);
  two.a.ask({.kind = Kind::leave});
  two.b.ask({.kind = Kind::leave});
  two.host.tick(1s);
  CHECK(!two.host.core.has_jobs());
  CHECK(two.host.core.stats(two.host.now).keys == 0);
}

TEST_CASE("server core: a job of the same name that begins at once has nothing of the one before") {
  Two two("async");
  two.a.ask(push_of(1), bytes_of(Floats{1, 2}));
  two.a.ask({.kind = Kind::leave});
  two.a.die();
  Hello next = hello_of(0, 2, "async");
  next.incarnation += 7;
  {
    Link early(two.host, next);  // the job goes on, since worker 1 has not left yet
    early.settle();
    CHECK(early.incarnation == two.b.incarnation);
    early.ask({.kind = Kind::leave});
    early.die();
  }
  two.b.ask({.kind = Kind::leave});
  next.incarnation += 7;
  Link begins(two.host, next);
  begins.settle();
  CHECK(begins.incarnation != two.a.incarnation);
  CHECK(std::count(two.host.events.begin(), two.host.events.end(), "job_ended") == 1);
  CHECK(two.host.core.stats(two.host.now).keys == 0);
  CHECK(begins.ask(init_of(true, 8), bytes_of(Floats{5, 5})).first.kind == Kind::done);
  CHECK(floats_in(begins.ask(pull_of(0))) == Floats{5, 5});
}

TEST_CASE("server core: a worker that repeats its goodbye is the one that has said it") {
  Two two("sync");
  const std::uint64_t before = two.a.incarnation;
  two.a.send({.kind = Kind::leave});
  two.b.ask({.kind = Kind::leave});
  two.a.step();
  two.a.cut();
  two.settle();
  CHECK(two.a.incarnation == before);
  two.host.tick(1s);
  CHECK(!two.host.core.has_jobs());
}

TEST_CASE("server core: who comes back to a job that has ended is told that its state is gone") {
  Two two("sync", {.worker_timeout = 10s});
  two.settle();
  const std::uint64_t before = two.a.incarnation;
  two.a.cut();
  two.settle();
  CHECK(two.a.incarnation == before);
  two.a.die(), two.b.die();
  two.host.tick(11s);
  CHECK(std::count(two.host.events.begin(), two.host.events.end(), "job_ended") == 1);
  Link again(two.host, hello_of(0, 2, "sync"));
  again.settle();
  CHECK(again.incarnation != before);
}

TEST_CASE("server core: a server that was stopped itself drops nobody") {
  Two two("sync", {.worker_timeout = 10s});
  two.host.now += 60s;
  two.host.core.paused(60s);
  two.host.tick(0s);
  CHECK(two.a.ask({.kind = Kind::ping}).first.kind == Kind::done);
  CHECK(std::count(two.host.events.begin(), two.host.events.end(), "worker_dropped") == 0);
}

TEST_CASE("server core: pieces from before a connection was cut neither count nor take memory") {
  Two two("async", {.memory_limit = 16});
  two.set_optimizer("add");
  Request first = push_of(1);
  first.number = 50, first.bytes = 8;
  two.host.receive(1, {encode(first), Bytes(3, std::byte{1})});
  two.a.cut();
  two.a.settle();
  CHECK(two.a.ask(push_of(1), bytes_of(Floats{1, 2})).first.kind == Kind::done);
  CHECK(floats_in(two.a.ask(pull_of(1))) == Floats{1, 2});
  // Pieces of a push from before the cut are dropped also if the push, sent again, is refused since its key has failed.
  Two other("sync");
  other.a.ask(push_of(1, 0.5), bytes_of(Floats{1, 1}));
  Request second = push_of(2);
  second.number = 51, second.bytes = 8;
  other.host.receive(1, {encode(second), Bytes(3, std::byte{1})});
  other.b.ask(push_of(1, 0.25), bytes_of(Floats{1, 1}));
  other.a.cut();
  other.a.settle();
  CHECK(has(failure_in(other.a.ask(push_of(2), bytes_of(Floats{1, 1}))), "round 1"));
  for (Link* const link : {&other.a, &other.b}) link->ask({.kind = Kind::clear_errors});
  CHECK(other.a.ask(push_of(2), bytes_of(Floats{3, 4})).first.kind == Kind::done);
  CHECK(other.b.ask(push_of(2), bytes_of(Floats{1, 1})).first.kind == Kind::done);
  CHECK(floats_in(other.a.ask(pull_of(2))) == Floats{4, 5});
}

TEST_CASE(
    "server core: a key without a value takes no push, and who waits for the value hears that it will not "
    "come") {
  for (const std::string consistency : {"sync", "async"}) {
    CAPTURE(consistency);
    Host host;
    Link zero(host, hello_of(0, 2, consistency)), one(host, hello_of(1, 2, consistency));
    zero.settle();
    const std::uint64_t init = one.send(init_of(false, 8));
    one.settle();
    CHECK(!one.has_reply(init));
    CHECK(has(failure_in(one.ask(push_of(1), bytes_of(Floats{1, 1}))), "it has no value yet"));
    Request overwrite = push_of(1);
    overwrite.overwrite = true;
    CHECK(has(failure_in(one.ask(overwrite)), "it has no value yet"));
    CHECK(has(failure_in(one.ask({.kind = Kind::set_state}, Bytes(8))), "it has no value yet"));
    zero.ask({.kind = Kind::leave});
    one.settle();
    CHECK(has(failure_in(one.take(init)), "worker 0, whose value it would have, is gone"));
  }
}

TEST_CASE("server core: rounds that end since a worker has left give their memory back") {
  Two two("sync", {.memory_limit = 24});
  two.set_optimizer("add");
  two.a.ask(push_of(1), bytes_of(Floats{1, 1}));
  two.b.ask({.kind = Kind::leave});
  for (std::uint64_t step = 2; step < 10; ++step)
    CHECK(two.a.ask(push_of(step), bytes_of(Floats{1, 1})).first.kind == Kind::done);
  CHECK(floats_in(two.a.ask(pull_of(9))) == Floats{9, 9});
}

TEST_CASE("server core: a worker that has come back takes part in the next call of all") {
  Two two("sync");
  two.set_optimizer("add");
  two.b.die();
  Hello hello = hello_of(1, 2, "sync");
  hello.incarnation = 77;
  Link again(two.host, hello);
  CHECK(again.ask(optimizer_of("add")).first.kind == Kind::done);
  const std::uint64_t first = two.a.send(optimizer_of("sgd lr=1")),
                      second = again.send(optimizer_of("sgd lr=1"));
  again.settle(), two.a.settle(), again.settle();
  CHECK(two.a.take(first).first.kind == Kind::done);
  CHECK(again.take(second).first.kind == Kind::done);
}

TEST_CASE(
    "server core: in rounds, processes of a worker that die in the middle of a step leave nobody waiting") {
  Two two("sync");
  two.set_optimizer("add");
  two.a.ask(init_of(true, 8, "v"), bytes_of(Floats{0, 0}));
  two.b.ask(init_of(false, 8, "v"));
  const auto push = [](std::uint32_t key, std::uint64_t clock) {
    Request request = push_of(clock);
    request.key = key;
    return request;
  };
  const auto pull = [](std::uint32_t key, std::uint64_t clock) {
    Request request = pull_of(clock);
    request.key = key;
    return request;
  };
  const Bytes ones = bytes_of(Floats{1, 1});
  // Three processes of worker 1 push key 0 in turn; only the last process also pushes key 1.
  two.b.ask(push(0, 1), ones);
  two.b.die();
  std::vector<std::unique_ptr<Link>> processes;
  for (std::uint64_t life = 1; life <= 2; ++life) {
    Hello hello = hello_of(1, 2, "sync");
    hello.incarnation = 77 + life;
    processes.push_back(std::make_unique<Link>(two.host, hello));
    CHECK(processes.back()->ask(push(0, 1 + life), ones).first.kind == Kind::done);
    if (life == 1) processes.back()->die();
  }
  Link& last = *processes.back();
  const auto settle = [&] {
    for (int i = 0; i < 3; ++i) two.a.settle(), last.settle();
  };
  // From here on each worker pushes both keys in a step, and begins the next step after its pulls.
  for (std::uint64_t step = 1; step <= 4; ++step) {
    CAPTURE(step);
    std::vector<std::uint64_t> mine, theirs;
    for (const std::uint32_t key : {0U, 1U}) {
      two.a.ask(push(key, step), ones);
      const std::uint64_t clock = key == 0 ? step + 2 : step;
      if (key == 1 || step > 1) last.ask(push(key, clock), ones);
    }
    for (const std::uint32_t key : {0U, 1U}) {
      mine.push_back(two.a.send(pull(key, step)));
      theirs.push_back(last.send(pull(key, key == 0 ? step + 2 : step)));
    }
    settle();
    for (const std::uint32_t key : {0U, 1U}) {
      CHECK(floats_in(two.a.take(mine[key]))[0] == static_cast<float>(2 * step));
      CHECK(floats_in(last.take(theirs[key]))[0] == static_cast<float>(2 * step));
    }
  }
}

TEST_CASE("messages: hostile bytes are refused or are what they say") {
  std::vector<Bytes> heads = {encode(hello_of(1, 2, "sync")), encode(push_of(3)), encode(Welcome{}),
                              encode(Reply{})};
  std::uint64_t random = 1;
  const auto next = [&random] { return random = random * 6364136223846793005ull + 1442695040888963407ull; };
  int refused = 0;
  for (int i = 0; i < 20'000; ++i) {
    Bytes head = heads[next() >> 62];
    if (next() >> 63) head.resize((next() >> 33) % (head.size() + 9));
    for (auto n = (next() >> 33) % 4; n > 0 && !head.empty(); --n)
      head[(next() >> 33) % head.size()] = static_cast<std::byte>(next() >> 56);
    try {
      decode_from_worker(head, 4);
    } catch (const MalformedMessage&) {
      ++refused;
    }
    try {
      decode_from_server(head, 4);
    } catch (const MalformedMessage&) {
      ++refused;
    }
  }
  CHECK(refused > 20'000);
}

TEST_CASE("server core: a record of a worker that there is not is refused, with a payload too") {
  Host host;
  host.core.follow();
  host.core.apply({.kind = Record::Kind::join, .job = "job", .number = 1, .hello = hello_of(0, 2, "async")},
                  0, host.now);
  const Record record{.kind = Record::Kind::request,
                      .job = "job",
                      .rank = 2,
                      .request = {.kind = Kind::push, .clock = 1, .bytes = 8}};
  CHECK_THROWS_AS(host.core.memory_for(record, 8), MalformedMessage);
  CHECK_THROWS_AS(host.core.apply(record, 8, host.now), MalformedMessage);
}
