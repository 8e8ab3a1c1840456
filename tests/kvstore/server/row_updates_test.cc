// Pushes and pulls of rows in a server's core, case by case.
#include <limits>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/row_sparse.h>

#include "arguments.h"
#include "core_host.h"
#include "server/state/state_stream.h"
#include "stores/update_rule.h"
#include "wire/row_state.h"
#include "wire/rows.h"
#include "wire/state_blob.h"

using namespace heddle;
using namespace heddle::kv_detail;

namespace {

using Floats = std::vector<float>;
using Rows = std::vector<std::int64_t>;
constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();

Bytes payload_of(const Rows& rows, const Floats& values) {
  Bytes bytes = bytes_of(rows);
  const Bytes behind = bytes_of(values);
  bytes.insert(bytes.end(), behind.begin(), behind.end());
  return bytes;
}

Request push_rows(std::uint64_t clock, std::uint64_t row_bytes = 8, double lr = kNoRate) {
  return {.kind = Kind::push, .clock = clock, .row_bytes = row_bytes, .lr = lr};
}
Request pull_rows(std::uint64_t clock, std::uint64_t row_bytes = 8) {
  return {.kind = Kind::pull, .clock = clock, .row_bytes = row_bytes};
}
Request push_whole(std::uint64_t clock) { return {.kind = Kind::push, .clock = clock, .lr = kNoRate}; }
Request pull_whole(std::uint64_t clock) { return {.kind = Kind::pull, .clock = clock}; }

bool has(const std::string& text, const std::string& part) {
  CAPTURE(text);
  CAPTURE(part);
  return text.find(part) != std::string::npos;
}
Floats floats_in(const std::pair<Reply, Bytes>& answer) {
  CHECK(answer.first.text == "");
  REQUIRE(answer.first.kind == Kind::value);
  return values_in<float>(answer.second);
}
std::string failure_in(const std::pair<Reply, Bytes>& answer) {
  CHECK(answer.first.kind == Kind::failed);
  return answer.first.text;
}

// A job with one worker and one key, a matrix of n rows of two elements.
struct One {
  explicit One(std::int64_t n, const std::string& optimizer = "", const std::string& consistency = "sync")
      : link(host, hello_of(0, 1, consistency)) {
    const Floats begin(static_cast<std::size_t>(2 * n), 1.0f);
    CHECK(link.ask({.kind = Kind::init, .has_value = true, .text = "w"}, bytes_of(begin)).first.kind ==
          Kind::done);
    if (!optimizer.empty())
      CHECK(link.ask({.kind = Kind::set_optimizer, .text = optimizer}).first.kind == Kind::done);
  }
  StateArrays state(std::uint64_t clock) {
    return decode_state(link.ask({.kind = Kind::get_state, .clock = clock}).second);
  }
  Host host;
  Link link;
};

// A job with two workers and one key "w": 4 rows of two elements, all 0.
struct Two {
  explicit Two(const std::string& consistency)
      : a(host, hello_of(0, 2, consistency)), b(host, hello_of(1, 2, consistency)) {
    const Request init{.kind = Kind::init, .bytes = 32, .text = "w"};
    Request first = init;
    first.has_value = true;
    const std::uint64_t one = a.send(first, bytes_of(Floats(8))), two = b.send(init);
    settle();
    CHECK(a.take(one).first.kind == Kind::done);
    CHECK(b.take(two).first.kind == Kind::done);
  }
  void settle() {
    for (int i = 0; i < 3; ++i) a.settle(), b.settle();
  }
  Host host;
  Link a, b;
};

const std::vector<std::string> kOptimizers = {"sgd lr=0.5", "sgd lr=0.5 momentum=0.9 weight_decay=0.01",
                                              "sgd lr=0.5 momentum=0.9 nesterov=1",
                                              "adam lr=0.1 weight_decay=0.1", "adamw lr=0.1"};

}  // namespace

TEST_CASE("rows on a server: without an optimizer they are replaced, in rounds by their sums; others stay") {
  Two two("sync");
  two.a.ask(push_rows(1), payload_of({0, 2}, {1, 2, 3, 4}));
  two.b.ask(push_rows(1), payload_of({2, 3}, {10, 20, 30, 40}));
  two.settle();
  CHECK(floats_in(two.a.ask(pull_whole(1))) == Floats{1, 2, 0, 0, 13, 24, 30, 40});
  two.a.ask(push_rows(2), {});
  two.b.ask(push_rows(2), payload_of({0}, {7, 8}));
  CHECK(floats_in(two.b.ask(pull_rows(2), bytes_of(Rows{0, 3}))) == Floats{7, 8, 30, 40});
  CHECK(floats_in(two.b.ask(pull_rows(2), {})).empty());
}

TEST_CASE("rows on a server: a pull of rows waits for the round as one of the value does") {
  Two two("sync");
  two.a.ask(push_rows(1), payload_of({1}, {1, 2}));
  const std::uint64_t pull = two.a.send(pull_rows(1), bytes_of(Rows{1, 2}));
  two.settle();
  CHECK(!two.a.has_reply(pull));
  two.b.ask(push_rows(1), payload_of({1}, {1, 2}));
  two.settle();
  CHECK(floats_in(two.a.take(pull)) == Floats{2, 4, 0, 0});
}

TEST_CASE("rows on a server: a round with a whole value is one of whole values") {
  Two two("sync");
  two.a.ask(push_rows(1), payload_of({1}, {1, 2}));
  two.b.ask(push_whole(1), bytes_of(Floats{1, 1, 1, 1, 1, 1, 1, 1}));
  CHECK(floats_in(two.a.ask(pull_whole(1))) == Floats{1, 1, 2, 3, 1, 1, 1, 1});
}

TEST_CASE("rows on a server: rows of different lengths in a round are an error that names the workers") {
  Two two("sync");
  two.a.ask(push_rows(1, 8), payload_of({1}, {1, 2}));
  two.b.ask(push_rows(1, 16), payload_of({1}, {1, 2, 3, 4}));
  const std::string why = failure_in(two.a.ask(pull_rows(1), bytes_of(Rows{0})));
  CHECK(has(why, "worker 0 pushed with lr of the optimizer"));
  CHECK(has(why, "rows of 2, worker 1 with"));
  CHECK(has(why, "rows of 4"));
}

TEST_CASE("rows on a server: halves are added as f32 and rounded once") {
  Host host;
  Link link(host, hello_of(0, 1, "async"));
  const auto half = [](float value) { return bytes_of(std::vector<std::uint16_t>{BFloat16(value).bits}); };
  link.ask({.kind = Kind::init, .has_value = true, .dtype = DType::bf16, .text = "w"}, half(256));
  link.ask({.kind = Kind::set_optimizer, .text = "add"});
  Request push = push_rows(1, 2);
  push.dtype = DType::bf16;
  Bytes payload = bytes_of(Rows{0});
  for (const std::byte one : half(3)) payload.push_back(one);
  CHECK(link.ask(push, payload).first.kind == Kind::done);
  const auto bits = values_in<std::uint16_t>(link.ask(pull_rows(1, 2), bytes_of(Rows{0})).second);
  // The sum 259 is not representable in bf16.
  CHECK(static_cast<float>(BFloat16::from_bits(bits.at(0))) == 260);
}

// The optimizer that gives the expected values keeps state for all rows. The server keeps state only for rows
// that were pushed, until a whole gradient is pushed.
TEST_CASE("rows on a server: an optimizer gives the bits that it gives in one process") {
  for (const std::string& text : kOptimizers) {
    for (std::uint64_t seed = 0; seed < 20; ++seed) {
      CAPTURE(text);
      CAPTURE(seed);
      std::mt19937_64 random(seed);
      const std::int64_t n = 1 + static_cast<std::int64_t>(random() % 8);
      One one(n, text);
      const UpdateRule rule = parse_update_rule(text);
      const auto oracle = create_optimizer(rule.name, rule.params);
      NDArray weight = ones({n, 2});
      for (std::uint64_t clock = 1; clock <= 12; ++clock) {
        Rows rows;
        Floats values;
        const bool whole = seed % 2 == 1 && random() % 6 == 0;
        for (std::int64_t row = 0; row < n; ++row) {
          if (!whole && random() % 2 == 0) continue;
          rows.push_back(row);
          for (int i = 0; i < 2; ++i) values.push_back(static_cast<float>(random() % 1000) / 999);
        }
        if (whole) {
          one.link.ask(push_whole(clock), bytes_of(values));
          oracle->update(0, weight, array(values, {n, 2}));
        } else {
          one.link.ask(push_rows(clock), payload_of(rows, values));
          const auto count = static_cast<std::int64_t>(rows.size());
          oracle->update(0, weight, row_sparse(array(rows, {count}), array(values, {count, 2}), {n, 2}));
        }
        CHECK(floats_in(one.link.ask(pull_whole(clock))) == weight.to_vector<float>());
      }
      const StateArrays state = whole_state(one.state(12), n);
      for (const auto& [name, value] : oracle->state()) {
        const std::string entry = name.substr(2);
        CAPTURE(entry);
        REQUIRE(state.contains(entry));
        if (value.dtype() == DType::f32)
          CHECK(state.at(entry).to_vector<float>() == value.to_vector<float>());
        if (entry == "updates") CHECK(state.at(entry).item<std::int64_t>() == 12);
      }
    }
  }
}

TEST_CASE("rows on a server: state is kept of the rows that were touched, and grows with them") {
  constexpr std::int64_t kMany = 20'000;
  for (const std::string text : {"sgd lr=0.5 momentum=0.9", "adam lr=0.1"}) {
    CAPTURE(text);
    One one(kMany, text, "async");
    std::uint64_t before = 0;
    for (std::uint64_t clock = 1; clock <= 20; ++clock) {
      const Rows rows{static_cast<std::int64_t>(clock), kMany - static_cast<std::int64_t>(clock)};
      one.link.ask(push_rows(clock), payload_of(rows, Floats(4, 1)));
      const std::uint64_t now = one.host.core.stats(one.host.now).state_bytes;
      CHECK(now > before);
      CHECK(now < clock * 2 * 200);
      // The same push again, which does not count twice.
      one.link.ask(push_rows(clock, 8), payload_of(rows, Floats(4, 1)));
      CHECK(one.host.core.stats(one.host.now).state_bytes == now);
      before = now;
    }
    one.link.ask(push_whole(21), bytes_of(Floats(2 * kMany, 1)));
    CHECK(one.host.core.stats(one.host.now).state_bytes > kMany * 8);
    CHECK(one.link.ask({.kind = Kind::set_optimizer, .text = "add"}).first.kind == Kind::done);
    CHECK(one.host.core.stats(one.host.now).state_bytes == 0);
  }
}

TEST_CASE(
    "rows on a server: its state, as it gives it or of all rows, goes on in another job with the same bits") {
  for (const std::string& text : kOptimizers) {
    CAPTURE(text);
    const auto train = [](One& one, std::uint64_t begin, std::uint64_t end) {
      for (std::uint64_t clock = begin; clock <= end; ++clock) {
        const float x = static_cast<float>(clock);
        const auto row = static_cast<std::int64_t>(clock % 3);
        one.link.ask(push_rows(clock), payload_of({row, 7}, {x, 0.1f * x, 0.3f, x}));
      }
    };
    One first(10, text);
    train(first, 1, 5);
    const Floats value = floats_in(first.link.ask(pull_whole(5)));
    const StateArrays state = first.state(5);
    train(first, 6, 8);
    const Floats wanted = floats_in(first.link.ask(pull_whole(8)));
    for (const bool whole : {false, true}) {
      CAPTURE(whole);
      One second(10, text);
      Request overwrite = push_whole(1);
      overwrite.overwrite = overwrite.has_value = true;
      second.link.ask(overwrite, bytes_of(value));
      for (std::uint64_t clock = 2; clock <= 5; ++clock) second.link.ask(push_rows(clock), {});
      const Bytes bytes = encode_state(whole ? whole_state(state, 10) : state);
      CHECK(second.link.ask({.kind = Kind::set_state, .row_bytes = 8}, bytes).first.kind == Kind::done);
      CHECK(encode_state(second.state(5)) == encode_state(state));
      train(second, 6, 8);
      CHECK(floats_in(second.link.ask(pull_whole(8))) == wanted);
    }
  }
}

// At the time of saving, one worker has pushed rows and waits for the other worker, and the optimizer has
// state for some rows.
TEST_CASE("rows on a server: a state stream has the rows that wait, and the state of rows") {
  Two two("sync");
  const std::uint64_t one = two.a.send({.kind = Kind::set_optimizer, .text = "adam lr=0.1"}),
                      other = two.b.send({.kind = Kind::set_optimizer, .text = "adam lr=0.1"});
  two.settle();
  CHECK(two.a.take(one).first.kind == Kind::done);
  CHECK(two.b.take(other).first.kind == Kind::done);
  two.a.ask(push_rows(1), payload_of({0, 2}, {1, 2, 3, 4}));
  two.b.ask(push_rows(1), payload_of({2}, {10, 20}));
  two.a.ask(push_rows(2), payload_of({1, 3}, {5, 6, 7, 8}));
  two.a.ask(push_rows(3), {});
  const auto saved = [](const ServerCore& core) {
    std::vector<std::pair<Bytes, Bytes>> messages;
    save_state(core, [&](Bytes head, const Payload& payload) {
      messages.emplace_back(std::move(head), Bytes(payload.bytes.begin(), payload.bytes.end()));
    });
    return messages;
  };
  const auto stream = saved(two.host.core);
  const auto before = two.host.core.stats(two.host.now);
  const Bytes last = payload_of({1}, {1, 1});
  Floats goes_on;
  {
    Host second;
    StateLoader loader(second.core, second.now);
    for (const auto& [head, payload] : stream) loader.add(head, payload);
    CHECK(loader.complete());
    CHECK(saved(second.core) == stream);
    const auto after = second.core.stats(second.now);
    CHECK(before.waiting_bytes == after.waiting_bytes);
    CHECK(before.state_bytes == after.state_bytes);
    Link late(second, hello_of(1, 2, "sync"));
    late.settle();
    late.ask(push_rows(2), last);
    goes_on = floats_in(late.ask(pull_whole(2)));
  }
  two.b.ask(push_rows(2), last);
  CHECK(floats_in(two.b.ask(pull_whole(2))) == goes_on);
}

TEST_CASE("rows on a server: state that does not fit is refused and changes nothing") {
  One one(4, "adam lr=0.1");
  one.link.ask(push_rows(1), payload_of({1}, {1, 2}));
  const StateArrays good = one.state(1);
  const auto refused = [&](const std::string& name, const NDArray& value) {
    StateArrays state = good;
    state[name] = value;
    const auto answer = one.link.ask({.kind = Kind::set_state}, encode_state(state));
    CHECK(encode_state(one.state(1)) == encode_state(good));
    return failure_in(answer);
  };
  CHECK(has(refused("mean", zeros({5})), "'mean' does not fit 1 rows"));
  CHECK(has(refused("variance", zeros({2}, DType::i64)), "'variance' does not fit"));
  CHECK(has(refused("updates", array<std::int64_t>({-1})), "'updates' is -1"));
  CHECK(has(refused("width", array<std::int64_t>({3})), "'0.mean' is f32 (2,)"));
  CHECK(has(refused("odd", zeros({1})), "too much"));
  StateArrays bad = good;
  bad["rows"] = array<std::int64_t>({4});
  CHECK_THROWS_AS(one.link.ask({.kind = Kind::set_state}, encode_state(bad)), MalformedMessage);
}

TEST_CASE(
    "rows on a server: rows that the key does not have are refused, in words or by closing the connection") {
  const auto fails = [](const Request& request, const Bytes& payload, const std::string& why) {
    One one(4, "add");
    CHECK(has(failure_in(one.link.ask(request, payload)), why));
    CHECK(floats_in(one.link.ask(pull_whole(0))) == Floats(8, 1));
    CHECK(one.host.core.stats(one.host.now).waiting_bytes == 0);
  };
  fails(push_rows(1, 12), payload_of({0}, {1, 2, 3}), "rows of 12 bytes of a value of 32 bytes of f32");
  fails(push_rows(1, 2), payload_of({0, 1}, {1}), "rows of 2 bytes");
  fails(push_rows(1, 4), payload_of({0, 1, 2, 3, 4, 5, 6, 7, 8}, Floats(9)), "9 rows of a value of 8");
  fails(pull_rows(0, 12), bytes_of(Rows{0}), "rows of 12 bytes");
  fails(pull_rows(0, 12), {}, "rows of 12 bytes");
  Request wrong = push_rows(1);
  wrong.dtype = DType::f64;
  fails(wrong, payload_of({0}, {1, 2}), "worker 0 has 16 bytes of f64");

  const auto closes = [](const Request& request, const Bytes& payload) {
    One one(4, "add");
    CHECK_THROWS_AS(one.link.ask(request, payload), MalformedMessage);
    one.link.die();
    CHECK(one.host.core.stats(one.host.now).waiting_bytes == 0);
  };
  for (const Rows& rows : {Rows{4}, Rows{-1}, Rows{1, 1}, Rows{2, 1}, Rows{INT64_MAX}, Rows{INT64_MIN}}) {
    closes(push_rows(1), payload_of(rows, Floats(2 * rows.size())));
    closes(pull_rows(0), bytes_of(rows));
  }
  closes(push_rows(1), payload_of({0}, {1}));
  closes(push_rows(1, UINT64_MAX), payload_of({0}, {1, 2}));
  closes(push_rows(1, UINT64_MAX - 7), payload_of({0}, {1, 2}));
  closes(pull_rows(0), bytes_of(Floats{1}));
  Request init{.kind = Kind::init, .row_bytes = 8, .text = "v"};
  closes(init, bytes_of(Floats(8)));
  Request overwrite = push_rows(1);
  overwrite.overwrite = true;
  closes(overwrite, payload_of({0}, {1, 2}));
}

TEST_CASE(
    "rows on a server: whatever a worker sends, the server neither crashes nor loses count of its memory") {
  const auto programs = test::argument("programs", test::kSanitized ? 1000 : 20'000);
  std::mt19937_64 random(7);
  const auto number = [&](std::uint64_t most) { return random() % 8 == 0 ? random() : random() % most; };
  One one(4, "adam lr=0.1", "async");
  std::uint64_t clock = 0;
  Link* link = &one.link;
  for (long long i = 0; i < programs; ++i) {
    Request request{.kind = random() % 2 == 0 ? Kind::push : Kind::pull,
                    .key = static_cast<std::uint32_t>(random() % 16 == 0),
                    .clock = random() % 8 == 0 ? number(20) : clock + 1,
                    .row_bytes = random() % 4 == 0 ? number(40) : 8,
                    .lr = random() % 8 == 0 ? -1 : kNoRate};
    if (random() % 16 == 0) request.dtype = DType::f16;
    Rows rows;
    for (std::uint64_t count = random() % 5; count > 0; --count)
      rows.push_back(random() % 4 == 0 ? static_cast<std::int64_t>(number(6)) : std::ssize(rows));
    Bytes payload = bytes_of(rows);
    if (request.kind == Kind::push) payload.resize(payload.size() + rows.size() * 8);
    if (random() % 8 == 0) payload.resize(number(64) % 64);
    link->piece_bytes = 1 + random() % 64;
    try {
      const auto [reply, value] = link->ask(request, payload);
      if (reply.kind == Kind::done && request.clock == clock + 1) ++clock;
      if (reply.kind == Kind::failed) CHECK(link->ask({.kind = Kind::clear_errors}).first.kind == Kind::done);
    } catch (const MalformedMessage&) {
      link->forget();
    }
    const ServerStats stats = one.host.core.stats(one.host.now);
    CHECK(stats.waiting_bytes == 0);
    CHECK(stats.state_bytes < 4 * 200);
  }
  CHECK(clock > 100);
}
