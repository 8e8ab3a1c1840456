#include "function_text.h"

#include <cctype>
#include <cstdint>
#include <iostream>
#include <variant>
#include <vector>

namespace heddle::tool {

std::string text_of_kind(const ArgumentInfo& argument) {
  std::string text = name_of(argument.kind);
  if (argument.kind == ArgumentKind::integers) {
    text = argument.length == 0   ? "int or list of ints"
           : argument.length == 1 ? "int"
                                  : "int or " + std::to_string(argument.length) + " ints";
  }
  if (!argument.choices.empty()) {
    if (argument.kind == ArgumentKind::text) text.clear();
    for (const std::string& word : argument.choices) text += (text.empty() ? "'" : " or '") + word + "'";
  }
  return argument.takes_none() ? text + " or None" : text;
}

std::string anchor_of(const std::string& heading) {
  std::string anchor;
  for (char letter : heading) {
    if (letter == ' ') anchor += '-';
    if (std::isalnum(static_cast<unsigned char>(letter)) || letter == '-') {
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(letter)));
    }
  }
  return anchor;
}

void Contents::add(const std::string& heading) {
  if (heading == last_) return;
  if (!last_.empty()) line_ += " ·";
  if (line_.size() > 120) {
    std::cout << line_ << "\n";
    line_.clear();
  }
  line_ += (line_.empty() ? "[" : " [") + heading + "](#" + anchor_of(heading) + ")";
  last_ = heading;
}

void Contents::end() { std::cout << line_ << "\n"; }

namespace {

Json json_of(const OperatorValue& value) {
  if (const auto* flag = std::get_if<bool>(&value)) return *flag;
  if (const auto* whole = std::get_if<std::int64_t>(&value)) return *whole;
  if (const auto* real = std::get_if<double>(&value)) return *real;
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  if (const auto* list = std::get_if<Dims>(&value))
    return std::vector<std::int64_t>(list->begin(), list->end());
  if (value.is_none()) return nullptr;
  return value.to_string();  // the value is a dtype or a device
}

}  // namespace

std::string wrapped(const std::string& text, const std::string& indent) {
  constexpr std::size_t kWidth = 160;
  std::string lines = text;
  for (std::size_t begin = 0; lines.size() - begin > kWidth;) {
    const std::size_t space = lines.rfind(' ', begin + kWidth);
    if (space == std::string::npos || space <= begin + indent.size()) break;
    lines.replace(space, 1, "\n" + indent);
    begin = space + 1;
  }
  return lines;
}

Json json_of(const ArgumentInfo& argument) {
  Json json = {{"name", argument.name}, {"kind", name_of(argument.kind)}, {"required", argument.required()}};
  if (argument.default_value) json["default"] = json_of(*argument.default_value);
  json["takes_none"] = argument.takes_none();
  json["length"] = argument.length;
  json["choices"] = argument.choices;
  json["dtypes"] = Json::array();
  for (DType dtype : argument.dtypes) json["dtypes"].push_back(name_of(dtype));
  json["differentiable"] = argument.differentiable;
  return json;
}

}  // namespace heddle::tool
