// The reduction in two phases. Encoding writes the next residuals into separate arrays. The last op, which is skipped
// if an op before it has failed, copies them to the residuals, so that a failure leaves these unchanged.
#include <algorithm>
#include <bit>
#include <cstring>

#include <heddle/array_op.h>
#include <heddle/compression.h>
#include <heddle/default_engine.h>

namespace heddle {
namespace {

// Rank r's elements are begin(r) .. begin(r + 1): equal parts, of which the last ones may be shorter or empty.
struct Parts {
  std::size_t count, part, slot;

  std::size_t begin(std::size_t r) const { return std::min(count, r * part); }
  template <class T> std::span<T> values(T* all, std::size_t r) const {
    return {all + begin(r), begin(r + 1) - begin(r)};
  }
  // The slot of part r in `all`, in which the slots of all parts have the same size.
  template <class T> std::span<T> bytes(T* all, std::size_t r) const { return {all + r * slot, slot}; }
};

void decode_part(const Codec& codec, std::span<const std::byte> bytes, std::span<float> values) {
  codec.decode(bytes.first(codec.encoded_bytes(values.size())), values);
}

// The bytes of the text by which the ranks compare their codecs and counts.
constexpr std::int64_t kSettingsBytes = 96;

std::string settings_of(const Codec& codec, std::int64_t count) {
  std::string text = std::to_string(count) + " elements by " + codec.name();
  text.resize(kSettingsBytes);
  return text;
}

// Throws CommMismatch if a rank's settings differ from rank 0's. `all` has the texts of all ranks.
void compare_settings(const std::byte* all, std::size_t ranks) {
  const auto settings = [&](std::size_t rank) {
    const char* text = reinterpret_cast<const char*>(all) + rank * kSettingsBytes;
    return std::string(text, strnlen(text, kSettingsBytes));
  };
  for (std::size_t rank = 1; rank < ranks; ++rank) {
    if (settings(rank) == settings(0)) continue;
    throw CommMismatch("CompressedReduce: the ranks do not reduce the same: rank 0 has " + settings(0) +
                       ", rank " + std::to_string(rank) + " has " + settings(rank));
  }
}

std::int64_t signed_of(std::size_t value) { return static_cast<std::int64_t>(value); }

}  // namespace

void encode_with_feedback(const Codec& codec, std::span<const float> values, std::span<const float> residual,
                          std::span<float> next, std::span<float> scratch, std::span<std::byte> bytes) {
  const std::size_t count = values.size();
  for (std::size_t i = 0; i < count; ++i) next[i] = residual[i] + values[i];
  const std::span<std::byte> used = bytes.first(codec.encoded_bytes(count));
  codec.encode(next.first(count), used);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(used.size()), bytes.end(), std::byte{0});
  codec.decode(used, scratch.first(count));
#pragma GCC ivdep
  for (std::size_t i = 0; i < count; ++i) {
    const float left = next[i] - scratch[i];
    const bool finite = (std::bit_cast<std::uint32_t>(left) & 0x7f800000) != 0x7f800000;
    next[i] = finite ? left : 0.0f;
  }
}

CompressedReduce::CompressedReduce(std::shared_ptr<Communicator> ranks, std::shared_ptr<const Codec> codec,
                                   std::int64_t count, Where where)
    : ranks_(std::move(ranks)), codec_(std::move(codec)), count_(count) {
  if (!ranks_ || !codec_) throw InvalidArgument("CompressedReduce: the communicator or the codec is null");
  if (count_ < 0) throw InvalidArgument("CompressedReduce: count is " + std::to_string(count_));
  sum_codec_ = codec_->for_sums(ranks_->size());
  if (!sum_codec_) sum_codec_ = codec_;
  const std::int64_t size = ranks_->size();
  part_ = (count_ + size - 1) / size;
  if (part_ > 0xffffffff) throw InvalidArgument("CompressedReduce: over 2^32 elements for each rank");
  slot_ = codec_->encoded_bytes(static_cast<std::size_t>(part_));
  const std::int64_t begin = std::min(count_, ranks_->rank() * part_);
  const std::int64_t mine = std::min(part_, count_ - begin);
  const CallSite site(where);
  const EngineScope scope(ranks_->engine());
  residual_ = zeros({count_});
  sum_residual_ = zeros({mine});
  next_ = NDArray({count_});
  sum_next_ = NDArray({mine});
  scratch_ = NDArray({2 * part_});
  outgoing_ = NDArray({size * signed_of(slot_)}, DType::u8);
  incoming_ = NDArray(outgoing_.shape(), DType::u8);
  sum_ = NDArray({signed_of(slot_)}, DType::u8);
  all_ = NDArray(outgoing_.shape(), DType::u8);
}

void CompressedReduce::reduce(const NDArray& array, Where where) {
  const CallSite site(where);
  if (!array.defined() || array.dtype() != DType::f32 || array.size() != count_ || array.overlaps_itself()) {
    throw InvalidArgument(
        "CompressedReduce::reduce: the array is " +
        (array.defined() ? array.shape().to_string() + " " + name_of(array.dtype()) : "undefined") +
        "; want f32, " + std::to_string(count_) + " elements that share no memory");
  }
  if (!array.is_contiguous()) {
    const NDArray copy = array.detach().copy();
    reduce(copy, where);
    return array.detach().assign(copy);
  }
  if (!agreed_.defined()) push_agreement(where);
  push_encode(array.detach());
  ranks_->all_to_all(outgoing_, incoming_, where);
  push_sum();
  ranks_->all_gather(sum_, all_, where);
  push_decode(array.detach());
}

// Compares codecs and counts in the first call, since data of another codec or length could be decoded without an
// error.
void CompressedReduce::push_agreement(std::source_location where) {
  const EngineScope scope(ranks_->engine());
  const std::string settings = settings_of(*codec_, count_);
  const NDArray mine =
      heddle::array(std::vector<std::uint8_t>(settings.begin(), settings.end()), {kSettingsBytes});
  const NDArray all({kSettingsBytes * ranks_->size()}, DType::u8);
  ranks_->all_gather(mine, all, where);
  agreed_ = NDArray({1}, DType::u8);
  array_push("compare_codecs", {all}, {agreed_}, [all, ranks = static_cast<std::size_t>(ranks_->size())] {
    compare_settings(all.data<const std::byte>(), ranks);
  });
}

void CompressedReduce::push_encode(const NDArray& array) const {
  const Parts parts{static_cast<std::size_t>(count_), static_cast<std::size_t>(part_), slot_};
  const auto size = static_cast<std::size_t>(ranks_->size());
  array_push(
      "compress", {array, residual_, agreed_}, {next_, scratch_, outgoing_},
      [=, codec = codec_, residual = residual_, next = next_, scratch = scratch_, outgoing = outgoing_] {
        for (std::size_t r = 0; r < size; ++r) {
          const auto values = parts.values(array.data<const float>(), r);
          encode_with_feedback(*codec, values, parts.values(residual.data<const float>(), r),
                               parts.values(next.data<float>(), r), {scratch.data<float>(), values.size()},
                               parts.bytes(outgoing.data<std::byte>(), r));
        }
      });
}

void CompressedReduce::push_sum() const {
  const Parts parts{static_cast<std::size_t>(count_), static_cast<std::size_t>(part_), slot_};
  const auto size = static_cast<std::size_t>(ranks_->size());
  array_push("add_compressed", {incoming_, sum_residual_}, {sum_next_, scratch_, sum_},
             [=, codec = codec_, sum_codec = sum_codec_, incoming = incoming_, residual = sum_residual_,
              next = sum_next_, scratch = scratch_, out = sum_] {
               const std::span<float> total{scratch.data<float>(), static_cast<std::size_t>(next.size())};
               const std::span<float> one{scratch.data<float>() + parts.part, total.size()};
               const std::byte* bytes = incoming.data<const std::byte>();
               decode_part(*codec, parts.bytes(bytes, 0), total);
               for (std::size_t r = 1; r < size; ++r) {
                 decode_part(*codec, parts.bytes(bytes, r), one);
                 for (std::size_t i = 0; i < total.size(); ++i) total[i] += one[i];
               }
               encode_with_feedback(*sum_codec, total, {residual.data<const float>(), total.size()},
                                    {next.data<float>(), total.size()}, one,
                                    parts.bytes(out.data<std::byte>(), 0));
             });
}

void CompressedReduce::push_decode(const NDArray& array) const {
  const Parts parts{static_cast<std::size_t>(count_), static_cast<std::size_t>(part_), slot_};
  const auto size = static_cast<std::size_t>(ranks_->size());
  array_push("decompress", {all_, next_, sum_next_}, {array, residual_, sum_residual_},
             [=, codec = sum_codec_, all = all_, next = next_, sum_next = sum_next_, residual = residual_,
              sum_residual = sum_residual_] {
               for (std::size_t r = 0; r < size; ++r) {
                 decode_part(*codec, parts.bytes(all.data<const std::byte>(), r),
                             parts.values(array.data<float>(), r));
               }
               const auto take_over = [](const NDArray& from, const NDArray& to) {
                 std::copy_n(from.data<const float>(), from.size(), to.data<float>());
               };
               take_over(next, residual);
               take_over(sum_next, sum_residual);
             });
}

void CompressedReduce::clear_errors(Where where) {
  const Where site = CallSite::current(where);
  for (const NDArray& residual : {residual_, sum_residual_})
    residual.engine().clear_error(residual.var(), site);
}

void CompressedReduce::set_residuals(const NDArray& residual, const NDArray& sum_residual, Where where) {
  const CallSite site(where);
  const auto check = [](const char* name, const NDArray& given, const NDArray& mine) {
    if (given.defined() && given.dtype() == DType::f32 && given.size() == mine.size()) return;
    throw InvalidArgument(
        "CompressedReduce::set_residuals: the " + std::string(name) + " is " +
        (given.defined() ? given.shape().to_string() + " " + name_of(given.dtype()) : "undefined") +
        "; want f32, " + std::to_string(mine.size()) + " elements");
  };
  check("residual", residual, residual_);
  check("residual of the sum", sum_residual, sum_residual_);
  residual_.assign(residual.detach().contiguous().view_as(residual_.shape()));
  sum_residual_.assign(sum_residual.detach().contiguous().view_as(sum_residual_.shape()));
}

std::size_t CompressedReduce::wire_bytes() const {
  return 2 * slot_ * static_cast<std::size_t>(ranks_->size() - 1);
}

}  // namespace heddle
