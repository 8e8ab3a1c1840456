#include "stores/update_rule.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <memory>
#include <sstream>
#include <vector>

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

// Makes the optimizer of a server, which may keep a part of a value.
std::unique_ptr<Optimizer> server_optimizer(const std::string& name, const OptimizerParams& params) {
  auto optimizer = create_optimizer(name, params);
  if (optimizer->needs_whole()) {
    throw InvalidArgument("optimizer " + name +
                          ": a step needs the norm of the whole value, of which a server may "
                          "have a part; use a store that keeps values whole, \"local\" or \"allreduce\"");
  }
  return optimizer;
}

// Whether servers of earlier versions do not know the parameter, which has its default.
bool is_left_out(const OptimizerInfo& info, const std::string& name, double value) {
  return std::any_of(info.params.begin(), info.params.end(), [&](const OptimizerInfo::Param& param) {
    return param.name == name && param.added_later && param.value == value;
  });
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
  const auto optimizer = server_optimizer(name, params);
  const std::vector<OptimizerInfo> all = optimizers();
  const auto info = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.name == name; });
  std::string text = optimizer->name();
  for (const auto& [key, value] : optimizer->params())
    if (!is_left_out(*info, key, value)) text += " " + key + "=" + text_of(value);
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
    rule.params = server_optimizer(rule.name, rule.params)->params();
  return rule;
}

}  // namespace heddle::kv_detail
