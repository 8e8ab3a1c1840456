#include "array_program.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <stdexcept>
#include <thread>

#include <heddle/array_op.h>
#include <heddle/autograd.h>
#include <heddle/elementwise.h>
#include <heddle/gpu_memory.h>
#include <heddle/ndarray.h>
#include <heddle/stream_ops.h>

#include "compare.h"
#include "problems.h"

namespace heddle::test {
namespace {

constexpr int kOnCpu = -1;

// An array, and the device that it has where programs run on GPUs.
struct Placed {
  NDArray array;
  int device = kOnCpu;
};

// What all threads of a run have.
struct Common {
  const ArrayProgram& program;
  Engine& engine;
  bool on_gpus;

  Device device(int number) const { return on_gpus && number != kOnCpu ? gpu(number) : cpu(); }
};

std::uint64_t below(Random& random, std::uint64_t n) { return random() % n; }

// The bytes of the values, where NaN has one form: IEEE leaves its bits open.
std::string line_of(const NDArray& x) {
  const NDArray here = x.detach().copy_to(cpu());
  std::uint64_t hash = 14695981039346656037ULL;
  std::string first;
  visit_dtype(here.dtype(), [&]<class T>() {
    for (const auto value : here.to_vector<T>()) {
      double number = static_cast<double>(value);
      if (std::isnan(number)) number = NAN;
      std::uint64_t bits;
      std::memcpy(&bits, &number, sizeof bits);
      if constexpr (std::is_integral_v<T>) bits = static_cast<std::uint64_t>(value);
      hash = (hash ^ bits) * 1099511628211ULL;
      hash ^= hash >> 29;
      if (first.size() < 40) first += " " + std::to_string(number);
    }
  });
  return std::string(name_of(here.dtype())) + " " + here.shape().to_string() + " #" + std::to_string(hash) +
         first;
}

template <class F> std::string text_of(F&& call) {
  try {
    return call();
  } catch (const std::exception& error) {
    return std::string("error: ") + error.what();
  }
}

// A view of x, or x.
NDArray some_view(Random& random, const NDArray& x) {
  if (x.ndim() == 0) return x;
  const int axis = static_cast<int>(below(random, static_cast<std::uint64_t>(x.ndim())));
  switch (below(random, 7)) {
    case 0:
      return x.slice(axis, {.step = 2});
    case 1:
      return x.slice(axis, {.begin = 1});
    case 2:
      return x.slice(axis, {.step = -1});
    case 3:
      return x.ndim() == 2 ? x.permuted({1, 0}) : x;
    case 4:
      return x.size(0) > 0 ? x[-1] : x;
    case 5:
      return x.slice(axis, {.begin = 0, .end = 1});
    default:
      return x;
  }
}

NDArray values_for(Random& random, const ArrayProgram& program, DType dtype) {
  const Shape shapes[] = {{program.rows, program.columns},
                          {program.rows, program.columns},
                          {program.columns},
                          {program.rows, 1},
                          {1, program.columns},
                          {}};
  return random_values(random, shapes[below(random, std::size(shapes))], dtype);
}

class HostThread {
 public:
  HostThread(const Common& common, std::vector<Placed> shared) : common_(common), slots_(std::move(shared)) {
    slots_.resize(kSlots);
  }

  void run(const std::vector<Step>& steps) {
    const EngineScope scope(common_.engine);
    for (const Step& step : steps) {
      const std::string refusal = text_of([&] { return act(step), std::string(); });
      if (!refusal.empty()) log_.push_back(refusal);
    }
  }

  // The lines of what was read, and of all slots. Ends the arrays.
  std::vector<std::string> finish() {
    const EngineScope scope(common_.engine);
    for (Placed& slot : slots_) {
      if (!slot.array.defined()) continue;
      log_.push_back(text_of([&] { return line_of(slot.array); }));
      slot = {};
    }
    return std::move(log_);
  }

 private:
  void act(const Step& step);
  NDArray moved(const Placed& from, int device) const {
    return from.device == device ? from.array : from.array.copy_to(common_.device(device));
  }
  void set(const Step& step, const NDArray& array, int device) {
    slots_[static_cast<std::size_t>(step.to)] = {array, device};
  }
  int some_device(Random& random) const {
    const auto& gpus = common_.program.gpus;
    return below(random, 4) == 0 ? kOnCpu : gpus[below(random, gpus.size())];
  }
  bool is_shared(const NDArray& array) const {
    return std::any_of(slots_.begin(), slots_.begin() + kShared,
                       [&](const Placed& shared) { return shared.array.storage() == array.storage(); });
  }
  void create(const Step& step, Random& random);
  void gradient(const Step& step, Random& random, const Placed& a, const Placed& b);
  void host_op(const Placed& to, const Placed& a);
  void fail(const Step& step, Random& random, const Placed& to);

  const Common& common_;
  std::vector<Placed> slots_;
  std::vector<std::string> log_;
};

void HostThread::create(const Step& step, Random& random) {
  const int number = some_device(random);
  const Device device = common_.device(number);
  const DType dtype = random_dtype(random);
  const Shape shape{common_.program.rows, common_.program.columns};
  switch (below(random, 5)) {
    case 0:
      return set(step, full(shape, static_cast<double>(below(random, 100)) / 4, dtype, device), number);
    case 1:
      return set(step, arange(common_.program.columns, dtype, device), number);
    case 2:
      return set(step, zeros(shape, dtype, device), number);
    default:
      return set(step, values_for(random, common_.program, dtype).copy_to(device), number);
  }
}

void HostThread::gradient(const Step& step, Random& random, const Placed& a, const Placed& b) {
  if (!is_floating(a.array.dtype())) return;
  NDArray x = a.array.detach(), w = x * 0.5;
  if (b.array.shape() == x.shape() && b.array.dtype() == x.dtype()) w = moved(b, a.device).detach();
  x.set_requires_grad();
  w.set_requires_grad();
  NDArray y = relu(x) * w - square(x);
  if (below(random, 3) == 0) {
    const Device other = common_.device(some_device(random));
    y = (y.copy_to(other) * 3).copy_to(x.device()) + x;
  }
  if (below(random, 3) == 0) y = maximum(y, x / 3) + abs(w) * 0.5;
  y.backward(ones(y.shape(), y.dtype(), y.device()));
  set(step, below(random, 2) ? x.grad() : w.grad(), a.device);
}

// 2 to + a, in place. Both have f32 without gaps.
void HostThread::host_op(const Placed& to, const Placed& a) {
  for (const Placed* of : {&to, &a}) {
    if (of->device != kOnCpu || of->array.dtype() != DType::f32 || !of->array.is_contiguous()) return;
  }
  if (to.array.size() == 0 || a.array.size() == 0) return;
  common_.engine.push(
      [to = to.array.detach(), a = a.array.detach()] {
        float* values = to.data<float>();
        const float addend = a.data<const float>()[a.size() - 1];
        for (std::int64_t i = 0; i < to.size(); ++i) values[i] = 2 * values[i] + addend;
      },
      {.read = {a.array.var(), to.array.var()}, .mutate = {to.array.var()}, .name = "host_op"});
}

void HostThread::fail(const Step& step, Random& random, const Placed& to) {
  const std::string text = "step with seed " + std::to_string(step.seed) + " fails";
  const std::uint64_t way = below(random, 3);
  array_push("fail", {}, {to.array}, [text, way](const KernelContext& context) {
    const auto throws = [text] { throw std::runtime_error(text); };
    if (!context.on_stream() || way == 0) throws();
    way == 1 ? context.stream().enqueue(throws) : context.stream().check_when_done(throws);
  });
}

void HostThread::act(const Step& step) {
  Random random(step.seed);
  const Placed to = slots_[static_cast<std::size_t>(step.to)], a = slots_[static_cast<std::size_t>(step.a)],
               b = slots_[static_cast<std::size_t>(step.b)];
  const bool has_to = to.array.defined(), has_a = a.array.defined(), has_b = b.array.defined();
  const bool may_change = has_to && !is_shared(to.array);
  const auto b_here = [&] { return moved(b, a.device); };
  switch (step.action) {
    case Action::create:
      return create(step, random);
    case Action::unary: {
      constexpr NDArray (*kOps[])(const NDArray&, Where) = {negative, abs, square, relu, sqrt};
      if (has_a) set(step, kOps[below(random, std::size(kOps))](a.array, Where::current()), a.device);
      return;
    }
    case Action::binary: {
      constexpr NDArray (*kOps[])(const Operand&, const Operand&, Where) = {
          add, subtract, multiply, divide, maximum, minimum, less, equal, not_equal};
      if (has_a && has_b)
        set(step, kOps[below(random, std::size(kOps))](a.array, b_here(), Where::current()), a.device);
      return;
    }
    case Action::number: {
      constexpr NDArray (*kOps[])(const Operand&, const Operand&, Where) = {add, subtract, multiply, maximum};
      const auto op = kOps[below(random, std::size(kOps))];
      const Scalar value = below(random, 2) ? Scalar(3) : Scalar(0.75);
      if (has_a) set(step, op(a.array, value, Where::current()), a.device);
      return;
    }
    case Action::select:
      if (has_a && has_b) set(step, where(a.array < b_here(), a.array, 2), a.device);
      return;
    case Action::view:
      if (has_a) set(step, some_view(random, a.array), a.device);
      return;
    case Action::assign:
      if (may_change && has_a) some_view(random, to.array).assign(a.array);
      return;
    case Action::fill:
      if (may_change) some_view(random, to.array).fill(static_cast<std::int64_t>(below(random, 100)));
      return;
    case Action::in_place:
      if (may_change && has_a) some_view(random, to.array) += moved(a, to.device);
      return;
    case Action::copy_to: {
      const int number = some_device(random);
      if (has_a) set(step, a.array.copy_to(common_.device(number)), number);
      return;
    }
    case Action::astype:
      if (has_a) set(step, a.array.astype(random_dtype(random)), a.device);
      return;
    case Action::copy:
      if (has_a) set(step, a.array.copy(), a.device);
      return;
    case Action::read:
      if (has_a) log_.push_back(text_of([&] { return line_of(a.array); }));
      return;
    case Action::drop:
      return set(step, {}, kOnCpu);
    case Action::gradient:
      if (has_a && has_b) gradient(step, random, a, b);
      return;
    case Action::host_op:
      if (may_change && has_a) host_op(to, a);
      return;
    case Action::fail:
      if (may_change) fail(step, random, to);
      return;
    case Action::wait:
      if (has_to) to.array.wait();
      return;
    case Action::wait_all:
      try {
        common_.engine.wait_all();
      } catch (const AggregateError&) {  // of any thread's arrays
      }
  }
}

std::vector<Placed> shared_arrays(const Common& common) {
  Random random(common.program.seed);
  std::vector<Placed> shared;
  for (int i = 0; i < kShared; ++i) {
    const int number = common.program.gpus[static_cast<std::size_t>(i) % common.program.gpus.size()];
    const NDArray values = values_for(random, common.program, i == 0 ? DType::f32 : random_dtype(random));
    shared.push_back({values.copy_to(common.device(number)), number});
  }
  return shared;
}

std::vector<std::string> run_threads(const Common& common) {
  std::vector<HostThread> hosts;
  {
    const EngineScope scope(common.engine);
    const std::vector<Placed> shared = shared_arrays(common);
    for (std::size_t i = 0; i < common.program.threads.size(); ++i) hosts.emplace_back(common, shared);
  }
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < hosts.size(); ++i) {
    const auto work = [&, i] { hosts[i].run(common.program.threads[i]); };
    if (common.on_gpus) {
      threads.emplace_back(work);
    } else {
      work();
    }
  }
  for (std::thread& thread : threads) thread.join();
  std::vector<std::string> lines;
  for (HostThread& host : hosts) {
    for (std::string& line : host.finish()) lines.push_back(std::move(line));
  }
  return lines;
}

std::vector<std::size_t> memory_in_use(const ArrayProgram& program) {
  std::vector<std::size_t> bytes;
  for (const int number : program.gpus) bytes.push_back(gpu_memory_stats(gpu(number)).in_use);
  bytes.push_back(gpu_memory_stats(cpu_pinned()).in_use);
  return bytes;
}

}  // namespace

ArrayProgram random_array_program(std::uint64_t seed, int steps, int gpus) {
  Random random(seed * 77 + 5);
  ArrayProgram program;
  program.seed = seed;
  constexpr std::int64_t kSizes[] = {1, 2, 3, 5, 31, 33, 40};
  program.rows = kSizes[below(random, 5)];
  program.columns = kSizes[below(random, std::size(kSizes))];
  if (below(random, 30) == 0) program.columns = 0;
  for (std::uint64_t i = 1 + below(random, 3); i > 0; --i)
    program.gpus.push_back(static_cast<int>(below(random, static_cast<std::uint64_t>(gpus))));
  // How often each action is drawn, in the order of Action.
  constexpr int kWeights[] = {14, 7, 12, 5, 3, 8, 8, 4, 7, 12, 5, 3, 2, 5, 3, 4, 1, 1, 1};
  std::discrete_distribution<int> action(std::begin(kWeights), std::end(kWeights));
  program.threads.resize(1 + below(random, 3));
  for (std::vector<Step>& thread : program.threads) {
    for (std::size_t i = 0; i < static_cast<std::size_t>(steps) / program.threads.size(); ++i) {
      const auto slot = [&] { return static_cast<int>(below(random, kSlots)); };
      const int to = kShared + static_cast<int>(below(random, kSlots - kShared));
      thread.push_back(
          {i < 4 ? Action::create : static_cast<Action>(action(random)), to, slot(), slot(), random()});
    }
  }
  return program;
}

std::string to_string(const ArrayProgram& program) {
  constexpr const char* kNames[] = {"create",   "unary",    "binary",  "number", "select",  "view", "assign",
                                    "fill",     "in_place", "copy_to", "astype", "copy",    "read", "drop",
                                    "gradient", "host_op",  "fail",    "wait",   "wait_all"};
  std::string text = std::to_string(program.rows) + " x " + std::to_string(program.columns) + ", GPUs";
  for (const int number : program.gpus) text += " " + std::to_string(number);
  for (std::size_t i = 0; i < program.threads.size(); ++i) {
    for (const Step& step : program.threads[i]) {
      text += "\n  {Action::" + std::string(kNames[static_cast<int>(step.action)]) + ", " +
              std::to_string(step.to) + ", " + std::to_string(step.a) + ", " + std::to_string(step.b) + ", " +
              std::to_string(step.seed) + "u},  // thread " + std::to_string(i);
    }
  }
  return text;
}

std::vector<std::string> run_array_program(const ArrayProgram& program, const EngineOptions& options,
                                           bool on_gpus, std::string& problem) {
  const std::vector<std::size_t> in_use = memory_in_use(program);
  const std::uint64_t waits = host_waits();
  std::vector<std::string> lines;
  {
    Engine engine(options);
    lines = run_threads({program, engine, on_gpus});
    try {
      engine.wait_all();
    } catch (const AggregateError&) {  // the lines have the errors
    }
    if (host_waits() != waits) problem += "the host has waited for a GPU\n";
    if (memory_in_use(program) != in_use) problem += "memory is still in use\n";
  }
  return lines;
}

}  // namespace heddle::test
