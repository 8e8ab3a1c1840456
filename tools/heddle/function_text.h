// What `heddle operators` and `heddle layers` write about arguments.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include <heddle/function_info.h>

namespace heddle::tool {

using Json = nlohmann::ordered_json;

std::string text_of_kind(const ArgumentInfo& argument);  // "int or 2 ints", "'he' or 'xavier'"
std::string anchor_of(const std::string& heading);       // the anchor that GitHub makes from a heading
Json json_of(const ArgumentInfo& argument);

// Prints the contents of a page with these headings, in lines of some 120 characters.
class Contents {
 public:
  void add(const std::string& heading);  // the same heading once more changes nothing
  void end();

 private:
  std::string line_ = "Contents:", last_;
};

}  // namespace heddle::tool
