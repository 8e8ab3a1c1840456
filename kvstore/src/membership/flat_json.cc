#include "membership/flat_json.h"

#include <cstdint>
#include <cstdio>

#include "transport/bytes.h"

namespace heddle::kv_detail {

using namespace net_detail;
namespace {

constexpr int kMostLevels = 16;
constexpr std::string_view kDigits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

class FlatReader {
 public:
  explicit FlatReader(std::string_view text) : text_(text) {}

  std::map<std::string, std::string> read() {
    value("", 0);
    if (next() != '\0') fail("the end");
    return std::move(values_);
  }

 private:
  [[noreturn]] void fail(const char* wanted) const {
    throw MalformedMessage("JSON: byte " + std::to_string(position_) + ": want " + wanted);
  }

  // The next character that is no blank; '\0' at the end.
  char next() {
    while (position_ < text_.size() &&
           std::string_view(" \t\r\n").find(text_[position_]) != std::string_view::npos)
      ++position_;
    return position_ < text_.size() ? text_[position_] : '\0';
  }
  bool skip(char wanted) {
    if (next() != wanted) return false;
    ++position_;
    return true;
  }

  void value(const std::string& path, int level) {
    if (level > kMostLevels) fail("fewer levels");
    const char first = next();
    if (first == '{') return object(path, level);
    if (first == '[') return array(path, level);
    if (first == '"') {
      values_[path] = string();
      return;
    }
    const std::size_t begin = position_;
    while (position_ < text_.size() &&
           std::string_view(",]} \t\r\n").find(text_[position_]) == std::string_view::npos)
      ++position_;
    const std::string word(text_.substr(begin, position_ - begin));
    if (word.find_first_not_of("+-.0123456789abcdefghijklmnopqrstuvwxyzE") != std::string::npos ||
        word.empty())
      fail("a value");
    if (word != "null") values_[path] = word;
  }

  void object(const std::string& path, int level) {
    ++position_;
    if (skip('}')) return;
    do {
      if (next() != '"') fail("a name");
      const std::string name = string();
      if (!skip(':')) fail("':'");
      value(path.empty() ? name : path + "." + name, level + 1);
    } while (skip(','));
    if (!skip('}')) fail("'}'");
  }

  void array(const std::string& path, int level) {
    ++position_;
    if (skip(']')) return;
    int count = 0;
    do {
      value(path + "." + std::to_string(count++), level + 1);
    } while (skip(','));
    if (!skip(']')) fail("']'");
  }

  std::string string() {
    std::string result;
    for (++position_; position_ < text_.size(); ++position_) {
      const char one = text_[position_];
      if (one == '"') {
        ++position_;
        return result;
      }
      result += one == '\\' ? escaped() : one;
    }
    fail("'\"'");
  }

  // Keys and values are base64. Only messages for people have escapes: '?' may stand for a non-ASCII letter.
  char escaped() {
    if (++position_ >= text_.size()) fail("'\"'");
    const char one = text_[position_];
    constexpr std::string_view kNames = "nrtbf", kValues = "\n\r\t\b\f";
    if (const std::size_t found = kNames.find(one); found != std::string_view::npos) return kValues[found];
    if (one != 'u') return one;
    unsigned code = 0;
    for (int i = 0; i < 4; ++i) {
      if (++position_ >= text_.size()) fail("four digits");
      const std::size_t digit =
          std::string_view("0123456789abcdef").find(static_cast<char>(text_[position_] | 0x20));
      if (digit == std::string_view::npos) fail("four digits");
      code = code << 4 | static_cast<unsigned>(digit);
    }
    return code < 0x80 ? static_cast<char>(code) : '?';
  }

  const std::string_view text_;
  std::size_t position_ = 0;
  std::map<std::string, std::string> values_;
};

}  // namespace

std::map<std::string, std::string> flat_json(std::string_view text) { return FlatReader(text).read(); }

std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char one : text) {
    char code[8];
    if (one == '"' || one == '\\') {
      result += {'\\', one};
    } else if (static_cast<unsigned char>(one) < 0x20) {
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(one));
      result += code;
    } else {
      result += one;
    }
  }
  return result + '"';
}

std::string base64(std::string_view bytes) {
  std::string result;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::uint32_t group = 0;
    for (std::size_t j = 0; j < 3; ++j)
      group = group << 8 | (i + j < bytes.size() ? static_cast<unsigned char>(bytes[i + j]) : 0U);
    for (std::size_t j = 0; j < 4; ++j)
      result += i + j > bytes.size() ? '=' : kDigits[group >> (18 - 6 * j) & 63];
  }
  return result;
}

std::string from_base64(std::string_view text) {
  if (text.size() % 4 != 0)
    throw MalformedMessage("base64 of " + std::to_string(text.size()) + " characters");
  const std::size_t end = text.find_last_not_of('=') + 1;
  if (text.size() - end > 2) throw MalformedMessage("base64 that ends in more than two '='");
  std::string result;
  std::uint32_t group = 0;
  for (std::size_t i = 0; i < end; ++i) {
    const std::size_t digit = kDigits.find(text[i]);
    if (digit == std::string_view::npos)
      throw MalformedMessage("base64 with a character that is none of its own");
    group = group << 6 | static_cast<std::uint32_t>(digit);
    if (i % 4 > 0) result += static_cast<char>(group >> (6 - 2 * (i % 4)) & 255);
  }
  return result;
}

}  // namespace heddle::kv_detail
