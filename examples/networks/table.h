// Tables of text, and the numbers by which networks know their words and classes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include <heddle/ndarray.h>

using Table = std::vector<std::vector<std::string>>;  // rows

// The rows of a file, in columns that are separated by tabs, but the first row, which names them. Throws std::runtime_error with
// the number of a line that has less than `columns` columns.
Table read_table(const std::string& path, std::size_t columns);

// The words of a text in small letters: what stands between characters that are neither letters nor digits or, with
// `at_spaces`, between spaces.
std::vector<std::string> split(const std::string& text, bool at_spaces);

struct Column {
  std::size_t index;
  std::int64_t length;  // how many of its words count
  bool at_spaces = false;
};

// Numbers of words: 0 stands for no word, 1 for all that are rare, then come the others, the most frequent one first.
class Vocabulary {
 public:
  // Of the words that occur twice, the most frequent `most`.
  Vocabulary(const Table& rows, const std::vector<Column>& columns, std::size_t most);
  std::int64_t size() const { return static_cast<std::int64_t>(numbers_.size()) + 2; }
  // The first words of each row: (rows, length) i64, at the end padded with 0.
  heddle::NDArray numbers(const Table& rows, const Column& column) const;

 private:
  std::map<std::string, std::int64_t> numbers_;
};

// The values of a column, the most frequent one first.
struct Classes {
  Classes(const Table& rows, std::size_t of_column);
  std::size_t column;
  std::vector<std::string> names;
  std::int64_t size() const { return static_cast<std::int64_t>(names.size()); }
  heddle::NDArray labels(const Table& rows) const;  // (rows) i64: places in `names`; -1 for another one
  std::vector<double> counts(const Table& rows) const;
};
