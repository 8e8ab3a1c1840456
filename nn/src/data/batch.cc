#include "data/batch.h"

#include <algorithm>
#include <cstring>
#include <typeinfo>

#include <heddle/check.h>
#include <heddle/parallel.h>

#include "data/augment.h"

namespace heddle::data_detail {
namespace {

constexpr std::int64_t kChunks = 16;  // of a batch, for workers to share
constexpr int kMostBad = 100;         // examples in a row

// Rethrows the error being handled with the example in its message. Errors of other types than Error and InvalidArgument
// keep their type, for callers who catch it.
[[noreturn]] void rethrow_of_example(const PendingBatch& batch, std::int64_t index) {
  const std::string who = "Loader: epoch " + std::to_string(batch.epoch) + ", batch " +
                          std::to_string(batch.number) + ", example " + std::to_string(index) + ": ";
  try {
    throw;
  } catch (const InvalidArgument& error) {
    if (typeid(error) != typeid(InvalidArgument)) throw;
    throw Error(who + error.message());
  } catch (const Error& error) {
    if (typeid(error) != typeid(Error)) throw;
    throw Error(who + error.what());
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(who + error.what());
  }
}

// An array whose elements may be read: contiguous, and no op changes it. Those that the op has declared are ready: to wait
// for them would also wait for ops that come after this one.
NDArray ready(const BatchSource& source, const NDArray& array) {
  NDArray x = array.detach();
  const bool declared = std::any_of(source.used.begin(), source.used.end(),
                                    [&](const NDArray& used) { return used.storage() == x.storage(); });
  if (!x.is_contiguous() || (check::enabled() && !declared)) {
    x = x.copy();
    x.wait();
  } else if (!declared) {
    x.wait();
  }
  return x;
}

void check_example(const BatchSource& source, const Example& example) {
  if (example.size() != source.read.size()) {
    throw Error("has " + std::to_string(example.size()) + " arrays; the dataset says " +
                std::to_string(source.read.size()));
  }
  for (std::size_t i = 0; i < example.size(); ++i) {
    const ExampleArray& wanted = source.read[i];
    const std::string who = "array " + std::to_string(i) + " ";
    if (!example[i].defined()) throw Error(who + "is undefined");
    if (example[i].device().kind != DeviceKind::cpu) throw Error(who + "is on a GPU; wanted cpu()");
    const Shape& shape = example[i].shape();
    bool same = example[i].dtype() == wanted.dtype && shape.size() == wanted.shape.size();
    for (int axis = 0; same && axis < shape.size(); ++axis)
      same = wanted.shape[axis] == kInferred || wanted.shape[axis] == shape[axis];
    if (same) continue;
    throw Error(who + "is " + name_of(example[i].dtype()) + " " + shape.to_string() + "; the dataset says " +
                name_of(wanted.dtype) + " " + wanted.shape.to_string() + ", where -1 is any size");
  }
}

// Array `i` of an example, changed as the options say.
bool is_augmented(const BatchSource& source, std::size_t i) {
  return source.options.augment && i == static_cast<std::size_t>(source.options.augment_array);
}

void write_array(const BatchSource& source, std::size_t i, const NDArray& array, ExampleRandom& random,
                 std::byte* target) {
  const std::byte* const from = array.data<const std::byte>();
  if (is_augmented(source, i)) {
    run_augmentation(*source.options.augment, {array.dtype(), array.shape()}, from, random, target);
  } else if (array.size() > 0) {
    std::memcpy(target, from, static_cast<std::size_t>(array.size()) * size_of(array.dtype()));
  }
}

// Calls use(example, random) for an example, or with skip_bad for the one that replaces it.
template <class Use>
void with_example(const BatchSource& source, const PendingBatch& batch, std::int64_t index, Use use) {
  const std::int64_t size = source.dataset->size();
  for (int attempt = 1;; ++attempt) {
    try {
      ExampleRandom random(source.options.seed, batch.epoch, index);
      Example example = source.dataset->read_with(index, random);
      check_example(source, example);
      for (NDArray& array : example) array = ready(source, array);
      return use(std::move(example), random);
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const NeverSkipped&) {
      throw;
    } catch (const std::exception&) {
      if (!source.options.skip_bad) rethrow_of_example(batch, index);
      source.skipped.fetch_add(1, std::memory_order_relaxed);
      if (attempt == kMostBad) rethrow_of_example(batch, index);
    }
    index = (index + 1) % size;
  }
}

// Calls use(i, example, random) for each example of the batch. The error is that of the first one that has one.
template <class Use> void for_examples(const BatchSource& source, const PendingBatch& batch, Use use) {
  const auto count = static_cast<std::int64_t>(batch.indices.size());
  const std::int64_t grain = source.dataset->reads_concurrently() ? (count + kChunks - 1) / kChunks
                                                                  : std::max<std::int64_t>(count, 1);
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>((count + grain - 1) / grain));
  parallel_for(count, grain, [&](std::int64_t begin, std::int64_t end) {
    const EngineScope scope(*batch.engine);
    try {
      for (std::int64_t i = begin; i < end && !batch.dropped.load(std::memory_order_relaxed); ++i) {
        with_example(source, batch, batch.indices[static_cast<std::size_t>(i)],
                     [&](Example example, ExampleRandom& random) { use(i, std::move(example), random); });
      }
    } catch (...) {
      errors[static_cast<std::size_t>(begin / grain)] = std::current_exception();
    }
  });
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void fill_fixed(const BatchSource& source, PendingBatch& batch) {
  const LoaderOptions& options = source.options;
  if (!options.augment && !options.skip_bad && source.dataset->gather(batch.indices, batch.outputs)) return;
  std::vector<std::byte*> targets;
  std::vector<std::int64_t> bytes;
  for (std::size_t k = 0; k < batch.outputs.size(); ++k) {
    const NDArray& output = batch.outputs[k];
    targets.push_back(output.size() > 0 ? output.data<std::byte>() : nullptr);
    bytes.push_back(element_count(source.arrays[k].shape) *
                    static_cast<std::int64_t>(size_of(output.dtype())));
  }
  for_examples(source, batch, [&](std::int64_t i, const Example& example, ExampleRandom& random) {
    for (std::size_t k = 0; k < example.size(); ++k)
      if (bytes[k] > 0) write_array(source, k, example[k], random, targets[k] + i * bytes[k]);
  });
}

// Copies `from` into the corner of an array of shape `to`, axis by axis.
void copy_corner(const std::byte* from, const Shape& shape, std::byte* target, const Shape& to,
                 std::size_t element, int axis = 0) {
  const int axes = shape.size();
  if (axis >= axes - 1) {
    std::memcpy(target, from, (axes == 0 ? 1 : static_cast<std::size_t>(shape[axes - 1])) * element);
    return;
  }
  std::size_t from_step = element, to_step = element;
  for (int i = axis + 1; i < axes; ++i) {
    from_step *= static_cast<std::size_t>(shape[i]);
    to_step *= static_cast<std::size_t>(to[i]);
  }
  for (std::int64_t i = 0; i < shape[axis]; ++i, from += from_step, target += to_step)
    copy_corner(from, shape, target, to, element, axis + 1);
}

NDArray padded(const BatchSource& source, const std::vector<Example>& examples, std::size_t k) {
  const LoaderOptions& options = source.options;
  Shape each = source.arrays[k].shape;
  for (const int axis : varying_axes(each)) {
    std::int64_t most = 0;
    for (const Example& example : examples) most = std::max(most, example[k].shape()[axis]);
    each[axis] = (most + options.pad_multiple - 1) / options.pad_multiple * options.pad_multiple;
  }
  Shape shape{static_cast<std::int64_t>(examples.size())};
  for (const std::int64_t size : each) shape.push_back(size);
  const NDArray result(shape, source.arrays[k].dtype);
  if (result.size() == 0) return result;
  const std::size_t element = size_of(result.dtype());
  const std::int64_t bytes = element_count(each) * static_cast<std::int64_t>(element);
  std::byte* const target = result.data<std::byte>();
  visit_dtype(result.dtype(), [&]<class T> {
    const T pad = Scalar(k < options.pad.size() ? options.pad[k] : 0.0).as<T>();
    std::fill_n(reinterpret_cast<T*>(target), result.size(), pad);
  });
  for (std::size_t i = 0; i < examples.size(); ++i) {
    const NDArray& x = examples[i][k];
    if (x.size() == 0) continue;
    copy_corner(x.data<const std::byte>(), x.shape(), target + static_cast<std::int64_t>(i) * bytes, each,
                element);
  }
  return result;
}

NDArray lengths_of(const BatchSource& source, const std::vector<Example>& examples, std::size_t k) {
  const std::vector<int> axes = varying_axes(source.arrays[k].shape);
  Shape shape{static_cast<std::int64_t>(examples.size())};
  if (axes.size() > 1) shape.push_back(static_cast<std::int64_t>(axes.size()));
  const NDArray result(shape, DType::i64);
  if (result.size() == 0) return result;
  std::int64_t* at = result.data<std::int64_t>();
  for (const Example& example : examples) {
    for (const int axis : axes) *at++ = example[k].shape()[axis];
  }
  return result;
}

void fill_varying(const BatchSource& source, PendingBatch& batch) {
  std::vector<Example> examples(batch.indices.size());
  for_examples(source, batch, [&](std::int64_t i, Example example, ExampleRandom& random) {
    for (std::size_t k = 0; k < example.size(); ++k) {
      if (!is_augmented(source, k)) continue;
      const ExampleArray to = augmented(*source.options.augment, {example[k].dtype(), example[k].shape()});
      const NDArray changed(to.shape, to.dtype);
      write_array(source, k, example[k], random, changed.data<std::byte>());
      example[k] = changed;
    }
    examples[static_cast<std::size_t>(i)] = std::move(example);
  });
  if (batch.dropped) return;
  std::vector<NDArray> outputs;
  for (std::size_t k = 0; k < source.arrays.size(); ++k) outputs.push_back(padded(source, examples, k));
  for (std::size_t k = 0; k < source.arrays.size(); ++k)
    if (!varying_axes(source.arrays[k].shape).empty()) outputs.push_back(lengths_of(source, examples, k));
  batch.outputs = std::move(outputs);
}

}  // namespace

std::vector<int> varying_axes(const Shape& shape) {
  std::vector<int> axes;
  for (int axis = 0; axis < shape.size(); ++axis)
    if (shape[axis] == kInferred) axes.push_back(axis);
  return axes;
}

void fill_batch(const BatchSource& source, PendingBatch& batch) {
  // The loader's end sets `dropped` and then looks at `reads`: one of the two sees the other.
  struct Reading {
    std::atomic<bool>& reads;
    explicit Reading(std::atomic<bool>& of) : reads(of) { reads = true; }
    ~Reading() {
      reads = false;
      reads.notify_all();
    }
  };
  const Reading reading(batch.reads);
  if (batch.dropped) return;
  const EngineScope scope(*batch.engine);
  if (source.fixed)
    fill_fixed(source, batch);
  else
    fill_varying(source, batch);
}

}  // namespace heddle::data_detail
