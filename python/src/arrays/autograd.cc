// Gradients: heddle.grad, hooks, the search for NaN, and operators whose gradient is a Python function.
#include <algorithm>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <heddle/autocast.h>
#include <heddle/autograd.h>
#include <heddle/autograd/recompute.h>

#include "arrays/array.h"
#include "call_site.h"
#include "module.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// The `with` blocks of one kind that a thread is in. They may end in any order if coroutines of the thread
// have entered them.
template <class Scope> struct Block {
  explicit Block(const char* in_messages) : name(in_messages) {}
  const char* name;
};
template <class Scope> struct OpenBlocks {
  std::vector<const Block<Scope>*> list;
  std::optional<Scope> scope;  // exists while `list` is not empty

  void enter(const Block<Scope>* block) {
    list.push_back(block);
    if (!scope) scope.emplace();
  }
  void leave(const Block<Scope>* block) {
    const auto at = std::find(list.rbegin(), list.rend(), block);
    if (at == list.rend())
      raise(PyExc_RuntimeError,
            block->name + std::string(".__exit__: this thread has not entered the block"));
    list.erase(std::next(at).base());
    if (list.empty()) scope.reset();
  }
};
template <class Scope> thread_local OpenBlocks<Scope> open_blocks;

template <class Scope> void bind_block(nb::module_& m, const char* name, const char* doc) {
  nb::class_<Block<Scope>>(m, name, doc)
      .def(
          "__init__", [name](Block<Scope>* self) { new (self) Block<Scope>(name); },
          nb::sig("def __init__(self) -> None"))
      .def(
          "__enter__", [](const Block<Scope>& self) { open_blocks<Scope>.enter(&self); },
          nb::sig("def __enter__(self) -> None"))
      .def(
          "__exit__", [](const Block<Scope>& self, const nb::args&) { open_blocks<Scope>.leave(&self); },
          nb::sig("def __exit__(self, *args: object) -> None"));
}

// The blocks of autocast are not alike: each has a dtype.
struct AutocastBlock {
  DType dtype;
};
struct OpenAutocast {
  const AutocastBlock* block;
  std::unique_ptr<Autocast> scope;
};
thread_local std::vector<OpenAutocast> open_autocasts;

void enter_autocast(const AutocastBlock& block) {
  open_autocasts.push_back({&block, std::make_unique<Autocast>(block.dtype)});
}

void leave_autocast(const AutocastBlock& block, const nb::args&) {
  const auto at = std::find_if(open_autocasts.rbegin(), open_autocasts.rend(),
                               [&](const OpenAutocast& open) { return open.block == &block; });
  if (at == open_autocasts.rend())
    raise(PyExc_RuntimeError, "autocast.__exit__: this thread has not entered the block");
  open_autocasts.erase(std::next(at).base());
}

void bind_autocast(nb::module_& m) {
  nb::class_<AutocastBlock>(
      m, "autocast",
      "In the block, products of f32 arrays that this thread computes are of bf16 or f16, with sums "
      "in f32; parameters and their gradients stay f32.")
      .def(
          "__init__",
          [](AutocastBlock* self, nb::handle dtype) {
            const DType to = to_dtype({"autocast", "dtype"}, dtype);
            in_call("autocast", [&] { const Autocast checked(to); });
            new (self) AutocastBlock{to};
          },
          "dtype"_a = "bf16", nb::sig("def __init__(self, dtype: DTypeLike = 'bf16') -> None"))
      .def("__enter__", &enter_autocast, nb::sig("def __enter__(self) -> None"))
      .def("__exit__", &leave_autocast, nb::sig("def __exit__(self, *args: object) -> None"));
}

std::vector<NDArray> arrays_in(const nb::list& list) {
  std::vector<NDArray> arrays;
  for (const nb::handle item : list) arrays.push_back(nb::cast<NDArray>(item));
  return arrays;
}

// The C++ part of heddle.grad(), whose Python part converts single arrays to lists. The result has None for
// an input that no output depends on.
nb::list grad_of(const nb::list& outputs, const nb::list& inputs, const nb::list& seeds, bool keep_tape,
                 bool create_graph, bool allow_unused) {
  const Where where = python_call_site();
  const std::vector<NDArray> from = arrays_in(outputs), to = arrays_in(inputs);
  const GradOptions options{arrays_in(seeds), keep_tape, create_graph, allow_unused};
  std::vector<NDArray> gradients;
  {
    const ReleaseGil released;
    gradients = grad(from, to, options, where);
  }
  nb::list result;
  for (NDArray& gradient : gradients)
    result.append(gradient.defined() ? wrap(std::move(gradient)) : nb::none());
  return result;
}

// A Python function that a tape keeps. The thread that runs the backward pass has no GIL when it calls this.
class Kept {
 public:
  explicit Kept(nb::handle function) : function_(std::make_shared<Reference>(nb::borrow(function))) {}

  // Calls the Python function with the gradient, and returns its result, converted by `convert`.
  template <class Convert> auto call(const NDArray& gradient, Convert&& convert) const {
    const CallsPython calling(false);
    return convert(nb::handle(function_->get())(wrap(gradient)));
  }
  // Calls it with a list of arrays, and returns the arrays of the list that it returns.
  std::vector<NDArray> call(const std::vector<NDArray>& arrays) const {
    const CallsPython calling(false);
    nb::list list;
    for (const NDArray& array : arrays) list.append(wrap(NDArray(array)));
    return arrays_in(nb::cast<nb::list>(nb::handle(function_->get())(list)));
  }

 private:
  std::shared_ptr<Reference> function_;
};

void check_callable(ArgumentOf of, nb::handle function) {
  if (!PyCallable_Check(function.ptr())) refuse_type(of, function, "a function of the gradient");
}

std::vector<NDArray> array_list(ArgumentOf of, nb::handle arrays) {
  if (!PyList_Check(arrays.ptr()) && !PyTuple_Check(arrays.ptr()))
    refuse_type(of, arrays, "a list or tuple of NDArrays");
  std::vector<NDArray> list;
  for (const nb::handle item : arrays) {
    const NDArray* array = array_in(item);
    if (!array) refuse_type(of, item, "a list or tuple of NDArrays");
    list.push_back(*array);
  }
  return list;
}

void add_hook(const NDArray& array, const nb::object& hook) {
  check_callable({"on_gradient", "hook"}, hook);
  on_gradient(array, [kept = Kept(hook)](const NDArray& gradient) {
    return kept.call(gradient, [](const nb::object& result) {
      if (result.is_none()) return NDArray();
      const NDArray* changed = array_in(result);
      if (!changed)
        throw InvalidArgument("on_gradient: the hook returned a " + kind_of(result) +
                              "; want an NDArray or None");
      return *changed;
    });
  });
}

// Converts the result of a gradient function, which must have an array or None for each input. If there is
// one input, the result may be the array itself.
std::vector<NDArray> gradients_in(const char* name, const nb::object& result, std::size_t inputs) {
  if (const NDArray* array = array_in(result); array && inputs == 1) return {*array};
  const auto refuse = [&](nb::handle given) {
    throw InvalidArgument(std::string("record: the gradient of ") + name + " returned a " + kind_of(given) +
                          "; want a list of " + std::to_string(inputs) + ", each an NDArray or None");
  };
  if (!PyList_Check(result.ptr()) && !PyTuple_Check(result.ptr())) refuse(result);
  std::vector<NDArray> gradients;
  for (const nb::handle item : result) {
    const NDArray* array = array_in(item);
    if (!array && !item.is_none()) refuse(item);
    gradients.push_back(array ? *array : NDArray());
  }
  return gradients;
}

nb::object record_operator(const nb::str& name, nb::object output, nb::handle inputs,
                           const nb::object& gradient, nb::handle saved) {
  const Where where = python_call_site();
  const char* const named = interned(nb::handle(name));
  NDArray* const y = array_in(output);
  if (!y) refuse_type({"record", "output"}, output, "an NDArray");
  const std::vector<NDArray> from = array_list({"record", "inputs"}, inputs);
  const std::vector<NDArray> kept = array_list({"record", "saved"}, saved);
  check_callable({"record", "gradient"}, gradient);
  if (std::none_of(from.begin(), from.end(), [](const NDArray& input) { return recording({&input}); }))
    return output;
  if (requires_grad(*y))
    throw InvalidArgument(std::string("record: ") + named +
                          ": the output requires a gradient already; compute it in no_grad()");
  record(
      named, *y, from, kept,
      [named, function = Kept(gradient), count = from.size()](const NDArray& g) {
        return function.call(g, [&](const nb::object& result) { return gradients_in(named, result, count); });
      },
      where);
  return output;
}

// The C++ part of heddle.recompute(): `function` takes a list of arrays and returns one.
nb::list recomputed(const nb::object& function, const nb::list& inputs) {
  const Where where = python_call_site();
  const std::vector<NDArray> from = arrays_in(inputs);
  const Kept kept(function);
  std::vector<NDArray> outputs;
  {
    const ReleaseGil released;
    outputs = Recomputed([kept](const std::vector<NDArray>& arrays) { return kept.call(arrays); }, where)
                  .run(from, where);
  }
  nb::list result;
  for (NDArray& output : outputs) result.append(wrap(std::move(output)));
  return result;
}

}  // namespace

void bind_autograd(nb::module_& m) {
  m.def("_grad", &grad_of,
        nb::sig("def _grad(outputs: list[NDArray], inputs: list[NDArray], seeds: list[NDArray], "
                "keep_tape: bool, create_graph: bool, allow_unused: bool) -> list[NDArray | None]"));
  m.def(
      "_recompute", &recomputed,
      nb::sig("def _recompute(function: Callable[[list[NDArray]], list[NDArray]], inputs: list[NDArray]) -> "
              "list[NDArray]"));
  m.def(
      "on_gradient", &add_hook, "array"_a, "hook"_a,
      nb::sig("def on_gradient(array: NDArray, hook: Callable[[NDArray], NDArray | None]) -> None"),
      "Calls hook(gradient) with the complete gradient of a leaf, or of an array computed from one, in "
      "every pass to come; "
      "what it returns takes the gradient's place, None leaves it. The array keeps the hook: a hook that "
      "refers to "
      "the array, other than by weakref, keeps both for ever, since Python's collector does not see through "
      "arrays.");
  m.def(
      "save_for_backward", [](const NDArray& array) { return wrap(save_for_backward(array)); }, "array"_a,
      nb::sig("def save_for_backward(array: NDArray) -> NDArray"),
      "The array for the gradient of an operator of your own to use, detached; second gradients depend on "
      "it.");
  m.def("record", &record_operator, "name"_a, "output"_a, "inputs"_a, "gradient"_a, "saved"_a = nb::tuple(),
        nb::sig(
            "def record(name: str, output: NDArray, inputs: Sequence[NDArray], gradient: Callable[[NDArray], "
            "NDArray | Sequence[NDArray | None]], saved: Sequence[NDArray] = ()) -> NDArray"),
        "Puts an operator of your own on the tape: output was computed from inputs in no_grad(), gradient(g) "
        "gives a gradient "
        "for each input, saved are the arrays that it uses. Returns output.");
  bind_autocast(m);
  bind_block<NoGrad>(m, "no_grad", "In the block, operators of this thread record nothing for backward().");
  bind_block<FindNaN>(
      m, "find_nan",
      "In the block, backward() and grad() of this thread raise Error where the first gradient with NaN was "
      "computed, and name the operator and the line of its call.");
}

}  // namespace heddle::python
