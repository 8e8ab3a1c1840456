#include <algorithm>
#include <charconv>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include <heddle/array_error.h>
#include <heddle/data/tables.h>

#include "data/input_file.h"

namespace heddle {
namespace {

using namespace data_detail;

// Rows of fields, one after the other.
class CsvReader {
 public:
  CsvReader(const std::string& path, char delimiter)
      : title_(title_of(path)), file_(map_bytes(path)), delimiter_(delimiter) {
    at_ = reinterpret_cast<const char*>(file_.memory.get());
    end_ = at_ + file_.size;
    if (end_ - at_ >= 3 && std::string_view(at_, 3) == "\xef\xbb\xbf") at_ += 3;  // a byte order mark
  }

  // The next row that is not empty; false at the end.
  bool next(std::vector<std::string>& fields) {
    do {
      if (at_ == end_) return false;
      fields.clear();
      row_line_ = line_;
      do fields.push_back(field());
      while (more_);
    } while (fields.size() == 1 && fields[0].empty());
    return true;
  }
  [[noreturn]] void fail(const std::string& problem) const { fail(row_line_, problem); }
  [[noreturn]] void fail(std::int64_t line, const std::string& problem) const {
    throw Error(title_ + ", line " + std::to_string(line) + ": " + problem);
  }
  std::int64_t row_line() const { return row_line_; }

 private:
  std::string field() {
    std::string text;
    if (at_ != end_ && *at_ == '"') {
      ++at_;
      text = quoted();
    }
    const char* const begin = at_;
    while (at_ != end_ && *at_ != delimiter_ && *at_ != '\n' && *at_ != '\r') ++at_;
    text.append(begin, at_);
    more_ = at_ != end_ && *at_ == delimiter_;
    if (!more_ && at_ != end_) ++line_;
    if (end_ - at_ > 1 && *at_ == '\r' && at_[1] == '\n') ++at_;
    if (at_ != end_) ++at_;
    return text;
  }
  // Behind the first quote: up to the last one. Two quotes are one.
  std::string quoted() {
    std::string text;
    for (; at_ != end_; ++at_) {
      if (*at_ == '\n') ++line_;
      if (*at_ != '"') {
        text += *at_;
      } else if (end_ - at_ > 1 && at_[1] == '"') {
        text += *at_++;
      } else {
        ++at_;
        return text;
      }
    }
    fail("a quote is not closed");
  }

  std::string title_;
  MappedBytes file_;
  char delimiter_;
  const char *at_ = nullptr, *end_ = nullptr;
  std::int64_t line_ = 1, row_line_ = 1;
  bool more_ = false;
};

std::string_view trimmed_field(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

template <class T> bool parse_field(std::string_view text, T& value) {
  text = trimmed_field(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

// Whether a text is meant as a number, however large.
bool is_number(std::string_view text) {
  text = trimmed_field(text);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error != std::errc::invalid_argument && end == text.data() + text.size();
}

// The column of labels, and the lines that they are in.
struct CsvLabels {
  std::vector<std::string> texts;
  std::vector<std::int64_t> lines;

  void add(const std::string& text, std::int64_t line) {
    texts.push_back(text);
    lines.push_back(line);
  }
};

// The number of classes that a dtype has different numbers for.
std::int64_t most_classes(DType dtype) {
  if (dtype == DType::boolean) return 2;
  return visit_dtype(dtype, []<class T>() -> std::int64_t {
    if constexpr (std::is_same_v<T, Float16>) return 1 << 11;
    if constexpr (std::is_same_v<T, BFloat16>) return 1 << 8;
    if constexpr (std::is_arithmetic_v<T>)
      return std::numeric_limits<T>::digits >= 63 ? INT64_MAX
                                                  : std::int64_t{1} << std::numeric_limits<T>::digits;
    return 0;
  });
}

// Values of one array: reals, or integers.
struct CsvValues {
  DType dtype;
  std::vector<double> reals;
  std::vector<std::int64_t> integers;

  bool add(const std::string& field) {
    if (is_floating(dtype)) {
      double value = std::numeric_limits<double>::quiet_NaN();
      if (!trimmed_field(field).empty() && !parse_field(field, value)) return false;
      reals.push_back(value);
      return true;
    }
    std::int64_t value = 0;
    if (!parse_field(field, value) || !fits(value)) return false;
    integers.push_back(value);
    return true;
  }
  bool fits(std::int64_t value) const {
    if (dtype == DType::boolean) return value == 0 || value == 1;
    return visit_number(dtype, [=]<class T> {
      if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) return std::in_range<T>(value);
      return true;
    });
  }
  NDArray made(const Shape& shape) const {
    const NDArray values = is_floating(dtype) ? array(reals, shape) : array(integers, shape);
    return values.dtype() == dtype ? values : values.astype(dtype);
  }
};

std::size_t csv_column(const CsvReader& reader, const std::vector<std::string>& names,
                       const std::string& wanted) {
  const auto found = std::find(names.begin(), names.end(), wanted);
  if (found != names.end()) return static_cast<std::size_t>(found - names.begin());
  std::string all;
  for (const std::string& name : names) all += (all.empty() ? "'" : ", '") + name + "'";
  reader.fail("no column '" + wanted + "'; there are " + all);
}

}  // namespace

struct CsvDataset::Contents {
  std::vector<NDArray> arrays;
  std::vector<std::string> features, classes;
  Where where;

  Contents(const std::string& path, const CsvDatasetOptions& options, Where call) : where(call) {
    CsvReader reader(path, options.delimiter);
    std::vector<std::string> row, names;
    bool any = reader.next(row);
    if (!any) reader.fail("there is no row");
    for (std::size_t i = 0; i < row.size(); ++i)
      names.push_back(options.header ? std::string(trimmed_field(row[i])) : std::to_string(i));
    const bool labelled = !options.label.empty();
    const std::size_t label = labelled ? csv_column(reader, names, options.label) : names.size();
    std::vector<std::size_t> columns;
    for (const std::string& name : options.features) columns.push_back(csv_column(reader, names, name));
    for (std::size_t i = 0; options.features.empty() && i < names.size(); ++i)
      if (i != label) columns.push_back(i);
    for (const std::size_t column : columns) features.push_back(names[column]);
    CsvValues values{options.feature_dtype, {}, {}};
    CsvLabels labels;
    std::int64_t rows = 0;
    if (options.header) any = reader.next(row);
    for (; any; any = reader.next(row), ++rows) {
      if (row.size() != names.size()) {
        reader.fail(std::to_string(row.size()) + " fields, where the first row has " +
                    std::to_string(names.size()));
      }
      for (const std::size_t column : columns) {
        if (values.add(row[column])) continue;
        reader.fail("column '" + names[column] + "' is '" + row[column].substr(0, 40) + "', no " +
                    name_of(options.feature_dtype));
      }
      if (labelled) labels.add(row[label], reader.row_line());
    }
    arrays.push_back(values.made({rows, static_cast<std::int64_t>(columns.size())}));
    if (labelled) arrays.push_back(numbered(labels, options.label_dtype, names[label], reader));
  }

  // Labels as numbers, or, if none is one, as places among the distinct texts.
  NDArray numbered(const CsvLabels& labels, DType dtype, const std::string& name, const CsvReader& reader) {
    const std::vector<std::string>& texts = labels.texts;
    const Shape shape{static_cast<std::int64_t>(texts.size())};
    const bool numbers = std::any_of(texts.begin(), texts.end(), is_number);
    const bool empty = std::all_of(texts.begin(), texts.end(),
                                   [](const std::string& text) { return trimmed_field(text).empty(); });
    CsvValues values{dtype, {}, {}};
    for (std::size_t i = 0; i < texts.size(); ++i) {
      if (numbers || empty ? values.add(texts[i]) : !trimmed_field(texts[i]).empty()) continue;
      reader.fail(labels.lines[i], "label '" + name + "' is '" + texts[i].substr(0, 40) + "', " +
                                       (numbers || empty ? std::string("no ") + name_of(dtype)
                                                         : std::string("where others are texts")));
    }
    if (numbers || empty) return values.made(shape);
    const std::set<std::string> distinct(texts.begin(), texts.end());
    classes.assign(distinct.begin(), distinct.end());
    if (static_cast<std::int64_t>(classes.size()) > most_classes(dtype)) {
      reader.fail(labels.lines[0], "label '" + name + "' has " + std::to_string(classes.size()) +
                                       " distinct texts, more than " + name_of(dtype) + " has numbers for");
    }
    std::vector<std::int64_t> ids;
    for (const std::string& text : texts)
      ids.push_back(std::lower_bound(classes.begin(), classes.end(), text) - classes.begin());
    return array(ids, shape).astype(dtype);
  }
};

CsvDataset::CsvDataset(const std::string& path, const CsvDatasetOptions& options, Where where)
    : CsvDataset([&] {
        const CallSite site(where);
        if (options.delimiter == '"' || options.delimiter == '\n' || options.delimiter == '\r')
          throw InvalidArgument("CsvDataset: delimiter is a quote or a line's end; wanted another character");
        return ndarray_detail::in_file_call("CsvDataset", [&] { return Contents(path, options, where); });
      }()) {}

CsvDataset::CsvDataset(Contents contents)
    : ArrayDataset(std::move(contents.arrays), contents.where),
      features_(std::move(contents.features)),
      classes_(std::move(contents.classes)) {}

}  // namespace heddle
