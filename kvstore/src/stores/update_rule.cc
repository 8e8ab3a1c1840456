#include "stores/update_rule.h"

#include <array>
#include <charconv>
#include <sstream>

namespace heddle::kv_detail {
namespace {

constexpr const char* kAdd = "add";

std::string text_of(double value) {
  std::array<char, 32> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr;
  return {digits.data(), end};
}

double number_in(const std::string& word, std::size_t begin) {
  double value = 0;
  const char* const end = word.data() + word.size();
  const auto [stopped, error] = std::from_chars(word.data() + begin, end, value);
  if (error != std::errc() || stopped != end) throw InvalidArgument("'" + word + "' is not NAME=NUMBER");
  return value;
}

}  // namespace

bool is_add(const std::string& name, const OptimizerParams& params) {
  if (name != kAdd) return false;
  if (!params.empty())
    throw InvalidArgument("'add' has no parameter '" + params.begin()->first + "', nor any other");
  return true;
}

std::string update_rule_text(const std::string& name, const OptimizerParams& params) {
  if (is_add(name, params)) return kAdd;
  const auto optimizer = create_optimizer(name, params);
  std::string text = optimizer->name();
  for (const auto& [key, value] : optimizer->params()) text += " " + key + "=" + text_of(value);
  return text;
}

UpdateRule parse_update_rule(const std::string& text) {
  std::istringstream words(text);
  UpdateRule rule;
  words >> rule.name;
  if (rule.name.empty()) return rule;
  for (std::string word; words >> word;) {
    const std::size_t equals = word.find('=');
    if (equals == std::string::npos) throw InvalidArgument("'" + word + "' is not NAME=NUMBER");
    rule.params[word.substr(0, equals)] = number_in(word, equals + 1);
  }
  rule.kind = rule.name == kAdd ? UpdateRule::Kind::add : UpdateRule::Kind::optimizer;
  if (rule.kind == UpdateRule::Kind::optimizer)
    rule.params = create_optimizer(rule.name, rule.params)->params();
  return rule;
}

}  // namespace heddle::kv_detail
