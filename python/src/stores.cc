// Communicators and key-value stores.
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/communicator.h>
#include <heddle/kvstore.h>

#include "array.h"
#include "engines.h"
#include "errors.h"
#include "holders.h"
#include "keys.h"
#include "module.h"
#include "place.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

ReduceOp reduce_op(const std::string& name) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
    if (name == name_of(op)) return op;
  }
  throw InvalidArgument("op is '" + name + "'; want sum, prod, min, max or avg");
}

// Calls function(where) without the GIL.
template <class Function> auto away(Function&& function) {
  const Where where = python_place();
  const ReleaseGil released;
  return function(where);
}

CommOptions comm_options(const std::string& backend, const std::string& algorithm, double timeout,
                         bool reproducible) {
  return {.backend = backend,
          .algorithm = algorithm,
          .timeout = std::chrono::milliseconds(static_cast<std::int64_t>(timeout * 1000)),
          .reproducible = reproducible};
}

using Ranks = std::shared_ptr<Communicator>;

void bind_collectives(nb::class_<Communicator>& type) {
  type.def(
          "all_reduce",
          [](Communicator& self, const NDArray& array, const NDArray* out, const std::string& op) {
            const ReduceOp how = reduce_op(op);
            away([&](Where where) {
              out ? self.all_reduce(array, *out, how, where) : self.all_reduce(array, how, where);
            });
          },
          "array"_a, "out"_a = nb::none(), "op"_a = "sum",
          "Sets out, or the array itself, to the reduction over all ranks.")
      .def(
          "reduce_scatter",
          [](Communicator& self, const NDArray& in, const NDArray& out, const std::string& op) {
            const ReduceOp how = reduce_op(op);
            away([&](Where where) { self.reduce_scatter(in, out, how, where); });
          },
          "array"_a, "out"_a, "op"_a = "sum", "Sets rank r's out to part r of the reduction.")
      .def(
          "all_gather",
          [](Communicator& self, const NDArray& in, const NDArray& out) {
            away([&](Where where) { self.all_gather(in, out, where); });
          },
          "array"_a, "out"_a, "Sets part r of out to rank r's array.")
      .def(
          "broadcast",
          [](Communicator& self, const NDArray& array, int root) {
            away([&](Where where) { self.broadcast(array, root, where); });
          },
          "array"_a, "root"_a, "In place.")
      .def(
          "reduce",
          [](Communicator& self, const NDArray& array, int root, const std::string& op) {
            const ReduceOp how = reduce_op(op);
            away([&](Where where) { self.reduce(array, root, how, where); });
          },
          "array"_a, "root"_a, "op"_a = "sum", "In place, on root only.")
      .def(
          "all_to_all",
          [](Communicator& self, const NDArray& in, const NDArray& out) {
            away([&](Where where) { self.all_to_all(in, out, where); });
          },
          "array"_a, "out"_a, "Sends part r of the array to rank r.")
      .def(
          "send",
          [](Communicator& self, const NDArray& array, int to) {
            away([&](Where where) { self.send(array, to, where); });
          },
          "array"_a, "to"_a)
      .def(
          "recv",
          [](Communicator& self, const NDArray& array, int from) {
            away([&](Where where) { self.recv(array, from, where); });
          },
          "array"_a, "from_"_a)
      .def("barrier", [](Communicator& self) { away([&](Where where) { self.barrier(where); }); })
      .def(
          "wait", [](Communicator& self) { away([&](Where where) { self.wait(where); }); },
          "Blocks until all calls so far have ended.");
}

void bind_communicator(nb::module_& m) {
  nb::class_<Communicator> type(m, "Communicator", "Ranks that call the same collectives in the same order.");
  type.def(nb::new_([](const std::string& backend, const std::string& algorithm, double timeout,
                       bool reproducible) {
             const CommOptions options = comm_options(backend, algorithm, timeout, reproducible);
             return destroyed_without_gil(away([&](Where) { return Communicator::create(options); }));
           }),
           "backend"_a = "", "algorithm"_a = "", "timeout"_a = 0.0, "reproducible"_a = false,
           "The ranks of the job that this process was launched in.")
      .def_static(
          "local",
          [](int size, const std::string& algorithm, bool reproducible) {
            const CommOptions options = comm_options("", algorithm, 0, reproducible);
            std::vector<Ranks> made = away([&](Where) { return Communicator::create_local(size, options); });
            for (Ranks& rank : made) rank = destroyed_without_gil(std::move(rank));
            return made;
          },
          "size"_a, "algorithm"_a = "", "reproducible"_a = false,
          "Communicators of `size` ranks in this process, by rank, each to be used by a thread of its own.")
      .def_prop_ro("rank", &Communicator::rank)
      .def_prop_ro("size", &Communicator::size)
      .def_prop_ro("backend", &Communicator::backend)
      .def_prop_ro("var",
                   [](const Communicator& self) {
                     return PythonVar{self.var(), borrowed(self.engine())};
                   })
      .def(
          "split",
          [](Communicator& self, int colour, int key) {
            return destroyed_without_gil(away([&](Where where) { return self.split(colour, key, where); }));
          },
          "colour"_a, "key"_a = 0)
      .def(
          "abort",
          [](Communicator& self, const std::string& why) {
            away([&](Where where) { self.abort(why, where); });
          },
          "why"_a)
      .def("shrink", [](Communicator& self) {
        return destroyed_without_gil(away([&](Where where) { return self.shrink(where); }));
      });
  bind_collectives(type);
}

using Arrays = std::vector<NDArray>;

Arrays arrays_of(nb::handle object) {
  if (const NDArray* array = array_in(object)) return {*array};
  return nb::cast<Arrays>(object);
}

UpdateOptions options_of(std::optional<double> lr, double grad_scale) {
  return {.lr = lr, .grad_scale = grad_scale};
}

void bind_store_calls(nb::class_<KVStore>& type) {
  type.def(
          "init",
          [](KVStore& self, nb::handle key, const NDArray& value) {
            const Key of = to_key(key);
            away([&](Where where) { self.init(of, value, where); });
          },
          "key"_a, "value"_a, nb::sig("def init(self, key: int | str, value: NDArray) -> None"),
          "Stores a copy.")
      .def(
          "push",
          [](KVStore& self, nb::handle key, nb::handle value, std::optional<double> lr, double grad_scale) {
            const Key of = to_key(key);
            const UpdateOptions options = options_of(lr, grad_scale);
            if (nb::isinstance<RowSparse>(value)) {
              const RowSparse rows = *nb::inst_ptr<RowSparse>(value);
              return away([&](Where where) { self.push(of, rows, options, where); });
            }
            const Arrays values = arrays_of(value);
            away([&](Where where) { self.push(of, std::span<const NDArray>(values), options, where); });
          },
          "key"_a, "value"_a, "lr"_a = nb::none(), "grad_scale"_a = 1.0,
          nb::sig("def push(self, key: int | str, value: NDArray | Sequence[NDArray] | RowSparse, lr: float "
                  "| None = None, "
                  "grad_scale: float = 1.0) -> None"),
          "Sums the values into what is stored, or updates it with the optimizer.")
      .def(
          "pull",
          [](KVStore& self, nb::handle key, nb::handle out) {
            const Key of = to_key(key);
            const Arrays arrays = arrays_of(out);
            away([&](Where where) { self.pull(of, std::span<const NDArray>(arrays), where); });
          },
          "key"_a, "out"_a,
          nb::sig("def pull(self, key: int | str, out: NDArray | Sequence[NDArray]) -> None"),
          "Copies what is stored into out.")
      .def(
          "push_pull",
          [](KVStore& self, nb::handle key, nb::handle value, nb::handle out, std::optional<double> lr,
             double grad_scale) {
            const Key of = to_key(key);
            const UpdateOptions options = options_of(lr, grad_scale);
            const Arrays values = arrays_of(value), arrays = arrays_of(out);
            away([&](Where where) {
              self.push_pull(of, std::span<const NDArray>(values), std::span<const NDArray>(arrays), options,
                             where);
            });
          },
          "key"_a, "value"_a, "out"_a, "lr"_a = nb::none(), "grad_scale"_a = 1.0,
          nb::sig("def push_pull(self, key: int | str, value: NDArray | Sequence[NDArray], out: NDArray | "
                  "Sequence[NDArray], "
                  "lr: float | None = None, grad_scale: float = 1.0) -> None"))
      .def(
          "pull_rows",
          [](KVStore& self, nb::handle key, const NDArray& rows) {
            const Key of = to_key(key);
            return away([&](Where where) { return self.pull_rows(of, rows, where); });
          },
          "key"_a, "rows"_a, nb::sig("def pull_rows(self, key: int | str, rows: NDArray) -> RowSparse"))
      .def(
          "assign",
          [](KVStore& self, nb::handle key, const NDArray& value) {
            const Key of = to_key(key);
            away([&](Where where) { self.assign(of, value, where); });
          },
          "key"_a, "value"_a, nb::sig("def assign(self, key: int | str, value: NDArray) -> None"));
}

void bind_store(nb::module_& m) {
  nb::class_<KVStore> type(m, "KVStore", "Keys to arrays: in this process, on all ranks, or on servers.");
  type.def(nb::new_([](const std::string& kind, Ranks ranks, const std::string& compression,
                       const std::string& pull_compression, const std::string& placement) {
             const KVStoreOptions options{compression, pull_compression, placement};
             std::shared_ptr<KVStore> store = away([&](Where where) -> std::shared_ptr<KVStore> {
               return ranks ? KVStore::create(kind, ranks, options, where)
                            : KVStore::create(kind, options, where);
             });
             return destroyed_without_gil(std::move(store));
           }),
           "type"_a = "local", "communicator"_a = nb::none(), "compression"_a = "", "pull_compression"_a = "",
           "placement"_a = "", "\"local\", \"allreduce\", \"dist_sync\", \"dist_async\" or \"dist_ssp:S\".")
      .def_prop_ro("type", &KVStore::type)
      .def_prop_ro("rank", &KVStore::rank)
      .def_prop_ro("workers", &KVStore::workers)
      .def(
          "set_optimizer",
          [](KVStore& self, const std::string& name, const nb::kwargs& kwargs) {
            OptimizerParams params;
            for (auto [key, value] : kwargs) params[nb::cast<std::string>(key)] = nb::cast<double>(value);
            away([&](Where where) { self.set_optimizer(name, params, where); });
          },
          "name"_a, "params"_a, nb::sig("def set_optimizer(self, name: str, **params: float) -> None"),
          "All pushes from now on go through this optimizer.")
      .def("clear_errors", [](KVStore& self) { away([&](Where where) { self.clear_errors(where); }); })
      .def(
          "barrier", [](KVStore& self) { away([&](Where where) { self.barrier(where); }); },
          "Blocks until all workers have called it.");
  bind_store_calls(type);
}

}  // namespace

Key to_key(nb::handle object) {
  if (PyUnicode_Check(object.ptr())) return Key(nb::cast<std::string>(object));
  if (PyIndex_Check(object.ptr()) && !PyBool_Check(object.ptr())) return Key(nb::cast<std::int64_t>(object));
  raise(PyExc_TypeError, "a key is an int or a str; got a " + kind_of(object));
}

void bind_stores(nb::module_& m) {
  bind_communicator(m);
  bind_store(m);
}

}  // namespace heddle::python
