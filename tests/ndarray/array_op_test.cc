#include <algorithm>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/host_stream.h>

using namespace heddle;

namespace {

bool lists(const VarList& list, const NDArray& array) {
  return std::count(list.begin(), list.end(), array.var().state()) > 0;
}

}  // namespace

TEST_CASE("a whole array that is written is not read, a part of one is") {
  const NDArray x = zeros({4}), whole = zeros({2, 3}), base = zeros({6});
  const NDArray part = base.slice(0, {.begin = 1});
  const std::vector<NDArray> reads = {x}, writes = {whole, part};
  const Access access = array_access("test", reads, writes);
  CHECK(access.read.size() == 2);
  CHECK(lists(access.read, x));
  CHECK(lists(access.read, base));
  CHECK_FALSE(lists(access.read, whole));
  CHECK(lists(access.mutate, whole));
  CHECK(lists(access.mutate, base));
  CHECK(std::string(access.name) == "test");
}

TEST_CASE("what covers a storage") {
  const NDArray a = zeros({2, 3, 4});
  CHECK(a.covers_storage());
  CHECK(a.view_as({24}).covers_storage());
  CHECK(a.permuted({2, 0, 1}).covers_storage());
  CHECK(a.slice(2, {.step = -1}).covers_storage());
  CHECK_FALSE(a[0].covers_storage());
  CHECK_FALSE(a.slice(1, {.step = 2}).covers_storage());
  CHECK_FALSE(zeros({1}).broadcast_view({4}).covers_storage());
  // The view has as many elements as the storage, but shows some of them twice.
  CHECK_FALSE(a.view({4, 6}, {4, 1}, 0).covers_storage());
  CHECK(zeros({0, 3}).covers_storage());
  CHECK(zeros({}).covers_storage());
}

TEST_CASE("an op on arrays gets their memory") {
  const NDArray x = array<float>({1, 2, 3}), y({3});
  array_push("scale", {x}, {y}, [x = x.detach(), y = y.detach()](RunContext& context) {
    CHECK(std::string(context.name) == "scale");
    for (int i = 0; i < 3; ++i) y.data<float>()[i] = 10 * x.data<const float>()[i];
  });
  CHECK(y.to_vector<float>() == std::vector<float>{10, 20, 30});
}

TEST_CASE("an undefined array is refused, naming the op") {
  const NDArray undefined, a = zeros({1});
  CHECK_THROWS_WITH_AS(array_push("scale", {undefined}, {a}, [] {}), doctest::Contains("scale"),
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(array_push("scale", {a}, {undefined}, [] {}), doctest::Contains("scale"),
                       InvalidArgument);
}

TEST_CASE("arrays of two engines are refused, and arrays live on the engine of their scope") {
  Engine other({.scheduler = Scheduler::naive});
  const NDArray mine = zeros({2});
  NDArray theirs;
  {
    EngineScope scope(other);
    theirs = ones({2});
  }
  CHECK(&theirs.engine() == &other);
  CHECK(&theirs.copy().engine() == &other);
  CHECK(&zeros_like(theirs).engine() == &other);
  CHECK(&theirs.astype(DType::i32).engine() == &other);
  CHECK_THROWS_AS(mine.assign(theirs), InvalidArgument);
  CHECK(theirs.to_vector<float>() == std::vector<float>{1, 1});
}

TEST_CASE("an error in an op is rethrown wherever its array is read, and ends with an overwrite") {
  const NDArray a = zeros({2, 2});
  array_push("broken", {}, {a}, [] { throw std::out_of_range("as told"); });
  CHECK_THROWS_AS(a.wait(), std::out_of_range);
  CHECK_THROWS_AS(a.to_vector<float>(), std::out_of_range);
  CHECK_THROWS_AS(a.to_string(), std::out_of_range);
  CHECK_THROWS_AS(a.copy().wait(), std::out_of_range);
  a[0].fill(1);  // overwrites only a part of the array, so the array's error stays
  CHECK_THROWS_AS(a.wait(), std::out_of_range);
  a.fill(1);
  CHECK(a.to_vector<float>() == std::vector<float>{1, 1, 1, 1});
}

TEST_CASE("an array's memory lives until its last op is done") {
  NDArray sum = zeros({1});
  for (int i = 0; i < 100; ++i) {
    NDArray term = full({1}, i);
    array_push("add", {term, sum}, {sum}, [term = term.detach(), sum = sum.detach()] {
      sum.data<float>()[0] += term.data<const float>()[0];
    });
  }
  CHECK(sum.item<float>() == 4950);
}

TEST_CASE("a KernelContext has a stream where it was made of one, and none on a worker") {
  const NDArray x = zeros({4});
  std::string said;
  array_push("kernel", {}, {x}, [&said, x = x.detach()](const KernelContext& context) {
    CHECK_FALSE(context.on_stream());
    try {
      context.stream();
    } catch (const Error& error) {
      said = error.what();
    }
    x.data<float>()[0] = 2;
  });
  CHECK(x.to_vector<float>() == std::vector<float>{2, 0, 0, 0});
  CHECK(said == "a kernel for a GPU was called on the CPU, which has no stream");

  HostStream stream(cpu(1));
  const KernelContext on_stream(stream);
  CHECK(on_stream.on_stream());
  CHECK(&on_stream.stream() == &stream);
}
