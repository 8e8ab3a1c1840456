// Numbers from files: IDX, as MNIST has it, and tables as text. For .npy: ArrayDataset({map_npy("x.npy"), map_npy("y.npy")}).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <heddle/data/dataset.h>

namespace heddle {

// Blocks. An IDX file, plain or compressed by gzip. Throws Error naming the file and the offset; sizes are checked against the
// file's before memory is taken.
NDArray load_idx(const std::string& path, Where where = Where::current());

struct CsvDatasetOptions {
  char delimiter = ',';
  bool header = true;  // the first row has the names of columns; else they are "0", "1" ...
  std::vector<std::string> features =
      {};                  // columns of the first array, in this order; empty: all but the label
  std::string label = {};  // the column of the second array; empty: none
  DType feature_dtype = DType::f32, label_dtype = DType::i64;
};

// A table (RFC 4180, with quoted fields). Examples are {features (k), label ()}. An empty field is NaN, and an error for
// integers. Where no label is a number, labels count the distinct texts in their order. Lines end with \n, \r\n or \r.
class CsvDataset : public ArrayDataset {
 public:
  // Reads the file. Throws Error naming the file, line and column.
  explicit CsvDataset(const std::string& path, const CsvDatasetOptions& options = {},
                      Where where = Where::current());
  const std::vector<std::string>& features() const { return features_; }  // names of the columns
  const std::vector<std::string>& classes() const { return classes_; }    // of labels that are texts

 private:
  struct Contents;
  explicit CsvDataset(Contents contents);
  std::vector<std::string> features_, classes_;
};

}  // namespace heddle
