// Random numbers of more distributions. Uniform and normal ones are drawn by class Generator (random.h).
//
// The numbers are drawn from a generator when the call is made: the same for the same seed and order of
// calls, with any number of workers. Each element has its own part of the generator's counter, so that
// rejected numbers of one element do not shift others. Parameters are numbers or arrays, which broadcast to
// `shape`. A number out of range throws InvalidArgument; an array's element out of range is an op error that
// names its position. dtype is floating, or any dtype for distributions of counts. Numbers are computed in
// f64. Only shuffle has a gradient.
#pragma once

#include <cstdint>
#include <optional>

#include <heddle/elementwise.h>
#include <heddle/random.h>

namespace heddle {

// The density is exp(-x / scale) / scale; scale >= 0.
NDArray exponential(Shape shape, const Operand& scale = 1.0, DType dtype = DType::f32, Device device = cpu(),
                    Generator& from = default_generator(), Where at = Where::current());

// The density is x^(concentration - 1) exp(-x / scale), up to a factor; concentration > 0, scale >= 0.
NDArray gamma(Shape shape, const Operand& concentration, const Operand& scale = 1.0, DType dtype = DType::f32,
              Device device = cpu(), Generator& from = default_generator(), Where at = Where::current());

// The density is x^(a - 1) (1 - x)^(b - 1), up to a factor; a, b > 0.
NDArray beta(Shape shape, const Operand& a, const Operand& b, DType dtype = DType::f32, Device device = cpu(),
             Generator& from = default_generator(), Where at = Where::current());

// Poisson's distribution: the number of events where `rate` events are expected; rate >= 0.
NDArray poisson(Shape shape, const Operand& rate, DType dtype = DType::i64, Device device = cpu(),
                Generator& from = default_generator(), Where at = Where::current());

// The number of successes in n trials, each with probability p; n >= 0, whole.
NDArray binomial(Shape shape, const Operand& n, const Operand& p, DType dtype = DType::i64,
                 Device device = cpu(), Generator& from = default_generator(), Where at = Where::current());

// Normal numbers with this mean and deviation (> 0) that lie between low and high, which may be infinite.
NDArray truncated_normal(Shape shape, double mean = 0, double stddev = 1, double low = -2, double high = 2,
                         DType dtype = DType::f32, Device device = cpu(),
                         Generator& from = default_generator(), Where at = Where::current());

// Indices (i64) into the last axis of logits (..., n), with probabilities proportional to exp(logit). The
// result has shape (...); with num_samples, (..., num_samples). A row without a logit above -infinity, or
// with NaN or infinity, is an op error.
NDArray categorical(const NDArray& logits, std::optional<std::int64_t> num_samples = {},
                    Generator& from = default_generator(), Where at = Where::current());

// Indices (i64) into the last axis of weights (..., n), with probabilities proportional to the weights. The
// result has shape (..., num_samples). Without replacement no index repeats in a row. A negative or infinite
// weight, or too few above 0, is an op error.
NDArray multinomial(const NDArray& weights, std::int64_t num_samples, bool replacement = false,
                    Generator& from = default_generator(), Where at = Where::current());

// Draws an array of `shape` of entries of x along axis 0; if x is a whole number, of numbers from 0 to x - 1
// (i64). With `replace` an entry may be drawn several times, else once at most. Probabilities are equal, or
// proportional to p (n) if p is given.
NDArray choice(const Operand& x, Shape shape, bool replace = true, const NDArray& p = {},
               Generator& from = default_generator(), Where at = Where::current());

// A copy of x with its entries along `axis` in random order.
NDArray shuffle(const NDArray& x, int axis = 0, Generator& from = default_generator(),
                Where at = Where::current());

}  // namespace heddle
