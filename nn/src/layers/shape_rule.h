// Shapes in words, whose sizes are arguments of a layer.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/ndarray.h>
#include <heddle/operator_value.h>

namespace heddle::nn_detail {

// The value of an argument, by its name: an integer, a list of integers, or None as long as the size is not known. Null: no
// argument has this name.
using FindSize = std::function<OperatorValue*(std::string_view name)>;

// A rule such as "(out_channels, in_channels / groups, kernel...)" or "(batch..., in_features)". A name that is no argument
// stands for any size. "..." stands for any number of sizes; behind a name, for those of a list.
class ShapeRule {
 public:
  ShapeRule() = default;
  explicit ShapeRule(std::string_view text);  // throws Error for a text that is no rule
  // The shape. Throws Error if a size is not known, and InvalidArgument for a division with a rest.
  Shape shape(const FindSize& find) const;
  // Whether a shape follows the rule. Sizes that were not known get the values that the shape has.
  bool match(const Shape& shape, const FindSize& find) const;
  // "(batch..., 784)": with the sizes that are known.
  std::string to_string(const FindSize& find) const;

 private:
  struct Factor {
    char operation = '*';  // '*' or '/'
    std::string name;      // empty: the factor is `number`
    std::int64_t number = 1;
  };
  struct Part {
    std::vector<Factor> factors;  // empty: "..." without a name
    bool many = false;            // "..." follows
  };
  static Part part_of(std::string_view text);
  static void append(const Part& part, const FindSize& find, Shape& shape);

  std::vector<Part> parts_;
};

}  // namespace heddle::nn_detail
