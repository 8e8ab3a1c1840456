// numpy_driver --expressions: prints the NumPy expressions of operators, "name\tits arguments\tthe dtypes that
// they take\tdtype of the result\tlow\thigh\texpression" a line, with commas in lists.
// numpy_driver CASES: runs one operator a line, "name out=FILE in=FILE[:VIEW] ... key=value ...", and writes
// its result. Prints "ok" or "error: MESSAGE" a line. VIEW, names of views joined by "+", makes an input
// strided.
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include <heddle/error.h>
#include <heddle/npy.h>
#include <heddle/operator_registry.h>
#include <heddle/row_sparse.h>

namespace heddle::testing {
namespace {

// The key=value arguments of a test case. A list is written as numbers with commas. Unless said otherwise, a
// missing key throws Error.
class Attributes {
 public:
  explicit Attributes(std::map<std::string, std::string> values) : values_(std::move(values)) {}
  bool has(const std::string& key) const { return values_.contains(key); }
  const std::string& text(const std::string& key) const;
  double real(const std::string& key) const;
  std::int64_t integer(const std::string& key) const;
  Dims dims(const std::string& key) const;  // returns an empty list if the key is missing
  bool flag(const std::string& key) const;  // returns false if the key is missing

 private:
  std::map<std::string, std::string> values_;
};

using Inputs = std::vector<NDArray>;

const std::string& Attributes::text(const std::string& key) const {
  const auto found = values_.find(key);
  if (found == values_.end()) throw Error("no attribute " + key);
  return found->second;
}

double Attributes::real(const std::string& key) const { return std::stod(text(key)); }
std::int64_t Attributes::integer(const std::string& key) const { return std::stoll(text(key)); }
bool Attributes::flag(const std::string& key) const { return has(key) && integer(key) != 0; }

Dims Attributes::dims(const std::string& key) const {
  Dims result;
  if (!has(key)) return result;
  std::istringstream words(text(key));
  for (std::string word; std::getline(words, word, ',');) result.push_back(std::stoll(word));
  return result;
}

NDArray viewed(const NDArray& array, const std::string& view) {
  const auto plus = view.find('+');
  if (plus != std::string::npos) return viewed(viewed(array, view.substr(0, plus)), view.substr(plus + 1));
  if (view.empty()) return array;
  if (view == "indexed") return array[-1];
  if (view == "tail") return array.slice(0, {.begin = 1});
  if (view == "columns") return array.slice(array.ndim() - 1, {.begin = 1});
  if (view == "transposed") {
    Dims axes;
    for (int axis = array.ndim() - 1; axis >= 0; --axis) axes.push_back(axis);
    return array.permuted(axes);
  }
  if (view == "reversed") return array.slice(array.ndim() - 1, {.step = -1});
  if (view == "strided") return array.slice(0, {.step = 2});
  throw Error("no view " + view);
}

NDArray load_input(const std::string& word) {
  const auto colon = word.rfind(':');
  if (colon == std::string::npos) return load_npy(word);
  return viewed(load_npy(word.substr(0, colon)), word.substr(colon + 1));
}

// The number in a text: an integer if the text has no point and no exponent, else a real.
OperatorValue number_in(const std::string& text) {
  const bool whole = text.find_first_not_of("-0123456789") == std::string::npos;
  return whole ? OperatorValue(std::int64_t{std::stoll(text)}) : OperatorValue(std::stod(text));
}

// The value of a keyword argument. An empty list stands for None.
OperatorValue value_of(const OperatorInfo& op, const Attributes& attributes, const std::string& key) {
  for (const ArgumentInfo& argument : op.arguments) {
    if (argument.name != key) continue;
    switch (argument.kind) {
      case ArgumentKind::integers: {
        const Dims dims = attributes.dims(key);
        return dims.empty() ? OperatorValue() : OperatorValue(dims);
      }
      case ArgumentKind::boolean:
        return attributes.flag(key);
      case ArgumentKind::integer:
        return attributes.integer(key);
      case ArgumentKind::text:
      case ArgumentKind::dtype:
        return attributes.text(key);
      case ArgumentKind::number:
      case ArgumentKind::array_or_number:
        return number_in(attributes.text(key));
      default:
        return attributes.real(key);
    }
  }
  throw Error(op.name + ": no argument " + key);
}

// Calls the operator with the inputs as arguments and the attributes as keyword arguments. If the operator
// returns a list, the attribute "result" tells which array of the list is returned.
NDArray by_name(const std::string& name, const Inputs& inputs,
                std::map<std::string, std::string> attributes) {
  const OperatorInfo* op = find_operator(name);
  if (!op) throw Error("no operator " + name);
  OperatorValues values(inputs.begin(), inputs.end());
  std::vector<NamedValue> named;
  for (const ArgumentInfo& argument : op->arguments) {
    if (argument.kind != ArgumentKind::arrays) continue;
    named.push_back({argument.name, inputs});
    values.clear();
  }
  const Attributes given(attributes);
  const std::size_t which = given.has("result") ? static_cast<std::size_t>(given.integer("result")) : 0;
  attributes.erase("result");
  for (const auto& [key, text] : attributes) named.push_back({key, value_of(*op, given, key)});
  if (op->in_place) {
    const NDArray changed = inputs[0].copy();
    values[0] = changed;
    call_operator(*op, values, named);
    return changed;
  }
  OperatorValue result = call_operator(*op, values, named).at(0);
  if (const auto* list = std::get_if<std::vector<NDArray>>(&result)) return list->at(which);
  if (const auto* rows = std::get_if<RowSparse>(&result)) return to_dense(*rows);
  return std::get<NDArray>(result);
}

// The dense sum of row-sparse arrays. The inputs are the rows and the values of each array.
NDArray summed_rows(const Inputs& in, const Attributes& attributes) {
  std::vector<RowSparse> arrays;
  for (std::size_t i = 0; i + 1 < in.size(); i += 2)
    arrays.push_back(row_sparse(in[i], in[i + 1], attributes.dims("shape")));
  return to_dense(sum(arrays));
}

void run_case(const std::string& line) {
  std::istringstream words(line);
  std::string name, out;
  words >> name;
  Inputs inputs;
  std::map<std::string, std::string> attributes;
  for (std::string word; words >> word;) {
    const auto equals = word.find('=');
    const std::string key = word.substr(0, equals), value = word.substr(equals + 1);
    if (key == "in")
      inputs.push_back(load_input(value));
    else if (key == "out")
      out = value;
    else
      attributes[key] = value;
  }
  save_npy(out, name == "row_sparse" ? summed_rows(inputs, Attributes(attributes))
                                     : by_name(name, inputs, attributes));
}

int run_all(const char* path) {
  std::ifstream cases(path);
  for (std::string line; std::getline(cases, line);) {
    try {
      run_case(line);
      std::cout << "ok\n";
    } catch (const std::exception& error) {
      std::cout << "error: " << error.what() << '\n';
    }
  }
  return EXIT_SUCCESS;
}

int list_expressions() {
  for (const OperatorInfo& op : operators()) {
    if (op.numpy.empty()) continue;
    std::string arguments, dtypes;
    for (const ArgumentInfo& argument : op.arguments)
      arguments += (arguments.empty() ? "" : ",") + argument.name;
    for (DType dtype : op.arguments.at(0).dtypes)
      dtypes += (dtypes.empty() ? "" : ",") + std::string(name_of(dtype));
    std::cout << op.name << '\t' << arguments << '\t' << dtypes << '\t' << op.result_dtype << '\t'
              << op.domain[0] << '\t' << op.domain[1] << '\t' << op.numpy << '\n';
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace heddle::testing

int main(int count, char** words) {
  if (count == 2 && words[1] == std::string("--expressions")) return heddle::testing::list_expressions();
  if (count == 2) return heddle::testing::run_all(words[1]);
  std::cerr << "usage: numpy_driver CASES | --expressions\n";
  return EXIT_FAILURE;
}
