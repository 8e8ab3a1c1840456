// The nodes of which a model is made.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include <heddle/model.h>
#include <heddle/operator_registry.h>

namespace heddle::nn_detail {

// An input, a call of a module, or a call of an operator.
struct SymbolNode {
  // Where the result of another node goes: argument `argument`, and if that is a list its element `element`.
  struct Link {
    Symbol from;
    std::size_t argument = 0;
    std::size_t element = 0;
  };

  std::string name{};                // of an input
  Shape shape{};                     // of an input, with kInferred
  std::shared_ptr<Module> module{};  // null: no call of a module
  std::size_t input_count = 0;       // of a call of a module, with those that are missing
  const OperatorInfo* op = nullptr;  // null: no call of an operator
  OperatorValues values{};           // the operator's complete arguments, with examples in place of symbols
  std::vector<Link> links{};
  // Like the results when the node was made: of their shapes and dtypes, without memory of their own.
  std::vector<NDArray> examples{};

  SymbolNode() = default;
  ~SymbolNode();  // without a recursion: chains of symbols may be long
  SymbolNode(const SymbolNode&) = delete;
  SymbolNode& operator=(const SymbolNode&) = delete;

  bool is_input() const { return !module && !op; }
  // Results for the links' arrays in their order. The caller is in a call.
  std::vector<NDArray> compute(std::vector<NDArray> linked) const;

  static const std::shared_ptr<const SymbolNode>& of(const Symbol& symbol) { return symbol.node_; }
  static std::size_t output_of(const Symbol& symbol) { return symbol.output_; }
  static const NDArray& example_of(const Symbol& symbol) { return symbol.node_->examples[symbol.output_]; }
  static std::vector<Symbol> outputs(std::shared_ptr<const SymbolNode> node);

 private:
  void take_needed(std::vector<std::shared_ptr<const SymbolNode>>& nodes);
};

}  // namespace heddle::nn_detail
