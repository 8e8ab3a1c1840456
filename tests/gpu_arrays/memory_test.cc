// Memory of GPUs: when it is taken and freed, and what happens without any left.
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/engine.h>
#include <heddle/gpu_memory.h>
#include <heddle/ndarray.h>
#include <heddle/storage.h>
#include <heddle/stream_ops.h>

#include "problems.h"

using namespace heddle;

namespace {

std::string message(const NDArray& x) {
  try {
    x.wait();
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

TEST_CASE("memory is taken by the first op, and goes back when the array ends") {
  for (const Scheduler scheduler : {Scheduler::threaded, Scheduler::naive, Scheduler::fuzz}) {
    CAPTURE(static_cast<int>(scheduler));
    current_engine().wait_all();  // arrays of the tests before
    Engine engine({.scheduler = scheduler, .seed = 3});
    const EngineScope scope(engine);
    engine.wait_all();
    const std::size_t before = gpu_memory_stats(gpu(0)).in_use;
    {
      const NDArray x({1000}, DType::f32, gpu(0));
      CHECK(gpu_memory_stats(gpu(0)).in_use == before);
      x.fill(1);
      x.wait();
      CHECK(gpu_memory_stats(gpu(0)).in_use == before + 4000);
    }
    engine.wait_all();
    CHECK(gpu_memory_stats(gpu(0)).in_use == before);
  }
  CHECK(problems() == "");
}

TEST_CASE("arrays that end while ops use them keep their values for these ops") {
  for (int round = 0; round < 20; ++round) {
    NDArray x = arange(3000, DType::i32, gpu(0));
    for (int i = 0; i < 10; ++i)
      x = x.copy().astype(DType::i64).astype(DType::i32);  // each array ends at once
    const NDArray back = x.copy_to(cpu());
    x = NDArray();
    const NDArray other = full({3000}, -1, DType::i32, gpu(0));
    CHECK(back.to_vector<std::int32_t>() == arange(3000, DType::i32).to_vector<std::int32_t>());
    CHECK(other.to_vector<std::int32_t>()[2999] == -1);
  }
  CHECK(problems() == "");
}

// Returns when an op on the stream that reads the array is issued, so all before it on the array are.
void await_issue(Stream& stream, const std::vector<NDArray>& reads) {
  Access access;
  for (const NDArray& array : reads) access.read.add(array.var());
  auto issued = std::make_shared<std::atomic<bool>>(false);
  current_engine().push_on(
      stream,
      [issued](Stream&) {
        *issued = true;
        issued->notify_all();
      },
      access);
  issued->wait(false);
}

// Holds up the work of a stream from now on, until it is told to go on.
class HeldUp {
 public:
  explicit HeldUp(Stream& stream) {
    auto issued = std::make_shared<std::atomic<bool>>(false);
    current_engine().push_on(stream, [issued, goes_on = goes_on_](Stream& of) {
      of.enqueue([goes_on] { goes_on->wait(false); });
      *issued = true;
      issued->notify_all();
    });
    issued->wait(false);
  }
  ~HeldUp() { go_on(); }
  void go_on() {
    *goes_on_ = true;
    goes_on_->notify_all();
  }

 private:
  std::shared_ptr<std::atomic<bool>> goes_on_ = std::make_shared<std::atomic<bool>>(false);
};

TEST_CASE("memory that was lent goes back to its owner when the work that uses it has run") {
  for (const bool ends_first : {false, true}) {
    CAPTURE(ends_first);
    Engine engine({.workers = 2});
    const EngineScope scope(engine);
    Stream& compute = engine.stream(gpu(0));
    std::byte* const memory = gpu_allocate_for_all(compute, 4000);
    auto ended = std::make_shared<std::atomic<bool>>(false);
    std::shared_ptr<std::byte> lent(memory, [ended](std::byte*) { *ended = true; });
    {
      NDArray x(std::make_shared<Storage>(engine, gpu(0), 4000, std::move(lent)), {1000}, DType::f32);
      x.fill(3);
      x.wait();
      HeldUp held(compute);
      const NDArray y = x.copy();
      if (ends_first) x = NDArray();
      await_issue(compute, {y});
      x = NDArray();
      CHECK_FALSE(*ended);
      held.go_on();
      CHECK(y.to_vector<float>()[999] == 3);
    }
    engine.wait_all();
    CHECK(*ended);
    gpu_free(memory);
  }
  CHECK(problems() == "");
}

// Takes the memory of gpu(0) but for some hundred MiB, so that tests can use up the rest. Takes nothing where there is no more.
class Ballast {
 public:
  Ballast() {
    current_engine().wait_all();
    gpu_memory_trim(gpu(0));
    const std::size_t free = gpu_memory_stats(gpu(0)).free;
    if (free <= 2 * kLeft) return;
    memory_ = gpu_allocate_for_all(current_engine().stream(gpu(0)), free - kLeft);
    REQUIRE(memory_);
  }
  ~Ballast() {
    if (!memory_) return;
    gpu_free(memory_);
    gpu_memory_trim(gpu(0));
  }
  Ballast(const Ballast&) = delete;
  Ballast& operator=(const Ballast&) = delete;

 private:
  // CUDA itself takes some, for kernels that run for the first time.
  static constexpr std::size_t kLeft = std::size_t{512} << 20;
  std::byte* memory_ = nullptr;
};

TEST_CASE("an op without memory fails with OutOfMemory, and later ones work") {
  const NDArray kept = ones({10}, DType::f32, gpu(0));
  const std::size_t total = gpu_memory_stats(gpu(0)).free + gpu_memory_stats(gpu(0)).cached;
  const NDArray huge = zeros({static_cast<std::int64_t>(total) * 2}, DType::u8, gpu(0));
  CHECK_THROWS_AS(huge.wait(), OutOfMemory);
  const std::string text = message(huge);
  CHECK(text.find("out of memory in op 'fill': an array of u8 (" + std::to_string(2 * total)) !=
        std::string::npos);
  CHECK(text.find("arrays on gpu(0) hold ") != std::string::npos);
  CHECK(text.find(" are free") != std::string::npos);
  CHECK(message(huge.copy_to(cpu())) != "");  // poisoned
  CHECK(kept.copy().to_vector<float>()[9] == 1);
  CHECK(problems() == "");
}

TEST_CASE("an op waits for memory that ops on other streams are about to free") {
  const Ballast ballast;
  const std::size_t free = gpu_memory_stats(gpu(0)).free + gpu_memory_stats(gpu(0)).cached;
  const auto most = static_cast<std::int64_t>(free / 5 * 3);
  const auto taken = [most] {  // without a kernel, which would take seconds
    const NDArray made({most}, DType::u8, gpu(0));
    array_push("take", {}, {made}, [made = made.detach()](const KernelContext&) {
      made.storage()->device_data(check::AccessKind::write, &made);
    });
    return made;
  };
  NDArray x = taken();
  x.wait();
  Stream& lane = current_engine().stream(gpu(0), Lane::copy_out);
  HeldUp held(lane);
  current_engine().push_on(lane, [x](Stream&) {}, {.read = {x.var()}});
  x = NDArray();
  const std::uint64_t before = host_waits();
  std::thread watch([&] {
    while (is_emulated() && host_waits() == before) std::this_thread::yield();
    // Later than the op asks for the second time.
    const auto later = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
    while (std::chrono::steady_clock::now() < later) std::this_thread::yield();
    held.go_on();
  });
  const NDArray y = taken();
  CHECK(message(y) == "");
  watch.join();
  current_engine().wait_all();
  CHECK(problems() == "");
}

TEST_CASE("a pool's memory is used again, for another size after a trim") {
  const Ballast ballast;
  const std::size_t free = gpu_memory_stats(gpu(0)).free + gpu_memory_stats(gpu(0)).cached;
  const auto half = static_cast<std::int64_t>(free / 5 * 3 / sizeof(double));
  for (int i = 0; i < 3; ++i) {
    const NDArray x = full({half + i * 1024}, i, DType::f64, gpu(0));
    CHECK(x[5].item<double>() == i);
  }
  current_engine().wait_all();
  gpu_memory_trim(gpu(0));  // the emulated GPU looks at all cached memory whenever the host waits
  CHECK(problems() == "");
}

TEST_CASE("page-locked memory is counted while an array has it, and kept afterwards") {
  current_engine().wait_all();
  const std::size_t before = gpu_memory_stats(cpu_pinned()).in_use;
  {
    const NDArray x = ones({5000}, DType::f32, cpu_pinned());
    x.wait();
    CHECK(gpu_memory_stats(cpu_pinned()).in_use >= before + 20000);
  }
  current_engine().wait_all();
  CHECK(gpu_memory_stats(cpu_pinned()).in_use == before);
  CHECK(gpu_memory_stats(cpu_pinned()).cached >= 20000);
}

TEST_CASE("without page-locked memory the error tells that memory") {
  const NDArray huge = ones({std::int64_t{1} << 41}, DType::u8, cpu_pinned());
  CHECK_THROWS_AS(huge.wait(), OutOfMemory);
  const std::string text = message(huge);
  CHECK(text.find(" asks for 2199023255552 bytes; arrays hold ") != std::string::npos);
  CHECK(text.find(" bytes of page-locked memory now, and ") != std::string::npos);
}

TEST_CASE("memory is told and trimmed for GPUs of this machine and page-locked memory alone") {
  CHECK_THROWS_WITH_AS((void)gpu_memory_stats(cpu()), "gpu_memory_stats: cpu(0); wanted a GPU or cpu_pinned",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(gpu_memory_trim(cpu(1)), "gpu_memory_trim: cpu(1); wanted a GPU or cpu_pinned",
                       InvalidArgument);
  const Device none = gpu(gpu_count());
  CHECK_THROWS_WITH_AS((void)gpu_memory_stats(none), doctest::Contains(": this machine has "),
                       InvalidArgument);
  CHECK_THROWS_AS(gpu_memory_trim(none), InvalidArgument);
}

TEST_CASE("arrays outlive their engine") {
  NDArray x;
  {
    Engine engine;
    const EngineScope scope(engine);
    x = ones({100}, DType::f32, gpu(0));
    x.wait();
  }
  x = NDArray();
  CHECK(problems() == "");
}

TEST_CASE("wrong devices are refused at the call") {
  const int count = gpu_count();
  std::string text;
  try {
    zeros({2}, DType::f32, gpu(count));
  } catch (const InvalidArgument& error) {
    text = error.what();
  }
  CHECK(text.starts_with("zeros: Heddle takes no memory on " + gpu(count).to_string() +
                         ": this machine has " + std::to_string(count) + (count == 1 ? " GPU" : " GPUs")));
}

TEST_CASE("an array that was never written has some values") {
  CHECK(NDArray({100}, DType::f32, gpu(0)).to_vector<float>().size() == 100);
  CHECK(NDArray({0}, DType::f32, gpu(0)).to_vector<float>().empty());
  CHECK(problems() == "");
}

}  // namespace
