// The descriptions in the registry of operators, and errors of calls by name.
#include <cctype>
#include <limits>
#include <message_of.h>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/elementwise.h>
#include <heddle/operator_registry.h>

#include "core/operator_table.h"

using namespace heddle;

namespace {

std::string refusal(const std::string& name, const OperatorValues& values,
                    const std::vector<NamedValue>& named = {}) {
  return test::message_of<InvalidArgument>([&] { call_operator(name, values, named); });
}

bool is_identifier(const std::string& text) {
  if (text.empty() || std::isdigit(static_cast<unsigned char>(text[0]))) return false;
  for (char letter : text) {
    if (!std::islower(static_cast<unsigned char>(letter)) &&
        !std::isdigit(static_cast<unsigned char>(letter)) && letter != '_') {
      return false;
    }
  }
  return true;
}

}  // namespace

TEST_CASE("each operator is described, by words that other languages take") {
  std::set<std::string> names, families;
  std::string family;
  for (const OperatorInfo& op : operators()) {
    CAPTURE(op.name);
    CHECK(is_identifier(op.name));
    CHECK(names.insert(op.name).second);
    CHECK(find_operator(op.name) == &op);
    if (op.family != family)
      CHECK(families.insert(op.family).second);  // each family is one run of operators in the list
    family = op.family;
    CHECK(op.documentation.ends_with("."));
    CHECK(op.documentation.find('\n') == std::string::npos);
    CHECK(op.in_place == op.name.ends_with("_"));
    CHECK(op.in_place == op.results.empty());
    CHECK(op.in_place == op.result_dtype.empty());
    std::set<std::string> keywords;
    bool required = true, gradient = false;
    for (const ArgumentInfo& argument : op.arguments) {
      CHECK(is_identifier(argument.name));
      CHECK(keywords.insert(argument.name).second);
      CHECK((required || !argument.required()));  // in Python, required arguments must precede optional ones
      required = argument.required();
      gradient |= argument.differentiable;
    }
    CHECK(gradient == op.differentiable);
  }
  CHECK(names.size() >= 80);
  CHECK(find_operator("") == nullptr);
  CHECK(find_operator("softmax ") == nullptr);
}

TEST_CASE("a description has kinds, defaults and dtypes") {
  const OperatorInfo& pool = *find_operator("avg_pool2d");
  CHECK(pool.signature() ==
        "avg_pool2d(x, kernel_size=2, stride=None, padding=0, count_include_pad=True, ceil_mode=False)");
  CHECK(pool.arguments[0].dtypes == std::vector{DType::f32, DType::f64, DType::f16, DType::bf16});
  CHECK(pool.arguments[0].required());
  CHECK(pool.arguments[1].length == 2);
  CHECK(pool.arguments[2].takes_none());
  CHECK(find_operator("sum")->signature() == "sum(x, axis=None, keepdims=False)");
  CHECK(find_operator("zeros")->signature() == "zeros(shape, dtype=f32, device=cpu(0))");
  const ArgumentInfo& init = find_operator("init_weight")->arguments[1];
  CHECK(init.kind == ArgumentKind::text);
  CHECK(init.choices == std::vector<std::string>{"he", "xavier"});
  CHECK(find_operator("where")->arguments[0].dtypes == std::vector{DType::boolean});
  CHECK_FALSE(find_operator("where")->arguments[0].differentiable);
  CHECK(find_operator("where")->arguments[1].kind == ArgumentKind::array_or_number);
}

TEST_CASE("a value says what it is") {
  Generator generator;
  const NDArray x = zeros({2, 3});
  const std::pair<OperatorValue, const char*> cases[] = {
      {{}, "None"},
      {true, "True"},
      {false, "False"},
      {-3, "-3"},
      {0.5, "0.5"},
      {2.0, "2.0"},
      {1e30, "1e+30"},
      {std::numeric_limits<double>::quiet_NaN(), "nan"},
      {-std::numeric_limits<double>::infinity(), "-inf"},
      {"he", "'he'"},
      {Shape{2, 3}, "(2, 3)"},
      {DType::boolean, "bool"},
      {cpu(1), "cpu(1)"},
      {x, "array f32(2, 3)"},
      {NDArray(), "undefined array"},
      {std::vector<NDArray>{x, x}, "list of 2 arrays"},
      {retain(x, zeros({1}, DType::i64)), "row-sparse array f32(2, 3)"},
      {std::vector<RowSparse>{}, "list of 0 row-sparse arrays"},
      {&generator, "generator"},
  };
  for (const auto& [value, text] : cases) CHECK(value.to_string() == text);
}

TEST_CASE("a call by name refuses names and numbers of arguments that do not fit") {
  const NDArray x = zeros({2, 3});
  CHECK(refusal("sofmax", {x}) ==
        "call_operator: there is no operator 'sofmax'; operators() and `heddle operators` list them");
  const std::string wanted = "; wanted: softmax(x, axis=-1)";
  CHECK(refusal("softmax", {x, 1, 2}) == "softmax: 3 values for 2 arguments" + wanted);
  CHECK(refusal("softmax", {}) == "softmax: x is missing" + wanted);
  CHECK(refusal("softmax", {}, {{"axis", 0}}) == "softmax: x is missing" + wanted);
  CHECK(refusal("softmax", {x}, {{"dim", 0}}) == "softmax: there is no argument 'dim'" + wanted);
  CHECK(refusal("softmax", {x, 0}, {{"axis", 0}}) == "softmax: axis is given twice" + wanted);
  CHECK(refusal("softmax", {x}, {{"axis", 0}, {"axis", 0}}) == "softmax: axis is given twice" + wanted);
}

TEST_CASE("a call by name refuses values of another kind, and says which") {
  const NDArray x = zeros({2, 3}), image = zeros({1, 1, 4, 4});
  const std::vector<NDArray> list{x};
  CHECK(refusal("softmax", {2}) == "softmax: x is 2; wanted: array");
  CHECK(refusal("softmax", {{}}) == "softmax: x is None; wanted: array");
  CHECK(refusal("softmax", {x, 0.5}) == "softmax: axis is 0.5; wanted: int");
  CHECK(refusal("softmax", {x, true}) == "softmax: axis is True; wanted: int");
  CHECK(refusal("softmax", {x, "last"}) == "softmax: axis is 'last'; wanted: int");
  CHECK(refusal("softmax", {x, std::int64_t{1} << 40}) ==
        "softmax: axis is 1099511627776; wanted: an int of 32 bits");
  CHECK(refusal("add", {x, list}) == "add: b is list of 1 arrays; wanted: array or number");
  CHECK(refusal("concat", {x}) == "concat: arrays is array f32(2, 3); wanted: list of arrays");
  CHECK(refusal("to_dense", {x}) == "to_dense: x is array f32(2, 3); wanted: row-sparse array");
  CHECK(refusal("sum_row_sparse", {list}) ==
        "sum_row_sparse: arrays is list of 1 arrays; wanted: list of row-sparse arrays");
  CHECK(refusal("retain", {2, x}) == "retain: x is 2; wanted: array or row-sparse array");
  CHECK(refusal("clip", {x, x, 1}) == "clip: min is array f32(2, 3); wanted: number");
  CHECK(refusal("dropout", {x, "half"}) == "dropout: p is 'half'; wanted: float");
  CHECK(refusal("dropout", {x, 0.5, 1}) == "dropout: training is 1; wanted: bool");
  CHECK(refusal("dropout", {x, 0.5, true, 7}) == "dropout: generator is 7; wanted: generator or None");
  CHECK(refusal("dropout", {x, 0.5, true, static_cast<Generator*>(nullptr)}) ==
        "dropout: generator is generator; wanted: generator or None");
  CHECK(refusal("sum", {x, 0.5}) == "sum: axis is 0.5; wanted: int or list of ints or None");
  CHECK(refusal("sum", {x, Dims{}}) == "sum: axis is (); wanted: an axis, or None for all");
  CHECK(refusal("max_pool2d", {image, Dims{2, 2, 2}}) ==
        "max_pool2d: kernel_size is (2, 2, 2); wanted: 2 ints, or one for both");
  CHECK(refusal("max_pool2d", {image, Dims{}}) ==
        "max_pool2d: kernel_size is (); wanted: 2 ints, or one for both");
  CHECK(refusal("zeros", {Shape{2}, cpu()}) == "zeros: dtype is cpu(0); wanted: dtype");
  CHECK(
      refusal("zeros", {Shape{2}, "f23"}).starts_with("zeros: no dtype is called \"f23\"; there are f32, "));
  CHECK(refusal("zeros", {Shape{2}, DType::f32, "cpu"}) == "zeros: device is 'cpu'; wanted: device");
  CHECK(refusal("init_weight", {Shape{2, 2}, "zeros"}) ==
        "init_weight: init is 'zeros'; wanted: 'he' or 'xavier'");
}

TEST_CASE("a call by name refuses in the operator's words what the operator refuses") {
  const NDArray x = zeros({2, 3});
  CHECK(refusal("softmax", {NDArray()}) ==
        "softmax: an array is undefined: made without a shape, moved from, or a gradient before backward()");
  CHECK(refusal("softmax", {x, 2}) == "softmax: axis 2 of an array of shape (2, 3), which has 2 dimensions");
  CHECK(refusal("reshape", {x, 4}) == "reshape: shape (2, 3) has 6 elements, (4,) does not");
  CHECK(refusal("add", {1, 2.5}) == "add: two scalars; wanted at least one array");
  CHECK(refusal("subtract_", {x, zeros({4})}) ==
        "subtract_: shapes (2, 3) and (4,) do not broadcast together");
}

TEST_CASE("a change in place is seen through the array that was given") {
  const NDArray x = zeros({2, 2});
  CHECK(call_operator("add_", {x[0], 2}).empty());
  CHECK(call_operator("fill_", {x}, {{"value", 5}}).empty());
  CHECK(call_operator("assign_", {x[1], array({7.0F, 8.0F})}).empty());
  CHECK(x.to_vector<float>() == std::vector<float>{5, 5, 7, 8});
}

TEST_CASE("threads find and call operators at the same time") {
  std::vector<NDArray> sums(4);
  std::vector<std::thread> threads;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    threads.emplace_back([&, i] {
      const NDArray x = ones({8});
      for (int round = 0; round < 50; ++round) call_operator("add_", {x, static_cast<int>(i)});
      sums[i] = std::get<NDArray>(call_operator(*find_operator("sum"), OperatorValues{x}).at(0));
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (std::size_t i = 0; i < sums.size(); ++i)
    CHECK(sums[i].item<float>() == static_cast<float>(8 * (1 + 50 * i)));
}

TEST_CASE("an entry that does not fit its function, and a name that is taken, are errors") {
  using namespace operators_detail;
  std::vector<OperatorInfo> list;
  OperatorTable table(list);
  table.family("Test");
  table.add("twice", relu, {"x * 2.", {"x"}, "that of x"});
  CHECK(list.at(0).signature() == "twice(x)");
  CHECK_THROWS_WITH_AS(table.add("half", relu, {"x / 2.", {"x", "by"}, "that of x"}),
                       "half: registered with 2 arguments; its function takes 1", Error);
  CHECK_THROWS_WITH_AS(table.add("twice", relu, {"x * 2.", {"x"}, "that of x"}),
                       "twice: two operators have this name", Error);
}
