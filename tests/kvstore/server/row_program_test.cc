// Pushes and pulls of rows, and of the same gradients as whole values, by workers that lose connections, on
// one thread in an order determined by a seed: both keys have the same values, and every push counts once.
#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "arguments.h"
#include "core_host.h"

using namespace heddle;
using namespace heddle::kv_detail;

namespace {

constexpr std::int64_t kRows = 9, kWidth = 3;
constexpr std::uint64_t kRowBytes = kWidth * sizeof(float);
using Floats = std::vector<float>;
using Rows = std::vector<std::int64_t>;

// Small integers, whose sums are exact in any order.
struct Gradient {
  Rows rows;
  Floats values;
  Bytes as_rows() const {
    Bytes bytes = bytes_of(rows);
    const Bytes behind = bytes_of(values);
    bytes.insert(bytes.end(), behind.begin(), behind.end());
    return bytes;
  }
  Floats whole() const {
    Floats all(kRows * kWidth);
    for (std::size_t i = 0; i < values.size(); ++i)
      all[static_cast<std::size_t>(rows[i / kWidth]) * kWidth + i % kWidth] = values[i];
    return all;
  }
};

Rows some_rows(std::mt19937_64& random) {
  Rows rows;
  for (std::int64_t row = 0; row < kRows; ++row)
    if (random() % 3 == 0) rows.push_back(row);
  return rows;
}

Gradient some_gradient(std::mt19937_64& random) {
  Gradient gradient{some_rows(random), {}};
  for (std::size_t i = 0; i < gradient.rows.size() * kWidth; ++i)
    gradient.values.push_back(static_cast<float>(static_cast<int>(random() % 17) - 8));
  return gradient;
}

// A worker that pushes each gradient to two keys: to the key "rows" as rows, or sometimes as a whole value,
// and to the key "whole" as a whole value. After each push it pulls some rows of "rows" and all of "whole".
class Worker {
 public:
  Worker(Host& host, std::uint32_t rank, std::uint32_t workers, const std::string& consistency,
         const std::string& optimizer, int rounds, std::uint64_t seed)
      : link(host, hello_of(rank, workers, consistency)),
        first_(rank == 0),
        is_sync_(consistency == "sync"),
        rounds_(rounds),
        random_(seed) {
    link.piece_bytes = 20 + random_() % 100;
    waiting_ = {link.send({.kind = Kind::set_optimizer, .text = optimizer})};
  }

  bool over() const { return round_ > rounds_; }
  // Sends the next requests if the last ones all have their replies.
  void go_on() {
    const auto answered = [this](std::uint64_t number) { return link.has_reply(number); };
    if (over() || !std::all_of(waiting_.begin(), waiting_.end(), answered)) return;
    std::vector<std::pair<Reply, Bytes>> answers;
    for (const std::uint64_t number : std::exchange(waiting_, {})) answers.push_back(link.take(number));
    for (const auto& [reply, value] : answers) CHECK(reply.text == "");
    const auto begin = stage_;
    stage_ = begin == Stage::pull ? Stage::push : static_cast<Stage>(static_cast<int>(begin) + 1);
    if (begin == Stage::optimizer) return init();
    if (begin == Stage::init) keys_ = {answers[0].first.key, answers[1].first.key};
    if (begin == Stage::push) return pull();
    if (begin == Stage::pull)
      compare(values_in<float>(answers[0].second), values_in<float>(answers[1].second));
    if (++round_ <= rounds_) push();
  }

  std::pair<Floats, Floats> last_values() {
    const auto clock = static_cast<std::uint64_t>(rounds_);
    const auto value = [&](std::uint32_t key) {
      return values_in<float>(link.ask({.kind = Kind::pull, .key = key, .clock = clock}).second);
    };
    return {value(keys_[0]), value(keys_[1])};
  }

  Floats pushed = Floats(kRows * kWidth);  // sum of the gradients that the worker has pushed
  Link link;

 private:
  enum class Stage { optimizer, init, push, pull };

  void init() {
    for (const char* key : {"rows", "whole"})
      waiting_.push_back(
          link.send({.kind = Kind::init, .has_value = first_, .bytes = kRows * kRowBytes, .text = key},
                    first_ ? bytes_of(Floats(kRows * kWidth)) : Bytes()));
  }

  void push() {
    const Gradient gradient = some_gradient(random_);
    const Floats whole = gradient.whole();
    for (std::size_t i = 0; i < whole.size(); ++i) pushed[i] += whole[i];
    Request request{.kind = Kind::push,
                    .key = keys_[0],
                    .clock = static_cast<std::uint64_t>(round_),
                    .lr = std::numeric_limits<double>::quiet_NaN()};
    const bool as_rows = random_() % 4 > 0;
    if (as_rows) request.row_bytes = kRowBytes;
    waiting_.push_back(link.send(request, as_rows ? gradient.as_rows() : bytes_of(whole)));
    request.key = keys_[1];
    request.row_bytes = 0;
    waiting_.push_back(link.send(request, bytes_of(whole)));
  }

  void pull() {
    wanted_ = some_rows(random_);
    Request request{.kind = Kind::pull, .key = keys_[0], .clock = static_cast<std::uint64_t>(round_)};
    request.row_bytes = kRowBytes;
    waiting_.push_back(link.send(request, bytes_of(wanted_)));
    request.key = keys_[1];
    request.row_bytes = 0;
    waiting_.push_back(link.send(request));
  }

  // Compares the pulled values of both keys. In synchronous rounds they are of the same round, so they must
  // be equal.
  void compare(const Floats& rows, const Floats& whole) const {
    REQUIRE(rows.size() == wanted_.size() * kWidth);
    REQUIRE(whole.size() == kRows * kWidth);
    for (std::size_t i = 0; is_sync_ && i < rows.size(); ++i)
      CHECK(rows[i] == whole[static_cast<std::size_t>(wanted_[i / kWidth]) * kWidth + i % kWidth]);
  }

  const bool first_, is_sync_;
  const int rounds_;
  std::mt19937_64 random_;
  Stage stage_ = Stage::optimizer;
  int round_ = 0;
  std::vector<std::uint32_t> keys_;
  std::vector<std::uint64_t> waiting_;
  Rows wanted_;
};

void run_program(std::uint64_t seed, const std::string& consistency, const std::string& optimizer,
                 float factor) {
  CAPTURE(seed);
  CAPTURE(consistency);
  CAPTURE(optimizer);
  std::mt19937_64 random(seed);
  const auto count = static_cast<std::uint32_t>(1 + random() % 4);
  const int rounds = 1 + static_cast<int>(random() % 6);
  const auto cuts = random() % 15;  // average number of cut connections in 1000 steps
  Host host;
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::uint32_t rank = 0; rank < count; ++rank)
    workers.push_back(std::make_unique<Worker>(host, rank, count, consistency, optimizer, rounds, random()));
  const auto all_over = [&] {
    return std::all_of(workers.begin(), workers.end(), [](const auto& one) { return one->over(); });
  };
  for (int step = 0; !all_over(); ++step) {
    REQUIRE(step < 1'000'000);
    Worker& one = *workers[random() % workers.size()];
    const auto what = random() % 1000;
    if (what < cuts) {
      one.link.cut();
    } else if (what < 500) {
      one.link.step();
    } else if (what < 700) {
      one.link.hear();
    } else {
      one.go_on();
    }
  }
  Floats expected(kRows * kWidth);
  for (const auto& worker : workers)
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += factor * worker->pushed[i];
  const auto [rows, whole] = workers[0]->last_values();
  CHECK(rows == expected);
  CHECK(whole == expected);
  const ServerStats stats = host.core.stats(host.now);
  CHECK(stats.pushes == std::uint64_t{2} * count * static_cast<std::uint64_t>(rounds));
  CHECK(stats.waiting_bytes == 0);
}

}  // namespace

TEST_CASE("rows on a server: the same as whole values with rows of zeros, wherever connections are cut") {
  const auto programs = test::argument("programs", test::kSanitized ? 40 : 300);
  for (long long seed = 0; seed < programs; ++seed) {
    for (const char* consistency : {"sync", "async", "ssp:0", "ssp:2"}) {
      run_program(static_cast<std::uint64_t>(seed), consistency, "add", 1);
      run_program(static_cast<std::uint64_t>(seed), consistency, "sgd lr=0.5", -0.5f);
    }
  }
}
