#include "models.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include <nanobind/operators.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/layer_registry.h>
#include <heddle/operator_registry.h>

#include "arguments.h"
#include "arrays/array.h"
#include "arrays/function_arguments.h"
#include "call_site.h"
#include "engine/interruptibly.h"
#include "module_calls.h"
#include "words.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

Symbol symbol_in(nb::handle object) { return nb::cast<Symbol>(object); }

std::vector<Symbol> symbols_in(ArgumentOf of, nb::handle object) {
  if (is_symbol(object)) return {symbol_in(object)};
  std::vector<Symbol> all;
  if (!PyList_Check(object.ptr()) && !PyTuple_Check(object.ptr()))
    refuse_type(of, object, "a Symbol, or a list of them");
  for (nb::handle one : object) {
    if (!is_symbol(one)) refuse_type(of, one, "a Symbol");
    all.push_back(symbol_in(one));
  }
  return all;
}

// The symbols in a list; an array in it becomes a symbol that is constant.
std::vector<Symbol> symbols_or_constants(ArgumentOf of, nb::handle list, Where where) {
  std::vector<Symbol> all;
  for (nb::handle one : list) {
    if (is_symbol(one)) {
      all.push_back(symbol_in(one));
      continue;
    }
    const NDArray array = to_array(of, one, std::nullopt, where);
    all.push_back(connect("reshape", {OperatorValue(array), OperatorValue(array.shape())}, {}, where));
  }
  return all;
}

nb::object tuple_of_symbols(const std::vector<Symbol>& symbols) {
  nb::list list;
  for (const Symbol& one : symbols) list.append(nb::cast(one));
  return nb::tuple(list);
}

Symbol make_input(nb::handle shape, std::string name, nb::handle dtype) {
  const Where where = python_call_site();
  Shape sizes;
  if (!PyTuple_Check(shape.ptr()) && !PyList_Check(shape.ptr()))
    refuse_type({"Input", "shape"}, shape, "a tuple of ints, and None where any size fits");
  for (nb::handle one : shape)
    sizes.push_back(one.is_none() ? kInferred : to_dims({"Input", "shape"}, one)[0]);
  return input(std::move(name), sizes, to_dtype({"Input", "dtype"}, dtype), where);
}

nb::tuple shape_of(const Symbol& symbol) {
  nb::list sizes;
  for (const std::int64_t size : symbol.shape()) sizes.append(size);
  return nb::tuple(sizes);
}

// Python's operators, and the operators of the registry that they stand for.
constexpr std::pair<const char*, const char*> kInfix[] = {
    {"add", "add"},   {"sub", "subtract"},  {"mul", "multiply"},          {"truediv", "divide"},
    {"pow", "power"}, {"matmul", "matmul"}, {"floordiv", "floor_divide"}, {"mod", "remainder"}};
constexpr std::pair<const char*, const char*> kComparisons[] = {
    {"__eq__", "equal"},      {"__ne__", "not_equal"}, {"__lt__", "less"},
    {"__le__", "less_equal"}, {"__gt__", "greater"},   {"__ge__", "greater_equal"}};

nb::object call_infix(const OperatorInfo& op, nb::handle left, nb::handle right) {
  PyObject* const given[] = {left.ptr(), right.ptr()};
  return apply_to_symbols(op, given, 2, python_call_site());
}

void bind_infix(nb::class_<Symbol>& symbol) {
  for (const auto& [name, op] : kInfix) {
    const OperatorInfo* const info = find_operator(op);
    if (!info) throw Error(std::string("there is no operator ") + op);
    symbol.def(("__" + std::string(name) + "__").c_str(),
               [info](nb::handle self, nb::handle other) { return call_infix(*info, self, other); },
               nb::sig(("def __" + std::string(name) + "__(self, other: Any, /) -> Symbol").c_str()));
    symbol.def(("__r" + std::string(name) + "__").c_str(),
               [info](nb::handle self, nb::handle other) { return call_infix(*info, other, self); },
               nb::sig(("def __r" + std::string(name) + "__(self, other: Any, /) -> Symbol").c_str()));
  }
  for (const auto& [name, op] : kComparisons) {
    const OperatorInfo* const info = find_operator(op);
    if (!info) throw Error(std::string("there is no operator ") + op);
    symbol.def(
        name, [info](nb::handle self, nb::handle other) { return call_infix(*info, self, other); },
        nb::sig(("def " + std::string(name) + "(self, other: Any, /) -> Symbol").c_str()));
  }
  symbol.def(
      "__neg__",
      [](nb::handle self) {
        PyObject* const given[] = {self.ptr()};
        return apply_to_symbols(*find_operator("negative"), given, 1, python_call_site());
      },
      nb::sig("def __neg__(self) -> Symbol"));
}

[[noreturn]] void refuse_truth(nb::handle) {
  raise(PyExc_TypeError, "a Symbol has no values before its Model is called");
}

// x.reshape(...) is heddle.reshape(x, ...).
nb::object method_of(nb::handle self, const std::string& name) {
  const OperatorInfo* const op = find_operator(name);
  if (!op || op->in_place || op->arguments.empty()) {
    PyErr_SetString(PyExc_AttributeError, ("a Symbol has no attribute '" + name + "'").c_str());
    raise_set();
  }
  const nb::object function = nb::module_::import_("heddle").attr(name.c_str());
  if (name == "reshape") {  // takes sizes too, as that of arrays
    const nb::object x = nb::borrow(self);
    return nb::cpp_function([function, x](const nb::args& sizes) {
      return sizes.size() == 1 ? function(x, sizes[0]) : function(x, sizes);
    });
  }
  return nb::module_::import_("functools").attr("partial")(function, self);
}

}  // namespace

std::vector<std::string> input_names(const Module& module) {
  if (const auto* const model = dynamic_cast<const Model*>(&module)) return model->input_names();
  std::vector<std::string> names{"x"};
  if (const Layer* const layer = module.as_layer())
    for (const LayerPort& port : layer->info().more_inputs) names.push_back(port.name);
  return names;
}

bool is_symbol(nb::handle object) { return nb::isinstance<Symbol>(object); }

bool has_symbol(nb::handle sequence) {
  for (nb::handle one : sequence)
    if (is_symbol(one)) return true;
  return false;
}

nb::object apply_to_symbols(nb::handle self, const nb::args& args, const nb::kwargs& kwargs, bool all) {
  const Where where = python_call_site();
  const std::shared_ptr<Module> module = module_in({"Module", "self"}, self);
  const std::vector<std::string> names = input_names(*module);
  std::vector<Symbol> inputs(std::max(args.size(), names.size()));
  std::vector<bool> given(inputs.size());
  std::size_t count = 0;
  const auto take = [&](std::size_t at, nb::handle value) {
    const std::string name = at < names.size() ? names[at] : "x";
    if (given[at]) raise(PyExc_TypeError, kind_of(self) + ": '" + name + "' is given twice");
    given[at] = true;
    count = std::max(count, at + 1);
    if (value.is_none()) return;
    if (!is_symbol(value)) refuse_type({"Module", name.c_str()}, value, "a Symbol, as another argument is");
    inputs[at] = symbol_in(value);
  };
  for (std::size_t i = 0; i < args.size(); ++i) take(i, args[i]);
  for (auto [word, value] : kwargs) {
    const std::string name = nb::cast<std::string>(word);
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) raise(PyExc_TypeError, kind_of(self) + ": there is no argument '" + name + "'");
    take(static_cast<std::size_t>(found - names.begin()), value);
  }
  inputs.resize(count);
  std::vector<Symbol> results;
  {
    const ReleaseGil released;
    results = connect_all(module, inputs, where);
  }
  const bool several = all || (dynamic_cast<const Model*>(module.get()) && results.size() != 1);
  return several ? tuple_of_symbols(results) : nb::cast(results.at(0));
}

nb::object apply_to_symbols(const OperatorInfo& op, PyObject* const* given, std::size_t count, Where where) {
  std::vector<PyObject*> others(given, given + count);
  std::vector<NamedSymbolValue> named;
  for (std::size_t i = 0; i < count; ++i) {
    const nb::handle one(given[i]);
    if (!one.ptr()) continue;
    const std::string& name = op.arguments[i].name;
    const bool is_list = op.arguments[i].kind == ArgumentKind::arrays && !is_symbol(one) && has_symbol(one);
    if (!is_list && !is_symbol(one)) continue;
    if (is_list)
      named.emplace_back(name, symbols_or_constants({op.name.c_str(), name.c_str()}, one, where));
    else
      named.emplace_back(name, symbol_in(one));
    others[i] = nullptr;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if (!others[i]) continue;
    ArgumentInfo argument = op.arguments[i];
    FunctionInfo alone{
        .name = op.name, .family = {}, .documentation = {}, .arguments = {std::move(argument)}};
    auto [values, generator] = call_values(alone, &others[i], 1, where);
    if (generator) raise(PyExc_TypeError, op.name + ": a model cannot hold a generator");
    named.emplace_back(op.arguments[i].name, std::move(values.at(0)));
  }
  std::vector<Symbol> results;
  {
    const ReleaseGil released;
    results = connect_all(op.name, {}, named, where);
  }
  const bool is_list = !op.results.empty() && op.results[0] == ArgumentKind::arrays;
  return is_list ? tuple_of_symbols(results) : nb::cast(results.at(0));
}

void bind_models(nb::module_& m) {
  auto symbol =
      nb::class_<Symbol>(m, "Symbol",
                         "Stands for an array that a Model will compute. Layers, operators of heddle and "
                         "infix operators take it; its methods are operators too.");
  symbol
      .def_prop_ro("shape", &shape_of, nb::sig("def shape(self) -> tuple[int, ...]"),
                   "The shape of an example, in which a size that is not known is 2.")
      .def_prop_ro(
          "dtype", [](const Symbol& self) { return from_dtype(self.dtype()); },
          nb::sig("def dtype(self) -> DType"))
      .def_prop_ro("ndim", [](const Symbol& self) { return self.shape().size(); })
      .def_prop_ro(
          "T",
          [](nb::handle self) {
            PyObject* const given[] = {self.ptr()};
            return apply_to_symbols(*find_operator("transpose"), given, 1, python_call_site());
          },
          nb::sig("def T(self) -> Symbol"))
      .def(
          "__abs__",
          [](nb::handle self) {
            PyObject* const given[] = {self.ptr()};
            return apply_to_symbols(*find_operator("abs"), given, 1, python_call_site());
          },
          nb::sig("def __abs__(self) -> Symbol"))
      .def("__bool__", &refuse_truth, nb::sig("def __bool__(self) -> bool"))
      .def("__len__", &refuse_truth, nb::sig("def __len__(self) -> int"))
      .def("__iter__", &refuse_truth, nb::sig("def __iter__(self) -> Iterator[Any]"))
      .def(
          "__hash__", [](nb::handle self) { return reinterpret_cast<std::intptr_t>(self.ptr()) >> 4; },
          nb::sig("def __hash__(self) -> int"))
      .def("__getattr__", &method_of, nb::sig("def __getattr__(self, name: str, /) -> Any"))
      .def("__repr__", [](const Symbol& self) {
        return std::string("Symbol ") + name_of(self.dtype()) + " " + self.shape().to_string();
      });
  bind_infix(symbol);
  symbol.attr("__array_ufunc__") = nb::none();  // so that NumPy's arrays leave infix operators to Symbol
  m.def(
      "Input", &make_input, "shape"_a, "name"_a = "x", "dtype"_a = nb::str("f32"),
      nb::sig("def Input(shape: Sequence[int | None], name: str = 'x', dtype: DTypeLike = 'f32') -> Symbol"),
      "An input of a Model. A size that is None may differ from call to call.");
  nb::class_<Model, Module>(
      m, "Model", nb::is_final(),
      "Computes symbols of inputs: a module made of layers and operators, without a class of its own.")
      .def(
          "__init__",
          [](Model* self, nb::handle inputs, nb::handle outputs) {
            new (self)
                Model(symbols_in({"Model", "inputs"}, inputs), symbols_in({"Model", "outputs"}, outputs));
          },
          "inputs"_a, "outputs"_a,
          nb::sig("def __init__(self, inputs: Symbol | Sequence[Symbol], outputs: Symbol | Sequence[Symbol]) "
                  "-> None"))
      .def_prop_ro("inputs", &Model::input_names, "The names of the inputs, in the order of arguments.");
  m.def(
      "save_model",
      [](nb::handle path, nb::handle module) {
        interruptibly([file = path_of("save_model", path),
                       saved = module_in({"save_model", "module"}, module),
                       where = python_call_site()] { save_model(file, *saved, where); });
      },
      "path"_a, "module"_a, nb::sig("def save_model(path: str | os.PathLike[str], module: Module) -> None"),
      "Writes a layer, a Sequential or a Model with all its state to one file, which load_model makes "
      "again.");
  m.def(
      "load_model",
      [](nb::handle path) {
        return interruptibly([file = path_of("load_model", path), where = python_call_site()] {
          return load_model(file, where);
        });
      },
      "path"_a, nb::sig("def load_model(path: str | os.PathLike[str]) -> Module"),
      "The module that save_model wrote, made anew without its code.");
}

}  // namespace heddle::python
