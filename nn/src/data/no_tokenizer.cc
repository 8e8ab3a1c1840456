// Replaces tokenizer.cc in a build without SentencePiece.
#include <heddle/data/text.h>

#include "data/input_file.h"

namespace heddle {
namespace {

[[noreturn]] void fail_without_sentencepiece() {
  data_detail::fail_without("Tokenizer", "libsentencepiece-dev");
}

}  // namespace

Tokenizer::Tokenizer(const std::string&) { fail_without_sentencepiece(); }
void Tokenizer::train(const std::string&, const std::string&, std::int64_t) { fail_without_sentencepiece(); }
std::vector<std::int64_t> Tokenizer::encode(std::string_view) const { fail_without_sentencepiece(); }
std::string Tokenizer::decode(const std::vector<std::int64_t>&) const { fail_without_sentencepiece(); }
std::int64_t Tokenizer::size() const { fail_without_sentencepiece(); }

}  // namespace heddle
