// The kernels of connectionist temporal classification for GPUs, in plain types: nvcc compiles C++17. Functions launch kernels on a
// cudaStream_t, and return why one could not be launched; null if all were.
#pragma once

#include <cstddef>

#include "cuda/fault_slot.h"

namespace heddle::cuda_kernels {

// Positions are those of the target's first label, and of its first state in arrays of states.
struct CtcSequence {
  long long steps, length, first_label, first_state;
  constexpr long long states() const { return 2 * length + 1; }
};

// What CtcProblem and CtcIds say of a batch, in plain types for kernels. A batch has one sequence at least.
struct CtcShape {
  long long steps, batch, classes, longest, labels, blank;
  bool flat, f64;
  const long long *targets, *input_lengths, *target_lengths;
  CtcSequence* sequences;
};

// What is wrong. Of several reports that counts which the CPU finds first.
enum CtcFault : int { kCtcTargetLength, kCtcInputLength, kCtcLargeSum, kCtcLabel, kCtcSum };
// Fills `sequences`; one with a fault has no steps. FaultSlot::value is what was found, place as ctc_place(). `fault` may be null.
const char* launch_ctc_sequences(void* stream, const CtcShape& shape, FaultSlot* fault);
constexpr long long ctc_places(const CtcShape& shape) { return shape.longest + kCtcSum; }  // of a sequence

// How the states of a sequence are kept while its steps are computed: in shared memory, or beyond that in `rows`.
struct CtcRows {
  int threads, shared_bytes;
  long long room;   // bytes of one block in `rows`; 0: shared memory holds the longest target
  std::byte* rows;  // 2 * batch * room bytes
};
// dual: numbers have a derivative.
CtcRows ctc_rows(const CtcShape& shape, bool dual);

// Results of a chain of states. Logarithms are f64, `dual` ones pairs with a derivative in the direction u.
struct CtcChains {
  const void *x, *u;   // u of dual ones alone
  void *alpha, *beta;  // of all states and steps; null: not wanted
  void* totals;        // of each sequence
  void* losses;        // (batch); not of dual ones
  bool zero_infinity;
};
const char* launch_ctc_chains(void* stream, const CtcShape& shape, const CtcRows& rows,
                              const CtcChains& chains, bool dual);
// states = the probabilities of all states, given the target; of dual ones their derivatives, and g_grad (batch).
const char* launch_ctc_probabilities(void* stream, const CtcShape& shape, const CtcChains& chains, bool dual,
                                     void* states, void* g_grad);
// x_grad (steps, batch, classes) = minus the sums over the states of each class, times g (batch). `next` and `first` are memory of
// `labels` numbers each.
const char* launch_ctc_gradient(void* stream, const CtcShape& shape, const void* g, const void* states,
                                void* x_grad, int* next, bool* first);

// A decoder's problem. input_lengths may be null; one out of range is reported, with its sequence as place.
struct CtcDecoding {
  long long steps, batch, classes, blank;
  bool f64;
  const void* x;
  const long long* input_lengths;
  long long *labels, *numbers;  // (batch, steps), (batch)
  FaultSlot* fault;
};
const char* launch_ctc_greedy(void* stream, const CtcDecoding& problem);

// Memory of a beam search, and its limits.
struct CtcBeam {
  long long beam;     // beginnings that are kept
  long long likely;   // classes that may follow one
  long long nodes;    // of the tree of beginnings
  long long places;   // of the table of children, a power of 2
  long long bytes;    // of memory for one sequence
  std::byte* memory;  // batch * bytes
};
CtcBeam ctc_beam(const CtcDecoding& problem, long long beam);
const char* launch_ctc_beam(void* stream, const CtcDecoding& problem, const CtcBeam& beam, void* scores);

}  // namespace heddle::cuda_kernels
