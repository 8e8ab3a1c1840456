// The Python class KVStore.
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/communicator.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "communicators.h"
#include "keys.h"
#include "module.h"
#include "objects.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using ArrayList = std::vector<NDArray>;
using Keys = std::vector<Key>;
using State = std::map<std::string, NDArray>;

bool is_list(nb::handle object) { return PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()); }

ArrayList arrays_of(ArgumentOf of, nb::handle object) {
  if (const NDArray* array = array_in(object)) return {*array};
  if (!is_list(object)) refuse_type(of, object, "an array or a list of arrays");
  ArrayList arrays;
  for (nb::handle one : object) {
    const NDArray* array = array_in(one);
    if (!array)
      refuse_type(of, object, "an array or a list of arrays; there is a " + kind_of(one) + " in it");
    arrays.push_back(*array);
  }
  return arrays;
}

Keys keys_of(const char* function, nb::handle list) {
  Keys keys;
  for (nb::handle key : list) keys.push_back(to_key(function, key));
  return keys;
}

void push(const PythonStore& self, nb::handle key, nb::handle value, std::optional<double> lr,
          double grad_scale) {
  const Where where = python_call_site();
  const UpdateOptions options{.lr = lr, .grad_scale = grad_scale};
  const auto call = [&](const auto& push_to) {
    self.call([&](KVStore& store) { in_call("push", [&] { push_to(store); }); });
  };
  if (is_list(key)) {
    const Keys keys = keys_of("push", key);
    const ArrayList values = arrays_of({"push", "value"}, value);
    return call([&](KVStore& store) {
      store.push(std::span<const Key>(keys), std::span<const NDArray>(values), options, where);
    });
  }
  const Key of = to_key("push", key);
  if (nb::isinstance<RowSparse>(value)) {
    const RowSparse rows = *nb::inst_ptr<RowSparse>(value);
    return call([&](KVStore& store) { store.push(of, rows, options, where); });
  }
  const ArrayList values = arrays_of({"push", "value"}, value);
  call([&](KVStore& store) { store.push(of, std::span<const NDArray>(values), options, where); });
}

void pull(const PythonStore& self, nb::handle key, nb::handle out) {
  const Where where = python_call_site();
  const ArrayList arrays = arrays_of({"pull", "out"}, out);
  if (is_list(key)) {
    const Keys keys = keys_of("pull", key);
    return self.call([&](KVStore& store) {
      store.pull(std::span<const Key>(keys), std::span<const NDArray>(arrays), where);
    });
  }
  const Key of = to_key("pull", key);
  self.call([&](KVStore& store) { store.pull(of, std::span<const NDArray>(arrays), where); });
}

void push_pull(const PythonStore& self, nb::handle key, nb::handle value, nb::handle out,
               std::optional<double> lr, double grad_scale) {
  const Where where = python_call_site();
  const UpdateOptions options{.lr = lr, .grad_scale = grad_scale};
  const ArrayList given = arrays_of({"push_pull", "value"}, value),
                  arrays = arrays_of({"push_pull", "out"}, out);
  const std::span<const NDArray> values(given), outs(arrays);
  const auto call = [&](const auto& push_to) {
    self.call([&](KVStore& store) { in_call("push_pull", [&] { push_to(store); }); });
  };
  if (is_list(key)) {
    const Keys keys = keys_of("push_pull", key);
    return call(
        [&](KVStore& store) { store.push_pull(std::span<const Key>(keys), values, outs, options, where); });
  }
  const Key of = to_key("push_pull", key);
  call([&](KVStore& store) { store.push_pull(of, values, outs, options, where); });
}

// A member of KVStore that sets the value of a key: init or assign.
using Put = void (KVStore::*)(Key, const NDArray&, Where);
void put(const char* function, Put call, const PythonStore& self, nb::handle key, const NDArray& value) {
  const Where where = python_call_site();
  const Key of = to_key(function, key);
  self.call([&](KVStore& store) { (store.*call)(of, value, where); });
}

void bind_values(nb::class_<PythonStore>& type) {
  type.def(
          "init",
          [](const PythonStore& self, nb::handle key, const NDArray& value) {
            put("init", &KVStore::init, self, key, value);
          },
          "key"_a, "value"_a, nb::sig("def init(self, key: int | str, value: NDArray) -> None"),
          "Stores a copy.")
      .def("push", &push, "key"_a, "value"_a, "lr"_a = nb::none(), "grad_scale"_a = 1.0,
           nb::sig(
               "def push(self, key: Keys, value: NDArray | Sequence[NDArray] | RowSparse, lr: float | None = "
               "None, grad_scale: float = 1.0) -> None"),
           "The sum of the values replaces what is stored; with an optimizer it is a gradient, times "
           "grad_scale, that updates it. Without one lr and grad_scale have no effect. A list of keys has a "
           "list of one value each.")
      .def("pull", &pull, "key"_a, "out"_a,
           nb::sig("def pull(self, key: Keys, out: NDArray | Sequence[NDArray]) -> None"),
           "Copies what is stored into out. A list of keys has a list of one array each.")
      .def("push_pull", &push_pull, "key"_a, "value"_a, "out"_a, "lr"_a = nb::none(), "grad_scale"_a = 1.0,
           nb::sig("def push_pull(self, key: Keys, value: NDArray | Sequence[NDArray], out: NDArray | "
                   "Sequence[NDArray], lr: float | None = None, grad_scale: float = 1.0) -> None"))
      .def(
          "pull_rows",
          [](const PythonStore& self, nb::handle key, const NDArray& rows) {
            const Where where = python_call_site();
            const Key of = to_key("pull_rows", key);
            return self.call([&](KVStore& store) { return store.pull_rows(of, rows, where); });
          },
          "key"_a, "rows"_a, nb::sig("def pull_rows(self, key: int | str, rows: NDArray) -> RowSparse"))
      .def(
          "assign",
          [](const PythonStore& self, nb::handle key, const NDArray& value) {
            put("assign", &KVStore::assign, self, key, value);
          },
          "key"_a, "value"_a, nb::sig("def assign(self, key: int | str, value: NDArray) -> None"));
}

// Calls function(store, where), which may block for long and must own all that it uses, so that Ctrl-C ends
// the wait for it.
template <class Function> auto for_long(const char* name, const PythonStore& self, Function function) {
  return self.call_interruptibly(name, [function = std::move(function), where = python_call_site()](
                                           KVStore& store) { return function(store, where); });
}

void bind_state(nb::class_<PythonStore>& type) {
  type.def(
          "set_optimizer",
          [](const PythonStore& self, const std::string& name, const nb::kwargs& kwargs) {
            for_long("set_optimizer", self,
                     [name, params = params_of("set_optimizer", kwargs)](KVStore& store, Where where) {
                       store.set_optimizer(name, params, where);
                     });
          },
          "name"_a, "params"_a, nb::sig("def set_optimizer(self, name: str, **params: float) -> None"),
          "All pushes from now on go through this optimizer.")
      .def(
          "optimizer_state",
          [](const PythonStore& self) {
            return for_long("optimizer_state", self,
                            [](KVStore& store, Where) { return store.optimizer_state(); });
          },
          nb::sig("def optimizer_state(self) -> dict[str, NDArray]"), "For a checkpoint; empty without one.")
      .def(
          "set_optimizer_state",
          [](const PythonStore& self, const State& state) {
            for_long("set_optimizer_state", self,
                     [state](KVStore& store, Where where) { store.set_optimizer_state(state, where); });
          },
          "state"_a, nb::sig("def set_optimizer_state(self, state: Mapping[str, NDArray]) -> None"))
      .def(
          "residuals",
          [](const PythonStore& self) {
            return for_long("residuals", self,
                            [](KVStore& store, Where where) { return store.residuals(where); });
          },
          nb::sig("def residuals(self) -> dict[str, NDArray]"),
          "What compression has left out of this worker's pushes; empty without compression.")
      .def(
          "set_residuals",
          [](const PythonStore& self, const State& residuals) {
            for_long("set_residuals", self,
                     [residuals](KVStore& store, Where where) { store.set_residuals(residuals, where); });
          },
          "residuals"_a, nb::sig("def set_residuals(self, residuals: Mapping[str, NDArray]) -> None"))
      .def("clear_errors",
           [](const PythonStore& self) {
             for_long("clear_errors", self, [](KVStore& store, Where where) { store.clear_errors(where); });
           })
      .def(
          "barrier",
          [](const PythonStore& self) {
            for_long("barrier", self, [](KVStore& store, Where where) { store.barrier(where); });
          },
          "Blocks until all workers have called it.");
}

void create(PythonStore* self, const std::string& kind, const Communicator* communicator,
            const std::string& compression, const std::string& pull_compression,
            const std::string& placement) {
  const KVStoreOptions options{compression, pull_compression, placement};
  const std::shared_ptr<Communicator> ranks = communicator ? owner_of(*communicator) : nullptr;
  std::shared_ptr<KVStore> store =
      interruptibly([kind, ranks, options, where = python_call_site()]() -> std::shared_ptr<KVStore> {
        return ranks ? KVStore::create(kind, ranks, options, where) : KVStore::create(kind, options, where);
      });
  new (self) PythonStore(std::move(store));
}

}  // namespace

Key to_key(const char* function, nb::handle object) {
  const ArgumentOf of{function, "key"};
  if (PyUnicode_Check(object.ptr())) return Key(text_in(of, object));
  if (!PyIndex_Check(object.ptr()) || PyBool_Check(object.ptr())) refuse_type(of, object, "an int or a str");
  return Key(int_argument(of, object));
}

void bind_stores(nb::module_& m) {
  nb::class_<PythonStore> type(m, "KVStore",
                               "Keys to arrays: in this process, on all ranks, or on servers. Thread-safe.");
  type.def("__init__", &create, "type"_a = "local", "communicator"_a = nb::none(), "compression"_a = "",
           "pull_compression"_a = "", "placement"_a = "",
           "\"local\", \"allreduce\", \"dist_sync\", \"dist_async\" or \"dist_ssp:S\".")
      .def_prop_ro("type", [](const PythonStore& self) { return self.object()->type(); })
      .def_prop_ro("rank", [](const PythonStore& self) { return self.object()->rank(); })
      .def_prop_ro("workers", [](const PythonStore& self) { return self.object()->workers(); });
  bind_values(type);
  bind_state(type);
}

}  // namespace heddle::python
