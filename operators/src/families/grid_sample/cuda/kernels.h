// Sampling at places of a grid on a GPU, in plain types: nvcc compiles C++17. register.cc registers it.
#pragma once

#include <cstddef>

namespace heddle::cuda_kernels {

// As GridProblem, for some of the batch. Arrays are contiguous.
struct GridPlaces {
  int axes;
  long long batch, channels, places, in[3];
  int taps;                  // elements along an axis: 1 (nearest), 2 (linear), 4 (cubic)
  unsigned char edge;        // a GridPadding
  bool align_corners, wide;  // wide: f64, else f32
  int order[3];

  long long plane() const { return in[0] * in[1] * in[2]; }
  // Elements that one place needs.
  long long elements() const { return (axes == 3 ? taps : 1) * taps * taps; }
};

// These enqueue work on a cudaStream_t and return why they could not; null if they could. Results are not empty.
const char* launch_sample(void* stream, const GridPlaces& p, const void* x, const void* grid, void* y);
const char* launch_grid_gradient(void* stream, const GridPlaces& p, const void* g, const void* x,
                                 const void* grid, void* grid_grad);
// The transpose of sampling; `space`: spread_bytes().
std::size_t spread_bytes(const GridPlaces& p);
const char* launch_spread(void* stream, const GridPlaces& p, const void* g, const void* grid, void* x_grad,
                          std::byte* space);

}  // namespace heddle::cuda_kernels
