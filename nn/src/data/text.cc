#include <algorithm>
#include <cstring>

#include <heddle/data/text.h>

#include "data/input_file.h"

namespace heddle {

using namespace data_detail;

namespace {

// Bytes of the character at the begin of `text`, which is not empty; 1 for a byte that begins none.
std::size_t character_bytes(std::string_view text) {
  const auto first = static_cast<unsigned char>(text[0]);
  const std::size_t wanted = first < 0x80 ? 1 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc0 ? 2 : 1;
  if (wanted > text.size()) return 1;
  for (std::size_t i = 1; i < wanted; ++i)
    if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) return 1;
  return wanted;
}

// Calls use(token) for each token of the text.
template <class Use> void for_tokens(Vocabulary::Unit unit, std::string_view text, Use use) {
  constexpr std::string_view kSpaces = " \t\r\n\v\f";
  while (!text.empty()) {
    std::size_t bytes = 1;
    if (unit == Vocabulary::Unit::character) bytes = character_bytes(text);
    if (unit == Vocabulary::Unit::word) {
      text.remove_prefix(std::min(text.find_first_not_of(kSpaces), text.size()));
      if (text.empty()) return;
      bytes = std::min(text.find_first_of(kSpaces), text.size());
    }
    use(text.substr(0, bytes));
    text.remove_prefix(bytes);
  }
}

std::string shown_token(std::string_view token) {
  std::string result;
  constexpr char kDigits[] = "0123456789abcdef";
  for (const char c : token.substr(0, 40)) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      result += c;
    else
      result += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return result;
}

NDArray ids_array(const std::vector<std::int64_t>& ids) {
  const NDArray result({static_cast<std::int64_t>(ids.size())}, DType::i64);
  if (!ids.empty()) std::memcpy(result.data<std::int64_t>(), ids.data(), ids.size() * sizeof ids[0]);
  return result;
}

}  // namespace

Vocabulary::Vocabulary(Unit unit, std::vector<std::string> tokens) : unit_(unit), tokens_(std::move(tokens)) {
  for (std::size_t i = 0; i < tokens_.size(); ++i) {
    if (!ids_.emplace(tokens_[i], static_cast<std::int64_t>(i)).second)
      throw InvalidArgument("Vocabulary: token '" + shown_token(tokens_[i]) + "' is in the list twice");
  }
}

Vocabulary Vocabulary::of_bytes() {
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.emplace_back(1, static_cast<char>(byte));
  return Vocabulary(Unit::byte, std::move(tokens));
}

Vocabulary Vocabulary::of_characters(const std::string& text) {
  std::map<std::string, bool, std::less<>> seen;
  for_tokens(Unit::character, text, [&](std::string_view token) {
    if (seen.find(token) == seen.end()) seen.emplace(token, true);
  });
  std::vector<std::string> tokens;
  for (const auto& [token, there] : seen) tokens.push_back(token);  // UTF-8 sorts as its code points do
  return Vocabulary(Unit::character, std::move(tokens));
}

Vocabulary Vocabulary::of_words(const std::string& text, std::int64_t least, std::int64_t most) {
  std::map<std::string, std::int64_t, std::less<>> counts;
  for_tokens(Unit::word, text, [&](std::string_view token) {
    const auto found = counts.find(token);
    if (found == counts.end())
      counts.emplace(token, 1);
    else
      ++found->second;
  });
  std::vector<std::pair<std::int64_t, std::string>> ordered;
  for (const auto& [token, count] : counts)
    if (count >= least) ordered.emplace_back(-count, token);
  std::sort(ordered.begin(), ordered.end());
  std::vector<std::string> tokens;
  for (auto& [count, token] : ordered)
    if (static_cast<std::int64_t>(tokens.size()) < most) tokens.push_back(std::move(token));
  return Vocabulary(Unit::word, std::move(tokens));
}

std::vector<std::int64_t> Vocabulary::encode(std::string_view text) const {
  if (unknown >= size()) {
    throw InvalidArgument("Vocabulary: unknown is " + std::to_string(unknown) + "; wanted an id below " +
                          std::to_string(size()) + ", or -1");
  }
  std::vector<std::int64_t> ids;
  for_tokens(unit_, text, [&](std::string_view token) {
    const auto found = ids_.find(token);
    if (found == ids_.end() && unknown < 0)
      throw InvalidArgument("Vocabulary: encode: '" + shown_token(token) + "' is not among the " +
                            std::to_string(size()) + " tokens; unknown names the id for such tokens");
    ids.push_back(found == ids_.end() ? unknown : found->second);
  });
  return ids;
}

std::string Vocabulary::decode(const std::vector<std::int64_t>& ids) const {
  std::string text;
  for (const std::int64_t id : ids) {
    if (id < 0 || id >= size())
      throw InvalidArgument("Vocabulary: decode: id " + std::to_string(id) + " of " + std::to_string(size()));
    if (unit_ == Unit::word && !text.empty()) text += ' ';
    text += tokens_[static_cast<std::size_t>(id)];
  }
  return text;
}

std::string read_text(const std::string& path) {
  const std::vector<std::byte> bytes = read_bytes(path, INT64_MAX);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

TextLines::TextLines(const std::vector<std::string>& paths, Encoder encoder)
    : paths_(paths), encoder_(std::move(encoder)) {
  if (!encoder_) throw InvalidArgument("TextLines: encoder is empty; wanted a function of a text");
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const MappedBytes file = map_bytes(paths[i]);
    files_.push_back(file.memory);
    const char* const text = reinterpret_cast<const char*>(file.memory.get());
    for (std::int64_t begin = 0; begin < file.size;) {
      const void* const found = std::memchr(text + begin, '\n', static_cast<std::size_t>(file.size - begin));
      const std::int64_t end = found ? static_cast<const char*>(found) - text : file.size;
      const std::int64_t bytes = end - begin - (end > begin && text[end - 1] == '\r');
      if (bytes > 0) lines_.push_back({static_cast<std::int64_t>(i), begin, bytes});
      begin = end + 1;
    }
  }
}

TextLines::TextLines(const std::vector<std::string>& paths, Vocabulary vocabulary)
    : TextLines(paths, [vocabulary = std::move(vocabulary)](std::string_view text) {
        return vocabulary.encode(text);
      }) {}

std::string_view TextLines::line(std::int64_t index) const {
  const Line& line = lines_.at(static_cast<std::size_t>(index));
  const auto* const text = reinterpret_cast<const char*>(files_[static_cast<std::size_t>(line.file)].get());
  return {text + line.begin, static_cast<std::size_t>(line.bytes)};
}

std::int64_t TextLines::length(std::int64_t index) const {
  return lines_.at(static_cast<std::size_t>(index)).bytes;
}

Example TextLines::read(std::int64_t index) const {
  const std::string_view text = line(index);
  try {
    return {ids_array(encoder_(text))};
  } catch (const InvalidArgument& error) {
    const Line& at = lines_[static_cast<std::size_t>(index)];
    fail_at(title_of(paths_[static_cast<std::size_t>(at.file)]), at.begin, error.message());
  }
}

SequenceDataset::SequenceDataset(const NDArray& sequence, std::int64_t length, std::int64_t stride,
                                 Where where)
    : length_(length), stride_(stride == 0 ? length : stride) {
  const CallSite site(where);
  if (!sequence.defined() || sequence.ndim() != 1)
    throw InvalidArgument("SequenceDataset: wanted a sequence with one axis");
  if (sequence.device().kind != DeviceKind::cpu)
    throw InvalidArgument("SequenceDataset: wanted a sequence on cpu()");
  if (length < 1 || stride < 0 || sequence.size() <= length) {
    throw InvalidArgument("SequenceDataset: length " + std::to_string(length) + " and stride " +
                          std::to_string(stride) + " in a sequence of " + std::to_string(sequence.size()) +
                          "; wanted a length of 1 up to the sequence's less one, and a stride of 0 or more");
  }
  sequence_ = sequence.detach().contiguous();
}

std::int64_t SequenceDataset::size() const { return (sequence_.size() - 1 - length_) / stride_ + 1; }

std::vector<ExampleArray> SequenceDataset::arrays() const {
  return {{sequence_.dtype(), {length_}}, {sequence_.dtype(), {length_}}};
}

Example SequenceDataset::read(std::int64_t index) const {
  if (index < 0 || index >= size())
    throw InvalidArgument("SequenceDataset: example " + std::to_string(index) + " of " +
                          std::to_string(size()));
  const std::int64_t begin = index * stride_;
  return {sequence_.slice(0, {begin, begin + length_}), sequence_.slice(0, {begin + 1, begin + 1 + length_})};
}

bool SequenceDataset::gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const {
  const std::size_t element = size_of(sequence_.dtype()), bytes = static_cast<std::size_t>(length_) * element;
  const std::byte* const from = sequence_.data<const std::byte>();
  std::byte *x = batch[0].data<std::byte>(), *y = batch[1].data<std::byte>();
  for (const std::int64_t index : indices) {
    const std::byte* const begin = from + static_cast<std::size_t>(index * stride_) * element;
    std::memcpy(x, begin, bytes);
    std::memcpy(y, begin + element, bytes);
    x += bytes;
    y += bytes;
  }
  return true;
}

}  // namespace heddle
