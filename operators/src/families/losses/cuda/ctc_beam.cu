// Beam search of connectionist temporal classification on a GPU: a block searches the labels of one sequence. It keeps what the CPU keeps,
// and takes equal candidates in the CPU's order. Beginnings of labels are nodes of a tree.
#include <cmath>
#include <cstdint>
#include <limits>

#include "core/functor.h"
#include "cuda/report.h"
#include "families/losses/cuda/ctc.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

constexpr double kMost = 1e300;
constexpr double kImpossible = -std::numeric_limits<double>::infinity();
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();  // the score of what is no candidate
constexpr int kMostWarps = 8;
constexpr long long kAligned = 256;  // bytes

// The beginnings that are kept, and the logarithms of the probabilities of those alignments that end in a blank, of those that
// end in the last label, and of all.
struct Kept {
  int* nodes;
  double *blank, *label, *total;
};

// The memory of one sequence. Candidates are the beginnings as they are, then each with each likely class.
struct Memory {
  double *row, *scores;            // of classes, of candidates
  double *blank, *label;           // of beginnings as they are
  double* numbers;                 // of the beginnings that are kept, before a step and behind it
  int* nodes;                      // likewise
  int* candidates;                 // their nodes; -1: none yet
  int *likely, *order;             // classes, candidates
  int *parents, *labels, *places;  // of nodes; places: among the beginnings that are kept, or -1
  int* children;                   // a table of nodes by parent and label; -1: free
  std::byte* end;

  HEDDLE_FUNCTOR Memory(const CtcBeam& beam, long long classes, std::byte* begin) : end(begin) {
    const long long count = beam.beam * (1 + beam.likely);
    row = take<double>(classes);
    scores = take<double>(count);
    blank = take<double>(beam.beam);
    label = take<double>(beam.beam);
    numbers = take<double>(2 * 3 * beam.beam);
    nodes = take<int>(2 * beam.beam);
    candidates = take<int>(count);
    likely = take<int>(beam.likely);
    order = take<int>(beam.beam);
    parents = take<int>(beam.nodes);
    labels = take<int>(beam.nodes);
    places = take<int>(beam.nodes);
    children = take<int>(beam.places);
  }

 private:
  template <class T> HEDDLE_FUNCTOR T* take(long long count) {
    T* const begin = reinterpret_cast<T*>(end);
    end += count * static_cast<long long>(sizeof(T));
    return begin;
  }
};

struct Chosen {
  double score;
  int index;  // -1: none
  HEDDLE_DEVICE bool before(const Chosen& other) const {
    if (index < 0 || other.index < 0) return index >= 0;
    return score != other.score ? score > other.score : index < other.index;
  }
};

HEDDLE_DEVICE double log_of_sum(double a, double b) {
  const double most = a < b ? b : a, least = a < b ? a : b;
  return most == kImpossible ? most : most + std::log1p(std::exp(least - most));
}

// The search of one sequence.
class Search {
 public:
  HEDDLE_DEVICE Search(on_gpu::Thread& thread, const CtcDecoding& p, const CtcBeam& beam, Chosen* parts)
      : thread_(thread),
        p_(p),
        beam_(beam),
        m_(beam, p.classes, beam.memory + thread.block_index().x * beam.bytes),
        parts_(parts) {
    for (long long i = thread.rank(); i < beam.nodes; i += thread.size()) m_.places[i] = -1;
    for (long long i = thread.rank(); i < beam.places; i += thread.size()) m_.children[i] = -1;
    thread.barrier();
    if (thread.rank() == 0) {
      m_.parents[0] = m_.labels[0] = -1;
      const Kept first = kept_before(0);
      m_.places[0] = first.nodes[0] = 0;
      first.blank[0] = first.total[0] = 0;
      first.label[0] = kImpossible;
    }
    thread.barrier();
  }

  template <class T> HEDDLE_DEVICE void step(long long t, const T* x) {
    for (long long c = thread_.rank(); c < p_.classes; c += thread_.size()) {
      const double one = static_cast<double>(x[c]);
      m_.row[c] = one != one ? kImpossible : one < kMost ? one : kMost;  // these have an order
    }
    thread_.barrier();
    choose(p_.classes, beam_.likely, m_.likely,
           [this](long long c) { return c == p_.blank ? kNone : m_.row[c]; });
    const Kept kept = kept_before(t);
    for (long long i = thread_.rank(); i < count_; i += thread_.size()) stay(kept, i);
    for (long long i = thread_.rank(); i < count_ * beam_.likely; i += thread_.size()) extend(kept, i);
    thread_.barrier();
    const long long found = choose(count_ * (1 + beam_.likely), beam_.beam, m_.order,
                                   [this](long long i) { return m_.scores[i]; });
    for (long long i = thread_.rank(); i < count_; i += thread_.size()) m_.places[kept.nodes[i]] = -1;
    thread_.barrier();
    for (long long i = thread_.rank(); i < found; i += thread_.size()) keep(t, i);
    thread_.barrier();
    count_ = found;
  }

  // The labels of the best beginning behind `steps`, their number and its score. One thread calls it.
  HEDDLE_DEVICE long long write_best(long long steps, long long* labels, double& score) const {
    const Kept kept = kept_before(steps);
    long long count = 0;
    for (int node = kept.nodes[0]; node != 0; node = m_.parents[node]) ++count;
    long long at = count;
    for (int node = kept.nodes[0]; node != 0; node = m_.parents[node]) labels[--at] = m_.labels[node];
    score = kept.total[0];
    return count;
  }

 private:
  HEDDLE_DEVICE Kept kept_before(long long t) const {
    double* const first = m_.numbers + t % 2 * 3 * beam_.beam;
    return {m_.nodes + t % 2 * beam_.beam, first, first + beam_.beam, first + 2 * beam_.beam};
  }
  // The best of this thread's numbers behind `last` in the order of score and index.
  template <class Score>
  HEDDLE_DEVICE Chosen best(long long count, const Chosen& last, const Score& score) const {
    Chosen best{kImpossible, -1};
    for (long long i = thread_.rank(); i < count; i += thread_.size()) {
      const Chosen one{score(i), static_cast<int>(i)};
      if (one.score == one.score && (last.index < 0 || last.before(one)) && one.before(best)) best = one;
    }
    return best;
  }
  // The best one of all threads.
  HEDDLE_DEVICE Chosen best_of_all(Chosen own) {
    for (int by = 1; by < on_gpu::kWarp; by *= 2) {
      const Chosen other{thread_.shuffle_xor(own.score, by), thread_.shuffle_xor(own.index, by)};
      if (other.before(own)) own = other;
    }
    if (thread_.size() == on_gpu::kWarp) return own;
    if (thread_.lane() == 0) parts_[thread_.warp()] = own;
    thread_.barrier();
    for (int warp = 0; warp < thread_.size() / on_gpu::kWarp; ++warp)
      if (parts_[warp].before(own)) own = parts_[warp];
    thread_.barrier();
    return own;
  }
  // Writes the indices of the `wanted` greatest scores, in descending order. Returns how many there are.
  template <class Score>
  HEDDLE_DEVICE long long choose(long long count, long long wanted, int* chosen, const Score& score) {
    Chosen own = best(count, {0, -1}, score);
    long long found = 0;
    for (; found < wanted; ++found) {
      const Chosen one = best_of_all(own);
      if (one.index < 0) break;
      if (thread_.rank() == 0) chosen[found] = one.index;
      if (one.index % thread_.size() == thread_.rank()) own = best(count, one, score);
    }
    thread_.barrier();
    return found;
  }

  // What a beginning and one more label get from alignments of the beginning; a repeated label needs a blank before it.
  HEDDLE_DEVICE double extended(const Kept& kept, long long i, int label) const {
    return (m_.labels[kept.nodes[i]] == label ? kept.blank[i] : kept.total[i]) + m_.row[label];
  }
  HEDDLE_DEVICE void stay(const Kept& kept, long long i) {
    const int node = kept.nodes[i];
    const double blank = kept.total[i] + m_.row[p_.blank];
    double label = kImpossible;
    if (node != 0) {
      label = kept.label[i] + m_.row[m_.labels[node]];
      if (const int parent = m_.places[m_.parents[node]]; parent >= 0)
        label = log_of_sum(label, extended(kept, parent, m_.labels[node]));
    }
    m_.blank[i] = blank;
    m_.label[i] = label;
    m_.scores[i] = log_of_sum(blank, label);
    m_.candidates[i] = node;
  }
  HEDDLE_DEVICE void extend(const Kept& kept, long long at) {
    const long long i = at / beam_.likely;
    const int label = m_.likely[at - i * beam_.likely];
    const double score = extended(kept, i, label);
    const int node = score == kImpossible ? -1 : child(kept.nodes[i], label);
    const bool known = node >= 0 && m_.places[node] >= 0;  // stay() has it
    m_.scores[count_ + at] = score == kImpossible || known ? kNone : score;
    m_.candidates[count_ + at] = node;
  }
  HEDDLE_DEVICE void keep(long long t, long long i) {
    const int from = m_.order[i];
    int node = m_.candidates[from];
    if (node < 0) {
      const long long at = from - count_, parent = at / beam_.likely;
      node = static_cast<int>(1 + t * beam_.beam + i);
      m_.parents[node] = kept_before(t).nodes[parent];
      m_.labels[node] = m_.likely[at - parent * beam_.likely];
      add_child(node);
    }
    const Kept next = kept_before(t + 1);
    next.nodes[i] = node;
    next.blank[i] = from < count_ ? m_.blank[from] : kImpossible;
    next.label[i] = from < count_ ? m_.label[from] : m_.scores[from];
    next.total[i] = m_.scores[from];
    m_.places[node] = static_cast<int>(i);
  }

  HEDDLE_DEVICE long long slot(int parent, int label) const {
    const auto key = static_cast<unsigned long long>(parent) * static_cast<unsigned long long>(p_.classes) +
                     static_cast<unsigned long long>(label);
    return static_cast<long long>(key * 0x9e3779b97f4a7c15ull >> 32) & (beam_.places - 1);
  }
  HEDDLE_DEVICE int child(int parent, int label) const {
    for (long long at = slot(parent, label);; at = (at + 1) & (beam_.places - 1)) {
      const int node = m_.children[at];
      if (node < 0 || (m_.parents[node] == parent && m_.labels[node] == label)) return node;
    }
  }
  HEDDLE_DEVICE void add_child(int node) {
    long long at = slot(m_.parents[node], m_.labels[node]);
    while (on_gpu::atomic_compare_exchange(m_.children + at, -1, node) >= 0)
      at = (at + 1) & (beam_.places - 1);
  }

  on_gpu::Thread& thread_;
  const CtcDecoding& p_;
  const CtcBeam& beam_;
  Memory m_;
  Chosen* parts_;        // one for each warp
  long long count_ = 1;  // of beginnings that are kept
};

template <class T> struct BeamSearch {
  CtcDecoding p;
  CtcBeam beam;
  T* scores;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    HEDDLE_SHARED(thread, parts, Chosen[kMostWarps]);
    HEDDLE_SHARED(thread, found, long long);
    const long long n = thread.block_index().x;
    long long steps = p.input_lengths ? p.input_lengths[n] : p.steps;
    if (steps < 0 || steps > p.steps) {
      if (thread.rank() == 0) report(thread, p.fault, n, static_cast<unsigned long long>(steps));
      steps = 0;
    }
    Search search(thread, p, beam, parts);
    const T* const x = static_cast<const T*>(p.x);
    for (long long t = 0; t < steps; ++t) search.step(t, x + (t * p.batch + n) * p.classes);
    long long* const row = p.labels + n * p.steps;
    if (thread.rank() == 0) {
      double score = 0;
      found = search.write_best(steps, row, score);
      p.numbers[n] = found;
      scores[n] = static_cast<T>(score);
    }
    thread.barrier();
    for (long long t = found + thread.rank(); t < p.steps; t += thread.size()) row[t] = -1;
  }
};

template <class T>
const char* launch_search(void* stream, const CtcDecoding& p, const CtcBeam& beam, void* scores) {
  const long long candidates = beam.beam * (1 + beam.likely),
                  most = candidates > p.classes ? candidates : p.classes;
  unsigned threads = on_gpu::kWarp;
  while (threads < kMostWarps * on_gpu::kWarp && threads * 16 < most) threads *= 2;
  const cudaError_t status =
      on_gpu::launch(static_cast<cudaStream_t>(stream), dim3(static_cast<unsigned>(p.batch)), dim3(threads),
                     0, BeamSearch<T>{p, beam, static_cast<T*>(scores)});
  if (status == cudaSuccess) return nullptr;
  cudaGetLastError();
  return cudaGetErrorString(status);
}

}  // namespace

CtcBeam ctc_beam(const CtcDecoding& problem, long long beam) {
  // There are no more beginnings than these, and none gets more labels than steps.
  constexpr long long kMany = 1ll << 31;
  long long beginnings = 1, of_length = 1;
  for (long long t = 0; t < problem.steps && beginnings < kMany; ++t) {
    of_length = of_length * (problem.classes - 1) < kMany ? of_length * (problem.classes - 1) : kMany;
    beginnings += of_length;
    if (of_length == 0) break;
  }
  CtcBeam made{};
  made.beam = beam < beginnings ? beam : beginnings;
  made.likely = beam < problem.classes - 1 ? beam + 1 : problem.classes - 1;
  made.nodes = 1 + problem.steps * made.beam;
  for (made.places = 2; made.places < 2 * made.nodes;) made.places *= 2;
  auto* const begin = reinterpret_cast<std::byte*>(
      static_cast<std::uintptr_t>(kAligned));  // no memory: addresses are counted
  const Memory memory(made, problem.classes, begin);
  made.bytes = (memory.end - begin + kAligned - 1) / kAligned * kAligned;
  return made;
}

const char* launch_ctc_beam(void* stream, const CtcDecoding& problem, const CtcBeam& beam, void* scores) {
  return problem.f64 ? launch_search<double>(stream, problem, beam, scores)
                     : launch_search<float>(stream, problem, beam, scores);
}

}  // namespace heddle::cuda_kernels
