#include "model/symbol.h"

#include <utility>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/graph.h>
#include <heddle/module_buffers.h>
#include <heddle/shape_ops.h>

#include "module/inference_scope.h"

namespace heddle {

using nn_detail::InferenceScope;
using nn_detail::SymbolNode;

namespace {

constexpr std::int64_t kExampleSize = 2;

// The arrays that a call of an operator has returned.
std::vector<NDArray> arrays_in(const OperatorInfo& op, OperatorValues results) {
  std::vector<NDArray> all;
  for (OperatorValue& one : results) {
    if (auto* const array = std::get_if<NDArray>(&one)) {
      all.push_back(std::move(*array));
    } else if (auto* const list = std::get_if<std::vector<NDArray>>(&one)) {
      all.insert(all.end(), list->begin(), list->end());
    } else {
      throw InvalidArgument(op.name + ": its result is no array; a model cannot have it");
    }
  }
  return all;
}

NDArray example_like(const Shape& shape, DType dtype, Device device = cpu()) {
  return broadcast_to(zeros({}, dtype, device), shape);
}

// The device on which a node computes: that of its module's arrays, or of the arrays among its operator's arguments.
Device place_of(const SymbolNode& node) {
  if (node.module) return device_of(*node.module).value_or(cpu());
  std::vector<NDArray> arrays;
  for (const OperatorValue& value : node.values) {
    if (const auto* const array = std::get_if<NDArray>(&value)) arrays.push_back(*array);
    if (const auto* const list = std::get_if<std::vector<NDArray>>(&value))
      arrays.insert(arrays.end(), list->begin(), list->end());
  }
  for (const NDArray& one : arrays)
    if (one.defined() && one.device() != cpu()) return one.device();
  return cpu();
}

// Examples for the links of a node, which are kept on the CPU, on the device where it computes.
std::vector<NDArray> linked_examples(const SymbolNode& node) {
  const Device device = place_of(node);
  std::vector<NDArray> examples;
  for (const SymbolNode::Link& link : node.links) {
    const NDArray& kept = SymbolNode::example_of(link.from);
    examples.push_back(device == cpu() ? kept : example_like(kept.shape(), kept.dtype(), device));
  }
  return examples;
}

// Replaces results by arrays without memory. An error of an example, such as a singular matrix of zeros, is none of the model's.
std::vector<NDArray> as_examples(const std::vector<NDArray>& results) {
  std::vector<NDArray> examples;
  for (const NDArray& one : results) {
    if (!is_capturing()) {
      try {
        one.wait();
      } catch (const Error&) {
      }
    }
    examples.push_back(example_like(one.shape(), one.dtype()));
  }
  return examples;
}

void check_defined(const std::string& what, const Symbol& symbol) {
  if (!symbol.defined()) throw InvalidArgument(what + ": a symbol is undefined");
}

// The arguments of an operator's call while its node is made.
class Arguments {
 public:
  explicit Arguments(const OperatorInfo& op) : op_(op) {}

  OperatorValue add(const SymbolValue& given, std::size_t argument) {
    if (const auto* const value = std::get_if<OperatorValue>(&given)) {
      check_constant(*value);
      return *value;
    }
    if (const auto* const symbol = std::get_if<Symbol>(&given)) return example(*symbol, argument, 0);
    std::vector<NDArray> list;
    for (const Symbol& symbol : std::get<std::vector<Symbol>>(given))
      list.push_back(example(symbol, argument, list.size()));
    return list;
  }
  std::size_t index_of(const std::string& name) const {
    for (std::size_t i = 0; i < op_.arguments.size(); ++i)
      if (op_.arguments[i].name == name) return i;
    return 0;  // complete_arguments() refuses the name
  }

  std::vector<SymbolNode::Link> links;

 private:
  NDArray example(const Symbol& symbol, std::size_t argument, std::size_t element) {
    check_defined(op_.name, symbol);
    links.push_back({symbol, argument, element});
    return SymbolNode::example_of(symbol);
  }
  void check_constant(const OperatorValue& value) const {
    const auto refuse = [&](const NDArray& array) {
      if (array.defined() && requires_grad(array))
        throw InvalidArgument(op_.name +
                              ": an array that requires a gradient is no constant of a model; put it "
                              "into a module as a parameter");
    };
    if (const auto* const array = std::get_if<NDArray>(&value)) refuse(*array);
    if (const auto* const list = std::get_if<std::vector<NDArray>>(&value))
      for (const NDArray& one : *list) refuse(one);
  }
  const OperatorInfo& op_;
};

}  // namespace

std::vector<NDArray> SymbolNode::compute(std::vector<NDArray> linked) const {
  if (module) {
    std::vector<NDArray> inputs(input_count);
    for (std::size_t i = 0; i < links.size(); ++i) inputs[links[i].argument] = std::move(linked[i]);
    return module->run(inputs, CallSite::current());
  }
  OperatorValues all = values;
  for (std::size_t i = 0; i < links.size(); ++i) {
    OperatorValue& value = all[links[i].argument];
    if (auto* const list = std::get_if<std::vector<NDArray>>(&value))
      (*list)[links[i].element] = std::move(linked[i]);
    else
      value = std::move(linked[i]);
  }
  return arrays_in(*op, call_operator(*op, all, {}, CallSite::current()));
}

void SymbolNode::take_needed(std::vector<std::shared_ptr<const SymbolNode>>& nodes) {
  for (Link& link : links) nodes.push_back(std::move(link.from.node_));
  links.clear();
}

SymbolNode::~SymbolNode() {
  std::vector<std::shared_ptr<const SymbolNode>> nodes;
  take_needed(nodes);
  while (!nodes.empty()) {
    const std::shared_ptr<const SymbolNode> last = std::move(nodes.back());
    nodes.pop_back();
    if (last.use_count() == 1) const_cast<SymbolNode&>(*last).take_needed(nodes);
  }
}

std::vector<Symbol> SymbolNode::outputs(std::shared_ptr<const SymbolNode> node) {
  std::vector<Symbol> all(node->examples.size());
  for (std::size_t i = 0; i < all.size(); ++i) {
    all[i].node_ = node;
    all[i].output_ = i;
  }
  return all;
}

const Shape& Symbol::shape() const {
  check_defined("Symbol::shape", *this);
  return SymbolNode::example_of(*this).shape();
}

DType Symbol::dtype() const {
  check_defined("Symbol::dtype", *this);
  return SymbolNode::example_of(*this).dtype();
}

Symbol input(std::string name, const Shape& shape, DType dtype, Where where) {
  const CallSite site(where);
  if (name.empty()) throw InvalidArgument("input: the name is empty");
  Shape example;
  for (const std::int64_t size : shape) {
    if (size < 0 && size != kInferred)
      throw InvalidArgument("input: '" + name + "' has a size of " + std::to_string(size) +
                            "; want 0 or more");
    example.push_back(size == kInferred ? kExampleSize : size);
  }
  auto node = std::make_shared<SymbolNode>();
  node->name = std::move(name);
  node->shape = shape;
  node->examples = {example_like(example, dtype)};
  return SymbolNode::outputs(std::move(node)).front();
}

std::vector<Symbol> connect_all(std::shared_ptr<Module> module, const std::vector<Symbol>& inputs,
                                Where where) {
  const CallSite site(where);
  if (!module) throw InvalidArgument("connect: the module is null");
  auto node = std::make_shared<SymbolNode>();
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (i == 0) check_defined(module->to_string(), inputs[i]);
    if (inputs[i].defined()) node->links.push_back({inputs[i], i, 0});
  }
  node->module = std::move(module);
  node->input_count = inputs.size();
  const InferenceScope scope(*node->module);
  node->examples = as_examples(node->compute(linked_examples(*node)));
  return SymbolNode::outputs(std::move(node));
}

Symbol connect(std::shared_ptr<Module> module, const Symbol& x, Where where) {
  return connect_all(std::move(module), std::vector{x}, where).front();
}

std::vector<Symbol> connect_all(std::string_view op, const std::vector<SymbolValue>& values,
                                const std::vector<NamedSymbolValue>& named, Where where) {
  const CallSite site(where);
  const OperatorInfo* const info = find_operator(op);
  if (!info) throw InvalidArgument("connect: there is no operator '" + std::string(op) + "'");
  if (info->in_place) throw InvalidArgument(info->name + ": it changes its argument; a model cannot have it");
  Arguments arguments(*info);
  OperatorValues given;
  std::vector<NamedValue> by_name;
  for (const SymbolValue& value : values) given.push_back(arguments.add(value, given.size()));
  for (const auto& [name, value] : named)
    by_name.push_back({name, arguments.add(value, arguments.index_of(name))});
  auto node = std::make_shared<SymbolNode>();
  node->op = info;
  node->values = complete_arguments(*info, given, by_name);
  node->links = std::move(arguments.links);
  const NoGrad no_grad;
  node->examples = as_examples(node->compute(linked_examples(*node)));
  return SymbolNode::outputs(std::move(node));
}

Symbol connect(std::string_view op, const std::vector<SymbolValue>& values,
               const std::vector<NamedSymbolValue>& named, Where where) {
  std::vector<Symbol> all = connect_all(op, values, named, where);
  if (all.size() == 1) return all.front();
  const CallSite site(where);
  throw InvalidArgument(std::string(op) + ": it has " + std::to_string(all.size()) +
                        " results; call connect_all()");
}

}  // namespace heddle
