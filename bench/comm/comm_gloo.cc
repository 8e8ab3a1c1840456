// A rank of comm_bench on Gloo, over its TCP transport on the loopback device.
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/barrier.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/transport/tcp/device.h>

#include "comm/comm_rank.h"

namespace {

using namespace heddle::bench;

class Gloo : public CommLibrary {
 public:
  explicit Gloo(const RankArguments& arguments) {
    gloo::transport::tcp::attr loopback;
    loopback.iface = "lo";
    std::filesystem::create_directories(arguments.meeting);
    gloo::rendezvous::FileStore store(arguments.meeting);
    auto context = std::make_shared<gloo::rendezvous::Context>(arguments.rank, arguments.size);
    std::shared_ptr<gloo::transport::Device> device = gloo::transport::tcp::CreateDevice(loopback);
    context->connectFullMesh(store, device);
    context_ = context;
  }

  int rank() const override { return context_->rank; }
  int size() const override { return context_->size; }

  void barrier() override {
    gloo::BarrierOptions options(context_);
    gloo::barrier(options);
  }

  CommJob prepare(const CommTask& task) override {
    if (task.collective != "all_reduce") throw std::runtime_error("only all_reduce is measured with Gloo");
    auto memory = std::make_shared<CommBuffers>(task, size());
    float* data = memory->out();
    return {data, data, [memory, call = call_of(task, data)] { call(); }};
  }

 private:
  std::function<void()> call_of(const CommTask& task, float* data) {
    using Options = gloo::AllreduceOptions;
    if (task.variant == "ring") return with_options(Options::Algorithm::RING, data, task.count);
    if (task.variant == "bcube") return with_options(Options::Algorithm::BCUBE, data, task.count);
    const auto count = static_cast<int>(task.count);
    if (task.variant == "ring_chunked") {
      return with_object<gloo::AllreduceRingChunked<float>>(data, count);
    }
    if (task.variant == "halving_doubling") {
      return with_object<gloo::AllreduceHalvingDoubling<float>>(data, count);
    }
    throw std::runtime_error("Gloo has no " + task.variant);
  }

  std::function<void()> with_options(gloo::AllreduceOptions::Algorithm algorithm, float* data,
                                     std::size_t count) {
    auto options = std::make_shared<gloo::AllreduceOptions>(context_);
    options->setAlgorithm(algorithm);
    options->setOutput(data, count);
    using Sum = void (*)(void*, const void*, const void*, std::size_t);
    options->setReduceFunction(static_cast<Sum>(&gloo::sum<float>));
    return [options] { gloo::allreduce(*options); };
  }

  template <class Algorithm> std::function<void()> with_object(float* data, int count) {
    auto algorithm = std::make_shared<Algorithm>(context_, std::vector<float*>{data}, count);
    return [algorithm] { algorithm->run(); };
  }

  std::shared_ptr<gloo::Context> context_;
};

}  // namespace

int main(int argc, char** argv) {
  return run_rank(argc, argv, [](const RankArguments& arguments) {
    Gloo library(arguments);
    serve(library, arguments);
  });
}
