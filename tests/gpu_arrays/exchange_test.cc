// Memory of GPUs that is exchanged with other libraries: their streams and the engine's are put in order by events.
#include <atomic>
#include <cuda_runtime_api.h>
#include <memory>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/dlpack.h>
#include <heddle/engine.h>
#include <heddle/gpu_event.h>
#include <heddle/interrupt_check.h>
#include <heddle/memory_hold.h>
#include <heddle/ops.h>

#include "problems.h"

using namespace heddle;

namespace {

// A stream of another library.
struct Theirs {
  Theirs() {
    cudaSetDevice(0);
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  }
  ~Theirs() { cudaStreamDestroy(stream); }
  cudaStream_t stream = nullptr;
  DLPackStream handle() const { return {stream}; }
};

// Bytes of 64 and more make floats of 3 and more, which an addition shows.
constexpr std::int64_t kCount = 20'000;

// Many kernels, of which the last one writes `value`.
NDArray slowly(float value) {
  NDArray x = full({kCount}, 0, DType::f32, gpu(0));
  for (int i = 0; i < 20; ++i) x = x + 1;
  return x * 0 + value;
}

std::vector<float> fetched(const void* memory, cudaStream_t stream) {
  void* pinned = nullptr;
  REQUIRE(cudaMallocHost(&pinned, kCount * sizeof(float)) == cudaSuccess);
  CHECK(cudaMemcpyAsync(pinned, memory, kCount * sizeof(float), cudaMemcpyDefault, stream) == cudaSuccess);
  CHECK(cudaStreamSynchronize(stream) == cudaSuccess);
  const auto* begin = static_cast<const float*>(pinned);
  std::vector<float> values(begin, begin + kCount);
  cudaFreeHost(pinned);
  return values;
}

// Memory of another library, lent to Heddle; `ended` is set when the loan ends.
struct Lent {
  Lent() { REQUIRE(cudaMalloc(&memory, kCount * sizeof(float)) == cudaSuccess); }
  ~Lent() { cudaFree(memory); }
  heddle_dl_managed_tensor_versioned* tensor() {
    managed = {};
    managed.version = {1, 0};
    managed.tensor.data = memory;
    managed.tensor.device = {HEDDLE_DL_CUDA, 0};
    managed.tensor.ndim = 1;
    managed.tensor.dtype = {HEDDLE_DL_FLOAT, 32, 1};
    managed.tensor.shape = &size;
    managed.manager_ctx = &ended;
    managed.deleter = [](heddle_dl_managed_tensor_versioned* self) {
      *static_cast<bool*>(self->manager_ctx) = true;
    };
    return &managed;
  }
  void* memory = nullptr;
  std::int64_t size = kCount;
  bool ended = false;
  heddle_dl_managed_tensor_versioned managed{};
};

}  // namespace

TEST_CASE("a receiver's stream waits for the ops on a lent array, and the host does not") {
  const Theirs theirs;
  slowly(0).wait();  // makes streams and fills pools
  for (int round = 0; round < 5; ++round) {
    const auto value = static_cast<float>(round + 1);
    const NDArray x = slowly(value);
    const std::uint64_t before = host_waits();
    heddle_dl_managed_tensor_versioned* const tensor = to_dlpack(x, theirs.handle());
    CHECK(host_waits() - before == 0);
    CHECK(tensor->tensor.device.type == HEDDLE_DL_CUDA);
    CHECK(fetched(tensor->tensor.data, theirs.stream) == std::vector<float>(kCount, value));
    tensor->deleter(tensor);
  }
  const NDArray x = slowly(7);
  const DLPackStream ordered = ordered_stream(x);
  GpuEvent event(gpu(0));
  event.record(ordered.native);
  event.hold(theirs.stream);
  heddle_dl_managed_tensor* const tensor = to_dlpack_unversioned(x, theirs.handle(), true);
  CHECK(fetched(tensor->tensor.data, theirs.stream) == std::vector<float>(kCount, 7));
  tensor->deleter(tensor);
  CHECK(problems() == "");
}

TEST_CASE(
    "ops on borrowed memory of a GPU come after the work of its owner's stream, and the loan ends after "
    "them") {
  const Theirs theirs;
  Lent lent;
  CHECK(gpu_of_memory(lent.memory) == gpu(0));
  for (const bool copy : {false, true}) {
    lent.ended = false;
    for (int i = 0; i < 20; ++i)
      cudaMemsetAsync(lent.memory, 64 + i % 32, kCount * sizeof(float), theirs.stream);
    cudaMemsetAsync(lent.memory, 0, kCount * sizeof(float), theirs.stream);
    const std::uint64_t before = host_waits();
    NDArray x = from_dlpack(lent.tensor(), theirs.handle(), copy);
    const NDArray y = x + 2;
    if (!copy) x += 5;
    CHECK(host_waits() - before == 0);
    order_before(x, theirs.handle());
    if (!copy) CHECK(fetched(lent.memory, theirs.stream) == std::vector<float>(kCount, 5));
    CHECK(y.to_vector<float>() == std::vector<float>(kCount, 2));
    x = NDArray();
    y.engine().wait_all();
    CHECK(lent.ended);
  }
  CHECK(problems() == "");
}

TEST_CASE("order_after: ops come after what another library writes later") {
  const Theirs theirs;
  Lent lent;
  cudaMemsetAsync(lent.memory, 0, kCount * sizeof(float), theirs.stream);
  NDArray x = from_dlpack(lent.tensor(), theirs.handle());
  for (int round = 1; round < 4; ++round) {
    order_before(x, theirs.handle());
    for (int i = 0; i < 10; ++i)
      cudaMemsetAsync(lent.memory, 64 + i % 32, kCount * sizeof(float), theirs.stream);
    cudaMemsetAsync(lent.memory, 0, kCount * sizeof(float), theirs.stream);
    order_after(x, theirs.handle());
    x += round;
    CHECK(x.to_vector<float>() == std::vector<float>(kCount, static_cast<float>(round)));
  }
  x = NDArray();
  current_engine().wait_all();
  CHECK(problems() == "");
}

TEST_CASE("streams are for arrays of a GPU, and errors of ops arrive") {
  const Theirs theirs;
  const NDArray here = ones({2});
  CHECK_THROWS_WITH_AS(
      order_before(here, theirs.handle()),
      doctest::Contains("order_before: the array is on cpu(0); streams are for arrays of a GPU"),
      InvalidArgument);
  CHECK_THROWS_AS(order_after(here, theirs.handle()), InvalidArgument);
  CHECK_THROWS_AS((void)ordered_stream(here), InvalidArgument);
  CHECK_THROWS_AS((void)to_dlpack(here, theirs.handle()), InvalidArgument);
  CHECK_THROWS_AS((void)gpu_of_memory(&here), InvalidArgument);
  const NDArray bad({2});
  array_push("bad", {}, {bad}, [](RunContext&) { throw std::runtime_error("the data are spoilt"); });
  const NDArray there = bad.copy_to(gpu(0));
  CHECK_THROWS_WITH(order_before(there, theirs.handle()), doctest::Contains("the data are spoilt"));
  CHECK_THROWS_WITH((void)to_dlpack(there, theirs.handle()), doctest::Contains("the data are spoilt"));
}

// Memory of a receiver, which its stream writes a while before it copies lent memory there.
struct Receiver {
  Receiver() { REQUIRE(cudaMalloc(&memory, kCount * sizeof(float)) == cudaSuccess); }
  ~Receiver() { cudaFree(memory); }
  void copy_later(const void* lent, cudaStream_t stream) const {
    for (int i = 0; i < 60; ++i) cudaMemsetAsync(memory, i, kCount * sizeof(float), stream);
    CHECK(cudaMemcpyAsync(memory, lent, kCount * sizeof(float), cudaMemcpyDefault, stream) == cudaSuccess);
  }
  void* memory = nullptr;
};

TEST_CASE("a loan ends behind the work of its receiver's stream") {
  const Theirs theirs;
  const Receiver receiver;
  const auto kept = [](float value) { return std::vector<float>(kCount, value); };
  for (const bool named : {true, false}) {  // without a name it is the legacy default stream
    CAPTURE(named);
    const cudaStream_t stream = named ? theirs.stream : nullptr;
    const auto lent = [&](const NDArray& x) { return named ? to_dlpack(x, theirs.handle()) : to_dlpack(x); };
    enum class Then { ends, moves, stays };
    for (const Then then : {Then::ends, Then::moves, Then::stays}) {
      CAPTURE(static_cast<int>(then));
      NDArray x = full({kCount}, 3, DType::f32, gpu(0));
      x.wait();
      heddle_dl_managed_tensor_versioned* const tensor = lent(x);
      receiver.copy_later(tensor->tensor.data, stream);
      const std::uint64_t before = host_waits();
      if (then == Then::ends) x = NDArray();
      if (then == Then::moves) {
        const NDArray here = zeros({kCount});
        here.wait();
        exchange_memory(x.storage(), here.storage());
      }
      tensor->deleter(tensor);
      CHECK(host_waits() == before);
      // Takes the memory that is free, or overwrites the array.
      then == Then::stays ? x.fill(-1) : full({kCount}, -1, DType::f32, gpu(0)).wait();
      current_engine().wait_all();
      CHECK(fetched(receiver.memory, stream) == kept(3));
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("a loan whose receiver has no stream, or one that is being captured or gone") {
  const Receiver receiver;
  auto theirs = std::make_unique<Theirs>();
  NDArray x = full({kCount}, 3, DType::f32, gpu(0));
  heddle_dl_managed_tensor_versioned* tensor = to_dlpack(x, theirs->handle());
  const cudaStream_t stream = theirs->stream;
  REQUIRE(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  tensor->deleter(tensor);
  cudaGraph_t graph = nullptr;
  CHECK(cudaStreamEndCapture(stream, &graph) == cudaSuccess);
  std::size_t nodes = 1;
  CHECK(cudaGraphGetNodes(graph, nullptr, &nodes) == cudaSuccess);
  CHECK(nodes == 0);
  cudaGraphDestroy(graph);
  CHECK((x + 1).to_vector<float>()[0] == 4);
  tensor = to_dlpack(x, theirs->handle());
  theirs.reset();
  tensor->deleter(tensor);
  CHECK((x + 1).to_vector<float>()[0] == 4);
  tensor = to_dlpack(x, kNoOrder);
  tensor->deleter(tensor);
  CHECK(cudaGetLastError() == cudaSuccess);
  CHECK(problems() == "");
}

TEST_CASE("a loan that ends after its engine waits for the receiver's work") {
  const Theirs theirs;
  const Receiver receiver;
  heddle_dl_managed_tensor_versioned* tensor = nullptr;
  {
    Engine engine({.workers = 1});
    const EngineScope scope(engine);
    tensor = to_dlpack(full({kCount}, 3, DType::f32, gpu(0)), theirs.handle());
  }
  receiver.copy_later(tensor->tensor.data, theirs.stream);
  tensor->deleter(tensor);
  CHECK(fetched(receiver.memory, theirs.stream) == std::vector<float>(kCount, 3));
  CHECK(problems() == "");
}

TEST_CASE("without a stream, ops on borrowed memory come after the work of the legacy default stream") {
  Lent lent;
  for (const bool copy : {false, true}) {
    for (int i = 0; i < 60; ++i) cudaMemsetAsync(lent.memory, 64 + i % 32, kCount * sizeof(float), nullptr);
    cudaMemsetAsync(lent.memory, 0, kCount * sizeof(float), nullptr);
    const NDArray x = from_dlpack(lent.tensor(), copy);
    CHECK((x + 2).to_vector<float>() == std::vector<float>(kCount, 2));
  }
  current_engine().wait_all();
  CHECK(lent.ended);
  CHECK(problems() == "");
}

TEST_CASE("a tensor without elements stays on its GPU") {
  Lent lent;
  lent.size = 0;
  const NDArray x = from_dlpack(lent.tensor());
  CHECK(x.device() == gpu(0));
  CHECK(x.shape() == Shape{0});
  CHECK(lent.ended);
  heddle_dl_managed_tensor_versioned* const tensor = to_dlpack(x);
  CHECK(tensor->tensor.device.type == HEDDLE_DL_CUDA);
  tensor->deleter(tensor);
  lent.tensor()->tensor.device.index = gpu_count();
  CHECK_THROWS_AS((void)from_dlpack(&lent.managed), InvalidArgument);
}

TEST_CASE("the interrupt check of a thread ends its wait for an order") {
  struct Interrupted {};
  const Theirs theirs;
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  const EngineScope scope(engine);
  std::atomic<bool> goes_on{false};
  const NDArray here({2});
  array_push("wait", {}, {here}, [&goes_on](RunContext&) { goes_on.wait(false); });
  const NDArray there = here.copy_to(gpu(0));
  set_interrupt_check([] { throw Interrupted(); });
  CHECK_THROWS_AS(order_before(there, theirs.handle()), Interrupted);
  CHECK_THROWS_AS((void)to_dlpack(there, theirs.handle()), Interrupted);
  CHECK_THROWS_AS((void)ordered_stream(there), Interrupted);
  CHECK_THROWS_AS((void)to_dlpack(here), Interrupted);
  set_interrupt_check(nullptr);
  goes_on = true;
  goes_on.notify_all();
  order_before(there, theirs.handle());
  engine.wait_all();
  CHECK(problems() == "");
}
