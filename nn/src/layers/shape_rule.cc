#include "layers/shape_rule.h"

#include <algorithm>
#include <charconv>

#include <heddle/error.h>

namespace heddle::nn_detail {
namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

std::int64_t size_of_argument(const std::string& name, const FindSize& find) {
  const OperatorValue* const value = find(name);
  const auto* const size = value ? std::get_if<std::int64_t>(value) : nullptr;
  if (!size) throw Error("a shape is wanted before the size " + name + " is known");
  return *size;
}

}  // namespace

ShapeRule::ShapeRule(std::string_view text) {
  if (text.size() < 2 || text.front() != '(' || text.back() != ')')
    throw Error("'" + std::string(text) + "' is no rule of a shape");
  std::string_view left = text.substr(1, text.size() - 2);
  while (!trimmed(left).empty()) {
    const std::size_t comma = std::min(left.find(','), left.size());
    parts_.push_back(part_of(trimmed(left.substr(0, comma))));
    left.remove_prefix(std::min(comma + 1, left.size()));
  }
}

ShapeRule::Part ShapeRule::part_of(std::string_view text) {
  Part part;
  if (text.ends_with("...")) {
    part.many = true;
    text.remove_suffix(3);
    if (text.empty()) return part;
  }
  char operation = '*';
  for (;;) {
    const std::size_t end = std::min(text.find_first_of("*/"), text.size());
    const std::string_view word = trimmed(text.substr(0, end));
    Factor factor{.operation = operation, .name = std::string(word)};
    const auto [behind, error] = std::from_chars(word.begin(), word.end(), factor.number);
    if (error == std::errc() && behind == word.end()) factor.name.clear();
    part.factors.push_back(std::move(factor));
    if (end == text.size()) return part;
    operation = text[end];
    text.remove_prefix(end + 1);
  }
}

void ShapeRule::append(const Part& part, const FindSize& find, Shape& shape) {
  if (part.many) {
    const OperatorValue* const value = part.factors.empty() ? nullptr : find(part.factors[0].name);
    const auto* const list = value ? std::get_if<Dims>(value) : nullptr;
    if (!list) throw Error("a shape is wanted whose number of sizes is not known");
    for (const std::int64_t size : *list) shape.push_back(size);
    return;
  }
  std::int64_t size = 1;
  for (const Factor& factor : part.factors) {
    const std::int64_t by = factor.name.empty() ? factor.number : size_of_argument(factor.name, find);
    if (factor.operation == '/' && (by == 0 || size % by != 0))
      throw InvalidArgument(part.factors[0].name + " is " + std::to_string(size) + "; want a multiple of " +
                            factor.name + ", " + std::to_string(by));
    if (factor.operation == '/')
      size /= by;
    else if (__builtin_mul_overflow(size, by, &size))
      throw InvalidArgument(part.factors.back().name + " is " + std::to_string(by) +
                            "; the size of an array does not fit 64 bits");
  }
  shape.push_back(size);
}

Shape ShapeRule::shape(const FindSize& find) const {
  Shape shape;
  for (const Part& part : parts_) append(part, find, shape);
  return shape;
}

bool ShapeRule::match(const Shape& shape, const FindSize& find) const {
  const auto count = static_cast<int>(parts_.size());
  const bool open = std::any_of(parts_.begin(), parts_.end(), [](const Part& part) { return part.many; });
  if (open ? shape.size() < count - 1 : shape.size() != count) return false;
  // Each size is compared before any is set: a shape that does not fit changes nothing.
  std::vector<std::pair<OperatorValue*, std::int64_t>> found;
  int at = 0;
  for (const Part& part : parts_) {
    if (part.many) {
      at += shape.size() - (count - 1);
      continue;
    }
    const std::int64_t size = shape[at++];
    OperatorValue* const value = find(part.factors[0].name);
    if (!value) continue;
    if (const auto* known = std::get_if<std::int64_t>(value)) {
      if (*known != size) return false;
    } else {
      found.emplace_back(value, size);
    }
  }
  for (const auto& [value, size] : found) *value = size;
  return true;
}

std::string ShapeRule::to_string(const FindSize& find) const {
  std::string text;
  for (const Part& part : parts_) {
    text += text.empty() ? "(" : ", ";
    for (const Factor& factor : part.factors) {
      if (&factor != &part.factors.front()) text += std::string(" ") + factor.operation + " ";
      const OperatorValue* const value = factor.name.empty() || !find ? nullptr : find(factor.name);
      const auto* const known = value ? std::get_if<std::int64_t>(value) : nullptr;
      text += known                 ? std::to_string(*known)
              : factor.name.empty() ? std::to_string(factor.number)
                                    : factor.name;
    }
    if (part.many) text += "...";
  }
  return text.empty() ? "()" : text + (parts_.size() == 1 && !parts_[0].many ? ",)" : ")");
}

}  // namespace heddle::nn_detail
