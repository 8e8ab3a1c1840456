#include <algorithm>
#include <string>
#include <utility>

#include <heddle/array_batches.h>
#include <heddle/array_error.h>
#include <heddle/autograd.h>
#include <heddle/engine.h>
#include <heddle/ops.h>
#include <heddle/random.h>

namespace heddle {
namespace {

[[noreturn]] void fail(const std::string& problem) { throw InvalidArgument("ArrayBatches: " + problem); }

std::int64_t checked_rows(const std::vector<NDArray>& arrays) {
  if (arrays.empty()) fail("there are no arrays");
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::string which = "array " + std::to_string(i);
    if (!arrays[i].defined()) ndarray_detail::refuse_undefined("ArrayBatches");
    if (arrays[i].ndim() == 0) fail(which + " has no axis 0, along which batches are cut");
    if (arrays[i].shape()[0] == arrays[0].shape()[0]) continue;
    fail(which + " is " + arrays[i].shape().to_string() + "; want " + std::to_string(arrays[0].shape()[0]) +
         " rows, as array 0 has");
  }
  return arrays[0].shape()[0];
}

}  // namespace

ArrayBatches::ArrayBatches(std::vector<NDArray> arrays, ArrayBatchesOptions options, Where where)
    : arrays_(std::move(arrays)), options_(options) {
  const CallSite site(where);
  rows_ = checked_rows(arrays_);
  for (NDArray& one : arrays_) one = one.detach();
  if (options_.ranks < 1) fail("ranks is " + std::to_string(options_.ranks) + "; want 1 or more");
  if (options_.rank < 0 || options_.rank >= options_.ranks)
    fail("rank is " + std::to_string(options_.rank) + "; want 0 to " + std::to_string(options_.ranks - 1));
  if (options_.batch < options_.ranks)
    fail("batch is " + std::to_string(options_.batch) + "; want " + std::to_string(options_.ranks) +
         " or more, a row for each rank");
  if (!options_.uneven && options_.batch % options_.ranks != 0)
    fail("batch is " + std::to_string(options_.batch) + "; want a multiple of the " +
         std::to_string(options_.ranks) + " ranks, which get as many rows each");
}

std::int64_t ArrayBatches::size() const {
  const std::int64_t rest = rows_ % options_.batch;
  const std::int64_t least = options_.uneven ? options_.rank + 1 : options_.ranks;
  return rows_ / options_.batch + (!options_.drop_last && rest >= least ? 1 : 0);
}

void ArrayBatches::start(std::int64_t epoch, std::int64_t first) {
  if (epoch < 0 || first < 0)
    fail("epoch " + std::to_string(epoch) + ", batch " + std::to_string(first) + "; want 0 or more");
  next_ = first;
  if (!options_.shuffle) return;
  const EngineScope scope(arrays_[0].engine());
  const NDArray order = Generator(options_.seed).jumped(epoch).permutation(rows_);
  orders_.clear();
  for (const NDArray& one : arrays_) {
    const auto known = std::find_if(orders_.begin(), orders_.end(),
                                    [&](const NDArray& other) { return other.device() == one.device(); });
    orders_.push_back(known != orders_.end()           ? *known
                      : one.device() == order.device() ? order
                                                       : order.copy_to(one.device()));
  }
}

std::vector<NDArray> ArrayBatches::next() {
  if (next_ >= size()) return {};
  const std::int64_t begin = next_++ * options_.batch;
  std::int64_t end = std::min(begin + options_.batch, rows_);
  if (!options_.uneven) end -= (end - begin) % options_.ranks;
  const Slice rows{begin + options_.rank, end, options_.ranks};
  const NoGrad no_grad;
  std::vector<NDArray> batch;
  for (std::size_t i = 0; i < arrays_.size(); ++i)
    batch.push_back(orders_.empty() ? arrays_[i].slice(0, rows)
                                    : take(arrays_[i], orders_[i].slice(0, rows)));
  return batch;
}

}  // namespace heddle
