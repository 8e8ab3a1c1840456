// What `heddle operators` and `heddle layers` write about arguments.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <heddle/function_info.h>

namespace heddle::tool {

using Json = nlohmann::ordered_json;

std::string text_of_kind(const ArgumentInfo& argument);  // such as "int or 2 ints", "'he' or 'xavier'"
std::string anchor_of(const std::string& heading);       // the anchor that GitHub makes from a heading
Json json_of(const ArgumentInfo& argument);
// The text in lines of about 160 characters, of which all but the first begin with `indent`.
std::string wrapped(const std::string& text, const std::string& indent = "");

// Prints the table of contents of a page whose headings were added, in lines of about 120 characters.
class Contents {
 public:
  void add(const std::string& heading);  // ignores a heading that equals the last one
  void end();

 private:
  std::string line_ = "Contents:", last_;
};

}  // namespace heddle::tool
