#include "json_reader.h"

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>

namespace heddle::tool {
namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;
constexpr std::size_t kDeepest = 200;
constexpr std::size_t kLongestString = std::size_t{1} << 20;
constexpr std::size_t kLongestNumber = 64;

bool blank(int c) { return c == ' ' || c == '\n' || c == '\t' || c == '\r'; }
bool of_number(int c) {
  return (c >= '0' && c <= '9') || c == '-' || c == '+' || c == '.' || c == 'e' || c == 'E';
}
bool of_word(int c) { return c >= 'a' && c <= 'z'; }

void append_utf8(std::string& out, unsigned code) {
  const auto add = [&out](unsigned byte) { out += static_cast<char>(byte); };
  if (code < 0x80) {
    add(code);
  } else if (code < 0x800) {
    add(0xC0 | code >> 6);
    add(0x80 | (code & 63));
  } else if (code < 0x10000) {
    add(0xE0 | code >> 12);
    add(0x80 | (code >> 6 & 63));
    add(0x80 | (code & 63));
  } else {
    add(0xF0 | code >> 18);
    add(0x80 | (code >> 12 & 63));
    add(0x80 | (code >> 6 & 63));
    add(0x80 | (code & 63));
  }
}

}  // namespace

void JsonReader::Close::operator()(std::FILE* file) const {
  if (file != stdin) std::fclose(file);
}

JsonReader::JsonReader(const std::string& path)
    : path_(path), file_(path == "-" ? stdin : std::fopen(path.c_str(), "rb")), window_(kWindow) {
  if (!file_) throw std::runtime_error(path + ": " + std::strerror(errno));
}

bool JsonReader::refill() {
  before_ += end_;
  errno = 0;
  at_ = 0;
  end_ = std::fread(window_.data(), 1, window_.size(), file_.get());
  if (end_ == 0 && std::ferror(file_.get())) throw std::runtime_error(path_ + ": " + std::strerror(errno));
  return end_ > 0;
}

int JsonReader::look() { return at_ < end_ || refill() ? static_cast<unsigned char>(window_[at_]) : -1; }

int JsonReader::get() {
  const int c = look();
  if (c >= 0) ++at_;
  return c;
}

char JsonReader::take() {
  const int c = get();
  if (c < 0)
    throw EndOfFile(path_ + ": the file ends at byte " + std::to_string(offset()) +
                    ", in the middle of a value");
  return static_cast<char>(c);
}

void JsonReader::fail(const std::string& why) const {
  throw BadJson(path_ + ": byte " + std::to_string(offset()) + ": " + why);
}

char JsonReader::peek() {
  int c = look();
  while (blank(c)) {
    ++at_;
    c = look();
  }
  return c < 0 ? '\0' : static_cast<char>(c);
}

void JsonReader::expect(char wanted) {
  const char c = peek();
  if (c == wanted && look() >= 0) {
    ++at_;
    return;
  }
  if (look() < 0) take();
  fail(std::string("want '") + wanted + "'");
}

bool JsonReader::accept(char wanted) {
  if (peek() != wanted || look() < 0) return false;
  ++at_;
  return true;
}

unsigned JsonReader::read_hex() {
  unsigned value = 0;
  for (int i = 0; i < 4; ++i) {
    const char c = take();
    const int digit = c >= '0' && c <= '9'   ? c - '0'
                      : c >= 'a' && c <= 'f' ? c - 'a' + 10
                      : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                             : -1;
    if (digit < 0) fail("want four hexadecimal digits after \\u");
    value = value * 16 + static_cast<unsigned>(digit);
  }
  return value;
}

void JsonReader::read_escape(std::string& out) {
  constexpr const char* kLetters = "\"\\/bfnrt";
  constexpr const char* kMeaning = "\"\\/\b\f\n\r\t";
  const char c = take();
  if (const char* letter = c ? std::strchr(kLetters, c) : nullptr) {
    out += kMeaning[letter - kLetters];
    return;
  }
  if (c != 'u') fail("a backslash before something that it cannot escape");
  unsigned code = read_hex();
  if (code >= 0xD800 && code < 0xDC00 && look() == '\\') {
    take();
    if (take() != 'u') fail("half of a surrogate pair");
    const unsigned low = read_hex();
    code = low >= 0xDC00 && low < 0xE000 ? 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00) : 0xFFFD;
  } else if (code >= 0xD800 && code < 0xE000) {
    code = 0xFFFD;
  }
  append_utf8(out, code);
}

void JsonReader::read_string(std::string& out) {
  out.clear();
  expect('"');
  for (char c = take(); c != '"'; c = take()) {
    if (out.size() >= kLongestString) fail("a string of more than a megabyte");
    if (c == '\\') {
      read_escape(out);
    } else {
      out += c;
    }
  }
}

double JsonReader::read_number() {
  char text[kLongestNumber];
  std::size_t length = 0;
  peek();
  for (int c = look(); of_number(c); c = look()) {
    if (length == sizeof text) fail("a number of more than 64 digits");
    text[length++] = static_cast<char>(c);
    ++at_;
  }
  if (look() < 0) take();  // throws EndOfFile, since a number at the end of the file may be incomplete
  double value = 0;
  const auto [end, error] = std::from_chars(text, text + length, value);
  if (length == 0 || error != std::errc() || end != text + length || !std::isfinite(value))
    fail("want a number");
  return value;
}

void JsonReader::skip_string() {
  for (char c = take(); c != '"'; c = take()) {
    if (c == '\\') take();
  }
}

// Skips a number, true, false or null.
void JsonReader::skip_plain() {
  if (of_number(look())) {
    read_number();
    return;
  }
  scratch_.clear();
  while (of_word(look()) && scratch_.size() < 6) scratch_ += take();
  if (look() < 0) take();
  if (scratch_ != "true" && scratch_ != "false" && scratch_ != "null") fail("want a value");
}

// Skips an object or array. Checks that brackets match, and little else.
void JsonReader::skip_container() {
  std::string open;
  do {
    const char c = take();
    if (c == '"') {
      skip_string();
    } else if (c == '{' || c == '[') {
      open += c == '{' ? '}' : ']';
      if (open.size() > kDeepest) fail("brackets within brackets, more than 200 of them");
    } else if (c == '}' || c == ']') {
      if (open.back() != c) fail("brackets do not match");
      open.pop_back();
    }
  } while (!open.empty());
}

void JsonReader::skip_value() {
  const char c = peek();
  if (c == '"') {
    take();
    skip_string();
  } else if (c == '{' || c == '[') {
    skip_container();
  } else {
    skip_plain();
  }
}

bool JsonReader::next_key(std::string& key, bool first) {
  if (accept('}')) return false;
  if (!first) expect(',');
  read_string(key);
  expect(':');
  return true;
}

}  // namespace heddle::tool
