// Operators that read and write elements by arrays of indices or a mask: results, gradients and errors of a GPU are the CPU's.
#include <functional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/embedding.h>
#include <heddle/indexing.h>
#include <heddle/rearrange.h>
#include <heddle/row_sparse.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>

#include "compare.h"
#include "problems.h"

using namespace heddle;
using namespace heddle::test;

namespace {

// Values that sums of any length hold exactly nowhere: an order of its own shows.
Pair floats(Random& random, const Shape& shape, DType dtype = DType::f32) {
  std::vector<double> values;
  for (std::int64_t i = 0; i < element_count(shape); ++i)
    values.push_back(static_cast<double>(static_cast<std::int64_t>(random())) * 0x1p-60);
  const NDArray x = array(values, shape).astype(dtype);
  return {x, x.copy_to(gpu(0))};
}

Pair floats_of_zero(DType dtype) { return {zeros({5}, dtype), zeros({5}, dtype, gpu(0))}; }

DType random_index_dtype(Random& random) {
  const DType dtypes[] = {DType::i64, DType::i32, DType::i16, DType::u8, DType::u32, DType::u64};
  return dtypes[random() % std::size(dtypes)];
}

// Indices from 0, or with `negative` and a signed dtype from -bound, to bound - 1; sometimes with strides.
Pair random_indices(Random& random, const Shape& shape, std::int64_t bound, bool negative = true) {
  const DType dtype = random_index_dtype(random);
  const bool from_end =
      negative && (dtype == DType::i64 || dtype == DType::i32 || dtype == DType::i16) && random() % 2;
  std::vector<std::int64_t> values;
  const std::uint64_t few = random() % 3 == 0 ? 2 : static_cast<std::uint64_t>(bound);
  for (std::int64_t i = 0; i < element_count(shape); ++i) {
    const auto value = static_cast<std::int64_t>(random() % std::min<std::uint64_t>(few, bound));
    values.push_back(from_end && random() % 2 ? value - bound : value);
  }
  const NDArray x = array(values, shape).astype(dtype), y = x.copy_to(gpu(0));
  if (random() % 3 == 0 && shape.size() > 0) return {x.slice(0, {.step = -1}), y.slice(0, {.step = -1})};
  return {x, y};
}

// Calls of one operator with arrays of the CPU, and with those of the GPU.
using Call = std::function<NDArray(bool there)>;
bool same(const Call& call) { return same_bits(call(false), call(true)); }
const NDArray& of(const Pair& pair, bool there) { return there ? pair.there : pair.here; }

// The gradients of `inputs` through `call` are the CPU's bits.
bool same_gradients(const std::vector<Pair>& inputs,
                    const std::function<NDArray(const std::vector<NDArray>&)>& call) {
  std::vector<NDArray> found[2];
  for (const bool there : {false, true}) {
    std::vector<NDArray> x;
    for (const Pair& input : inputs) x.push_back(of(input, there).copy());
    for (NDArray& one : x) one.set_requires_grad();
    const NDArray y = call(x);
    const NDArray weights = (arange(y.size(), DType::f32) / 7 - 3).astype(y.dtype()).reshape(y.shape());
    y.backward(there ? weights.copy_to(gpu(0)) : weights);
    for (const NDArray& one : x) found[there].push_back(one.grad());
  }
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!same_bits(found[0][i], found[1][i])) return false;
  return true;
}

// The error of the CPU, which the GPU has to bring word for word when its result is waited for.
template <class F> void check_error(const F& call) {
  std::string wanted;
  try {
    call(cpu()).wait();
  } catch (const Error& error) {
    wanted = without_call_site(error.what());
  }
  REQUIRE(!wanted.empty());
  std::string found;
  try {
    call(gpu(0)).wait();
  } catch (const Error& error) {
    found = without_call_site(error.what());
  }
  CHECK(found == wanted);
}

TEST_CASE("elements of an index that is there often are added up in the CPU's order") {
  Random random(77);
  for (const DType dtype : {DType::f32, DType::f64, DType::f16}) {
    for (const std::int64_t count : {65, 71, 72, 200, 1500}) {
      CAPTURE(count);
      std::vector<std::int64_t> list;
      for (std::int64_t i = 0; i < count; ++i)
        list.push_back(random() % 10 == 0 ? static_cast<std::int64_t>(random() % 5) : 2);
      const NDArray rows = array(list, {count});
      const Pair at{rows, rows.copy_to(gpu(0))}, values = floats(random, {count}, dtype),
                                                 table = floats(random, {5, 3}, dtype);
      CHECK(same([&](bool there) {
        return scatter_add(of(floats_of_zero(dtype), there), of(at, there), of(values, there), 0);
      }));
      CHECK(same_gradients({table}, [&](const std::vector<NDArray>& x) {
        return embedding(x[0], of(at, x[0].device() == gpu(0)));
      }));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("take, embedding, one_hot and gather read the CPU's elements") {
  for (int seed = 0; seed < 40; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    CAPTURE(seed);
    const Shape shapes[] = {{33}, {7, 5}, {40, 16}, {3, 9, 4}, {300, 1}, {5, 1, 3}};
    const Shape shape = shapes[random() % std::size(shapes)];
    const int axis = static_cast<int>(random() % static_cast<std::uint64_t>(shape.size()));
    Random again(random());
    Pair x = random_pair(random, shape, random_dtype(random));
    while (x.here.shape() != shape) x = random_pair(again, shape, x.here.dtype());
    const Shape places[] = {{}, {0}, {1}, {31}, {4, 3}, {100}};
    const Pair at = random_indices(random, places[random() % std::size(places)], shape[axis]);
    CHECK(same([&](bool there) { return take(of(x, there), of(at, there), axis); }));
    const Pair rows = random_indices(random, {17}, shape[0], false);
    CHECK(same([&](bool there) { return embedding(of(x, there), of(rows, there)); }));
    CHECK(same([&](bool there) { return one_hot(of(rows, there), shape[0], x.here.dtype()); }));
    Shape chosen = shape;
    chosen[axis] = 6;
    const Pair along = random_indices(random, chosen, shape[axis]);
    CHECK(same([&](bool there) { return gather(of(x, there), of(along, there), axis); }));
    for (int d = 0; d < shape.size(); ++d)
      if (d != axis && random() % 2) chosen[d] = 1;
    const Pair few = random_indices(random, chosen, shape[axis]);
    CHECK(same([&](bool there) { return take_along_axis(of(x, there), of(few, there), axis); }));
  }
  CHECK(problems() == "");
}

TEST_CASE("scatter with every mode has the CPU's bits, also where many values meet at one element") {
  using Scattering = NDArray (*)(const NDArray&, const NDArray&, const Operand&, int, Where);
  const std::vector<std::pair<const char*, Scattering>> operators = {
      {"scatter", scatter}, {"add", scatter_add}, {"min", scatter_min}, {"max", scatter_max}};
  const Shape sizes[] = {{5, 3}, {70, 4}, {4, 150}, {1, 1100}, {2, 3, 65}, {2, 90, 3}};
  int seed = 0;
  for (const auto& [name, call] : operators) {
    for (const DType dtype : kAllDTypes) {
      Random random(static_cast<std::uint64_t>(++seed));
      CAPTURE(name);
      CAPTURE(name_of(dtype));
      const Shape shape = sizes[static_cast<std::size_t>(seed) % std::size(sizes)];
      const int axis = static_cast<int>(random() % static_cast<std::uint64_t>(shape.size()));
      Shape target = shape;
      target[axis] = 1 + static_cast<std::int64_t>(random() % 40);
      const bool integral = !is_floating(dtype);
      const Pair x = integral ? random_pair(random, target, dtype) : floats(random, target, dtype);
      const Pair source = integral ? random_pair(random, shape, dtype) : floats(random, shape, dtype);
      if (x.here.shape() != target) continue;
      const Pair at = random_indices(random, shape, target[axis]);
      CHECK(same([&, call = call](bool there) {
        return call(of(x, there), of(at, there), of(source, there).broadcast_view(shape), axis,
                    Where::current());
      }));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("index_add, index_copy, index_put and put share the indices of all lines") {
  for (int seed = 0; seed < 12; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    CAPTURE(seed);
    const std::int64_t many = seed % 3 == 0 ? 20 : seed % 3 == 1 ? 130 : 1500;
    const std::int64_t width = many > 1000 ? 2 : 9;
    const Pair x = floats(random, {12, width}, seed % 2 ? DType::f64 : DType::f32);
    const Pair at = random_indices(random, {many}, 12),
               source = floats(random, {many, width}, x.here.dtype());
    const Pair column = random_indices(random, {many}, width),
               values = floats(random, {many}, x.here.dtype());
    CHECK(same([&](bool there) { return index_add(of(x, there), of(at, there), of(source, there)); }));
    CHECK(same([&](bool there) { return index_copy(of(x, there), of(at, there), of(source, there)); }));
    for (const bool adds : {false, true}) {
      CHECK(same([&](bool there) {
        return index_put(of(x, there), {of(at, there), of(column, there)}, of(values, there), adds);
      }));
    }
    CHECK(same([&](bool there) { return put(of(x, there), of(at, there), of(values, there)); }));
    const NDArray wide = x.here.permuted({1, 0}), there = x.there.permuted({1, 0});
    CHECK(same_bits(index_add(wide, at.here, source.here.permuted({1, 0}), 1),
                    index_add(there, at.there, source.there.permuted({1, 0}), 1)));
  }
  CHECK(problems() == "");
}

TEST_CASE("gradients of reading and writing by indices are the CPU's bits") {
  Random random(5);
  const Pair x = floats(random, {10, 6}), source = floats(random, {100, 6}),
             half = floats(random, {10, 6}, DType::bf16);
  const Pair at = random_indices(random, {100}, 10), matrix = random_indices(random, {4, 25}, 10);
  const Pair along = random_indices(random, {10, 70}, 6), written = floats(random, {10, 70});
  const auto on = [](const NDArray& like, const Pair& pair) { return of(pair, like.device() == gpu(0)); };
  CHECK(same_gradients({x}, [&](const auto& in) { return take(in[0], on(in[0], matrix)); }));
  CHECK(same_gradients({half}, [&](const auto& in) { return take(in[0], on(in[0], at)); }));
  CHECK(same_gradients({x}, [&](const auto& in) { return gather(in[0], on(in[0], along), 1); }));
  CHECK(same_gradients({x, source}, [&](const auto& in) { return index_add(in[0], on(in[0], at), in[1]); }));
  CHECK(same_gradients({x, source}, [&](const auto& in) { return index_copy(in[0], on(in[0], at), in[1]); }));
  CHECK(same_gradients({x, written},
                       [&](const auto& in) { return scatter_max(in[0], on(in[0], along), in[1], 1); }));
  CHECK(same_gradients({x}, [&](const auto& in) { return NDArray(in[0](on(in[0], at), 2)); }));
  CHECK(problems() == "");
}

TEST_CASE("x[keys] reads and writes with arrays of indices") {
  Random random(6);
  const Pair x = floats(random, {8, 5, 7}), rows = random_indices(random, {6}, 8),
             columns = random_indices(random, {6}, 5);
  const Pair values = floats(random, {6, 7}), inner = random_indices(random, {4, 3}, 7);
  CHECK(same([&](bool there) { return NDArray(of(x, there)(of(rows, there))); }));
  CHECK(same([&](bool there) { return NDArray(of(x, there)(of(rows, there), of(columns, there))); }));
  CHECK(same([&](bool there) { return NDArray(of(x, there)(kAll, Slice{.step = 2}, of(inner, there))); }));
  CHECK(same([&](bool there) {
    return NDArray(of(x, there)(of(rows, there), kAll, of(rows, there).astype(DType::i64) * 0));
  }));
  CHECK(same([&](bool there) {
    const NDArray y = of(x, there).copy();
    y(of(rows, there), of(columns, there)) = of(values, there);
    y(kAll, kAll, of(inner, there)) = 3;
    y(of(rows, there)) += 1.5;
    return y;
  }));
  CHECK(same([&](bool there) {
    const NDArray y = of(x, there).copy(), mask = y > 0;
    y[mask] = -1;
    return masked_fill(y, mask.slice(2, {0, 1}), 5);
  }));
  CHECK(problems() == "");
}

TEST_CASE("masked_scatter takes the first values, and its gradient too") {
  for (const std::int64_t count : {1, 31, 32, 2047, 2048, 2049, 5000}) {
    Random random(static_cast<std::uint64_t>(count));
    CAPTURE(count);
    const Pair x = floats(random, {count}), source = floats(random, {count}),
               mask_of = floats(random, {count});
    CHECK(same([&](bool there) {
      return masked_scatter(of(x, there), of(mask_of, there) > 0.5, of(source, there));
    }));
    if (count > 2049) continue;
    CHECK(same_gradients({x, source}, [&](const auto& in) {
      return masked_scatter(in[0], of(mask_of, in[0].device() == gpu(0)) > 0.5, in[1]);
    }));
  }
  CHECK(problems() == "");
}

TEST_CASE("embedding_bag has the CPU's sums, means, maxima and gradients") {
  for (int seed = 0; seed < 18; ++seed) {
    Random random(static_cast<std::uint64_t>(seed));
    CAPTURE(seed);
    const auto mode = static_cast<BagMode>(seed % 3);
    const std::int64_t rows = 12, width = seed % 4 == 0 ? 1 : 37, total = seed % 2 ? 90 : 40;
    const Pair weight = floats(random, {rows, width}, seed % 5 == 4 ? DType::f16 : DType::f32);
    const bool with_offsets = seed % 2;
    const Pair at = random_indices(random, with_offsets ? Shape{total} : Shape{8, 5}, rows, false);
    Pair offsets;
    if (with_offsets) {
      offsets.here = array(std::vector<std::int64_t>{0, 3, 3, 40, 41}, {5});
      offsets.there = offsets.here.copy_to(gpu(0));
    }
    EmbeddingBagOptions options{.mode = mode};
    if (seed % 4 == 1) options.padding_index = -2;
    const auto bag = [&](const NDArray& table, bool there) {
      return embedding_bag(table, of(at, there), of(offsets, there), options);
    };
    CHECK(same([&](bool there) { return bag(of(weight, there), there); }));
    CHECK(same_gradients({weight}, [&](const auto& in) { return bag(in[0], in[0].device() == gpu(0)); }));
  }
  CHECK(problems() == "");
}

TEST_CASE("weights of embedding_bag, and row-sparse gradients") {
  Random random(3);
  const Pair weight = floats(random, {20, 5}), at = random_indices(random, {90}, 20, false);
  const Pair factors = floats(random, {90});
  const NDArray offsets = array(std::vector<std::int64_t>{0, 10, 50}, {3}), there = offsets.copy_to(gpu(0));
  const auto sums = [&](bool gpu) {
    return embedding_bag(of(weight, gpu), of(at, gpu), gpu ? there : offsets,
                         {.mode = BagMode::sum, .per_sample_weights = of(factors, gpu)});
  };
  // The CPU may fuse a product and a sum. The terms cancel to a tenth at most.
  const auto a = sums(false).to_vector<float>(), b = sums(true).copy_to(cpu()).to_vector<float>();
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(b[i] == doctest::Approx(a[i]).epsilon(1e-4));
  for (const bool weighted : {false, true}) {
    std::vector<NDArray> found;
    for (const bool gpu : {false, true}) {
      NDArray table = of(weight, gpu).copy();
      table.set_requires_grad();
      EmbeddingBagOptions options{.mode = weighted ? BagMode::sum : BagMode::mean, .sparse_grad = true};
      if (weighted) options.per_sample_weights = of(factors, gpu);
      const NDArray y = embedding_bag(table, of(at, gpu), gpu ? there : offsets, options);
      y.backward(ones(y.shape(), DType::f32, y.device()));
      found.push_back(to_dense(row_sparse_grad(table)));
    }
    CHECK(same_bits(found[0], found[1]));
  }
  for (const bool pads : {false, true}) {
    std::vector<NDArray> found;
    for (const bool gpu : {false, true}) {
      NDArray table = of(weight, gpu).copy();
      table.set_requires_grad();
      EmbeddingOptions options{.sparse_grad = true};
      if (pads) options.padding_index = 3;
      const NDArray y = embedding(table, of(at, gpu), options);
      y.backward(ones(y.shape(), DType::f32, y.device()));
      found.push_back(to_dense(row_sparse_grad(table)));
    }
    CHECK(same_bits(found[0], found[1]));
  }
  CHECK(problems() == "");
}

TEST_CASE("an index out of range is the CPU's error, of the first one") {
  const auto indices = [](std::vector<std::int64_t> values, const Shape& shape, Device device,
                          DType dtype = DType::i64) {
    return array(values, shape).astype(dtype).copy_to(device);
  };
  const auto x = [](Device device) { return (arange(12, DType::f32) + 1).reshape({3, 4}).copy_to(device); };
  check_error([&](Device on) { return take(x(on), indices({0, 2, 3, -4}, {2, 2}, on)); });
  check_error([&](Device on) { return take(x(on), indices({-1, 250}, {2}, on, DType::u64)); });
  check_error([&](Device on) { return take(x(on), indices({1, 200}, {2}, on, DType::u8), 1); });
  check_error([&](Device on) { return embedding(x(on), indices({0, -1}, {2}, on, DType::i32)); });
  check_error([&](Device on) { return one_hot(indices({0, 5}, {2}, on), 5); });
  check_error([&](Device on) { return gather(x(on), indices({0, 1, 9, 1, 8, 0}, {3, 2}, on), 1); });
  check_error([&](Device on) { return take_along_axis(x(on), indices({0, 4}, {1, 2}, on), 1); });
  check_error([&](Device on) { return scatter(x(on), indices({0, 4, 1, 5}, {2, 2}, on), 1, 1); });
  check_error([&](Device on) { return scatter_add(x(on), indices({3, 0}, {1, 2}, on), 1, 0); });
  check_error([&](Device on) {
    return index_add(x(on), indices({0, 7}, {2}, on), ones({3, 2}, DType::f32, on), 1);
  });
  check_error([&](Device on) {
    return index_put(x(on), {indices({0, 1, 2}, {3}, on), indices({0, 4, 5}, {3}, on)}, 1);
  });
  std::vector<std::int64_t> many(200, 1);
  many[150] = -9, many[170] = 9;
  check_error([&](Device on) {
    return index_add(x(on), indices(many, {200}, on), ones({200, 4}, DType::f32, on));
  });
  check_error([&](Device on) { return take(zeros({0, 2}, DType::f32, on), indices({0}, {1}, on)); });
  for (const bool falling : {false, true}) {  // of many wrong indices the first one counts
    const NDArray wrong = falling ? arange(4000, 1000, -1, DType::i64) : arange(1, 3001, 1, DType::i64);
    check_error([&](Device on) { return take(x(on), wrong.copy_to(on)); });
    check_error([&](Device on) { return one_hot(wrong.copy_to(on), 3); });
  }
  check_error([&](Device on) { return take(zeros({2, 0}, DType::f32, on), indices({5}, {1}, on)); });
  check_error([&](Device on) { return masked_scatter(x(on), x(on) > 2, ones({4}, DType::f32, on)); });
  const auto bag = [&](std::vector<std::int64_t> at, std::vector<std::int64_t> offsets, Device on) {
    const auto count = static_cast<std::int64_t>(offsets.size());
    return embedding_bag(x(on), indices(at, {4}, on), indices(offsets, {count}, on));
  };
  check_error([&](Device on) { return bag({0, 3, 1, 1}, {0, 9}, on); });
  check_error([&](Device on) { return bag({0, 2, 1, 1}, {0, 5, 3}, on); });
  check_error([&](Device on) { return bag({0, 2, 1, 1}, {1, 3}, on); });
  check_error([&](Device on) { return bag({0, 2, 1, 1}, {0, 3, 2}, on); });
  CHECK(problems() == "");
}

TEST_CASE(
    "the error of an index reaches what reads the result and nothing else, and names the line of the call") {
  const NDArray x = arange(5, DType::f32).copy_to(gpu(0));
  const NDArray at = array(std::vector<std::int64_t>{1, 7, 2}, {3}).copy_to(gpu(0));
  const std::uint64_t waits = host_waits();
  const NDArray bad = take(x, at);
  const int line = __LINE__ - 1;
  const NDArray after = bad * 2, good = x + 1;
  CHECK(host_waits() == waits);
  const std::string text = "take: index 7 at position 1 is out of range for size 5; called at ";
  for (const NDArray* one : {&after, &bad}) {
    std::string found;
    try {
      one->wait();
    } catch (const InvalidIndex& error) {
      found = error.what();
    }
    CHECK(found.starts_with(text));
    CHECK(found.ends_with("indexing_test.cc:" + std::to_string(line)));
  }
  CHECK(good.to_vector<float>() == std::vector<float>{1, 2, 3, 4, 5});
  CHECK(take(x, at.slice(0, {0, 1})).to_vector<float>() == std::vector<float>{1});
  CHECK(problems() == "");
}

TEST_CASE("a hundred thousand bad indices are one error") {
  const NDArray at = arange(100000, DType::i64) * -1 - 6;
  check_error([&](Device on) { return take(arange(5, DType::f32).copy_to(on), at.copy_to(on)); });
  CHECK(problems() == "");
}

}  // namespace
