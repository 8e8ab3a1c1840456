// The rule by which a server applies pushed values.
#pragma once

#include <cstdint>
#include <string>

#include <heddle/optimizer.h>

namespace heddle::kv_detail {

struct UpdateRule {
  // replace: the sum of the pushes replaces the stored value. add: the sum is added to the stored value.
  // optimizer: the sum is the gradient for an optimizer.
  enum class Kind : std::uint8_t { replace, add, optimizer };
  Kind kind = Kind::replace;
  std::string name{};
  OptimizerParams params{};  // all parameters, with defaults for those not given
};

// True for the rule "add". Throws InvalidArgument if it is given parameters.
bool is_add(const std::string& name, const OptimizerParams& params);

// The rule as text, "sgd lr=0.1 momentum=0.9 ...", with the fewest digits that give the same numbers. Rules
// travel as text, never as code. Throws InvalidArgument for an unknown optimizer or parameter, and for an
// optimizer that needs whole values. Parameters that earlier versions do not know are left out while they
// have their defaults.
std::string update_rule_text(const std::string& name, const OptimizerParams& params);
// Parses a text that update_rule_text() has made. Throws InvalidArgument.
UpdateRule parse_update_rule(const std::string& text);

}  // namespace heddle::kv_detail
