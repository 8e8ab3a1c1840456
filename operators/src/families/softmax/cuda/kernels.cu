// Softmax and cross entropy on a GPU: a team of threads computes a line, whose elements are read from DRAM once and from caches
// afterwards. Sums are f64 and joined in a fixed order, which is not the CPU's.
#include <cmath>
#include <limits>

#include "cuda/arithmetic.h"
#include "cuda/report.h"
#include "cuda/team.h"
#include "families/softmax/cuda/kernels.h"
#include "families/softmax/cuda/long_lines.h"
#include "gpu/elements.h"
#include "gpu/layout.h"

namespace heddle::cuda_kernels {
namespace {

using on_gpu::Type;

// What a thread does of one line. Elements of a line are `inner` apart.
struct Line {
  long long first, end;  // of the line's elements that the thread takes; it takes every step-th
  long long step, begin, inner;

  HEDDLE_DEVICE Line(const Team& team, const Lines& lines)
      : first(team.position()), end(lines.length), step(team.size()), inner(lines.inner) {
    const long long line = team.line();
    if (line >= lines.outer * inner) end = 0;
    begin = inner == 1 ? line * lines.length : line / inner * lines.length * inner + line % inner;
  }
  HEDDLE_DEVICE long long at(long long i) const { return begin + i * inner; }
};

// The maximum of a line, NaN if the line holds one, and the sum of exp(x - maximum).
template <class T> struct Shifted {
  T shift, sum;

  HEDDLE_DEVICE Shifted(Team& team, const Line& line, const From<T>& x) {
    T most = -std::numeric_limits<T>::infinity();
    for (long long i = line.first; i < line.end; i += line.step) most = Larger{}(most, x[line.at(i)]);
    shift = team.all(most, Larger{});
    double total = 0;
    for (long long i = line.first; i < line.end; i += line.step)
      total += static_cast<double>(std::exp(x[line.at(i)] - shift));
    sum = static_cast<T>(team.all(total, Plus{}));
  }
};

template <class T> struct Softmax {
  Teams teams;
  Lines lines;
  From<T> x;
  To<T> y;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const Line line(team, lines);
    const Shifted<T> shifted(team, line, x);
    if (lines.log) {
      const T log_sum = std::log(shifted.sum);
      for (long long i = line.first; i < line.end; i += line.step)
        y.put(line.at(i), x[line.at(i)] - shifted.shift - log_sum);
    } else {
      const T share = T{1} / shifted.sum;
      for (long long i = line.first; i < line.end; i += line.step)
        y.put(line.at(i), std::exp(x[line.at(i)] - shifted.shift) * share);
    }
  }
};

template <class T> struct SoftmaxBackward {
  Teams teams;
  Lines lines;
  const T *g, *y;
  To<T> x_grad;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const Line line(team, lines);
    double total = 0;
    for (long long i = line.first; i < line.end; i += line.step) {
      const double term = static_cast<double>(g[line.at(i)]);
      total += lines.log ? term : term * static_cast<double>(y[line.at(i)]);
    }
    const T sum = static_cast<T>(team.all(total, Plus{}));
    for (long long i = line.first; i < line.end; i += line.step) {
      const long long at = line.at(i);
      x_grad.put(at, lines.log ? g[at] - std::exp(y[at]) * sum : y[at] * (g[at] - sum));
    }
  }
};

HEDDLE_DEVICE long long label_of(const LabelledRows& rows, long long row) {
  const Type type{rows.label_dtype};
  if (type == Type::u8) return static_cast<const unsigned char*>(rows.labels)[row];
  return on_gpu::load<long long>(rows.labels, row, type);
}

// The loss of a row, or the report of a label outside of the classes.
template <class T> struct Loss {
  LabelledRows rows;
  From<T> x;
  double* losses;
  FaultSlot* fault;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread, long long row, T shift, T sum) const {
    const long long label = label_of(rows, row);
    if (label < 0 || label >= rows.classes)
      report(thread, fault, row, static_cast<unsigned long long>(label));
    else
      losses[row] =
          static_cast<double>(std::log(sum)) - static_cast<double>(x[row * rows.classes + label] - shift);
  }
};
struct NoLoss {
  template <class T> HEDDLE_DEVICE void operator()(on_gpu::Thread&, long long, T, T) const {}
};

template <class T> struct CrossEntropy {
  Teams teams;
  LabelledRows rows;
  From<T> x;
  T* probabilities;
  double* losses;
  FaultSlot* fault;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    Team team(thread, teams);
    const Line line(team, {rows.rows, rows.classes, 1, false, rows.type});
    const Shifted<T> shifted(team, line, x);
    const T share = T{1} / shifted.sum;
    for (long long i = line.first; i < line.end; i += line.step)
      probabilities[line.at(i)] = std::exp(x[line.at(i)] - shifted.shift) * share;
    const long long row = team.line();
    if (team.position() != 0 || row >= rows.rows) return;
    Loss<T>{rows, x, losses, fault}(thread, row, shifted.shift, shifted.sum);
  }
};

template <class T> struct CrossEntropyBackward {
  LabelledRows rows;
  const T *g, *probabilities;
  To<T> logits_grad;

  HEDDLE_DEVICE void operator()(on_gpu::Thread& thread) const {
    const T factor = *g / static_cast<T>(rows.rows);
    const long long count = rows.rows * rows.classes;
    const bool small = count <= 0x7fffffff;  // a division of 64 bits takes several times as long
    for (long long i = thread.global_index(); i < count; i += thread.global_size()) {
      const long long row =
          small ? static_cast<unsigned>(i) / static_cast<unsigned>(rows.classes) : i / rows.classes;
      const T value = probabilities[i] * factor;
      logits_grad.put(i, i - row * rows.classes == label_of(rows, row) ? value - factor : value);
    }
  }
};

bool is_wide(unsigned char type) { return Type{type} == Type::f64; }

template <class T>
const char* softmax(void* stream, const Lines& lines, const void* x, void* y, unsigned char y_type,
                    ScratchBlocks& scratch) {
  const From<T> from{x, Type{lines.type}};
  const To<T> to{y, Type{y_type}};
  if (is_long(lines)) return long_softmax(stream, lines, from, to, NoLoss{}, scratch);
  const long long count = lines.outer * lines.inner;
  const Teams teams = teams_for(count, lines.length, lines.inner > 1);
  const Softmax<T> kernel{teams, lines, from, to};
  return launch_teams(stream, count, 1, teams, kernel);
}

template <class T>
const char* softmax_backward(void* stream, const Lines& lines, const void* g, const void* y, void* x_grad,
                             ScratchBlocks& scratch) {
  if (is_long(lines))
    return long_softmax_backward(stream, lines, static_cast<const T*>(g), static_cast<const T*>(y),
                                 To<T>{x_grad, Type{lines.type}}, scratch);
  const long long count = lines.outer * lines.inner;
  const Teams teams = teams_for(count, lines.length, lines.inner > 1);
  const SoftmaxBackward<T> kernel{
      teams, lines, static_cast<const T*>(g), static_cast<const T*>(y), {x_grad, Type{lines.type}}};
  return launch_teams(stream, count, 1, teams, kernel);
}

template <class T>
const char* cross_entropy(void* stream, const LabelledRows& rows, const void* x, void* probabilities,
                          double* losses, FaultSlot* fault, ScratchBlocks& scratch) {
  const Lines lines{rows.rows, rows.classes, 1, false, rows.type};
  const From<T> from{x, Type{rows.type}};
  if (is_long(lines)) {
    const To<T> to{probabilities, is_wide(rows.type) ? Type::f64 : Type::f32};
    return long_softmax(stream, lines, from, to, Loss<T>{rows, from, losses, fault}, scratch);
  }
  const Teams teams = teams_for(rows.rows, rows.classes, false);
  const CrossEntropy<T> kernel{teams, rows, from, static_cast<T*>(probabilities), losses, fault};
  return launch_teams(stream, rows.rows, 1, teams, kernel);
}

template <class T>
const char* cross_entropy_backward(void* stream, const LabelledRows& rows, const void* g,
                                   const void* probabilities, void* logits_grad) {
  const CrossEntropyBackward<T> kernel{
      rows, static_cast<const T*>(g), static_cast<const T*>(probabilities), {logits_grad, Type{rows.type}}};
  return on_gpu::launch_over(static_cast<cudaStream_t>(stream), rows.rows * rows.classes, kernel);
}

}  // namespace

const char* launch_softmax(void* stream, const Lines& lines, const void* x, void* y, unsigned char y_type,
                           ScratchBlocks& scratch) {
  return is_wide(lines.type) ? softmax<double>(stream, lines, x, y, y_type, scratch)
                             : softmax<float>(stream, lines, x, y, y_type, scratch);
}

const char* launch_softmax_backward(void* stream, const Lines& lines, const void* g, const void* y,
                                    void* x_grad, ScratchBlocks& scratch) {
  return is_wide(lines.type) ? softmax_backward<double>(stream, lines, g, y, x_grad, scratch)
                             : softmax_backward<float>(stream, lines, g, y, x_grad, scratch);
}

const char* launch_cross_entropy(void* stream, const LabelledRows& rows, const void* logits,
                                 void* probabilities, double* losses, FaultSlot* fault,
                                 ScratchBlocks& scratch) {
  return is_wide(rows.type)
             ? cross_entropy<double>(stream, rows, logits, probabilities, losses, fault, scratch)
             : cross_entropy<float>(stream, rows, logits, probabilities, losses, fault, scratch);
}

const char* launch_cross_entropy_backward(void* stream, const LabelledRows& rows, const void* g,
                                          const void* probabilities, void* logits_grad) {
  return is_wide(rows.type) ? cross_entropy_backward<double>(stream, rows, g, probabilities, logits_grad)
                            : cross_entropy_backward<float>(stream, rows, g, probabilities, logits_grad);
}

}  // namespace heddle::cuda_kernels
