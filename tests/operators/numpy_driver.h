// What the table of operators checked against NumPy is made of.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include <heddle/ndarray.h>

namespace heddle::testing {

// The key=value words of a case. Lists are numbers with commas between; a missing key throws Error.
class Attributes {
 public:
  explicit Attributes(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  bool has(const std::string& key) const { return values_.contains(key); }
  const std::string& text(const std::string& key) const;
  double real(const std::string& key) const;
  std::int64_t integer(const std::string& key) const;
  Dims dims(const std::string& key) const;  // empty if the key is missing
  bool flag(const std::string& key) const;  // false if the key is missing

 private:
  std::map<std::string, std::string> values_;
};

using Inputs = std::vector<NDArray>;
using Operator = std::function<NDArray(const Inputs& in, const Attributes& attributes)>;

// One entry an operator, by the name that the cases use.
const std::map<std::string, Operator>& operator_table();
const std::map<std::string, Operator>& network_table();  // those of networks

}  // namespace heddle::testing
