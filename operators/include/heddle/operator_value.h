// A value whose type is known only at run time: an argument or a result of an operator that is called by its name.
#pragma once

#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/random.h>
#include <heddle/row_sparse.h>

namespace heddle {

// std::monostate is Python's None: an argument that is left out. A generator must outlive the call. Numbers
// are stored as std::int64_t, double or bool, or as uint64_t above the int64 range; a list of integers is a
// Dims.
struct OperatorValue
    : std::variant<std::monostate, bool, std::int64_t, double, std::string, Dims, DType, Device, NDArray,
                   std::vector<NDArray>, RowSparse, std::vector<RowSparse>, Generator*, std::uint64_t> {
  using variant::variant;

  bool is_none() const { return index() == 0; }
  // The value as Python writes it: None, True, -1, 0.5, 'he', (2, 3); else f32, cpu(0), an array as "array f32(2, 3)". Does not wait.
  std::string to_string() const;
};
using OperatorValues = std::vector<OperatorValue>;

struct NamedValue {
  std::string name;
  OperatorValue value;
};

}  // namespace heddle
