#include "files/npy_header.h"

#include <optional>
#include <string_view>

#include <heddle/error.h>

namespace heddle::ndarray_detail {

namespace {

struct Code {
  DType dtype;
  const char* text;
};
constexpr Code kCodes[] = {{DType::f32, "<f4"}, {DType::f64, "<f8"}, {DType::i32, "<i4"},
                           {DType::i64, "<i8"}, {DType::u8, "|u1"},  {DType::boolean, "|b1"},
                           {DType::f16, "<f2"}, {DType::i8, "|i1"},  {DType::i16, "<i2"},
                           {DType::u16, "<u2"}, {DType::u32, "<u4"}, {DType::u64, "<u8"}};

// Parses the few kinds of Python literals that a header has.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  // Whether c comes next, which is then consumed.
  bool accept(char c) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n' || text_[at_] == '\t')) ++at_;
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }

  void expect(char c) {
    if (!accept(c)) throw Error(std::string("no '") + c + "' at byte " + std::to_string(at_));
  }

  std::string string() {
    const char quote = accept('"') ? '"' : '\'';
    if (quote == '\'') expect('\'');
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) throw Error("a string without an end");
    const std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }

  bool boolean() {
    if (accept('T')) return word("rue"), true;
    expect('F');
    return word("alse"), false;
  }

  Shape shape() {
    Shape dims;
    expect('(');
    while (!accept(')')) {
      if (dims.size() == kMaxDims) throw Error("more than " + std::to_string(kMaxDims) + " dimensions");
      dims.push_back(number());
      if (accept(')')) {
        if (dims.size() == 1) throw Error("a shape in brackets without a comma");
        break;
      }
      expect(',');
    }
    element_count(dims);
    return dims;
  }

  bool at_end() {
    accept('\n');
    return at_ == text_.size();
  }

 private:
  void word(std::string_view rest) {
    if (text_.substr(at_, rest.size()) != rest) throw Error("a word that is neither True nor False");
    at_ += rest.size();
  }

  std::int64_t number() {
    accept(' ');
    std::int64_t value = 0;
    const std::size_t start = at_;
    for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_) {
      if (__builtin_mul_overflow(value, std::int64_t{10}, &value) ||
          __builtin_add_overflow(value, std::int64_t{text_[at_] - '0'}, &value)) {
        throw Error("a dimension that does not fit 64 bits");
      }
    }
    if (at_ == start) throw Error("no number at byte " + std::to_string(at_));
    if (at_ < text_.size() && text_[at_] == 'L') ++at_;  // Python 2 writes a long as 3L
    return value;
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

// Whether text names the dtype of `code`. The byte order of single bytes is written in several ways; '=' is
// the order of this machine.
bool names(const std::string& text, const char* code) {
  const std::string_view orders = code[0] == '|' ? "|<>=" : "<=";
  return !text.empty() && orders.find(text[0]) != std::string_view::npos &&
         text.compare(1, text.npos, code + 1) == 0;
}

DType dtype_of_code(const std::string& text) {
  for (const Code& code : kCodes) {
    if (names(text, code.text)) return code.dtype;
  }
  const bool complex = text.size() > 1 && text[1] == 'c';
  throw Error("elements of type '" + text + "'" + (complex ? ", complex numbers" : "") +
              ", which is none of <f2 <f4 <f8 |i1 <i2 <i4 <i8 |u1 <u2 <u4 <u8 |b1");
}

template <class T> void set_once(std::optional<T>& slot, T value, const std::string& key) {
  if (slot) throw Error("'" + key + "' twice");
  slot = value;
}

}  // namespace

NpyHeader parse_npy_header(const std::string& text) {
  HeaderReader reader(text);
  std::optional<DType> dtype;
  std::optional<bool> fortran_order;
  std::optional<Shape> shape;
  reader.expect('{');
  while (!reader.accept('}')) {
    const std::string key = reader.string();
    reader.expect(':');
    if (key == "descr") {
      if (reader.accept('[')) throw StructuredDtype("has a structured dtype, which is not supported");
      set_once(dtype, dtype_of_code(reader.string()), key);
    } else if (key == "fortran_order") {
      set_once(fortran_order, reader.boolean(), key);
    } else if (key == "shape") {
      set_once(shape, reader.shape(), key);
    } else {
      throw Error("an unknown key '" + key + "'");
    }
    if (!reader.accept(',')) {
      reader.expect('}');
      break;
    }
  }
  if (!reader.at_end()) throw Error("something behind the dictionary");
  if (!dtype || !fortran_order || !shape) throw Error("descr, fortran_order or shape is missing");
  return {*dtype, *fortran_order, *shape};
}

std::string npy_preamble(const NpyHeader& header) {
  constexpr std::size_t kFixed = 10, kAlign = 64;
  const char* code = "";
  for (const Code& c : kCodes) {
    if (c.dtype == header.dtype) code = c.text;
  }
  std::string text = std::string("{'descr': '") + code +
                     "', 'fortran_order': " + (header.fortran_order ? "True" : "False") +
                     ", 'shape': " + header.shape.to_string() + ", }";
  text.append(kAlign - 1 - (kFixed + text.size()) % kAlign, ' ');
  text += '\n';
  const std::string length = {static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return std::string("\x93NUMPY\x01\x00", 8) + length + text;
}

}  // namespace heddle::ndarray_detail
