// Model: a module made of inputs, layers and operators that are connected by symbols, without a class of its own.
//
//   Symbol title = input("title", {kInferred, 20}, DType::i64), body = input("body", {kInferred, 200}, DType::i64);
//   const Embedding words(10'000, 32);  // used twice, with the same weight
//   Symbol both = connect("concat", {{connect("mean", {connect(words, title), 1}), connect("mean", {connect(words, body), 1})}, 1});
//   Model model({title, body}, {connect(Dense(kInferred, 1), both), connect(Dense(kInferred, 4), both)});
//   std::vector<NDArray> results = model.run({titles, bodies});  // priorities, departments
#pragma once

#include <initializer_list>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/layer.h>
#include <heddle/module.h>
#include <heddle/operator_value.h>

namespace heddle {

namespace nn_detail {
struct SymbolNode;
struct ModelPlan;
}  // namespace nn_detail

// Stands for an array that a model will compute. It has an example, which is computed when the symbol is made: so shapes are known,
// and wrong ones refused, on the line that connects. Handles of one symbol share it. A default one is undefined.
class Symbol {
 public:
  Symbol() = default;
  bool defined() const { return node_ != nullptr; }
  const Shape& shape() const;  // of the example, in which a size that is not known is 2
  DType dtype() const;

 private:
  friend nn_detail::SymbolNode;
  std::shared_ptr<const nn_detail::SymbolNode> node_;
  std::size_t output_ = 0;  // which of the node's results
};

// Makes an input of a model. A size that is kInferred may differ from call to call. Throws InvalidArgument for other sizes below 0
// and for an empty name.
Symbol input(std::string name, const Shape& shape, DType dtype = DType::f32, Where where = Where::current());

// Calls a module on symbols: its results. A module that is used several times is one, whose parameters are shared. Its first call
// finds sizes that are kInferred. Throws InvalidArgument for what the module refuses.
std::vector<Symbol> connect_all(std::shared_ptr<Module> module, const std::vector<Symbol>& inputs,
                                Where where = Where::current());
Symbol connect(std::shared_ptr<Module> module, const Symbol& x, Where where = Where::current());
template <std::derived_from<Module> M>
Symbol connect(const M& module, const Symbol& x, Where where = Where::current()) {
  return connect(std::make_shared<M>(module), x, where);
}

// An argument of an operator: what OperatorValue holds, a symbol, or a list of symbols.
struct SymbolValue : std::variant<OperatorValue, Symbol, std::vector<Symbol>> {
  using variant::variant;
  SymbolValue(std::initializer_list<Symbol> list) : variant(std::vector<Symbol>(list)) {}
};
using NamedSymbolValue = std::pair<std::string, SymbolValue>;

// Calls an operator by its name, see call_operator(): its results. Arrays among the values become constants of the model. Throws
// InvalidArgument for what the operator refuses, for one that changes its argument, and for an array that requires a gradient.
std::vector<Symbol> connect_all(std::string_view op, const std::vector<SymbolValue>& values,
                                const std::vector<NamedSymbolValue>& named = {},
                                Where where = Where::current());
// Calls an operator with one result, as connect_all() calls any.
Symbol connect(std::string_view op, const std::vector<SymbolValue>& values,
               const std::vector<NamedSymbolValue>& named = {}, Where where = Where::current());

// What a model takes; a size that may be any is kInferred.
struct ModelInput {
  std::string name;
  Shape shape;
  DType dtype;
};

// Computes `outputs` of `inputs`. Its children are the modules that are used, in the order of use: "dense_0", "dense_1", ...
class Model : public Module {
 public:
  // Throws InvalidArgument for an output that needs an input that is not listed, an input that no output needs, two inputs of
  // one name, and undefined symbols.
  Model(std::vector<Symbol> inputs, std::vector<Symbol> outputs);

  std::vector<ModelInput> inputs() const;
  std::vector<std::string> input_names() const;
  std::size_t output_count() const;
  std::string to_string() const override;  // a line for each step

 private:
  friend nn_detail::ModelPlan;
  NDArray forward(const NDArray& x) override;
  std::vector<NDArray> forward_all(std::span<const NDArray> inputs) override;
  std::shared_ptr<nn_detail::ModelPlan> plan_;  // shared by copies
};

// Writes a module and all its state to one file, in the safetensors format: load_model() needs no code to make it again, and other
// programs can read the arrays. The module is a Layer, a Sequential or a Model, and so are the modules in it; for any other throws
// InvalidArgument with its class. Blocks, and writes as save_safetensors() does.
void save_model(const std::string& path, const Module& module, Where where = Where::current());
// Makes the module anew, in training mode, with its frozen parameters frozen. Throws Error that names the file and what is wrong.
std::shared_ptr<Module> load_model(const std::string& path, Where where = Where::current());

}  // namespace heddle
