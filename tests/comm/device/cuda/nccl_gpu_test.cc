// The back end nccl with NCCL: one rank per GPU, each a thread with its own engine. With one GPU the
// communicator has one rank: everything is called, and nothing is sent.
#include <chrono>
#include <cstdio>
#include <cuda_runtime_api.h>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/communicator.h>
#include <heddle/stream_ops.h>

#include "device/device_ranks.h"
#include "files.h"
#include "ranks.h"

namespace heddle::test {
namespace {

using namespace std::chrono_literals;

void check(cudaError_t status) {
  if (status != cudaSuccess) throw std::runtime_error(cudaGetErrorString(status));
}

// An array on the communicator's GPU with these values. An op on the GPU's copy lanes fills it; nothing but
// the array orders that op before a collective.
NDArray on_gpu(const Communicator& comm, const std::vector<float>& values) {
  const std::size_t bytes = values.size() * sizeof(float);
  void* memory = nullptr;
  check(cudaSetDevice(comm.device().index));
  check(cudaMalloc(&memory, bytes ? bytes : 1));
  const std::shared_ptr<std::byte> lent(static_cast<std::byte*>(memory),
                                        [](std::byte* data) { cudaFree(data); });
  const NDArray array(std::make_shared<Storage>(comm.engine(), comm.device(), bytes, lent),
                      {static_cast<std::int64_t>(values.size())}, DType::f32);
  comm.engine().push_on(comm.engine().stream(comm.device(), Lane::copy_in),
                        [array, values](Stream& stream) {
                          stream.copy(array.storage()->device_data(), values.data(),
                                      values.size() * sizeof(float));
                        },
                        {.mutate = {array.var()}});
  return array;
}

std::vector<float> values_of(const NDArray& array) {
  std::vector<float> values(static_cast<std::size_t>(array.size()));
  const Var done = array.engine().new_var();
  array.engine().push_on(array.engine().stream(array.device(), Lane::copy_out),
                         [&](Stream& stream) {
                           stream.copy(values.data(), array.storage()->device_data(check::AccessKind::read),
                                       values.size() * sizeof(float));
                         },
                         {.read = {array.var()}, .mutate = {done}});
  array.engine().wait(done);
  return values;
}

std::vector<float> of(std::size_t count, double value) {
  return std::vector<float>(count, static_cast<float>(value));
}

void on_gpus(const std::function<void(Communicator&)>& body) {
  if (!comm_detail::nccl()) {
    std::printf("NOT RUN: %s\n", comm_detail::nccl_missing().c_str());  // tools/gpu-check reads it
    return;
  }
  const TemporaryDirectory directory;
  const int size = gpu_count();
  const std::string ranks = std::to_string(size) + (size == 1 ? " rank, NCCL " : " ranks, NCCL ");
  const std::string said = ranks + comm_detail::nccl()->version();
  MESSAGE(said);
  const Outcomes outcomes = on_threads(size, [&](int rank) {
    Engine engine;
    const EngineScope scope(engine);
    CommOptions options{.backend = "nccl"};
    options.engine = &engine;
    body(*Communicator::create(options, {rank, size, rank, size, "unix:" + directory.file("ranks")}));
  });
  for (const std::exception_ptr& error : outcomes) CHECK(text_of(error) == "");
}

}  // namespace

TEST_CASE("nccl on GPUs: every call") {
  on_gpus([](Communicator& comm) {
    const int rank = comm.rank(), size = comm.size();
    CHECK(comm.device() == gpu(rank));
    const double sum = size * (size + 1) / 2;
    for (const std::size_t count : {std::size_t{3}, std::size_t{1 << 20}}) {
      const auto all_count = count * static_cast<std::size_t>(size);
      const NDArray data = on_gpu(comm, of(count, rank + 1)), out = on_gpu(comm, of(count, 0));
      const NDArray all = on_gpu(comm, of(all_count, 0)), swapped = on_gpu(comm, of(all_count, 0));
      comm.all_reduce(data, out);
      CHECK(values_of(out) == of(count, sum));
      comm.all_reduce(data, out, ReduceOp::avg);
      CHECK(values_of(out) == of(count, sum / size));
      comm.all_reduce(data, out, ReduceOp::max);
      CHECK(values_of(out) == of(count, size));
      comm.all_gather(data, all);
      CHECK(values_of(all).back() == static_cast<float>(size));
      comm.reduce_scatter(all, out);
      CHECK(values_of(out) == of(count, (rank + 1) * size));
      comm.all_to_all(all, swapped);
      CHECK(values_of(swapped) == of(all_count, rank + 1));
      comm.broadcast(data, size - 1);
      CHECK(values_of(data) == of(count, size));
      comm.reduce(data, 0);
      CHECK(values_of(data) == of(count, rank == 0 ? size * size : size));
    }
    comm.barrier();
    comm.wait();
  });
}

TEST_CASE("nccl on GPUs: many calls in a row are ordered by the streams alone") {
  on_gpus([](Communicator& comm) {
    const NDArray data = on_gpu(comm, of(1 << 16, 1));
    for (int i = 0; i < 100; ++i) comm.all_reduce(data, ReduceOp::avg);
    comm.all_reduce(data);
    CHECK(values_of(data) == of(1 << 16, comm.size()));
  });
}

TEST_CASE("nccl on GPUs: abort ends what waits, and shrink makes a communicator that works") {
  on_gpus([](Communicator& comm) {
    const NDArray data = on_gpu(comm, of(16, 1));
    comm.all_reduce(data);
    data.wait();
    comm.barrier();
    comm.wait();
    // The other ranks wait for rank 0, which aborts instead of calling. A single rank has nothing to wait
    // for.
    const NDArray late = on_gpu(comm, of(16, 1));
    if (comm.rank() > 0) comm.all_reduce(late);
    if (comm.rank() == 0) comm.abort("enough");
    const auto rest = comm.shrink();
    const NDArray again = on_gpu(*rest, of(16, 1));
    rest->all_reduce(again);
    CHECK(values_of(again) == of(16, rest->size()));
    if (comm.rank() > 0) CHECK_THROWS_AS(late.wait(), CommAborted);
  });
}

TEST_CASE("nccl on GPUs: ranks that call different things hear of it") {
  if (gpu_count() == 1) return;
  on_gpus([](Communicator& comm) {
    const NDArray data = on_gpu(comm, of(16, 1)),
                  all = on_gpu(comm, of(16 * static_cast<std::size_t>(comm.size()), 1));
    comm.rank() == 0 ? comm.all_reduce(data) : comm.all_gather(data, all);
    CHECK_THROWS_AS((comm.rank() == 0 ? data : all).wait(), CommMismatch);
  });
}

TEST_CASE("an array on a GPU is out of the CPU's reach") {
  Engine engine;
  void* memory = nullptr;
  check(cudaMalloc(&memory, 16));
  const std::shared_ptr<std::byte> lent(static_cast<std::byte*>(memory),
                                        [](std::byte* data) { cudaFree(data); });
  const NDArray array(std::make_shared<Storage>(engine, gpu(), std::size_t{16}, lent), {4}, DType::f32);
  array.fill(1);
  CHECK_THROWS_AS(array.wait(), Error);
}

}  // namespace heddle::test
