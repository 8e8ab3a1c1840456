// Tables of numbers as text (RFC 4180, without quotes).
#pragma once

#include <string>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle {

struct CsvOptions {
  char delimiter = ',';  // a space: any number of spaces and tabs
  int skip_lines = 0;    // at the beginning, such as a line of names
  char comment = '#';    // what follows it in a line is left out; 0: nothing is
  DType dtype = DType::f64;
  std::vector<int> columns = {};  // only these, in this order; negative ones count from the end; none: all
};

// Blocks. An array (rows, columns). Empty lines are left out; an empty field is NaN, and an error for an integer dtype. Throws
// Error with the file, the line, the column and the text that is no number of that dtype.
NDArray load_csv(const std::string& path, const CsvOptions& options = {}, Device device = cpu(),
                 Where where = Where::current());

struct CsvWriteOptions {
  char delimiter = ',';
  std::string header = {};  // the first line
  int precision =
      0;  // significant digits of floating dtypes, up to 100; 0: as many as give the same number when read
};

// Blocks. An array of one axis, a row a value, or of two. Writes a temporary file beside `path` and renames it.
void save_csv(const std::string& path, const NDArray& array, const CsvWriteOptions& options = {},
              Where where = Where::current());

}  // namespace heddle
