// Tables of numbers as text (RFC 4180, without quotes).
#pragma once

#include <string>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

struct CsvOptions {
  char delimiter = ',';  // what separates fields; a space stands for any number of spaces and tabs
  int skip_lines = 0;    // lines to skip at the beginning, such as a line of names
  char comment = '#';    // starts a comment, which ends with the line; 0: no comments
  DType dtype = DType::f64;
  // Columns to load, in this order; negative ones count from the end; empty: all.
  std::vector<int> columns = {};
};

// Blocks. Returns an array (rows, columns). Empty lines are skipped; an empty field is NaN, and an error for
// an integer dtype. Throws Error with the file, line, column and the text that is no number of that dtype.
NDArray load_csv(const std::string& path, const CsvOptions& options = {}, Device device = cpu(),
                 Where where = Where::current());

struct CsvWriteOptions {
  char delimiter = ',';
  std::string header = {};  // the first line of the file
  // Significant digits of floating dtypes, up to 100; 0: as many as read back as the same number.
  int precision = 0;
};

// Blocks. `array` has one axis, of which each value makes a row, or two axes. Writes a temporary file beside
// `path` and renames it.
void save_csv(const std::string& path, const NDArray& array, const CsvWriteOptions& options = {},
              Where where = Where::current());

}  // namespace heddle
