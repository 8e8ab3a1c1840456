// Compression of gradients: codecs, and an all_reduce that sends encoded data. The error of an encoding is added to the
// next gradient (error feedback; Karimireddy et al., ICML 2019).
//
//   CompressedReduce reduce(comm, make_codec("2bit:0.5"), gradient.size());
//   reduce.reduce(gradient);  // returns at once; about the sum over all ranks, the same bits on all
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <heddle/communicator.h>

namespace heddle {

// A codec encodes floats as bytes. encode() and decode() are pure functions, so a codec is thread-safe. The
// `bytes` of both functions are encoded_bytes(count) long, and need no alignment.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string name() const = 0;  // make_codec(name()) makes an equal codec
  virtual std::size_t encoded_bytes(std::size_t count) const = 0;
  virtual void encode(std::span<const float> values, std::span<std::byte> bytes) const = 0;
  // The codec that encodes sums of `ranks` decoded arrays, to as many bytes as this codec. Null: this codec
  // encodes the sums, too.
  virtual std::shared_ptr<const Codec> for_sums(int /*ranks*/) const { return nullptr; }
  // Throws Error for invalid bytes whose decoding would write outside of `values`.
  virtual void decode(std::span<const std::byte> bytes, std::span<float> values) const = 0;
};

// Makes a codec by its name. Values that are not finite stay so: some codecs turn them, or their whole block, into NaN.
//   "fp16", "bf16"  rounded to nearest even; values that are too large become inf
//   "2bit:T"        T, 0 or -T: values of at least T become T (Strom, Interspeech 2015; MXNet). Default 0.5
//   "1bit"          a sign for each value, and for every 1,024 the means of both signs (Seide et al. 2014)
//   "topk:R"        the R * count largest magnitudes, at least one; the others 0 (Lin et al., ICLR 2018). Default 0.01
//   "none"          null
// Throws InvalidArgument naming the codecs that exist.
std::shared_ptr<const Codec> make_codec(const std::string& text);

// Encodes c = residual + values, and sets next = c minus what the encoding decodes to: the residual of the
// next call. A residual that is not finite becomes 0, since it would spoil its element for ever. All spans
// but `bytes` have the same length; the part of `bytes` behind the encoding becomes zeros. next may be
// residual. Throws what the codec throws.
void encode_with_feedback(const Codec& codec, std::span<const float> values, std::span<const float> residual,
                          std::span<float> next, std::span<float> scratch, std::span<std::byte> bytes);

// The codec that is wanted: `text`, or if that is empty HEDDLE_COMM_COMPRESSION, or if that is not set
// "none".
std::string compression_setting(const std::string& text);

// Convert one float to the bits of an f16 or bf16 value, and back. NaN stays NaN.
std::uint16_t to_fp16(float value);
float from_fp16(std::uint16_t bits);
std::uint16_t to_bf16(float value);
float from_bf16(std::uint16_t bits);

// A repeated compressed all_reduce of one array; owns the residuals. As in Tang et al., "1-bit Adam" (ICML 2021), each
// rank sends part r of its array to rank r, which adds the parts in the order of ranks and sends the sum to all. Both
// messages are compressed, each with a residual of its own. Collective like Communicator's calls; not thread-safe.
class CompressedReduce {
 public:
  // Makes a reduction of arrays of `count` elements. Throws InvalidArgument for null pointers and count < 0.
  CompressedReduce(std::shared_ptr<Communicator> ranks, std::shared_ptr<const Codec> codec,
                   std::int64_t count, Where where = Where::current());

  // Pushes ops; `array` (f32) becomes the sum. Values that are not finite leave no residual. If the array or a rank has
  // failed, all ranks fail, the residuals keep their values, and this and later calls fail until clear_errors. If
  // codecs or counts differ between ranks, all calls fail with a CommMismatch that names them.
  void reduce(const NDArray& array, Where where = Where::current());

  // Lets later calls of reduce() succeed again, with the residuals of the last call that did not fail. The
  // array that reduce() was called on keeps its own error.
  void clear_errors(Where where = Where::current());

  // residual() copies the residual of this rank's array, sum_residual() that of the sum of this rank's part.
  // They block until earlier calls have ended, and rethrow errors.
  std::vector<float> residual(Where where = Where::current()) const {
    return residual_.to_vector<float>(where);
  }
  std::vector<float> sum_residual(Where where = Where::current()) const {
    return sum_residual_.to_vector<float>(where);
  }
  // Replaces the residuals of the array and of the sum. Throws InvalidArgument, with nothing changed, unless
  // both given arrays are f32 and as long as the residuals that they replace.
  void set_residuals(const NDArray& residual, const NDArray& sum_residual, Where where = Where::current());

  // Bytes that this rank sends to other ranks in a call of reduce().
  std::size_t wire_bytes() const;

 private:
  void push_agreement(std::source_location where);
  void push_encode(const NDArray& array) const;
  void push_sum() const;
  void push_decode(const NDArray& array) const;
  std::shared_ptr<Communicator> ranks_;
  std::shared_ptr<const Codec> codec_, sum_codec_;
  std::int64_t count_, part_;        // elements of the array, and of a part (the last parts may have fewer)
  std::size_t slot_;                 // bytes of an encoded part
  NDArray residual_, sum_residual_;  // the residuals after the last reduce() that succeeded
  // next_, sum_next_: the residuals after the current reduce(), if it succeeds.
  NDArray next_, sum_next_, scratch_;
  // Encodings: this rank's parts to send, received parts, this rank's sum, all sums.
  NDArray outgoing_, incoming_, sum_, all_;
  // Mutated by the op that compares the ranks' codecs and counts; undefined before the first reduce().
  NDArray agreed_{};
};

}  // namespace heddle
