// heddle operators: lists all operators, for people and for programs that make bindings.
#include <algorithm>
#include <iostream>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

#include <heddle/operator_registry.h>

#include "command.h"
#include "function_text.h"

namespace heddle::tool {
namespace {

struct Options {
  bool markdown = false, json = false;
};

// Describes a set of dtypes, in few words or by their names.
std::string text_of(const std::vector<DType>& dtypes) {
  const auto has = [&](DType dtype) {
    return std::find(dtypes.begin(), dtypes.end(), dtype) != dtypes.end();
  };
  if (dtypes.size() == std::size(kAllDTypes)) return "any dtype";
  if (dtypes.size() + 1 == std::size(kAllDTypes) && !has(DType::boolean)) return "any dtype but bool";
  if (std::all_of(std::begin(kAllDTypes), std::end(kAllDTypes),
                  [&](DType dtype) { return has(dtype) == is_floating(dtype); })) {
    return "floating dtypes";
  }
  std::string text;
  for (DType dtype : dtypes) text += (text.empty() ? "" : ", ") + std::string(name_of(dtype));
  return text;
}

constexpr const char* kHead = R"(# Operators

This page is for those who look an operator up, or call it by its name. `heddle operators --markdown` writes it from the
registry of operators; a test fails if it is out of date. [Arrays](arrays.md) explains the use of operators in C++.

Most of them are C++ functions of the same name and the same arguments. The others:

| By name                                                         | In C++                                                       |
|-----------------------------------------------------------------|--------------------------------------------------------------|
| `add_`, `subtract_`, `multiply_`, `divide_`, `remainder_`       | `+=`, `-=`, `*=`, `/=`, `%=`                                 |
| `bitwise_and_`, `bitwise_or_`, `bitwise_xor_`                   | `&=`, `\|=`, `^=`                                            |
| `bitwise_left_shift_`, `bitwise_right_shift_`                   | `<<=`, `>>=`                                                 |
| `assign_`, `fill_`                                              | members of `NDArray`: `assign`, `fill`                       |
| `uniform`, `normal`, `bernoulli`, `integers`, `permutation`     | members of `Generator`                                       |
| `sum_row_sparse`, `add_rows_`                                   | `sum`, `add_rows`                                            |
| the options of `linear`, `conv2d`, `embedding` and pooling      | a struct of options                                          |
| `start`, `stop` and `step` of `slice`                           | a `Slice`                                                    |
| `indexing` of `meshgrid`, `mode` of `pad`                       | a bool, a `PadMode`                                          |

A program that learns the name when it runs, such as a binding to another language, calls an operator with values;
[arrays](arrays.md#operators-by-name) shows how.

- Values are given in the order of the arguments, by keyword, or both. An argument that has a default may be left out.
- A number is an int, a float or a bool. Beside arrays it takes their dtype where its kind allows that
  ([promotion](dtypes.md#promotion)). An int also stands for a float, and for a list of one int.
- The common dtype is the one that arrays and numbers are promoted to. Where arrays are promoted, the dtypes of arguments are those
  that it may be.
- An argument that is marked "gradient" gets one if its dtype is floating.
- A list of arrays is one result: a tuple in Python, a `std::vector` or a `std::array` in C++.
- An operator whose name ends with `_` changes its first argument in place and has no result.
- Where the result is one array, it can be written into memory that the caller has: `out=` in Python, `into` in C++,
  `heddle_operator_apply_into` in C ([arrays](arrays.md#changes-in-place)).
- A dtype may be given by its name. A generator, a `Generator*`, has to outlive the call.
- Arguments that do not fit throw `InvalidArgument` at the call.
)";

std::string details_of(const ArgumentInfo& argument) {
  std::string text = text_of_kind(argument);
  if (!argument.dtypes.empty()) text += "; " + text_of(argument.dtypes);
  if (argument.differentiable) text += "; gradient";
  return text;
}

std::string text_of_result(const OperatorInfo& op) {
  if (op.results.empty()) return "Changes " + op.arguments.front().name + "; no result.";
  const ArgumentKind kind = op.results.front();
  const char* whose = kind == ArgumentKind::arrays ? "; their dtype: " : "; its dtype: ";
  return std::string("Result: ") + name_of(kind) + whose + op.result_dtype + ".";
}

void write_markdown(const OperatorInfo& op) {
  std::cout << "\n### " << op.name << "\n\n    " << wrapped(op.signature(), "        ") << "\n\n"
            << wrapped(op.documentation) << "\n\n";
  for (const ArgumentInfo& argument : op.arguments) {
    std::cout << "- `" << argument.name << "`: " << details_of(argument) << "\n";
  }
  std::cout << "\n" << text_of_result(op) << "\n";
  if (!op.numpy.empty()) std::cout << "\nIn NumPy: `" << op.numpy << "`.\n";
}

void write_markdown() {
  std::cout << kHead << "\n";
  Contents contents;
  for (const OperatorInfo& op : operators()) contents.add(op.family);
  contents.end();
  std::string family;
  for (const OperatorInfo& op : operators()) {
    if (op.family != family) std::cout << "\n## " << op.family << "\n";
    family = op.family;
    write_markdown(op);
  }
}

Json json_of(const OperatorInfo& op) {
  Json json = {{"name", op.name},
               {"family", op.family},
               {"documentation", op.documentation},
               {"signature", op.signature()},
               {"arguments", Json::array()},
               {"results", Json::array()},
               {"result_dtype", op.result_dtype},
               {"differentiable", op.differentiable},
               {"in_place", op.in_place},
               {"numpy", op.numpy}};
  for (const ArgumentInfo& argument : op.arguments) json["arguments"].push_back(tool::json_of(argument));
  for (ArgumentKind kind : op.results) json["results"].push_back(name_of(kind));
  return json;
}

void write_json() {
  Json list = Json::array();
  for (const OperatorInfo& op : operators()) list.push_back(json_of(op));
  std::cout << list.dump(2) << "\n";
}

void write_list() {
  std::string family;
  for (const OperatorInfo& op : operators()) {
    if (op.family != family) std::cout << (family.empty() ? "" : "\n") << op.family << "\n";
    family = op.family;
    std::cout << "  " << op.signature() << "\n      " << op.documentation << "\n";
  }
}

int run(const Options& options) {
  if (options.markdown) {
    write_markdown();
  } else if (options.json) {
    write_json();
  } else {
    write_list();
  }
  return 0;
}

constexpr const char* kDescription =
    "Lists the operators on arrays: their names, arguments, defaults, and what they compute.\n\n"
    "    heddle operators             for reading\n"
    "    heddle operators --json      for programs, with kinds, dtypes and gradients\n"
    "    heddle operators --markdown  the page docs/operators.md";

}  // namespace

void add_operators(Program& program, Action& action) {
  auto options = std::make_shared<Options>();
  command_line::Command command = program.add_command("operators", kDescription);
  command.add_flag("--markdown", options->markdown, "write docs/operators.md");
  command.add_flag("--json", options->json, "write a list of objects, one an operator");
  command.on_parsed([options, &action] {
    if (options->markdown && options->json)
      throw command_line::Misuse("--markdown and --json exclude each other");
    action = [options] { return run(*options); };
  });
}

}  // namespace heddle::tool
