#include <algorithm>
#include <cmath>
#include <deque>
#include <limits>
#include <sstream>
#include <type_traits>

#include <heddle/array_op.h>
#include <heddle/check.h>
#include <heddle/data/loader.h>
#include <heddle/gpu_memory.h>
#include <heddle/graph.h>

#include "data/batch.h"

namespace heddle {

struct data_detail::LoaderState {
  std::shared_ptr<BatchSource> source = std::make_shared<BatchSource>();
  Where where;
  std::int64_t size = 0;
  std::int64_t epoch = 0, next = 0, pushed = 0;  // batches of the epoch
  std::optional<EpochOrder> order;
  std::deque<std::shared_ptr<PendingBatch>> pending;

  const LoaderOptions& options() const { return source->options; }
  EpochOrder order_of(std::int64_t of) const {
    return {source->dataset->size(), source->lengths, options(), of};
  }
  void drop() {
    for (const auto& batch : pending) batch->dropped = true;
    pending.clear();
  }
};

namespace {

using namespace data_detail;

[[noreturn]] void fail_loader(const std::string& problem) { throw InvalidArgument("Loader: " + problem); }

void check_range(const char* name, std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return;
  fail_loader(std::string(name) + " is " + std::to_string(value) + "; wanted " + std::to_string(least) +
              (most == INT64_MAX ? " or more" : " to " + std::to_string(most)));
}

void check_options(const LoaderOptions& options) {
  check_range("batch", options.batch, 1, std::int64_t{1} << 40);
  check_range("ranks", options.ranks, 1, 1 << 22);  // batch * ranks fits
  check_range("rank", options.rank, 0, options.ranks - 1);
  check_range("ahead", options.ahead, 0, 1024);
  check_range("bucket_by_length", options.bucket_by_length, 0, std::int64_t{1} << 32);
  check_range("pad_multiple", options.pad_multiple, 1, 1 << 30);
  if (options.device.kind == DeviceKind::cpu) return;
  if (const std::string why = gpu_refusal(options.device); !why.empty())
    fail_loader("device is " + options.device.to_string() + ": " + why);
}

// Asks for the lengths once: the dataset may be slow to say them.
std::vector<std::int64_t> lengths_of_examples(const Dataset& dataset) {
  std::vector<std::int64_t> lengths;
  for (std::int64_t i = 0; i < dataset.size(); ++i) {
    lengths.push_back(dataset.length(i));
    if (lengths.back() >= 0) continue;
    fail_loader("bucket_by_length needs the dataset's length(index), which is " +
                std::to_string(lengths.back()) + " for example " + std::to_string(i));
  }
  return lengths;
}

// Whether an array of T can hold the value: reals may be rounded, but not to infinity.
template <class T> bool holds_value(double value) {
  if constexpr (std::is_same_v<T, bool>) {
    return value == 0 || value == 1;
  } else if constexpr (std::is_integral_v<T>) {
    return value == std::trunc(value) && value >= static_cast<double>(std::numeric_limits<T>::min()) &&
           value < std::ldexp(1.0, std::numeric_limits<T>::digits);
  } else {
    return !std::isfinite(value) || std::isfinite(static_cast<double>(static_cast<T>(value)));
  }
}

// A value for an array whose sizes do not vary is not used.
void check_pad(const BatchSource& source) {
  const std::vector<double>& pad = source.options.pad;
  for (std::size_t k = 0; k < pad.size(); ++k) {
    const ExampleArray& array = source.arrays[k];
    if (varying_axes(array.shape).empty() ||
        visit_dtype(array.dtype, [&]<class T> { return holds_value<T>(pad[k]); }))
      continue;
    std::ostringstream shown;
    shown << pad[k];
    fail_loader("pad value " + std::to_string(k) + " is " + shown.str() + "; wanted one that " +
                name_of(array.dtype) + " has, the dtype of array " + std::to_string(k));
  }
}

// Fills in what the source says of arrays.
void describe(BatchSource& source) {
  const LoaderOptions& options = source.options;
  source.read = source.arrays = source.dataset->arrays();
  if (source.read.empty()) fail_loader("the dataset's examples have no arrays");
  if (options.pad.size() > source.arrays.size()) {
    fail_loader("pad has " + std::to_string(options.pad.size()) + " values; examples have " +
                std::to_string(source.arrays.size()) + " arrays");
  }
  if (options.augment) {
    check_range("augment_array", options.augment_array, 0,
                static_cast<std::int64_t>(source.arrays.size()) - 1);
    ExampleArray& image = source.arrays[static_cast<std::size_t>(options.augment_array)];
    image = augmented(*options.augment, image);
  }
  for (const ExampleArray& array : source.arrays) {
    if (array.shape.size() == kMaxDims) {
      fail_loader("an array " + array.shape.to_string() + " of an example has " + std::to_string(kMaxDims) +
                  " axes; wanted room for the batch's");
    }
    for (const std::int64_t size : array.shape) {
      if (size < 0 && size != kInferred)
        fail_loader("the dataset has an array of shape " + array.shape.to_string());
      if (size == kInferred) source.fixed = false;
    }
  }
  check_pad(source);
}

// What a batch has before `arrays` is applied, without axis 0.
std::vector<ExampleArray> with_lengths(const std::vector<ExampleArray>& read) {
  std::vector<ExampleArray> arrays = read;
  for (const ExampleArray& array : read) {
    const auto varying = static_cast<std::int64_t>(varying_axes(array.shape).size());
    if (varying > 0) arrays.push_back({DType::i64, varying > 1 ? Shape{varying} : Shape{}});
  }
  return arrays;
}

void check_arrays(const BatchSource& source) {
  const auto most = static_cast<std::int64_t>(with_lengths(source.arrays).size()) - 1;
  for (std::size_t i = 0; i < source.options.arrays.size(); ++i)
    check_range(("arrays[" + std::to_string(i) + "]").c_str(), source.options.arrays[i], 0, most);
}

// Those of all arrays that the option names.
template <class T> std::vector<T> chosen(std::vector<T> all, const LoaderOptions& options) {
  if (options.arrays.empty()) return all;
  std::vector<T> result;
  for (const int number : options.arrays) result.push_back(all[static_cast<std::size_t>(number)]);
  return result;
}

// The device of the memory that the op of a batch writes. Page-locked memory is taken by way of a GPU that is in use.
Device place_of_reading(Engine& engine, Device device) {
  if (device.kind != DeviceKind::cuda) return cpu();
  engine.stream(device);
  return cpu_pinned();
}

void copy_outputs(PendingBatch& batch, const LoaderOptions& options) {
  const std::vector<int>& numbers = options.arrays;
  std::vector<NDArray> copies;
  for (const NDArray& output : batch.outputs) {
    const bool is_chosen =
        numbers.empty() || std::find(numbers.begin(), numbers.end(), std::ssize(copies)) != numbers.end();
    copies.push_back(!is_chosen || output.device() == options.device ? output
                                                                     : output.copy_to(options.device));
  }
  batch.copies = std::move(copies);
}

}  // namespace

Loader::Loader(AnyDataset dataset, LoaderOptions options, Where where)
    : state_(std::make_shared<LoaderState>()) {
  const CallSite site(where);
  state_->where = CallSite::current(where);
  BatchSource& source = *state_->source;
  check_options(options);
  source.dataset = dataset.get("Loader");
  source.options = std::move(options);
  for (const NDArray& array : source.dataset->used_arrays()) source.used.push_back(array.detach());
  describe(source);
  check_arrays(source);
  const std::int64_t examples = source.dataset->size();
  state_->size = examples > 0 ? batches_of_epoch(examples, source.options) : 0;
  if (state_->size == 0) {
    fail_loader("no batch: the dataset has " + std::to_string(examples) + " examples, for " +
                std::to_string(source.options.ranks) + " ranks and batches of " +
                std::to_string(source.options.batch));
  }
  if (source.options.bucket_by_length > 0) source.lengths = lengths_of_examples(*source.dataset);
}

// Ops that read end after the example that they are at. Only in an op, which such an op might be below, nothing waits.
Loader::~Loader() {
  const auto pending = state_->pending;
  state_->drop();
  if (check::running_op()) return;
  for (const auto& batch : pending) batch->reads.wait(true);
}

std::int64_t Loader::size() const { return state_->size; }
std::int64_t Loader::epoch() const { return state_->epoch; }
std::int64_t Loader::position() const { return state_->next; }
std::vector<ExampleArray> Loader::arrays() const {
  return chosen(with_lengths(state_->source->arrays), state_->options());
}
std::int64_t Loader::skipped() const { return state_->source->skipped; }
bool Loader::is_idle() const { return state_->source.use_count() == 1; }
const LoaderOptions& Loader::options() const { return state_->options(); }

void Loader::start(std::int64_t epoch, std::int64_t first) {
  if (epoch < 0) fail_loader("start: epoch is " + std::to_string(epoch) + "; wanted 0 or more");
  check_range("start: first", first, 0, state_->size);
  // The order is computed once for an epoch; without shuffle all epochs have one order.
  if (!state_->order || (epoch != state_->epoch && state_->options().shuffle))
    state_->order.emplace(state_->order_of(epoch));
  state_->epoch = epoch;
  state_->next = first;
  drop();
}

void Loader::drop() {
  state_->drop();
  state_->pushed = state_->next;
}

std::vector<std::int64_t> Loader::indices(std::int64_t epoch, std::int64_t batch) const {
  if (epoch < 0) fail_loader("indices: epoch is " + std::to_string(epoch) + "; wanted 0 or more");
  check_range("indices: batch", batch, 0, state_->size - 1);
  if (state_->order && epoch == state_->epoch) return state_->order->indices(batch);
  return state_->order_of(epoch).indices(batch);
}

void Loader::push(std::int64_t number) {
  const std::shared_ptr<BatchSource>& source = state_->source;
  auto batch = std::make_shared<PendingBatch>();
  batch->epoch = state_->epoch;
  batch->number = number;
  batch->indices = state_->order->indices(number);
  batch->engine = &current_engine();
  if (source->fixed) {
    const Device place = place_of_reading(*batch->engine, state_->options().device);
    for (const ExampleArray& array : source->arrays) {
      Shape shape{static_cast<std::int64_t>(batch->indices.size())};
      for (const std::int64_t size : array.shape) shape.push_back(size);
      batch->outputs.emplace_back(shape, array.dtype, place);
    }
  } else {
    batch->done = batch->engine->new_var();
  }
  Access access = array_access("load_batch", source->used, batch->outputs);
  if (batch->done) access.mutate.add(batch->done);
  state_->pending.push_back(batch);
  try {
    batch->engine->push([source, batch] { fill_batch(*source, *batch); }, access, state_->where);
  } catch (...) {
    state_->pending.pop_back();
    throw;
  }
  ++state_->pushed;
  if (source->fixed) copy_outputs(*batch, state_->options());
}

// A push that fails leaves the batch for the next call.
bool Loader::read_ahead(std::size_t count) {
  if (is_capturing()) {
    throw Error(
        "Loader: next() in a capture would give the same batch in each launch; pass the batch to the step");
  }
  if (!state_->order) start(state_->epoch, state_->next);
  while (state_->pushed < state_->size && state_->pending.size() < count) push(state_->pushed);
  return state_->next < state_->size;
}

void Loader::wait() {
  if (!read_ahead(static_cast<std::size_t>(std::max(1, state_->options().ahead)))) return;
  const std::shared_ptr<PendingBatch> batch = state_->pending.front();
  try {
    if (batch->done) batch->engine->wait(batch->done);
  } catch (...) {  // next() throws it
  }
}

std::vector<NDArray> Loader::next() {
  const int ahead = state_->options().ahead;
  if (!read_ahead(static_cast<std::size_t>(std::max(1, ahead)))) return {};
  if (ahead > 0) read_ahead(static_cast<std::size_t>(ahead) + 1);
  const std::shared_ptr<PendingBatch> batch = state_->pending.front();
  state_->pending.pop_front();
  ++state_->next;
  if (batch->done) batch->engine->wait(batch->done);
  if (batch->copies.empty()) copy_outputs(*batch, state_->options());
  return chosen(batch->copies, state_->options());
}

}  // namespace heddle
