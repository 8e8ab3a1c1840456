// The kernels of optimizers for GPUs, in plain types: nvcc compiles C++17. register.cc registers them. All functions return why a kernel
// could not be launched; null if it was.
#pragma once

#include <cstdint>

#include "cuda/present_rows.h"
#include "families/optimizer/part_functors.h"

namespace heddle::cuda_kernels {

template <class T> using Part = functors::WeightPart<T>;

constexpr int kMostParts = 60;           // of one launch
constexpr long long kNormGrain = 16384;  // elements of which a block adds up the norms
constexpr int kRuleCount = 10;
constexpr int kNormRules = 2;  // the first ones, whose steps need norms of the whole weight

// The numbers of an UpdateCall in plain types, for kernels.
struct PlainCall {
  static constexpr int kMostParams = 8;
  double params[kMostParams], lr, grad_scale, decay_scale;
  HEDDLE_FUNCTOR double operator[](int param) const { return params[param]; }
};

// An update of the rows that a gradient has, of `width` elements each.
template <class T> struct RowUpdate {
  Part<T> all;  // the whole weight, whose gradient has the present rows alone
  PresentRows rows;
  long long width;
  // What follows is for weights whose rows are counted. `counts`, for all `rows.bound` rows: null, or the numbers of updates; if the
  // first one is negative, each row has had `earlier`. `steps`: memory for a step of each present row.
  long long* counts;
  long long earlier;
  PlainCall call;
  void* steps;
};

// Updates weights by one step, an object of the rule's class for float or double. For rules with norms, `parts` is one, and `sums` has
// memory for 2 doubles for each kNormGrain elements, and 2 more.
struct Rule {
  const char *op, *list_op, *rows_op;  // names in the table of kernels; rows_op is null for rules with norms
  const char* (*of_f32)(void* stream, const Part<float>* parts, int count, const void* step, double* sums);
  const char* (*of_f64)(void* stream, const Part<double>* parts, int count, const void* step, double* sums);
  // `step` is that of all rows if they are not counted.
  const char* (*rows_of_f32)(void* stream, const RowUpdate<float>& update, const void* step);
  const char* (*rows_of_f64)(void* stream, const RowUpdate<double>& update, const void* step);
};
extern const Rule kRules[kRuleCount];

// Some of the gradients (or averages) that an op is on: `other` is null, or an array of the same length. Element i of chunk c, of
// kNormGrain elements, counts on in `begin`.
struct ArrayPiece {
  void* data;
  void* other;
  long long count;
  long long first_chunk;     // chunks of the arrays before it
  const long long* present;  // of a row-sparse array: how many rows of `width` elements there are; else null
  long long width;
  bool wide;  // f64, else f32
};
constexpr int kMostPieces = 64;
struct Pieces {
  int count;
  ArrayPiece all[kMostPieces];
  long long chunks;  // of these, whose first number is that of the first array
};

// What the kernels of the norm share: sums has a double for each chunk of all arrays; result has the norm and the factor.
const char* launch_square_sums(void* stream, const Pieces& pieces, double* sums);
const char* launch_norm(void* stream, const double* sums, long long count, double max_norm, void* norm,
                        bool wide, double* factor, FaultSlot* refuse_nonfinite);
const char* launch_scale(void* stream, const Pieces& pieces, const double* factor);
const char* launch_clip_values(void* stream, const Pieces& pieces, double most);
const char* launch_clear(void* stream, int* nonfinite);  // *nonfinite = 0
// Sets *nonfinite to 1 if an element is inf or NaN.
const char* launch_find_nonfinite(void* stream, const Pieces& pieces, int* nonfinite);
// Multiplies all elements by the factor, or sets them to 0 if *nonfinite is not 0.
const char* launch_unscale(void* stream, const Pieces& pieces, double factor, const int* nonfinite);
const char* launch_flag(void* stream, const int* nonfinite, float* flag);  // *flag = *nonfinite
// data += share * (other - data).
const char* launch_average(void* stream, const Pieces& pieces, double share);
const char* launch_swap(void* stream, const Pieces& pieces);

}  // namespace heddle::cuda_kernels
