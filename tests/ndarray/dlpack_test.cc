// Arrays lent to and taken from other libraries by DLPack.
#include <atomic>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/dlpack.h>
#include <heddle/engine.h>
#include <heddle/ndarray.h>

using namespace heddle;

namespace {

using Versioned = heddle_dl_managed_tensor_versioned;
using Floats = std::vector<float>;

// Memory lent by another library, whose deleter counts its calls.
struct Foreign {
  std::vector<float> memory;
  std::vector<std::int64_t> shape, strides;
  std::atomic<int> deleted{0};
  Versioned managed{};

  Foreign(std::vector<float> values, std::vector<std::int64_t> its_shape,
          std::vector<std::int64_t> its_strides = {}, std::int64_t first = 0)
      : memory(std::move(values)), shape(std::move(its_shape)), strides(std::move(its_strides)) {
    managed.version = {1, 1};
    managed.manager_ctx = this;
    managed.deleter = [](Versioned* self) { static_cast<Foreign*>(self->manager_ctx)->deleted += 1; };
    managed.tensor = {.data = memory.data() + first,
                      .device = {HEDDLE_DL_CPU, 0},
                      .ndim = static_cast<std::int32_t>(shape.size()),
                      .dtype = {HEDDLE_DL_FLOAT, 32, 1},
                      .shape = shape.data(),
                      .strides = strides.empty() ? nullptr : strides.data(),
                      .byte_offset = 0};
  }
};

std::string refusal(const std::function<void()>& call) {
  try {
    call();
  } catch (const InvalidArgument& error) {
    return error.what();
  }
  return "not refused";
}

}  // namespace

TEST_CASE("dlpack: what is lent is the array's memory, with its strides, when all ops on it have ended") {
  const NDArray whole = arange(0, 24).view_as({4, 6});
  const NDArray part = whole.permuted({1, 0}).slice(0, {1, 3});
  part.fill(7);
  const std::unique_ptr<Versioned, void (*)(Versioned*)> lent(to_dlpack(part),
                                                              [](Versioned* one) { one->deleter(one); });
  const heddle_dl_tensor& tensor = lent->tensor;
  CHECK(lent->version.major == 1);
  CHECK(lent->flags == 0);
  CHECK(tensor.device.type == HEDDLE_DL_CPU);
  CHECK(tensor.ndim == 2);
  CHECK(Shape({tensor.shape[0], tensor.shape[1]}) == part.shape());
  CHECK(Strides({tensor.strides[0], tensor.strides[1]}) == Strides{1, 6});
  CHECK(static_cast<float*>(tensor.data) == whole.data<float>() + 1);
  CHECK(static_cast<float*>(tensor.data)[6] == 7);
  static_cast<float*>(tensor.data)[6] = 8;
  CHECK(whole[1][1].item<float>() == 8);
}

TEST_CASE("dlpack: memory lives as long as the loan; a copy is memory of its own") {
  Versioned* lent = nullptr;
  Versioned* copied = nullptr;
  {
    const NDArray x = full({3}, 5);
    lent = to_dlpack(x);
    copied = to_dlpack(x, true);
    x.fill(6);
    x.wait();
  }
  CHECK(static_cast<float*>(lent->tensor.data)[2] == 6);
  CHECK(static_cast<float*>(copied->tensor.data)[2] == 5);
  CHECK(copied->flags == HEDDLE_DL_IS_COPIED);
  lent->deleter(lent);
  copied->deleter(copied);
}

TEST_CASE("dlpack: ops that read the array have ended when it is lent, since the receiver may write") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const EngineScope scope(engine);
  for (int round = 0; round < 200; ++round) {
    const NDArray x = full({1000}, 1);
    const NDArray sum({1000});
    sum.assign(x);
    heddle_dl_managed_tensor* const lent = to_dlpack_unversioned(x);
    static_cast<float*>(lent->tensor.data)[999] = 2;
    lent->deleter(lent);
    REQUIRE(sum.to_vector<float>()[999] == 1);
  }
}

TEST_CASE("dlpack: an op lends the arrays that it has declared without a wait, read-only what it reads") {
  const NDArray x = full({3}, 1), y = zeros({3});
  std::string refused;
  current_engine().push(
      [&refused, x, y] {
        Versioned* const read = to_dlpack(x);
        Versioned* const written = to_dlpack(y);
        CHECK(read->flags == HEDDLE_DL_READ_ONLY);
        CHECK(written->flags == 0);
        static_cast<float*>(written->tensor.data)[1] = static_cast<const float*>(read->tensor.data)[1] + 1;
        read->deleter(read);
        written->deleter(written);
        refused = refusal([&] { to_dlpack_unversioned(x); });
      },
      {.read = {x.var()}, .mutate = {y.var()}});
  CHECK(y.to_vector<float>() == Floats{0, 2, 0});
  CHECK(refused.find("the op only reads the array") != std::string::npos);
}

TEST_CASE("dlpack: a poisoned array is not lent, and stays poisoned") {
  const NDArray x({3});
  current_engine().push([] { throw Error("no values"); }, {.mutate = {x.var()}});
  CHECK_THROWS_WITH_AS(to_dlpack(x), doctest::Contains("no values"), Error);
  CHECK_THROWS_WITH_AS(x.wait(), doctest::Contains("no values"), Error);
  CHECK_THROWS_WITH_AS(
      to_dlpack(NDArray()),
      "to_dlpack: an array is undefined: made without a shape, moved from, or a gradient before backward()",
      InvalidArgument);
}

TEST_CASE("dlpack: all dtypes, ranks and views come back on the same memory") {
  for (const DType dtype : kAllDTypes) {
    CAPTURE(std::string(name_of(dtype)));
    for (const Shape& shape :
         {Shape{}, Shape{0, 3}, Shape{5}, Shape{2, 3, 4}, Shape{1, 1, 1, 1, 1, 1, 1, 2}}) {
      const NDArray x = ones(shape, dtype);
      Versioned* const lent = to_dlpack(x);
      const void* const data = lent->tensor.data;
      const NDArray back = from_dlpack(lent);
      CHECK(back.shape() == shape);
      CHECK(back.dtype() == dtype);
      CHECK(back.to_string() == x.to_string());
      back.wait();
      if (x.size() > 0) CHECK(back.data<const std::byte>() == data);
      CHECK((x.size() == 0) == (data == nullptr));
    }
  }
}

TEST_CASE("dlpack: what comes back to its engine has the same var, in another engine one of its own") {
  const NDArray x = zeros({1000});
  const NDArray back = from_dlpack(to_dlpack(x.slice(0, {10, 20})));
  CHECK(back.var() == x.var());
  CHECK(back.shape() == Shape{10});
  CHECK(from_dlpack(to_dlpack_unversioned(x)).var() == x.var());
  CHECK_FALSE(from_dlpack(to_dlpack(x), true).var() == x.var());
  for (int round = 1; round <= 200; ++round) {
    x.fill(round);
    const NDArray seen = back.copy();
    x.fill(0);
    REQUIRE(seen.to_vector<float>() == Floats(10, static_cast<float>(round)));
  }
  Engine engine;
  const EngineScope scope(engine);
  Versioned* const lent = to_dlpack(x);
  const NDArray other = from_dlpack(lent);
  CHECK(&other.engine() == &engine);
  CHECK_FALSE(other.var() == x.var());
}

TEST_CASE("dlpack: strides of any sign are taken, and the loan ends with the last array and op") {
  Foreign foreign({0, 1, 2, 3, 4, 5}, {2, 3}, {3, -1}, 2);
  {
    const NDArray x = from_dlpack(&foreign.managed);
    CHECK(x.to_vector<float>() == Floats{2, 1, 0, 5, 4, 3});
    const NDArray row = x[1];
    row.fill(9);
    row.wait();
    CHECK(foreign.deleted == 0);
  }
  current_engine().wait_all();
  CHECK(foreign.deleted == 1);
  CHECK(foreign.memory == Floats{0, 1, 2, 9, 9, 9});

  Foreign repeated({4}, {3, 1000}, {0, 0});
  CHECK(from_dlpack(&repeated.managed).to_vector<float>() == Floats(3000, 4));
  Foreign moved({1, 2, 3}, {2});
  moved.managed.tensor.byte_offset = sizeof(float);
  CHECK(from_dlpack(&moved.managed).to_vector<float>() == Floats{2, 3});
}

TEST_CASE("dlpack: read-only memory is refused, or copied; a copy ends the loan") {
  Foreign foreign({1, 2, 3}, {3});
  foreign.managed.flags = HEDDLE_DL_READ_ONLY;
  CHECK(refusal([&] { from_dlpack(&foreign.managed); }).find("read-only") != std::string::npos);
  CHECK(foreign.deleted == 0);
  const NDArray copy = from_dlpack(&foreign.managed, true);
  copy.wait();
  current_engine().wait_all();
  CHECK(foreign.deleted == 1);
  foreign.memory = {7, 7, 7};
  CHECK(copy.to_vector<float>() == Floats{1, 2, 3});
}

TEST_CASE("dlpack: what is refused is still its owner's") {
  const auto refused = [](const std::function<void(Versioned&)>& change) {
    Foreign foreign({1, 2, 3, 4}, {2, 2}, {2, 1});
    change(foreign.managed);
    const std::string message = refusal([&] { from_dlpack(&foreign.managed); });
    CHECK(foreign.deleted == 0);
    CHECK(message.starts_with("from_dlpack: "));
    return message;
  };
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  std::int64_t huge[] = {kMost, kMost}, negative[] = {2, -1}, nine[9] = {};
  CHECK(refused([](Versioned& one) { one.version.major = 2; }).find("DLPack 2.1") != std::string::npos);
  CHECK(refused([](Versioned& one) { one.tensor.dtype.lanes = 4; }).find("lanes") != std::string::npos);
  CHECK(refused([](Versioned& one) {
          one.tensor.dtype.code = 5;
          one.tensor.dtype.bits = 64;
        }).starts_with("from_dlpack: there is no dtype for complex64; wanted real numbers"));
  CHECK(refused([](Versioned& one) { one.tensor.device.type = 10; }).find("type 10") != std::string::npos);
  CHECK(refused([](Versioned& one) { one.tensor.data = nullptr; }).find("null") != std::string::npos);
  CHECK(refused([](Versioned& one) { one.tensor.shape = nullptr; }).find("null") != std::string::npos);
  CHECK(refused([](Versioned& one) { one.tensor.byte_offset = 2; }).find("aligned") != std::string::npos);
  CHECK(refused([](Versioned& one) { one.tensor.ndim = -1; }).find("dimensions") != std::string::npos);
  CHECK(refused([&](Versioned& one) { one.tensor.shape = nine, one.tensor.ndim = 9; }).find("0 to 8") !=
        std::string::npos);
  CHECK(refused([&](Versioned& one) { one.tensor.shape = huge; }) != "not refused");
  CHECK(refused([&](Versioned& one) { one.tensor.shape = negative; }) != "not refused");
  CHECK(refused([&](Versioned& one) { one.tensor.strides = huge; }).find("beyond") != std::string::npos);
  CHECK(refusal([] { from_dlpack(static_cast<Versioned*>(nullptr)); }).find("null") != std::string::npos);
  CHECK(refusal([] { from_dlpack(static_cast<heddle_dl_managed_tensor*>(nullptr)); }).find("null") !=
        std::string::npos);
}

TEST_CASE("dlpack: an array without elements ends the loan at once") {
  Foreign foreign({}, {0, 3});
  foreign.managed.tensor.data = nullptr;
  const NDArray x = from_dlpack(&foreign.managed);
  CHECK(x.shape() == Shape{0, 3});
  CHECK(foreign.deleted == 1);
}

TEST_CASE("dlpack: bools of bytes above 1 are refused, where they are elements") {
  Foreign foreign({0, 0}, {2, 3}, {4, 1});  // of the four bytes of each row, the last is no element
  foreign.managed.tensor.dtype = {HEDDLE_DL_BOOL, 8, 1};
  auto* const bytes = reinterpret_cast<unsigned char*>(foreign.memory.data());
  bytes[0] = bytes[6] = 1;
  bytes[3] = 255;
  CHECK(from_dlpack(&foreign.managed).to_vector<bool>() ==
        std::vector<bool>{true, false, false, false, false, true});
  CHECK(foreign.deleted == 1);
  bytes[5] = 2;
  CHECK(refusal([&] {
          from_dlpack(&foreign.managed);
        }).starts_with("from_dlpack: the memory holds a bool whose byte is above 1; want 0 or 1 in each"));
  foreign.strides = {-4, 2};  // row 0 consists of the bytes 4 and 6, row 1 of the bytes 0 and 2
  foreign.shape = {2, 2};
  foreign.managed.tensor.data = bytes + 4;
  CHECK(from_dlpack(&foreign.managed).to_vector<bool>() == std::vector<bool>{false, true, true, false});
  CHECK(foreign.deleted == 2);
}
