// Runs commands on named arrays, one per line of standard input; numpy_check.py runs the same commands with
// NumPy.
#include <functional>
#include <iostream>
#include <map>
#include <sstream>
#include <string>

#include <heddle/npy.h>

using namespace heddle;

namespace {

std::map<std::string, NDArray> arrays;

// Parses "2,3" as numbers, "-" as no numbers.
Dims dims_from(const std::string& text) {
  Dims dims;
  if (text == "-") return dims;
  std::istringstream in(text);
  for (std::string number; std::getline(in, number, ',');) dims.push_back(std::stoll(number));
  return dims;
}

std::optional<std::int64_t> bound_from(const std::string& text) {
  if (text == "-") return std::nullopt;
  return std::stoll(text);
}

NDArray& known(const std::string& name) { return arrays.at(name); }

void slice(std::istream& in, NDArray& result, const NDArray& source) {
  int axis;
  std::string begin, end;
  std::int64_t step;
  in >> axis >> begin >> end >> step;
  result = source.slice(axis, {bound_from(begin), bound_from(end), step});
}

// A command "RESULT = FUNCTION SOURCE ARGUMENT".
using Function = std::function<NDArray(const NDArray& source, const std::string& argument)>;
const std::map<std::string, Function> kFunctions = {
    {"index", [](const NDArray& a, const std::string& i) { return a[std::stoll(i)]; }},
    {"permute", [](const NDArray& a, const std::string& axes) { return a.permuted(dims_from(axes)); }},
    {"broadcast",
     [](const NDArray& a, const std::string& shape) { return a.broadcast_view(dims_from(shape)); }},
    {"reshape",
     [](const NDArray& a, const std::string& shape) { return a.contiguous().view_as(dims_from(shape)); }},
    {"astype", [](const NDArray& a, const std::string& dtype) { return a.astype(dtype_from_name(dtype)); }},
};

void run(const std::string& command, std::istream& in) {
  std::string name, other, argument;
  in >> name >> other;
  if (command == "load") {
    arrays[name] = load_npy(other);
  } else if (command == "save") {
    save_npy(other, known(name));
  } else if (command == "print") {
    const std::string text = known(name).to_string();
    std::cout << text.size() << "\n" << text << "\n";
  } else if (command == "assign") {
    known(name).assign(known(other));
  } else if (command == "fill") {
    known(name).fill(std::stod(other));
  } else if (command == "slice") {
    const NDArray source = known(other);
    slice(in, arrays[name], source);
  } else {
    in >> argument;
    arrays[name] = kFunctions.at(command)(known(other), argument);
  }
}

}  // namespace

int main() {
  int number = 0;
  for (std::string line; std::getline(std::cin, line);) {
    ++number;
    std::istringstream in(line);
    std::string command;
    in >> command;
    try {
      run(command, in);
    } catch (const std::exception& error) {
      std::cerr << "line " << number << ": " << line << ": " << error.what() << "\n";
      return 1;
    }
  }
  default_engine().wait_all();
  return 0;
}
