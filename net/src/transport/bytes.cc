#include "transport/bytes.h"

namespace heddle::net_detail {

void Writer::cut_text(const std::string& text, std::size_t most) {
  const std::size_t length = std::min(text.size(), most);
  put(static_cast<std::uint32_t>(length));
  bytes(std::as_bytes(std::span(text).first(length)));
}

std::vector<std::byte> Writer::take() {
  bytes_.resize(used_);
  return std::move(bytes_);
}

void Writer::grow(std::size_t count) { bytes_.resize(std::max(2 * bytes_.size(), used_ + count)); }

void Reader::text(std::string& text, std::size_t most) {
  const auto length = get<std::uint32_t>();
  if (length > most) throw MalformedMessage("a text of " + std::to_string(length) + " bytes");
  const std::span<const std::byte> from = bytes(length);
  text.assign(reinterpret_cast<const char*>(from.data()), from.size());
}

void Reader::end() const {
  if (left() > 0 && !open_)
    throw MalformedMessage(std::to_string(left()) + " bytes after the end of a message");
}

bool Reader::flag() {
  const auto number = get<std::uint8_t>();
  if (number > 1) throw MalformedMessage("a flag is " + std::to_string(number));
  return number == 1;
}

void Reader::ends_early(std::uint64_t missing) {
  throw MalformedMessage("a message ends " + std::to_string(missing) + " bytes too early");
}

}  // namespace heddle::net_detail
