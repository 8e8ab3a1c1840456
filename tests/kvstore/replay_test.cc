// A run with bounded staleness, repeated serially: in the order in which the server counted pushes and
// answered pulls, one optimizer and the workers' own gradients give all pulled values bit for bit. So runs
// differ only by that order, and the order keeps the staleness bound.
#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "arguments.h"
#include "client/dist_store.h"
#include "server/recording_server.h"

using namespace heddle;
using test::StoreEvent;

namespace {

constexpr std::int64_t kRows = 8, kIn = 12, kHidden = 16, kClasses = 4;
const OptimizerParams kParams{{"lr", 0.1}, {"momentum", 0.9}, {"weight_decay", 5e-4}};

Sequential make_net() {
  Generator generator(7);
  return Sequential{Dense(kIn, kHidden, {.relu = true}, generator), Dense(kHidden, kClasses, {}, generator)};
}

Schedule make_schedule() { return warm_up(5, constant_schedule(0.1)); }

// The loss of a worker's step; rank and step determine its data.
NDArray loss_of(Sequential& net, int rank, std::int64_t step) {
  std::mt19937_64 random(static_cast<std::uint64_t>(rank * 100'000 + step));
  std::vector<float> x;
  std::vector<std::int64_t> labels;
  for (std::int64_t row = 0; row < kRows; ++row) {
    labels.push_back(static_cast<std::int64_t>(random() % kClasses));
    for (std::int64_t i = 0; i < kIn; ++i)
      x.push_back(static_cast<float>(random() % 1000) / 1000 + (i % kClasses == labels.back() ? 1.0f : 0.0f));
  }
  return cross_entropy(net(array(x, {kRows, kIn})), array(labels, {kRows}));
}

void train(int rank, int workers, std::int64_t steps, const std::string& type, const std::string& address) {
  Engine engine({.workers = 2});
  const EngineScope scope(engine);
  std::mt19937_64 random(static_cast<std::uint64_t>(rank));
  Sequential net = make_net();
  const kv_detail::ClientOptions options{
      .servers = {address}, .consistency = type.substr(5), .rank = rank, .workers = workers};
  DistStore store(type, options);
  const std::vector<Parameter> parameters = net.parameters();
  for (std::size_t i = 0; i < parameters.size(); ++i)
    store.broadcast(i, parameters[i].value, {{parameters[i].value}});
  store.set_optimizer("sgd", kParams);
  const Schedule schedule = make_schedule();
  for (std::int64_t step = 0; step < steps; ++step) {
    backward(loss_of(net, rank, step), full({}, 1.0 / workers));
    // Pushes key by key, since the pushes of a list would be one request.
    for (std::size_t i = parameters.size(); i-- > 0;)
      store.push(i, grad(parameters[i].value), {.lr = schedule(step)});
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      store.pull(i, parameters[i].value);
      clear_grad(parameters[i].value);
    }
    // Pauses for a random time, so that different workers are ahead at different times.
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 1000));
  }
  for (const Parameter& parameter : parameters) parameter.value.wait();
}

// What the serial run repeats of a worker: its network, steps and gradients.
struct Replica {
  Sequential net = make_net();
  std::int64_t step = 0;  // number of steps whose gradients have been computed
  std::vector<NDArray> gradients{};
  void compute(int rank) {
    backward(loss_of(net, rank, step++), full({}, 1.0 / workers));
    gradients.clear();
    for (const Parameter& parameter : net.parameters()) {
      gradients.push_back(grad(parameter.value).copy());
      clear_grad(parameter.value);
    }
  }
  int workers;
  explicit Replica(int count) : workers(count) {}
};

std::vector<std::byte> bytes_of(const NDArray& array) {
  const std::size_t bytes = static_cast<std::size_t>(array.size()) * size_of(array.dtype());
  const auto* first = array.data<const std::byte>();
  return {first, first + bytes};
}

void check_bound(const std::vector<std::vector<std::uint64_t>>& pushes, const StoreEvent& pull,
                 std::uint64_t slack) {
  CHECK(pushes[pull.rank][pull.key] >= pull.clock);
  for (const auto& of_worker : pushes) CHECK(of_worker[pull.key] + slack >= pull.clock);
}

// Repeats the recorded events serially and compares all values. Returns the number of pulls that saw fewer
// pushes of some worker than the pulling worker had made.
int replay(const std::vector<StoreEvent>& events, int workers, std::uint64_t slack) {
  Engine engine({.scheduler = Scheduler::naive});
  const EngineScope scope(engine);
  std::vector<NDArray> stored;
  for (const Parameter& parameter : make_net().parameters())
    stored.push_back(parameter.value.detach().copy());
  std::vector<std::unique_ptr<Replica>> replicas;
  for (int rank = 0; rank < workers; ++rank) replicas.push_back(std::make_unique<Replica>(workers));
  std::vector<std::vector<std::uint64_t>> pushes(static_cast<std::size_t>(workers),
                                                 std::vector<std::uint64_t>(stored.size()));
  const auto optimizer = create_optimizer("sgd", kParams);
  const Schedule schedule = make_schedule();
  int stale = 0;
  for (const StoreEvent& event : events) {
    Replica& replica = *replicas[event.rank];
    NDArray& value = stored[event.key];
    if (event.push) {
      REQUIRE(event.clock == ++pushes[event.rank][event.key]);
      if (static_cast<std::uint64_t>(replica.step) < event.clock)
        replica.compute(static_cast<int>(event.rank));
      REQUIRE(event.value == bytes_of(replica.gradients[event.key]));
      optimizer->update(event.key, value, replica.gradients[event.key],
                        {.lr = schedule(static_cast<std::int64_t>(event.clock) - 1)});
    } else {
      REQUIRE(event.value == bytes_of(value));
      check_bound(pushes, event, slack);
      stale += std::any_of(pushes.begin(), pushes.end(),
                           [&](const auto& one) { return one[event.key] < event.clock; });
      NDArray target = replica.net.parameters()[event.key].value.detach();
      target.assign(value);
    }
  }
  return stale;
}

}  // namespace

TEST_CASE(
    "dist store: a run with bounded staleness is a serial run in the order of the server, bit for bit") {
  const long long steps = test::argument("steps", test::kSanitized ? 15 : 60);
  constexpr std::uint64_t kUnbounded = 1 << 20;
  for (const auto& [type, slack] : {std::pair<std::string, std::uint64_t>{"dist_ssp:2", 2},
                                    {"dist_ssp:0", 0},
                                    {"dist_async", kUnbounded}}) {
    for (const int workers : {2, 3}) {
      CAPTURE(type);
      CAPTURE(workers);
      test::RecordingServer server;
      std::vector<std::thread> threads;
      for (int rank = 0; rank < workers; ++rank)
        threads.emplace_back([&, rank, type = type] { train(rank, workers, steps, type, server.address); });
      for (std::thread& thread : threads) thread.join();
      server.stop();
      const auto is_push = [](const StoreEvent& one) { return one.push; };
      CHECK(std::count_if(server.events.begin(), server.events.end(), is_push) == 4 * workers * steps);
      const int stale = replay(server.events, workers, slack);
      if (slack == 0) CHECK(stale == 0);
    }
  }
}
