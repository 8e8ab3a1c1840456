// Convolutions on GPUs as products of matrices whose elements are gathered from images (tile_product.h). An element of a result is
// the sum of its products in the order of channels and taps, or, of weights, of images and their elements. Elements beyond the image
// are zeros that are multiplied. Where that may have made NaN, of an infinite weight or gradient, the sum is computed anew without them.
#include "cuda/tile_launch.h"
#include "families/conv/cuda/conv.h"
#include "families/conv/cuda/places.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

template <class T> HEDDLE_DEVICE typename T::Sum gradient(const Convolution& c, long long at) {
  if (c.y && T::load(c.y, at, Type{c.type}) <= 0) return 0;
  return T::load(c.g, at, Type{c.type});
}

// A line or a point of a matrix: an offset in memory, negative beyond the end, and a place in an image.
struct Spot {
  long long at;
  Place place;
};
constexpr long long kBeyond = -1;

// Computes anew what is NaN in a result, in `columns` columns: sums, in their order, of the products whose elements of the right
// matrix are present, neither beyond an image nor between the windows of one.
template <class P> struct Repair {
  P p;
  long long columns;
  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const long long count = p.batches * p.rows * columns;
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const Quotient at = divide(i, columns), line = divide(at.whole, p.rows);
      const auto made = P::T::load(p.c.to, p.to(line.whole, line.rest, at.rest), Type{p.c.to_type});
      if (made != made) p.finish(line.whole, line.rest, at.rest, sum(line.whole, line.rest, at.rest));
    }
  }
  HEDDLE_DEVICE typename P::Sum sum(long long group, long long row, long long column) const {
    const auto left = p.a_line(group, row);
    const auto right = p.b_line(group, column);
    typename P::Sum total = 0;
    for (long long k = 0; k < p.terms && total == total; ++k) {
      const auto point = p.point(k);
      if (p.present(right, point)) total = P::T::multiply_add(total, p.a(left, point), p.b(right, point));
    }
    return total;
  }
};

// Rows: the outputs of a group; columns: elements of all images of results; k: channels and taps.
template <class Arithmetic> struct Forward {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  using Line = Spot;
  struct Point {
    long long k, at;  // of a weight and of x's channel
    Place place;
  };

  Convolution c;
  long long rows, columns, batches, terms;

  HEDDLE_DEVICE bool a_dense() const { return true; }
  HEDDLE_DEVICE bool b_dense() const { return false; }
  HEDDLE_DEVICE Line a_line(long long group, long long row) const {
    return {row < rows ? (group * rows + row) * terms : kBeyond, {}};
  }
  HEDDLE_DEVICE Line b_line(long long group, long long column) const {
    if (column >= columns) return {kBeyond, {}};
    const Quotient image = divide(column, c.out_volume);
    return {(image.whole * c.groups + group) * c.channels * c.in_volume,
            before(times(place_of(image.rest, c.out), c.stride), c.padding)};
  }
  HEDDLE_DEVICE Point point(long long k) const {
    if (k >= terms) return {kBeyond, 0, {}};
    const Quotient channel = divide(k, c.taps);
    return {k, channel.whole * c.in_volume, times(place_of(channel.rest, c.kernel), c.dilation)};
  }
  HEDDLE_DEVICE Sum a(const Line& line, const Point& point) const {
    return line.at >= 0 && point.k >= 0 ? T::load(c.weight, line.at + point.k, Type{c.type}) : Sum{0};
  }
  HEDDLE_DEVICE Sum b(const Line& line, const Point& point) const {
    const Place place = plus(line.place, point.place);
    if (line.at < 0 || point.k < 0 || !inside(place, c.in)) return 0;
    return T::load(c.x, line.at + point.at + index_of(place, c.in), Type{c.type});
  }
  HEDDLE_DEVICE bool present(const Line& line, const Point& point) const {
    return inside(plus(line.place, point.place), c.in);
  }
  // Where an element of the result is.
  HEDDLE_DEVICE long long to(long long group, long long row, long long column) const {
    const Quotient image = divide(column, c.out_volume);
    return ((image.whole * c.groups + group) * rows + row) * c.out_volume + image.rest;
  }
  HEDDLE_DEVICE void finish(long long group, long long row, long long column, Sum sum) const {
    if (c.bias) sum += T::load(c.bias, group * rows + row, Type{c.bias_type});
    if (c.relu) sum = sum < 0 ? 0 : sum;  // NaN stays
    put_sum<Sum>(c.to, to(group, row, column), Type{c.to_type}, sum);
  }
};

// Rows: the channels of a group; columns: elements of all images x; k: outputs and taps.
template <class Arithmetic> struct Data {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  using Line = Spot;
  struct Point {
    long long weight, at;  // of the output's weight and of its image
    Place place;
  };

  Convolution c;
  long long rows, columns, batches, terms;

  HEDDLE_DEVICE bool a_dense() const { return true; }
  HEDDLE_DEVICE bool b_dense() const { return false; }
  HEDDLE_DEVICE Line a_line(long long group, long long row) const {
    return {row < rows ? (group * c.outputs * rows + row) * c.taps : kBeyond, {}};
  }
  HEDDLE_DEVICE Line b_line(long long group, long long column) const {
    if (column >= columns) return {kBeyond, {}};
    const Quotient image = divide(column, c.in_volume);
    const Place place = place_of(image.rest, c.in);
    return {(image.whole * c.groups + group) * c.outputs * c.out_volume,
            {place.d + c.padding[0], place.h + c.padding[1], place.w + c.padding[2]}};
  }
  HEDDLE_DEVICE Point point(long long k) const {
    if (k >= terms) return {kBeyond, 0, {}};
    const Quotient output = divide(k, c.taps);
    const Place tap = times(place_of(output.rest, c.kernel), c.dilation);
    return {
        output.whole * rows * c.taps + output.rest, output.whole * c.out_volume, {-tap.d, -tap.h, -tap.w}};
  }
  HEDDLE_DEVICE Sum a(const Line& line, const Point& point) const {
    const bool there = line.at >= 0 && point.weight >= 0;
    return there ? T::load(c.weight, line.at + point.weight, Type{c.type}) : Sum{0};
  }
  // The element of the result whose window has x at distance `from` from its beginning. False if there is none.
  static HEDDLE_DEVICE bool window(long long& from, long long stride, long long size) {
    if (from < 0) return false;
    if (stride != 1) {
      const Quotient step = divide(from, stride);
      if (step.rest != 0) return false;
      from = step.whole;
    }
    return from < size;
  }
  HEDDLE_DEVICE bool windows(Place& place) const {
    return window(place.d, c.stride[0], c.out[0]) && window(place.h, c.stride[1], c.out[1]) &&
           window(place.w, c.stride[2], c.out[2]);
  }
  HEDDLE_DEVICE bool present(const Line& line, const Point& point) const {
    Place place = plus(line.place, point.place);
    return windows(place);
  }
  HEDDLE_DEVICE Sum b(const Line& line, const Point& point) const {
    if (line.at < 0 || point.weight < 0) return 0;
    Place place = plus(line.place, point.place);
    if (!windows(place)) return 0;
    return gradient<T>(c, line.at + point.at + index_of(place, c.out));
  }
  HEDDLE_DEVICE long long to(long long group, long long row, long long column) const {
    const Quotient image = divide(column, c.in_volume);
    return ((image.whole * c.groups + group) * rows + row) * c.in_volume + image.rest;
  }
  HEDDLE_DEVICE void finish(long long group, long long row, long long column, Sum sum) const {
    put_sum<Sum>(c.to, to(group, row, column), Type{c.to_type}, sum);
  }
};

// Rows: the outputs of a group; columns: channels and taps, then one whose elements are 1, for the bias; k: elements of all images.
template <class Arithmetic> struct Weights {
  using T = Arithmetic;
  using Sum = typename T::Sum;
  struct Line {
    long long at;
    Place place;
    bool one;
  };
  struct Point {
    long long in_g, in_x;
    Place place;
  };

  Convolution c;
  long long rows, columns, batches, terms;
  long long weights;  // columns but that of the bias

  HEDDLE_DEVICE bool a_dense() const { return true; }
  HEDDLE_DEVICE bool b_dense() const { return true; }
  HEDDLE_DEVICE Line a_line(long long group, long long row) const {
    return {row < rows ? (group * rows + row) * c.out_volume : kBeyond, {}, false};
  }
  HEDDLE_DEVICE Line b_line(long long group, long long column) const {
    if (column >= columns) return {kBeyond, {}, false};
    const Quotient channel = divide(column, c.taps);
    return {(group * c.channels + channel.whole) * c.in_volume,
            before(times(place_of(channel.rest, c.kernel), c.dilation), c.padding), column == weights};
  }
  HEDDLE_DEVICE Point point(long long k) const {
    if (k >= terms) return {kBeyond, 0, {}};
    const Quotient image = divide(k, c.out_volume);
    return {image.whole * c.groups * rows * c.out_volume + image.rest,
            image.whole * c.groups * c.channels * c.in_volume, times(place_of(image.rest, c.out), c.stride)};
  }
  HEDDLE_DEVICE Sum a(const Line& line, const Point& point) const {
    return line.at >= 0 && point.in_g >= 0 ? gradient<T>(c, line.at + point.in_g) : Sum{0};
  }
  HEDDLE_DEVICE Sum b(const Line& line, const Point& point) const {
    if (line.at < 0 || point.in_g < 0) return 0;
    if (line.one) return 1;
    const Place place = plus(line.place, point.place);
    if (!inside(place, c.in)) return 0;
    return T::load(c.x, line.at + point.in_x + index_of(place, c.in), Type{c.type});
  }
  HEDDLE_DEVICE bool present(const Line& line, const Point& point) const {
    return line.one || inside(plus(line.place, point.place), c.in);
  }
  HEDDLE_DEVICE long long to(long long group, long long row, long long column) const {
    return (group * rows + row) * weights + column;
  }
  HEDDLE_DEVICE void finish(long long group, long long row, long long column, Sum sum) const {
    if (column == weights)
      put_sum<Sum>(c.bias_to, group * rows + row, Type{c.bias_to_type}, sum);
    else
      put_sum<Sum>(c.to, to(group, row, column), Type{c.to_type}, sum);
  }
};

template <class T> Forward<T> forward(const Convolution& c) {
  return {c, c.outputs, c.n * c.out_volume, c.groups, c.channels * c.taps};
}
template <class T> Data<T> data(const Convolution& c) {
  return {c, c.channels, c.n * c.in_volume, c.groups, c.outputs * c.taps};
}
template <class T> Weights<T> weights(const Convolution& c) {
  const long long columns = c.channels * c.taps;
  return {c, c.outputs, columns + (c.bias_to != nullptr), c.groups, c.n * c.out_volume, columns};
}

template <class P> TilePlan plan_of(const P& p) {
  return plan_tiles(p.rows, p.columns, p.batches, p.terms, 1, false);
}

template <class P> long long bytes_of(const P& p) {
  const TilePlan plan = plan_of(p);
  const auto size = static_cast<long long>(sizeof(typename P::Sum));
  return plan.parts > 1 ? plan.parts * p.batches * p.rows * p.columns * size : 0;
}

// `cut`: the right matrix may lack elements.
template <class P>
const char* launch_pass(void* stream, const P& p, long long columns, bool cut, void* parts) {
  if (const char* problem = launch_tiles<4>(stream, p, plan_of(p), parts)) return problem;
  if (!cut) return nullptr;
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), p.batches * p.rows * columns,
                             Repair<P>{p, columns});
}

// Whether a window reaches beyond an image.
bool is_padded(const Convolution& c) {
  for (int axis = 0; axis < 3; ++axis) {
    const long long end = (c.out[axis] - 1) * c.stride[axis] + (c.kernel[axis] - 1) * c.dilation[axis] + 1;
    if (c.padding[axis] > 0 || end > c.in[axis]) return true;
  }
  return false;
}
// Whether an output has each element of x in a window of its own.
bool is_pointwise(const Convolution& c) {
  return c.taps == 1 && c.stride[0] == 1 && c.stride[1] == 1 && c.stride[2] == 1 && !is_padded(c);
}

template <class T> const char* launch_as(void* stream, ConvTask task, const Convolution& c, void* parts) {
  if (task == ConvTask::forward) {
    const auto pass = forward<T>(c);
    return launch_pass(stream, pass, pass.columns, is_padded(c), parts);
  }
  if (task == ConvTask::data) {
    const auto pass = data<T>(c);
    return launch_pass(stream, pass, pass.columns, !is_pointwise(c), parts);
  }
  const auto pass = weights<T>(c);
  return launch_pass(stream, pass, pass.weights, is_padded(c), parts);
}

template <class T> long long bytes_as(ConvTask task, const Convolution& c) {
  if (task == ConvTask::forward) return bytes_of(forward<T>(c));
  if (task == ConvTask::data) return bytes_of(data<T>(c));
  return bytes_of(weights<T>(c));
}

}  // namespace

long long conv_bytes(ConvTask task, const Convolution& c) {
  return Type{c.type} == Type::f64 ? bytes_as<Doubles>(task, c) : bytes_as<Floats>(task, c);
}

const char* launch_conv(void* stream, ConvTask task, const Convolution& c, void* parts) {
  if (Type{c.type} == Type::f64) return launch_as<Doubles>(stream, task, c, parts);
  return launch_as<Floats>(stream, task, c, parts);
}

}  // namespace heddle::cuda_kernels
