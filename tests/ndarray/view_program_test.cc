// Runs random programs of assignments between overlapping views on every scheduler, and compares the results
// with a model that uses plain vectors.
#include <cstdint>
#include <random>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/ndarray.h>

using namespace heddle;

namespace {

// A view in the model: its base array, and the indices of its elements in the base, in row-major order.
struct ModelView {
  std::size_t base;
  Shape shape;
  std::vector<std::size_t> at;
};

struct Pair {
  NDArray array;
  ModelView model;
  bool writable = true;
};

class Program {
 public:
  explicit Program(unsigned seed) : random_(seed) {
    const DType dtypes[] = {DType::f64, DType::i32, DType::f32};
    for (std::size_t i = 0; i < 3; ++i) add_base(dtypes[i]);
  }

  void step() {
    switch (pick(6)) {
      case 0:
        add_view();
        break;
      case 1:
        fill();
        break;
      case 2:
        check(any());
        break;
      default:
        assign();
        break;
    }
  }

  void check_bases() {
    for (std::size_t i = 0; i < memory_.size(); ++i) check(pairs_[i]);
  }

 private:
  std::size_t pick(std::size_t n) { return std::uniform_int_distribution<std::size_t>(0, n - 1)(random_); }
  std::int64_t between(std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(random_);
  }
  Pair& any() { return pairs_[pick(pairs_.size())]; }

  void add_base(DType dtype) {
    const Shape shape{between(1, 4), between(2, 5), between(2, 6)};
    const auto count = static_cast<std::size_t>(element_count(shape));
    Pair pair{arange(0, static_cast<double>(count), 1, dtype).view_as(shape), {memory_.size(), shape, {}}};
    memory_.emplace_back(count);
    for (std::size_t i = 0; i < count; ++i) {
      memory_.back()[i] = static_cast<double>(i);
      pair.model.at.push_back(i);
    }
    pairs_.push_back(pair);
  }

  void add_view() {
    Pair pair = any();
    if (pair.array.ndim() > 0) {
      switch (pick(4)) {
        case 0:
          slice(pair);
          break;
        case 1:
          index(pair);
          break;
        case 2:
          swap_axes(pair);
          break;
        default:
          repeat(pair);
          break;
      }
    }
    if (pairs_.size() < 40) {
      pairs_.push_back(pair);
    } else {
      pairs_[3 + pick(pairs_.size() - 3)] = pair;
    }
  }

  // Keeps the elements with the indices `chosen` along an axis, in that order.
  static void select(ModelView& model, int axis, const std::vector<std::int64_t>& chosen) {
    std::int64_t inner = 1, outer = 1;
    for (int i = 0; i < model.shape.size(); ++i) (i < axis ? outer : inner) *= i == axis ? 1 : model.shape[i];
    std::vector<std::size_t> at;
    for (std::int64_t o = 0; o < outer; ++o) {
      for (std::int64_t c : chosen) {
        for (std::int64_t i = 0; i < inner; ++i) {
          at.push_back(model.at[static_cast<std::size_t>((o * model.shape[axis] + c) * inner + i)]);
        }
      }
    }
    model.shape[axis] = static_cast<std::int64_t>(chosen.size());
    model.at = at;
  }

  void slice(Pair& pair) {
    const int axis = static_cast<int>(pick(static_cast<std::size_t>(pair.array.ndim())));
    const std::int64_t n = pair.array.shape()[axis];
    const std::int64_t begin = between(0, n), end = between(begin, n), step = between(1, 3);
    std::vector<std::int64_t> chosen;
    if (pick(2)) {
      for (std::int64_t i = begin; i < end; i += step) chosen.push_back(i);
      pair.array = pair.array.slice(axis, {.begin = begin, .end = end, .step = step});
    } else {
      for (std::int64_t i = n - 1; i > begin; i -= step) chosen.push_back(i);
      pair.array = pair.array.slice(axis, {.end = begin, .step = -step});
      if (begin >= n) chosen.clear();
    }
    select(pair.model, axis, chosen);
  }

  void index(Pair& pair) {
    const std::int64_t n = pair.array.shape()[0];
    if (n == 0) return;
    const std::int64_t i = between(0, n - 1);
    select(pair.model, 0, {i});
    pair.model.shape = Dims(std::span(pair.model.shape.begin() + 1, pair.model.shape.end()));
    pair.array = pair.array[pick(2) ? i : i - n];
  }

  void swap_axes(Pair& pair) {
    const int last = pair.array.ndim() - 1;
    if (last == 0) return;
    Dims axes;
    for (int i = 0; i <= last; ++i) axes.push_back(i);
    axes[0] = last;
    axes[last] = 0;
    const ModelView old = pair.model;
    pair.array = pair.array.permuted(axes);
    pair.model.shape = pair.array.shape();
    const std::int64_t a = old.shape[0], b = old.shape[last];
    if (old.at.empty()) return;
    const std::int64_t middle = static_cast<std::int64_t>(old.at.size()) / (a * b);
    pair.model.at.clear();
    for (std::int64_t k = 0; k < b; ++k) {
      for (std::int64_t m = 0; m < middle; ++m) {
        for (std::int64_t i = 0; i < a; ++i) {
          pair.model.at.push_back(old.at[static_cast<std::size_t>((i * middle + m) * b + k)]);
        }
      }
    }
  }

  void repeat(Pair& pair) {
    if (pair.array.ndim() > 3) return;
    Shape wide{between(1, 3)};
    for (std::int64_t n : pair.array.shape()) wide.push_back(n);
    pair.array = pair.array.broadcast_view(wide);
    const auto once = pair.model.at;
    for (std::int64_t i = 1; i < wide[0]; ++i) {
      pair.model.at.insert(pair.model.at.end(), once.begin(), once.end());
    }
    pair.writable &= wide[0] == 1 || once.empty();
    pair.model.shape = wide;
  }

  void fill() {
    const Pair& pair = any();
    if (!pair.writable) return;
    const auto value = static_cast<double>(between(-100, 100));
    pair.array.fill(value);
    for (std::size_t at : pair.model.at) memory_[pair.model.base][at] = value;
  }

  void assign() {
    const Pair& target = any();
    Pair source = any();
    if (!target.writable) return;
    fit(source, target.array.shape());
    NDArray values = source.array;
    if (pick(4) == 0) values = values.copy();
    if (pick(4) == 0) values = values.astype(DType::i64);
    target.array.assign(values);
    std::vector<double> read;
    for (std::size_t at : source.model.at) read.push_back(memory_[source.model.base][at]);
    for (std::size_t i = 0; i < target.model.at.size(); ++i) {
      memory_[target.model.base][target.model.at[i]] = read[i];
    }
  }

  // Makes `source` fit an assignment to `shape`: if its shape differs, it is reduced to a scalar and
  // broadcast.
  void fit(Pair& source, const Shape& shape) {
    if (source.array.shape() == shape) return;
    while (source.array.ndim() > 0 && source.array.shape()[0] > 0) index(source);
    if (source.array.ndim() > 0) source = pairs_[0];
    while (source.array.ndim() > 0) index(source);
    source.array = source.array.broadcast_view(shape);
    source.model.at.assign(static_cast<std::size_t>(element_count(shape)), source.model.at[0]);
  }

  void check(const Pair& pair) {
    const auto values = pair.array.astype(DType::f64).to_vector<double>();
    REQUIRE(pair.array.shape() == pair.model.shape);
    REQUIRE(values.size() == pair.model.at.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      wrong += values[i] != memory_[pair.model.base][pair.model.at[i]];
    }
    CHECK(wrong == 0);
  }

  std::mt19937 random_;
  std::vector<std::vector<double>> memory_;
  std::vector<Pair> pairs_;
};

void run_programs(const EngineOptions& options, unsigned first_seed, unsigned count) {
  Engine engine(options);
  EngineScope scope(engine);
  for (unsigned seed = first_seed; seed < first_seed + count; ++seed) {
    CAPTURE(seed);
    Program program(seed);
    for (int i = 0; i < 300; ++i) program.step();
    program.check_bases();
  }
}

}  // namespace

TEST_CASE("random programs of views, one op after the other") {
  run_programs({.scheduler = Scheduler::naive}, 0, 40);
}

TEST_CASE("random programs of views on threads") {
  run_programs({.scheduler = Scheduler::threaded, .workers = 3}, 100, 40);
}

TEST_CASE("random programs of views in orders by seed") {
  for (unsigned seed = 1; seed <= 8; ++seed)
    run_programs({.scheduler = Scheduler::fuzz, .seed = seed}, 200 + seed, 5);
}
