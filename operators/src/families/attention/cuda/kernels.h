// Attention and rotary embedding on a GPU, in plain types: nvcc compiles C++17. register.cc registers it.
#pragma once

namespace heddle::cuda_kernels {

// An array (batch, heads, rows, columns) with dense rows; steps are in elements.
struct Heads {
  const void* data;
  long long batch, head, row;
};

// The sizes of an AttentionProblem and the addresses of its arrays. Softmax and products are computed in float, for f64
// in double.
struct Attention {
  long long batch, heads, kv_heads, queries, keys, features, value_features;
  bool causal;
  double scale;
  bool drops;
  unsigned long long seed, start, drop_below;  // of dropout: a random word below the limit drops its weight
  double kept;                                 // factor of the others
  long long drawn_blocks_of_row;
  Heads query, key, value, g;
  const void* mask;  // null if there is none
  long long mask_steps[4], mask_shape[4];
  bool mask_shows;  // boolean; else it is added
  void *y, *softmax;
  void* products;                                        // of each row of y and its gradient
  void *query_grad, *key_grad, *value_grad, *mask_grad;  // null: not wanted
  unsigned char type;
};

// Launch kernels on a cudaStream_t. Return why one could not be launched; null if all were.
const char* launch_attention(void* stream, const Attention& attention);
const char* launch_attention_backward(void* stream, const Attention& attention);
// Writes what dropout multiplies the weights by: (batch, heads, queries, keys), dense, f32 or f64.
const char* launch_attention_dropout(void* stream, const Attention& attention, void* factors);

// Rotary embedding of rows of `features` elements: x has the axes `sizes` of rows and dense rows, y is dense. `positions` are
// i64, `count` of them in dense memory; a step of 0: one position for the whole axis.
struct Rotary {
  int dims;
  long long sizes[8], x_steps[8], position_steps[8];
  long long features, count;
  double base;
  bool interleaved, backwards;
  const void *x, *positions;
  void *y, *table;  // table: count * features numbers of x's type
  unsigned char type;
};
const char* launch_rotary(void* stream, const Rotary& rotary);

}  // namespace heddle::cuda_kernels
