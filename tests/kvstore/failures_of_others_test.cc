// Errors of workers whose round failed because of another worker, or whose failure another worker saw first.
#include <limits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "core_host.h"

using namespace heddle;
using namespace heddle::kv_detail;

namespace {

using Floats = std::vector<float>;
constexpr double kNoRate = std::numeric_limits<double>::quiet_NaN();
const std::string kDiffer =
    "key w, round 1: worker 0 pushed with lr 1, scale 1, worker 1 with lr 2, scale 1; the round changed "
    "nothing";

// Two workers of a job with one key of two elements, both 0.
struct Pair {
  explicit Pair(const std::string& consistency)
      : a(host, hello_of(0, 2, consistency)), b(host, hello_of(1, 2, consistency)) {
    both({.kind = Kind::init, .has_value = true, .text = "w"}, {.kind = Kind::init, .bytes = 8, .text = "w"},
         bytes_of(Floats{0, 0}));
    both({.kind = Kind::set_optimizer, .text = "sgd lr=1"},
         {.kind = Kind::set_optimizer, .text = "sgd lr=1"});
  }
  // Sends one request of each worker; returns the error of each, empty if there is none.
  std::pair<std::string, std::string> both(Request of_a, Request of_b, Bytes payload = {}) {
    const std::uint64_t first = a.send(std::move(of_a), std::move(payload)), second = b.send(std::move(of_b));
    for (int i = 0; i < 3; ++i) a.settle(), b.settle();
    return {a.take(first).first.text, b.take(second).first.text};
  }
  // Cuts both workers' connections and replaces the core by one that loads its saved state.
  void replace_core() {
    a.die();
    b.die();
    host.replace_core();
    a.forget();
    b.forget();
    a.settle();
    b.settle();
  }
  Host host;
  Link a, b;
};

std::string push(Link& link, std::uint64_t clock, double lr = kNoRate) {
  return link.ask({.kind = Kind::push, .clock = clock, .lr = lr}, bytes_of(Floats{1, 1})).first.text;
}
std::string pull(Link& link, std::uint64_t clock) {
  return link.ask({.kind = Kind::pull, .clock = clock}).first.text;
}
std::string pull_many(Link& link, std::uint64_t clock) {
  return link.ask({.kind = Kind::pull_many, .bytes = 8, .entries = {{.bytes = 8, .clock = clock}}})
      .first.text;
}
void clear_errors(Link& link) { REQUIRE(link.ask({.kind = Kind::clear_errors}).first.kind == Kind::done); }

}  // namespace

TEST_CASE("failures of others: a worker that has not seen a failed round is told, though another clears it") {
  for (const bool restarted : {false, true}) {
    CAPTURE(restarted);
    Pair pair("sync");
    CHECK(push(pair.a, 1, 1).empty());
    CHECK(push(pair.b, 1, 2).empty());
    CHECK(pull(pair.b, 1) == kDiffer);
    clear_errors(pair.b);
    if (restarted) pair.replace_core();
    CHECK(pull(pair.a, 1) == kDiffer);
    // The server repeats the error, since its first answer may have been lost.
    CHECK(pull(pair.a, 1) == kDiffer);
    CHECK(pull_many(pair.a, 1) == kDiffer);
    CHECK(push(pair.a, 2, 1) == kDiffer);
    CHECK(push(pair.b, 2, 1).empty());  // no error: worker b has got the error of round 1 before
    clear_errors(pair.a);
    CHECK(push(pair.a, 2, 1).empty());
    CHECK(pull(pair.a, 2).empty());
    CHECK(values_in<float>(pair.b.ask({.kind = Kind::pull, .clock = 2}).second) == Floats{-2, -2});
  }
}

TEST_CASE("failures of others: a push that waited for the round of a failed one is not lost without a word") {
  Pair pair("sync");
  CHECK(push(pair.a, 1, 1).empty());
  CHECK(push(pair.a, 2, 1).empty());
  CHECK(push(pair.b, 1, 2).empty());
  CHECK(pull(pair.b, 1) == kDiffer);
  clear_errors(pair.b);
  CHECK(pull(pair.a, 2) == kDiffer);
  clear_errors(pair.a);
  CHECK(pull(pair.a, 2).empty());
}

TEST_CASE("failures of others: where pushes count at once only the worker whose push failed has to know") {
  Pair pair("async");
  // Pushes row 0 with `row_bytes` bytes. A row size other than that of earlier pushes is an error.
  const auto rows = [](Link& link, std::uint64_t clock, std::uint64_t row_bytes) {
    Bytes payload = bytes_of(std::vector<std::int64_t>{0});
    payload.resize(payload.size() + row_bytes);
    return link.ask({.kind = Kind::push, .clock = clock, .row_bytes = row_bytes, .lr = kNoRate}, payload)
        .first;
  };
  CHECK(rows(pair.a, 1, 4).text.empty());
  CHECK(rows(pair.a, 2, 8).text.empty());
  const std::string why = pull(pair.b, 0);
  CHECK(why.starts_with("key w: rows of 2 elements; those before had 1"));
  clear_errors(pair.b);
  CHECK(pull(pair.b, 0).empty());
  CHECK(pull(pair.a, 2) == why);
  CHECK(push(pair.a, 3) == why);
  clear_errors(pair.a);
  CHECK(push(pair.a, 3).empty());
}

TEST_CASE("failures of others: a new process of a rank has nothing of what its former one was not told") {
  Pair pair("sync");
  push(pair.a, 1, 1);
  push(pair.b, 1, 2);
  clear_errors(pair.b);
  pair.a.die();
  Hello hello = hello_of(0, 2, "sync");
  hello.incarnation = 7;
  Link again(pair.host, hello);
  CHECK(pull(again, 1).empty());
}

TEST_CASE("failures of others: a call of all workers that fails on one of them says so to all") {
  Pair pair("async");
  const auto [of_a, of_b] =
      pair.both({.kind = Kind::barrier, .text = "there is no optimizer"}, {.kind = Kind::barrier});
  CHECK(of_a == "the call has failed on worker 0: there is no optimizer");
  CHECK(of_b == of_a);
}
