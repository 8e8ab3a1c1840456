// Gradients in fewer bytes: codecs, and an all_reduce that sends what they make. What a codec loses is not lost: it is
// added to the next gradient (error feedback; Karimireddy et al., ICML 2019).
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

// Pure functions, for any thread. Spans must have the sizes that encoded_bytes says; bytes need no alignment.
class Codec {
 public:
  virtual ~Codec() = default;
  virtual std::string name() const = 0;  // make_codec(name()) makes an equal one
  virtual std::size_t encoded_bytes(std::size_t count) const = 0;
  virtual void encode(std::span<const float> values, std::span<std::byte> bytes) const = 0;
  // The one for sums of so many decoded arrays, as long when encoded; null: this one.
  virtual std::shared_ptr<const Codec> for_sums(int /*ranks*/) const { return nullptr; }
  // Throws Error for bytes that no encode has written, if that would lead outside of values.
  virtual void decode(std::span<const std::byte> bytes, std::span<float> values) const = 0;
};

// Values that are not finite arrive as such: some codecs make them, or all of their block, NaN.
//   "fp16", "bf16"  rounded to nearest even; what is too large becomes inf
//   "2bit:T"        T, 0 or -T, a value of at least T being T (Strom, Interspeech 2015; MXNet). Default 0.5
//   "1bit"          a sign each, and for every 1,024 the means of those below 0 and of the others (Seide et al. 2014)
//   "topk:R"        the R * count largest by magnitude, at least one; the others 0 (Lin et al., ICLR 2018). Default 0.01
//   "none"          null
// Throws InvalidArgument saying what exists.
std::shared_ptr<const Codec> make_codec(const std::string& text);

// `text`, or if that is empty HEDDLE_COMM_COMPRESSION, or "none".
std::string compression_setting(const std::string& text);

// Bits, for who wants them one by one. NaN stays NaN.
std::uint16_t to_fp16(float value);
float from_fp16(std::uint16_t bits);
std::uint16_t to_bf16(float value);
float from_bf16(std::uint16_t bits);

// One array's reduction, again and again: owns what has not been sent yet. As Tang et al., "1-bit Adam" (ICML 2021),
// reduce: each rank sends part r of its array to rank r, which adds them up, in the order of ranks, and sends the sum to
// all; both are compressed, each with a residual of its own. Not thread-safe; makes its calls as Communicator does.
class CompressedReduce {
 public:
  // For arrays of `count` elements. Throws InvalidArgument if something is null or count negative.
  CompressedReduce(std::shared_ptr<Communicator> ranks, std::shared_ptr<const Codec> codec,
                   std::int64_t count, Where where = Where::current());

  // Pushes ops; `array` (f32) becomes the sum. What was not finite leaves no residual. If the array or a rank has
  // failed, all ranks fail, the residuals keep their values, and this call and later ones fail until clear_errors. If not
  // all ranks have the same codec and count, all calls fail with a CommMismatch that says which.
  void reduce(const NDArray& array, Where where = Where::current());

  // Calls from now on begin with the residuals of the last one that did not fail. The array's own poison is its owner's.
  void clear_errors(Where where = Where::current());

  // Copies of what this rank has not sent yet: of its arrays, and of the sums of its part. Block; rethrow.
  std::vector<float> residual(Where where = Where::current()) const {
    return residual_.to_vector<float>(where);
  }
  std::vector<float> sum_residual(Where where = Where::current()) const {
    return sum_residual_.to_vector<float>(where);
  }

  // What this rank sends to others in a call.
  std::size_t wire_bytes() const;

 private:
  void push_agreement(std::source_location where);
  void push_encode(const NDArray& array) const;
  void push_sum() const;
  void push_decode(const NDArray& array) const;
  std::shared_ptr<Communicator> ranks_;
  std::shared_ptr<const Codec> codec_, sum_codec_;
  std::int64_t count_, part_;          // elements of the array, and of each rank's part but the last ones'
  std::size_t slot_;                   // bytes of an encoded part
  NDArray residual_, sum_residual_;    // as the last call that ended well has left them
  NDArray next_, sum_next_, scratch_;  // what they will be, if this one does
  NDArray outgoing_, incoming_, sum_, all_;  // encoded
  NDArray agreed_{};  // undefined before the first call; poisoned if the ranks do not agree
};

}  // namespace heddle
