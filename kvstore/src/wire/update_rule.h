// What a server does with pushed values.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/optimizer.h>

namespace heddle::kv_detail {

struct UpdateRule {
  // replace: the sum of the pushes replaces what is stored. add: it is added. optimizer: it is a gradient.
  enum class Kind : std::uint8_t { replace, add, optimizer };
  Kind kind = Kind::replace;
  std::string name{};
  OptimizerParams params{};  // all of them
};

// The rule "add". Throws InvalidArgument for parameters, which it has none of.
bool is_add(const std::string& name, const OptimizerParams& params);

// "sgd lr=0.1 momentum=0.9 ...": numbers have as many digits as tell them from all others. No code ever travels.
// Throws InvalidArgument for an optimizer or a parameter that there is not.
std::string update_rule_text(const std::string& name, const OptimizerParams& params);
// Throws InvalidArgument.
UpdateRule parse_update_rule(const std::string& text);

}  // namespace heddle::kv_detail
