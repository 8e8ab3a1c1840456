// The best path of connectionist temporal classification on a GPU: the most probable class of each step, then a warp for each sequence
// that leaves out repetitions and blanks.
#include <limits>

#include "cuda/block_scan.h"
#include "cuda/report.h"
#include "cuda/team.h"
#include "families/losses/cuda/ctc.h"

namespace heddle::cuda_kernels {
namespace {

struct Best {
  double value;
  long long index;
};
struct Better {
  HEDDLE_DEVICE Best operator()(Best a, Best b) const {
    return b.value > a.value || (b.value == a.value && b.index < a.index) ? b : a;
  }
};

// The first of the greatest numbers of a row, as std::max_element finds it: NaN is greatest in front, else never.
template <class T> struct BestClasses {
  Teams teams;
  CtcDecoding p;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const long long place = team.line();
    const bool exists = place < p.steps * p.batch;
    const T* const row = static_cast<const T*>(p.x) + place * p.classes;
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    Best best{-kInfinity, std::numeric_limits<long long>::max()};
    for (long long c = team.position(); exists && c < p.classes; c += team.size()) {
      const double value = static_cast<double>(row[c]);
      if (value == value)
        best = Better{}(best, {value, c});
      else if (c == 0)
        best = {kInfinity, 0};
    }
    best = team.all(best, Better{});
    if (!exists || team.position() != 0) return;
    const long long t = place / p.batch, n = place - t * p.batch;
    p.labels[n * p.steps + t] = best.index;
  }
};

// labels: the classes of all steps, and afterwards the labels.
struct Collapse {
  CtcDecoding p;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long n = thread.block_index().x;
    const int lane = thread.lane();
    long long steps = p.input_lengths ? p.input_lengths[n] : p.steps;
    if (steps < 0 || steps > p.steps) {
      if (lane == 0) report(thread, p.fault, n, static_cast<unsigned long long>(steps));
      steps = 0;
    }
    long long* const row = p.labels + n * p.steps;
    long long count = 0, last = p.blank;
    for (long long begin = 0; begin < steps; begin += on_gpu::kWarp) {
      const long long t = begin + lane;
      const long long best = t < steps ? row[t] : p.blank;
      const long long left = thread.shuffle_up(best, 1), before = lane == 0 ? last : left;
      const bool counts = t < steps && best != before && best != p.blank;
      const unsigned all = thread.ballot(counts);
      thread.warp_barrier();  // labels are written where classes have been read
      if (counts) row[count + count_bits(all & lanes_before(lane))] = best;
      count += count_bits(all);
      last = thread.shuffle(best, on_gpu::kWarp - 1);
    }
    thread.warp_barrier();
    for (long long t = count + lane; t < p.steps; t += on_gpu::kWarp) row[t] = -1;
    if (lane == 0) p.numbers[n] = count;
  }
};

template <class T> const char* best_classes(void* stream, const CtcDecoding& p) {
  const Teams teams = teams_for(p.steps * p.batch, p.classes, false);
  return launch_teams(stream, p.steps * p.batch, 1, teams, BestClasses<T>{teams, p});
}

}  // namespace

const char* launch_ctc_greedy(void* stream, const CtcDecoding& problem) {
  const char* const failed =
      problem.f64 ? best_classes<double>(stream, problem) : best_classes<float>(stream, problem);
  if (failed) return failed;
  const cudaError_t status =
      on_gpu::launch(static_cast<cudaStream_t>(stream), dim3(static_cast<unsigned>(problem.batch)),
                     dim3(on_gpu::kWarp), 0, Collapse{problem});
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

}  // namespace heddle::cuda_kernels
