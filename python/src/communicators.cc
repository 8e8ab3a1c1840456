// The Python class Communicator. C++ communicators are thread-safe, so calls take no lock.
#include "communicators.h"

#include <chrono>
#include <cmath>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/communicator.h>

#include "arrays/array.h"
#include "call_site.h"
#include "engine/engines.h"
#include "engine/interruptibly.h"
#include "holders.h"
#include "module.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

ReduceOp reduce_op(const char* function, const std::string& name) {
  for (ReduceOp op : {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max, ReduceOp::avg}) {
    if (name == name_of(op)) return op;
  }
  refuse_value({function, "op"}, "'" + name + "'", "sum, prod, min, max or avg");
}

// Calls function(where) without the GIL; `where` is the Python line of the call.
template <class Function> auto away(Function&& function) {
  const Where where = python_call_site();
  const ReleaseGil released;
  return function(where);
}

// Converts a timeout in seconds. 0 stands for the timeout that the environment sets.
std::chrono::milliseconds timeout_of(const char* call, double seconds) {
  constexpr double kLongest = 1e6;
  if (!(seconds >= 0 && seconds <= kLongest)) {
    throw InvalidArgument(std::string(call) + ": timeout is " + nb::str(nb::float_(seconds)).c_str() +
                          "; want seconds, from 0 (that of the environment) to 1e6");
  }
  return std::chrono::milliseconds(static_cast<std::int64_t>(std::ceil(seconds * 1000)));
}

CommOptions comm_options(const std::string& backend, const std::string& algorithm, double timeout,
                         bool reproducible) {
  return {.backend = backend,
          .algorithm = algorithm,
          .timeout = timeout_of("Communicator", timeout),
          .reproducible = reproducible};
}

using Ranks = std::shared_ptr<Communicator>;

// The communicators that Python objects own, by their addresses.
struct Owned {
  std::mutex mutex;
  std::map<const Communicator*, std::weak_ptr<Communicator>> all;
};
Owned& owned() {
  // This map is never destroyed, since threads may destroy communicators until the process ends.
  static auto& owned = *new Owned;
  return owned;
}

// Makes the pointer by which a Python object owns the communicator. The communicator is destroyed without the
// GIL: its destructor waits for ops that may need the GIL.
Ranks to_own(Ranks ranks) {
  Communicator* const raw = ranks.get();
  if (!raw) return nullptr;
  Ranks kept = destroyed_without_gil(std::move(ranks));
  const std::lock_guard lock(owned().mutex);
  owned().all[raw] = kept;
  return Ranks(raw, [kept](Communicator* gone) mutable {
    {
      const std::lock_guard alone(owned().mutex);
      owned().all.erase(gone);
    }
    kept.reset();
  });
}

// Like away(), for calls that block for long: Ctrl-C ends the wait for them.
template <class Function> auto away_for_long(Communicator& self, Function function) {
  const Where where = python_call_site();
  return interruptibly(
      [self = owner_of(self), function = std::move(function), where] { return function(*self, where); });
}
template <class Function> Ranks new_ranks(Communicator& self, Function function) {
  return to_own(away_for_long(self, std::move(function)));
}

void bind_collectives(nb::class_<Communicator>& type) {
  type.def(
          "all_reduce",
          [](Communicator& self, const NDArray& array, const NDArray* out, const std::string& op) {
            const ReduceOp how = reduce_op("all_reduce", op);
            away([&](Where where) {
              out ? self.all_reduce(array, *out, how, where) : self.all_reduce(array, how, where);
            });
          },
          "array"_a, "out"_a = nb::none(), "op"_a = "sum",
          "Sets out, or the array itself, to the reduction over all ranks.")
      .def(
          "reduce_scatter",
          [](Communicator& self, const NDArray& in, const NDArray& out, const std::string& op) {
            const ReduceOp how = reduce_op("reduce_scatter", op);
            away([&](Where where) { self.reduce_scatter(in, out, how, where); });
          },
          "array"_a, "out"_a, "op"_a = "sum", "Sets rank r's out to part r of the reduction.")
      .def(
          "all_gather",
          [](Communicator& self, const NDArray& in, const NDArray& out) {
            away([&](Where where) { self.all_gather(in, out, where); });
          },
          "array"_a, "out"_a, "Sets part r of out to rank r's array.");
}

void bind_messages(nb::class_<Communicator>& type) {
  type.def(
          "broadcast",
          [](Communicator& self, const NDArray& array, int root) {
            away([&](Where where) { self.broadcast(array, root, where); });
          },
          "array"_a, "root"_a, "In place.")
      .def(
          "reduce",
          [](Communicator& self, const NDArray& array, int root, const std::string& op) {
            const ReduceOp how = reduce_op("reduce", op);
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
          "wait",
          [](Communicator& self) {
            away_for_long(self, [](Communicator& ranks, Where where) { ranks.wait(where); });
          },
          "Blocks until all calls so far have ended.");
}

// Binds the methods that make new communicators from a communicator.
void bind_members(nb::class_<Communicator>& type) {
  type.def(
          "split",
          [](Communicator& self, int colour, int key) {
            return new_ranks(self, [colour, key](Communicator& ranks, Where where) {
              return ranks.split(colour, key, where);
            });
          },
          "colour"_a, "key"_a = 0,
          "Collective. A communicator of the ranks of one colour, ordered by key; None for a negative "
          "colour.")
      .def(
          "abort",
          [](Communicator& self, const std::string& why) {
            away([&](Where where) { self.abort(why, where); });
          },
          "why"_a)
      .def(
          "shrink",
          [](Communicator& self) {
            return new_ranks(self, [](Communicator& ranks, Where where) { return ranks.shrink(where); });
          },
          "Collective over the ranks that are alive: a communicator of these. Aborts this one.")
      .def(
          "grow",
          [](Communicator& self, int size, double timeout) {
            const std::chrono::milliseconds limit = timeout_of("grow", timeout);
            return new_ranks(self, [size, limit](Communicator& ranks, Where where) {
              return ranks.grow(size, limit, where);
            });
          },
          "size"_a = 0, "timeout"_a = 0.0,
          "Collective over the live processes and new ones, which make a Communicator(): one of `size` "
          "ranks, 0: as many "
          "as before. Aborts this one.");
}

}  // namespace

std::shared_ptr<Communicator> owner_of(const Communicator& ranks) {
  const std::lock_guard lock(owned().mutex);
  return owned().all.at(&ranks).lock();
}

void bind_communicators(nb::module_& m) {
  nb::class_<Communicator> type(m, "Communicator", "Ranks that call the same collectives in the same order.");
  type.def(nb::new_([](const std::string& backend, const std::string& algorithm, double timeout,
                       bool reproducible) {
             const CommOptions options = comm_options(backend, algorithm, timeout, reproducible);
             return to_own(interruptibly([options] { return Communicator::create(options); }));
           }),
           "backend"_a = "", "algorithm"_a = "", "timeout"_a = 0.0, "reproducible"_a = false,
           "The ranks of the job that this process was launched in.")
      .def_static(
          "local",
          [](int size, const std::string& algorithm, bool reproducible) {
            const CommOptions options = comm_options("", algorithm, 0, reproducible);
            std::vector<Ranks> made = away([&](Where) { return Communicator::create_local(size, options); });
            for (Ranks& rank : made) rank = to_own(std::move(rank));
            return made;
          },
          "size"_a, "algorithm"_a = "", "reproducible"_a = false,
          "Communicators of `size` ranks in this process, by rank, each to be used by a thread of its own.")
      .def_prop_ro("rank", &Communicator::rank)
      .def_prop_ro("size", &Communicator::size)
      .def_prop_ro("backend", &Communicator::backend)
      .def_prop_ro("var",
                   [](const Communicator& self) {
                     return PythonVar{self.var(), non_owning(self.engine())};
                   })
      .def(
          "shared_array",
          [](Communicator& self, nb::handle shape, nb::handle dtype) {
            const Dims dims = to_dims({"shared_array", "shape"}, shape);
            const DType of = dtype.is_none() ? DType::f32 : to_dtype({"shared_array", "dtype"}, dtype);
            return wrap(away([&](Where) {
              return ndarray_detail::in_name_of("shared_array", [&] { return self.shared_array(dims, of); });
            }));
          },
          "shape"_a, "dtype"_a = nb::none(),
          nb::sig("def shared_array(self, shape: int | Sequence[int], dtype: DTypeLike | None = None) -> "
                  "NDArray"),
          "An array in memory that all ranks on a host reduce without a copy; of undetermined values.")
      .def(
          "flight_recorder", [](const Communicator& self) { return self.flight_recorder(); },
          nb::call_guard<ReleaseGil>(), "The latest 1,024 calls, as text.");
  bind_members(type);
  bind_collectives(type);
  bind_messages(type);
}

}  // namespace heddle::python
