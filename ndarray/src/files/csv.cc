#include <algorithm>
#include <cctype>
#include <cerrno>
#include <charconv>
#include <clocale>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <limits>
#include <string_view>
#include <type_traits>

#include <heddle/array_error.h>
#include <heddle/csv.h>
#include <heddle/error.h>

#include "files/atomic_file.h"
#include "files/path.h"

namespace heddle {

namespace {

constexpr std::string_view kSpaces = " \t\r";

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kSpaces);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kSpaces) - begin + 1);
}

// Escapes the bytes that would end a message or change the terminal.
std::string printable(std::string_view text) {
  constexpr char kDigits[] = "0123456789abcdef";
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte != 0x7f)
      result += c;
    else
      result += {'\\', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
  }
  return result;
}

// Splits a line into fields, without spaces around them.
void split(std::string_view line, char delimiter, std::vector<std::string_view>& fields) {
  fields.clear();
  if (delimiter == ' ') {
    while (!(line = trimmed(line)).empty()) {
      const std::size_t end = std::min(line.find_first_of(kSpaces), line.size());
      fields.push_back(line.substr(0, end));
      line.remove_prefix(end);
    }
    return;
  }
  for (std::size_t end; (end = line.find(delimiter)) != std::string_view::npos; line.remove_prefix(end + 1))
    fields.push_back(trimmed(line.substr(0, end)));
  fields.push_back(trimmed(line));
}

// The value that Python gives a number out of the range of double: infinity, or 0 for a number that is too
// small.
double out_of_range(std::string_view text) {
  static const locale_t c_locale = ::newlocale(LC_ALL_MASK, "C", nullptr);
  return ::strtod_l(std::string(text).c_str(), nullptr, c_locale);
}

// Parses text into value; returns false if the text is no number of type T. A leading "+" is removed, which
// std::from_chars does not accept.
template <class T> bool parse(std::string_view text, T& value) {
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if constexpr (std::is_floating_point_v<T>) {
    if (error == std::errc::result_out_of_range && end == text.data() + text.size()) {
      value = out_of_range(text);
      return true;
    }
  }
  return error == std::errc() && end == text.data() + text.size();
}

struct Table {
  std::string path;
  const CsvOptions& options;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;  // a u64 is stored by its bits
  std::int64_t rows = 0, columns = -1;

  [[noreturn]] void fail(std::int64_t line, const std::string& problem) const {
    throw Error("file '" + path + "', line " + std::to_string(line) + ": " + problem);
  }

  std::size_t place(std::int64_t line, int column, std::size_t count) const {
    const std::int64_t at = column < 0 ? column + static_cast<std::int64_t>(count) : column;
    if (at < 0 || at >= static_cast<std::int64_t>(count))
      fail(line, "no column " + std::to_string(column) + " of " + std::to_string(count));
    return static_cast<std::size_t>(at);
  }

  void add(std::int64_t line, std::size_t column, std::string_view field) {
    const auto refuse = [&] {
      fail(line, "column " + std::to_string(column) + " is '" + printable(field.substr(0, 40)) + "', no " +
                     name_of(options.dtype));
    };
    if (is_floating(options.dtype)) {
      double value = std::numeric_limits<double>::quiet_NaN();
      if (!field.empty() && !parse(field, value)) refuse();
      reals.push_back(value);
      return;
    }
    if (options.dtype == DType::u64) {
      std::uint64_t value = 0;
      if (!parse(field, value)) refuse();
      integers.push_back(static_cast<std::int64_t>(value));
      return;
    }
    std::int64_t value = 0;
    if (!parse(field, value) || !fits(value)) refuse();
    integers.push_back(value);
  }

  bool fits(std::int64_t value) const {
    if (options.dtype == DType::boolean) return value == 0 || value == 1;
    return visit_number(options.dtype, [=]<class T> {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return std::in_range<T>(value);
      return true;
    });
  }

  void add_line(std::int64_t number, const std::vector<std::string_view>& fields) {
    const auto count = static_cast<std::int64_t>(fields.size());
    if (columns < 0) columns = count;
    if (count != columns) {
      fail(number,
           std::to_string(count) + " columns, where the lines before have " + std::to_string(columns));
    }
    ++rows;
    if (options.columns.empty()) {
      for (std::size_t i = 0; i < fields.size(); ++i) add(number, i, fields[i]);
    } else {
      for (const int column : options.columns) {
        const std::size_t at = place(number, column, fields.size());
        add(number, at, fields[at]);
      }
    }
  }
};

constexpr int kMaxPrecision = 100;

void check_delimiter(const char* function, char delimiter) {
  const bool of_numbers =
      std::isalnum(static_cast<unsigned char>(delimiter)) || std::strchr("+-.\n\r", delimiter);
  if (!of_numbers) return;
  throw InvalidArgument(std::string(function) + ": the delimiter is '" + delimiter +
                        "'; wanted a character that no number has");
}

template <class T> void append(std::string& text, T value, int precision) {
  char digits[kMaxPrecision + 30];
  const auto result = [&] {
    if constexpr (std::is_floating_point_v<T>) {
      if (precision > 0)
        return std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, precision);
    }
    return std::to_chars(digits, digits + sizeof digits, value);
  }();
  text.append(digits, result.ptr);
}

template <class T> std::string text_of(const NDArray& array, const CsvWriteOptions& options) {
  const std::int64_t columns = array.ndim() == 2 ? array.shape()[1] : 1;
  const std::vector<T> values = array.to_vector<T>();
  std::string text = options.header.empty() ? "" : options.header + "\n";
  for (std::size_t i = 0; i < values.size(); ++i) {
    append(text, values[i], options.precision);
    text += (static_cast<std::int64_t>(i) + 1) % columns == 0 ? '\n' : options.delimiter;
  }
  return text;
}

}  // namespace

NDArray load_csv(const std::string& path, const CsvOptions& options, Device device, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call("load_csv", [&] {
    if (options.skip_lines < 0)
      throw InvalidArgument("load_csv: skip_lines is " + std::to_string(options.skip_lines) +
                            "; wanted 0 or more");
    check_delimiter("load_csv", options.delimiter);
    ndarray_detail::check_path(path);
    std::ifstream in(path);
    if (!in) throw Error("file '" + path + "' cannot be opened: " + std::strerror(errno));
    Table table{path, options, {}, {}, 0, -1};
    std::vector<std::string_view> fields;
    std::string line;
    for (std::int64_t number = 1; std::getline(in, line); ++number) {
      if (number <= options.skip_lines) continue;
      std::string_view text = line;
      if (number == 1 && text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);  // a byte order mark
      if (options.comment) text = text.substr(0, text.find(options.comment));
      if (trimmed(text).empty()) continue;
      split(text, options.delimiter, fields);
      table.add_line(number, fields);
    }
    if (in.bad()) throw Error("file '" + path + "' cannot be read: " + std::strerror(errno));
    const auto columns = options.columns.empty() ? std::max<std::int64_t>(table.columns, 0)
                                                 : static_cast<std::int64_t>(options.columns.size());
    const Shape shape{table.rows, columns};
    const NDArray values =
        is_floating(options.dtype) ? array(table.reals, shape) : array(table.integers, shape);
    const NDArray typed = values.dtype() == options.dtype ? values : values.astype(options.dtype);
    return device == cpu() ? typed : typed.copy_to(device);
  });
}

void save_csv(const std::string& path, const NDArray& array, const CsvWriteOptions& options, Where where) {
  const CallSite site(where);
  return ndarray_detail::in_file_call("save_csv", [&] {
    if (!array.defined()) ndarray_detail::refuse_undefined("save_csv");
    if (array.ndim() != 1 && array.ndim() != 2) {
      throw InvalidArgument("save_csv: an array of shape " + array.shape().to_string() +
                            "; wanted one axis or two");
    }
    if (options.precision < 0 || options.precision > kMaxPrecision) {
      throw InvalidArgument("save_csv: precision is " + std::to_string(options.precision) + "; wanted 0 to " +
                            std::to_string(kMaxPrecision));
    }
    check_delimiter("save_csv", options.delimiter);
    const NDArray values = array.detach();
    std::string text;
    if (values.dtype() == DType::f64)
      text = text_of<double>(values, options);
    else if (is_floating(values.dtype()))
      text = text_of<float>(values.astype(DType::f32), options);
    else if (values.dtype() == DType::u64)
      text = text_of<std::uint64_t>(values, options);
    else
      text = text_of<std::int64_t>(values.astype(DType::i64), options);
    AtomicFile file(path);
    file.write(text.data(), text.size());
    file.commit();
  });
}

}  // namespace heddle
