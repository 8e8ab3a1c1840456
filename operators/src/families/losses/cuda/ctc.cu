// The loss of connectionist temporal classification on a GPU. A block computes the states of a sequence from the first step on (alpha),
// another one from the last step back (beta); both together give the probabilities of states. Sums have a fixed order.
#include <cmath>
#include <limits>
#include <type_traits>

#include "cuda/report.h"
#include "cuda/team.h"
#include "families/losses/cuda/ctc.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

constexpr double kNever = -std::numeric_limits<double>::infinity();
constexpr int kPadding = 2;  // elements on both sides of a row of states, which never occur

struct Sequences {
  CtcShape shape;
  FaultSlot* fault;

  HEDDLE_DEVICE void refuse(on_gpu::Thread& thread, long long place, int kind, long long value) const {
    if (fault) report(thread, fault, place, static_cast<unsigned long long>(value), kind);
  }
  HEDDLE_DEVICE static bool within(long long value, long long most) { return value >= 0 && value <= most; }
  HEDDLE_DEVICE long long length(long long n) const {
    const long long given = shape.target_lengths[n];
    return within(given, shape.longest) ? given : 0;
  }

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, {1, true});
    const long long n = thread.block_index().x, places = ctc_places(shape);
    long long sum = 0;
    if (shape.flat)
      for (long long i = thread.rank(); i < n; i += thread.size()) sum += length(i);
    const long long before = shape.flat ? team.all(sum, Plus{}) : n * shape.longest;
    const long long own = length(n), steps = shape.input_lengths[n];
    const bool fits = before + own <= shape.labels;
    bool bad = !within(shape.target_lengths[n], shape.longest) || !within(steps, shape.steps) || !fits;
    for (long long i = thread.rank(); fits && i < own; i += thread.size()) {
      const long long label = shape.targets[before + i];
      if (within(label, shape.classes - 1) && label != shape.blank) continue;
      bad = true;
      refuse(thread, n * places + kCtcLabel + i, kCtcLabel, label);
    }
    bad = thread.barrier_or(bad);
    if (thread.rank() != 0) return;
    const long long first_state =
        shape.flat ? shape.steps * (2 * before + n) : n * shape.steps * (2 * shape.longest + 1);
    shape.sequences[n] =
        bad ? CtcSequence{0, 0, before, first_state} : CtcSequence{steps, own, before, first_state};
    if (!within(shape.target_lengths[n], shape.longest))
      refuse(thread, n * places, kCtcTargetLength, shape.target_lengths[n]);
    else if (!within(steps, shape.steps))
      refuse(thread, n * places + kCtcInputLength, kCtcInputLength, steps);
    else if (!fits)
      refuse(thread, n * places + kCtcLargeSum, kCtcLargeSum, before + own);
    if (shape.flat && n == shape.batch - 1 && before + own != shape.labels)
      refuse(thread, shape.batch * places, kCtcSum, before + own);
  }
};

// A logarithm with its derivative along a direction.
struct Dual {
  double value, tangent;
};
HEDDLE_DEVICE Dual operator+(Dual a, Dual b) { return {a.value + b.value, a.tangent + b.tangent}; }
HEDDLE_DEVICE Dual operator+(Dual a, double b) { return {a.value + b, a.tangent}; }
HEDDLE_DEVICE double value_of(double a) { return a; }
HEDDLE_DEVICE double value_of(Dual a) { return a.value; }
template <class Number> HEDDLE_DEVICE Number number_of(double value) {
  if constexpr (std::is_same_v<Number, Dual>)
    return {value, 0};
  else
    return value;
}

// log(e^a + e^b + e^c), as on the CPU. With T = float what is added to the greatest is computed in f32.
template <class T> HEDDLE_DEVICE double log_sum(double a, double b, double c) {
  const double ab = a < b ? b : a, most = ab < c ? c : ab, middle = most == kNever ? 0 : most;
  const T sum = std::exp(static_cast<T>(a - middle)) + std::exp(static_cast<T>(b - middle)) +
                std::exp(static_cast<T>(c - middle));
  return most + static_cast<double>(std::log(sum));
}
template <class T> HEDDLE_DEVICE Dual log_sum(Dual a, Dual b, Dual c) {
  const double ab = a.value < b.value ? b.value : a.value, most = ab < c.value ? c.value : ab;
  if (most == kNever) return {kNever, 0};
  const double x = std::exp(a.value - most), y = std::exp(b.value - most), z = std::exp(c.value - most);
  const double sum = x + y + z;
  return {most + std::log(sum), (x * a.tangent + y * b.tangent + z * c.tangent) / sum};
}

template <class T, class Number> struct Chain {
  CtcShape shape;
  CtcRows rows;
  CtcChains chains;

  // The chain of states of this block.
  struct States {
    CtcSequence sequence;
    long long n, count;
    const long long* labels;
    bool back;  // from the last step to the first
  };
  HEDDLE_DEVICE Number emission(const States& of, long long t, long long s) const {
    const long long label = s % 2 == 0 ? shape.blank : of.labels[s / 2];
    const long long at = (t * shape.batch + of.n) * shape.classes + label;
    const double value = static_cast<double>(static_cast<const T*>(chains.x)[at]);
    if constexpr (std::is_same_v<Number, Dual>)
      return {value, static_cast<double>(static_cast<const T*>(chains.u)[at])};
    else
      return value;
  }
  // 0 if the label of state s may follow that of s - 2 directly, else that never occurs.
  HEDDLE_DEVICE static double skip(const States& of, long long s) {
    return s % 2 == 1 && s > 1 && s < of.count && of.labels[s / 2] != of.labels[s / 2 - 1] ? 0 : kNever;
  }

  HEDDLE_DEVICE Number leading(const States& of, const Number* row, long long s) const {
    if (of.back) return log_sum<T>(row[s], row[s + 1], row[s + 2] + skip(of, s + 2));
    return log_sum<T>(row[s], row[s - 1], row[s - 2] + skip(of, s));
  }

  // Computes the steps, and returns the row of the last one. `two` is memory of two rows.
  HEDDLE_DEVICE const Number* run(on_gpu::Thread& thread, const States& of, Number* two) const {
    const long long width = of.count + 2 * kPadding, steps = of.sequence.steps, own = thread.rank();
    for (long long i = own; i < 2 * width; i += thread.size()) two[i] = number_of<Number>(kNever);
    thread.barrier();
    auto* const kept = static_cast<Number*>(of.back ? chains.beta : chains.alpha);
    Number* row = two + kPadding;
    Number ahead = own < of.count ? emission(of, of.back ? steps - 1 : 0, own) : Number{};
    for (long long step = 0; step < steps; ++step) {
      const Number* const before = row;
      row = two + step % 2 * width + kPadding;
      const long long t = of.back ? steps - 1 - step : step;
      const Number loaded = ahead;
      if (own < of.count && step + 1 < steps) ahead = emission(of, of.back ? t - 1 : t + 1, own);
      for (long long s = own; s < of.count; s += thread.size()) {
        const bool begins = of.back ? s >= of.count - 2 : s < 2;
        const Number reached = step > 0 ? leading(of, before, s) : number_of<Number>(begins ? 0 : kNever);
        const Number behind = reached + (s == own ? loaded : emission(of, t, s));
        row[s] = behind;
        if (kept) kept[of.sequence.first_state + t * of.count + s] = of.back ? reached : behind;
      }
      thread.barrier();
    }
    return row;
  }

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long n = thread.block_index().x;
    const CtcSequence sequence = shape.sequences[n];
    const States of{sequence, n, sequence.states(), shape.targets + sequence.first_label,
                    thread.block_index().y == 1};
    const long long bytes = 2 * (of.count + 2 * kPadding) * static_cast<long long>(sizeof(Number));
    const long long block = 2 * n + thread.block_index().y;
    Number* const two = bytes <= rows.shared_bytes ? thread.dynamic_shared<Number>()
                                                   : reinterpret_cast<Number*>(rows.rows + block * rows.room);
    const Number never = number_of<Number>(kNever);
    Number total = number_of<Number>(of.count == 1 ? 0 : kNever);
    if (sequence.steps > 0) {
      const Number* const row = run(thread, of, two);
      total = log_sum<T>(row[of.count - 1], row[of.count - 2], never);
    }
    if (thread.rank() != 0 || of.back) return;
    static_cast<Number*>(chains.totals)[n] = total;
    if (!chains.losses) return;
    const double log = value_of(total);
    static_cast<T*>(chains.losses)[n] =
        log == kNever && chains.zero_infinity ? T{0} : static_cast<T>(0 - log);
  }
};

// A block takes a part of a sequence's states of all steps.
constexpr long long kPartStates = 4096;

template <class T, class Number> struct Probabilities {
  CtcShape shape;
  CtcChains chains;
  T *states, *g_grad;
  long long parts;

  HEDDLE_DEVICE static T probability(double alpha, double beta, double total) {
    return static_cast<T>(std::exp(static_cast<T>(alpha + beta - total)));
  }
  HEDDLE_DEVICE static T probability(Dual alpha, Dual beta, Dual total) {
    const double value = std::exp(alpha.value + beta.value - total.value);
    return static_cast<T>(value * (alpha.tangent + beta.tangent) - value * total.tangent);
  }

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long block = thread.block_index().x, n = block / parts, part = block - n * parts;
    const CtcSequence sequence = shape.sequences[n];
    const long long all = sequence.steps * sequence.states(), begin = part * kPartStates;
    const long long end = begin + kPartStates < all ? begin + kPartStates : all;
    const Number total = static_cast<const Number*>(chains.totals)[n];
    const bool never = value_of(total) == kNever;
    if constexpr (std::is_same_v<Number, Dual>)
      if (part == 0 && thread.rank() == 0)
        g_grad[n] = never || sequence.steps == 0 ? T{0} : static_cast<T>(-total.tangent);
    const auto* const alpha = static_cast<const Number*>(chains.alpha) + sequence.first_state;
    const auto* const beta = static_cast<const Number*>(chains.beta) + sequence.first_state;
    for (long long i = begin + thread.rank(); i < end; i += thread.size())
      states[sequence.first_state + i] = never ? T{0} : probability(alpha[i], beta[i], total);
  }
};

// Links the places of a label in its target, in ascending order.
struct Links {
  CtcShape shape;
  int* next;
  bool* first;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const CtcSequence sequence = shape.sequences[thread.block_index().x];
    const long long* const labels = shape.targets + sequence.first_label;
    for (long long i = thread.rank(); i < sequence.length; i += thread.size()) {
      long long before = i - 1, behind = i + 1;
      while (before >= 0 && labels[before] != labels[i]) --before;
      while (behind < sequence.length && labels[behind] != labels[i]) ++behind;
      first[sequence.first_label + i] = before < 0;
      next[sequence.first_label + i] = behind < sequence.length ? static_cast<int>(behind) : -1;
    }
  }
};

// A warp writes a row of classes: a thread adds up the states of a label, all together those of the blank.
template <class T> struct Gradient {
  CtcShape shape;
  const T *g, *states;
  T* x_grad;
  const int* next;
  const bool* first;

  HEDDLE_DEVICE static double times(T scale, T probability) {
    return probability != T{0} ? static_cast<double>(scale) * static_cast<double>(probability) : 0.0;
  }

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long warps = thread.size() / on_gpu::kWarp;
    const long long place = thread.block_index().x * warps + thread.warp();
    if (place >= shape.steps * shape.batch) return;
    const long long t = place / shape.batch, n = place - t * shape.batch;
    T* const row = x_grad + place * shape.classes;
    for (long long c = thread.lane(); c < shape.classes; c += on_gpu::kWarp) row[c] = T{0};
    const CtcSequence sequence = shape.sequences[n];
    if (t >= sequence.steps) return;
    thread.warp_barrier();
    const T* const probability = states + sequence.first_state + t * sequence.states();
    const T scale = g[n];
    double blank = 0;
    for (long long i = thread.lane(); i <= sequence.length; i += on_gpu::kWarp) {
      blank += times(scale, probability[2 * i]);
      if (i == sequence.length || !first[sequence.first_label + i]) continue;
      double sum = 0;
      for (long long at = i; at >= 0; at = next[sequence.first_label + at])
        sum += times(scale, probability[2 * at + 1]);
      row[shape.targets[sequence.first_label + i]] = static_cast<T>(0 - sum);
    }
    for (int by = on_gpu::kWarp / 2; by > 0; by /= 2) blank += thread.shuffle_xor(blank, by);
    if (thread.lane() == 0) row[shape.blank] = static_cast<T>(0 - blank);
  }
};

template <class K>
const char* launch_blocks(void* stream, dim3 blocks, int threads, int shared, const K& kernel) {
  const cudaError_t status =
      on_gpu::launch(static_cast<cudaStream_t>(stream), blocks, dim3(static_cast<unsigned>(threads)),
                     static_cast<std::size_t>(shared), kernel);
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

long long row_bytes(long long labels, bool dual) {
  const long long number = dual ? sizeof(Dual) : sizeof(double);
  return 2 * (2 * labels + 1 + 2 * kPadding) * number;
}

template <class T, class Number>
const char* launch_chains(void* stream, const CtcShape& shape, const CtcRows& rows, const CtcChains& chains) {
  const dim3 blocks(static_cast<unsigned>(shape.batch), chains.beta ? 2 : 1);
  return launch_blocks(stream, blocks, rows.threads, rows.shared_bytes,
                       Chain<T, Number>{shape, rows, chains});
}

template <class T, class Number>
const char* launch_probabilities(void* stream, const CtcShape& shape, const CtcChains& chains, void* states,
                                 void* g_grad) {
  const long long most = shape.steps * (2 * shape.longest + 1);
  const long long parts = most > 0 ? (most + kPartStates - 1) / kPartStates : 1;
  const Probabilities<T, Number> kernel{shape, chains, static_cast<T*>(states), static_cast<T*>(g_grad),
                                        parts};
  return launch_grid(stream, dim3(static_cast<unsigned>(shape.batch * parts)), kernel);
}

template <class T>
const char* launch_gradient(void* stream, const CtcShape& shape, const void* g, const void* states,
                            void* x_grad, int* next, bool* first) {
  constexpr long long kRows = kTeamThreads / on_gpu::kWarp;
  const long long blocks = (shape.steps * shape.batch + kRows - 1) / kRows;
  const Gradient<T> kernel{
      shape, static_cast<const T*>(g), static_cast<const T*>(states), static_cast<T*>(x_grad), next, first};
  return launch_grid(stream, dim3(static_cast<unsigned>(blocks)), kernel);
}

}  // namespace

CtcRows ctc_rows(const CtcShape& shape, bool dual) {
  // Of targets in a row the lengths are not known here; most are near the mean.
  const long long wanted = 2 * (shape.flat ? 2 * shape.labels / shape.batch : shape.longest) + 1;
  constexpr long long kLeast = 64, kMost = 512;
  const long long threads = (wanted + on_gpu::kWarp - 1) / on_gpu::kWarp * on_gpu::kWarp;
  const long long bytes = row_bytes(shape.longest, dual), shared = on_gpu::kSharedBytes;
  return {static_cast<int>(threads < kLeast  ? kLeast
                           : threads > kMost ? kMost
                                             : threads),
          static_cast<int>(bytes < shared ? bytes : shared), bytes > shared ? bytes : 0, nullptr};
}

const char* launch_ctc_sequences(void* stream, const CtcShape& shape, FaultSlot* fault) {
  return launch_grid(stream, dim3(static_cast<unsigned>(shape.batch)), Sequences{shape, fault});
}

const char* launch_ctc_chains(void* stream, const CtcShape& shape, const CtcRows& rows,
                              const CtcChains& chains, bool dual) {
  if (dual)
    return shape.f64 ? launch_chains<double, Dual>(stream, shape, rows, chains)
                     : launch_chains<float, Dual>(stream, shape, rows, chains);
  return shape.f64 ? launch_chains<double, double>(stream, shape, rows, chains)
                   : launch_chains<float, double>(stream, shape, rows, chains);
}

const char* launch_ctc_probabilities(void* stream, const CtcShape& shape, const CtcChains& chains, bool dual,
                                     void* states, void* g_grad) {
  if (dual)
    return shape.f64 ? launch_probabilities<double, Dual>(stream, shape, chains, states, g_grad)
                     : launch_probabilities<float, Dual>(stream, shape, chains, states, g_grad);
  return shape.f64 ? launch_probabilities<double, double>(stream, shape, chains, states, g_grad)
                   : launch_probabilities<float, double>(stream, shape, chains, states, g_grad);
}

const char* launch_ctc_gradient(void* stream, const CtcShape& shape, const void* g, const void* states,
                                void* x_grad, int* next, bool* first) {
  const char* const failed =
      launch_grid(stream, dim3(static_cast<unsigned>(shape.batch)), Links{shape, next, first});
  if (failed || shape.steps == 0) return failed;
  return shape.f64 ? launch_gradient<double>(stream, shape, g, states, x_grad, next, first)
                   : launch_gradient<float>(stream, shape, g, states, x_grad, next, first);
}

}  // namespace heddle::cuda_kernels
