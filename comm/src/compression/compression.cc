// Parses the name of a codec.
#include <charconv>
#include <cstdlib>

#include <heddle/compression.h>

#include "compression/codecs.h"

namespace heddle {
namespace {

[[noreturn]] void no_such_codec(const std::string& text) {
  throw InvalidArgument(
      "there is no compression '" + text +
      "'; there are none, fp16, bf16, 1bit, 2bit:THRESHOLD (over 0), topk:RATIO (over 0, up to 1)");
}

// The number that follows the colon in the name of a codec, as in "topk:0.01"; `otherwise` if there is no
// colon.
double number_of(const std::string& text, std::size_t colon, double otherwise, double least, double most) {
  if (colon == std::string::npos) return otherwise;
  double number = 0;
  const char *begin = text.data() + colon + 1, *end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end || !(number >= least && number <= most)) no_such_codec(text);
  return number;
}

}  // namespace

namespace comm_detail {

std::string shortest(double number) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof text, number).ptr};
}

}  // namespace comm_detail

std::shared_ptr<const Codec> make_codec(const std::string& text) {
  if (text == "none") return nullptr;
  if (text == "fp16") return comm_detail::make_fp16();
  if (text == "bf16") return comm_detail::make_bf16();
  if (text == "1bit") return comm_detail::make_one_bit();
  const std::size_t colon = text.find(':');
  const std::string name = text.substr(0, colon);
  // The limits keep thresholds, and their multiples by the number of ranks, within the range of floats.
  if (name == "2bit") {
    return comm_detail::make_two_bit(static_cast<float>(number_of(text, colon, 0.5, 1e-30, 1e30)));
  }
  if (name == "topk") return comm_detail::make_top_k(number_of(text, colon, 0.01, 1e-9, 1));
  no_such_codec(text);
}

std::string compression_setting(const std::string& text) {
  if (!text.empty()) return text;
  const char* variable = std::getenv("HEDDLE_COMM_COMPRESSION");
  return variable && *variable ? variable : "none";
}

}  // namespace heddle
