// Errors, traces and reports name the source line that called the library.
#include <atomic>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/call_site.h>
#include <heddle/csv.h>
#include <heddle/dlpack.h>
#include <heddle/npy.h>
#include <heddle/npz.h>
#include <heddle/random.h>
#include <heddle/safetensors.h>

#include "call_sites.h"
#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

namespace {

NDArray square_of(const NDArray& x, Where where = Where::current()) {
  const CallSite site(where);
  NDArray y = zeros_like(x);
  array_push("square_of", {x}, {y}, [] {});
  return y;
}

// An array whose op has failed, so that ops that read the array are skipped.
NDArray poisoned() {
  const NDArray x = zeros({4});
  array_push("fail", {}, {x}, [] { throw std::runtime_error("spoiled"); });
  return x;
}

// A .npy file of four zeros in Fortran order, for which loading pushes an op that transposes them.
std::string fortran_npy() {
  std::string header = "{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2), }";
  header.resize(117, ' ');
  return std::string("\x93NUMPY\x01\x00", 8) + std::string("v\x00", 2) + header + "\n" +
         std::string(16, '\0');
}

}  // namespace

TEST_CASE("paths of Heddle's own files are those in the repository") {
  CHECK(std::string(Where::current().file_name()) == "tests/ndarray/call_site_test.cc");
}

TEST_CASE("the outermost call counts, and its place ends with it") {
  const Where inner = Where::current();
  CHECK(text_of(CallSite::current(inner)) == text_of(inner));
  {
    const Where outer = Where::current();
    const CallSite site(outer);
    CHECK(text_of(CallSite::current(inner)) == text_of(outer));
    {
      const CallSite nested(inner);
      CHECK(text_of(CallSite::current(inner)) == text_of(outer));
      const CallSite earlier = CallSite::on_behalf_of(inner);
      CHECK(text_of(CallSite::current(outer)) == text_of(inner));
    }
    CHECK(text_of(CallSite::current(inner)) == text_of(outer));
  }
  CHECK(text_of(CallSite::current(inner)) == text_of(inner));
}

// With the scheduler naive the op runs inside array_push; otherwise it runs inside wait() or on a worker.
TEST_CASE("what an op pushes has nothing of the call during which it runs") {
  on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray x = zeros({4});
    std::string inside, nested;
    const Where own = Where::current(), callers = Where::current();
    const CallSite site(callers);
    array_push("op", {}, {x}, [&] {
      inside = text_of(CallSite::current(own));
      const CallSite again(own);
      nested = text_of(CallSite::current());
    });
    x.wait();
    CHECK(inside == text_of(own));
    CHECK(nested == text_of(own));
    CHECK(text_of(CallSite::current()) == text_of(callers));
  });
}

TEST_CASE("an error's path names the line of each call") {
  on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const NDArray bad = poisoned();
    const NDArray y = bad.astype(DType::f64);
    const std::string place = "astype at tests/ndarray/call_site_test.cc:" + std::to_string(__LINE__ - 1);
    CHECK_THROWS_AS(y.wait(), std::runtime_error);
    const ErrorReport report = engine.error_of(y.var());
    REQUIRE(report.path.size() == 1);
    CHECK(report.path[0] == place);
    CHECK(report.op == "fail");
  });
}

TEST_CASE("what waits is named with the line of its call") {
  std::atomic<bool> open{false};
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const EngineScope scope(engine);
  const NDArray x = zeros({4});
  array_push("gate", {}, {x}, [&] { open.wait(false); });
  const NDArray y = x.copy();
  const std::string place = "'copy' at tests/ndarray/call_site_test.cc:" + std::to_string(__LINE__ - 1);
  const std::string pending = engine.describe_pending();
  open = true;
  open.notify_all();
  CHECK(pending.find(place) != std::string::npos);
}

TEST_CASE("each function of arrays names the line of its call") {
  const TemporaryDirectory files;
  const NDArray x = zeros({4}), y = zeros({4}), integers = zeros({4}, DType::i64);
  NDArray half = zeros({2, 4}).slice(1, {0, 2}), one = zeros({1});
  Generator generator(1);
  std::ostringstream out;
  const std::string npy = files.file("x.npy"), fortran = files.file("f.npy"), tensors = files.file("x.st");
  check_site("array_push", [&] { array_push("op", {x}, {y}, [] {}); });
  check_site("CallSite", [&] { square_of(x); });
  check_site("NDArray::copy", [&] { x.copy(); });
  check_site("NDArray::copy_to", [&] { x.copy_to(cpu(1)); });
  check_site("NDArray::contiguous", [&] { half.contiguous(); });
  check_site("NDArray::astype", [&] { x.astype(DType::i32); });
  check_site("NDArray::assign", [&] { x.assign(y); });
  check_site("NDArray::assign", [&] { x.assign(x.slice(0, {.step = -1})); });
  check_site("NDArray::operator=", [&] { x[0] = y[1]; });
  check_site("NDArray::operator=", [&] { x(1) = 2; });
  check_site("NDArray::fill", [&] { x.fill(0.5); });
  check_site("NDArray::fill", [&] { integers.fill(1); });
  check_site("NDArray::to_string", [&] { x.to_string(); });
  check_site("NDArray::item", [&] { one.item<float>(); });
  check_site("NDArray::item", [&] { static_cast<void>(one.item()); });
  check_site("NDArray::to_vector", [&] { x.to_vector<float>(); });
  check_site("operator<<", [&] { out << x; });
  check_site("full", [&] { full({3}, 0.5); });
  check_site("full", [&] { full({3}, 7); });
  check_site("zeros", [&] { zeros({3}); });
  check_site("ones", [&] { ones({3}); });
  check_site("zeros", [&] { zeros(2, 3); });
  check_site("ones", [&] { ones(2, 3); });
  check_site("zeros_like", [&] { zeros_like(x); });
  check_site("arange", [&] { arange(0, 3); });
  check_site("arange", [&] { arange(3); });
  check_site("eye", [&] { eye(3); });
  check_site("Generator::uniform", [&] { generator.uniform({3}); });
  check_site("Generator::uniform", [&] { generator.uniform({3}, 0, 1, DType::f16); });
  check_site("Generator::normal", [&] { generator.normal({3}); });
  check_site("Generator::bernoulli", [&] { generator.bernoulli({3}, 0.5); });
  check_site("Generator::integers", [&] { generator.integers({3}, 0, 5); });
  check_site("Generator::permutation", [&] { generator.permutation(5); });
  write_file(fortran, fortran_npy());
  check_site("load_npy", [&] { load_npy(fortran); });
  check_site("save_npy", [&] { save_npy(npy, x); });
  check_site("save_safetensors", [&] { save_safetensors(tensors, {.arrays = {{"x", x}}, .metadata = {}}); });
  check_site("load_safetensors", [&] { load_safetensors(tensors); });
  check_site("save_npz", [&] { save_npz(files.file("x.npz"), {{"x", x}}); });
  check_site("save_csv", [&] { save_csv(files.file("x.csv"), x); });
  check_site("load_csv", [&] { load_csv(files.file("x.csv"), {.dtype = DType::f32}); });
  // Asks for a copy, since lending an array that no op uses pushes no op.
  check_site("to_dlpack", [&] { from_dlpack(to_dlpack(x, true)); });
  check_site("to_dlpack_unversioned", [&] { from_dlpack(to_dlpack_unversioned(x, true)); });
  heddle_dl_managed_tensor_versioned* const lent = to_dlpack(x);
  check_site("from_dlpack", [&] { from_dlpack(lent, true).wait(); });
}
