// Datasets and loaders. The classes that users see are Python's, heddle/data.py; here is what they call.
#include "data.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/data.h>
#include <heddle/graph.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "engine/engines.h"
#include "engine/interruptibly.h"
#include "holders.h"
#include "module.h"

namespace heddle::python {
namespace {

using namespace nb::literals;

// The arrays of an example that Python code has returned: one object, or a tuple or list of them.
Example to_example(nb::handle returned, Where where) {
  const ArgumentOf of{"Loader", "what the dataset has returned"};
  Example example;
  if (!PyTuple_Check(returned.ptr()) && !PyList_Check(returned.ptr())) {
    example.push_back(to_array(of, returned, std::nullopt, where));
    return example;
  }
  for (nb::handle each : returned) example.push_back(to_array(of, each, std::nullopt, where));
  return example;
}

nb::tuple to_tuple(const std::vector<NDArray>& arrays) {
  nb::list list;
  for (const NDArray& array : arrays) list.append(wrap(array));
  return nb::tuple(list);
}

nb::list described(const std::vector<ExampleArray>& arrays) {
  nb::list result;
  for (const ExampleArray& array : arrays) {
    nb::list shape;
    for (const std::int64_t size : array.shape) {
      if (size == kInferred)
        shape.append(nb::none());
      else
        shape.append(size);
    }
    result.append(nb::make_tuple(from_dtype(array.dtype), nb::tuple(shape)));
  }
  return result;
}

std::vector<ExampleArray> to_descriptions(const char* function, nb::handle arrays) {
  std::vector<ExampleArray> result;
  const ArgumentOf of{function, "arrays"};
  const char* const wanted = "a list of (dtype, shape), where None in a shape is a size that varies";
  if (!PyList_Check(arrays.ptr()) && !PyTuple_Check(arrays.ptr())) refuse_type(of, arrays, wanted);
  for (nb::handle each : arrays) {
    if (!PyTuple_Check(each.ptr()) || nb::len(each) != 2) refuse_type(of, each, wanted);
    ExampleArray array{to_dtype(of, each[0]), {}};
    if (!PyTuple_Check(nb::object(each[1]).ptr()) && !PyList_Check(nb::object(each[1]).ptr()))
      refuse_type(of, each, wanted);
    for (nb::handle size : nb::object(each[1]))
      array.shape.push_back(size.is_none() ? kInferred : int_argument(of, size, 0));
    result.push_back(array);
  }
  return result;
}

// An exception that ends more than an example: skip_bad does not pass over it.
class FatalFailure final : public PythonFailure, public NeverSkipped {
 public:
  explicit FatalFailure(const PythonFailure& failure) : PythonFailure(failure) {}
};

// Runs call(), which calls Python code, in an op. A Python exception becomes the op's error, with a note. StopIteration, which
// would end the loop over the batches, becomes RuntimeError, as in generators (PEP 479).
template <class Call> Example in_python(const std::string& note, Where where, Call call) {
  const HoldGil gil;
  if (!gil) throw Error("the interpreter has ended");
  try {
    return call();
  } catch (nb::python_error& error) {
    error.restore();
    if (PyErr_ExceptionMatches(PyExc_StopIteration))
      nb::chain_error(PyExc_RuntimeError, "the dataset has raised StopIteration");
    PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
    PyErr_Fetch(&type, &value, &traceback);
    PyErr_NormalizeException(&type, &value, &traceback);
    PyObject* const done = PyObject_CallMethod(value, "add_note", "s", note.c_str());
    if (!done) PyErr_Clear();
    Py_XDECREF(done);
    const bool is_fatal = PyErr_GivenExceptionMatches(value, PyExc_MemoryError) ||
                          !PyErr_GivenExceptionMatches(value, PyExc_Exception);
    PyErr_Restore(type, value, traceback);
    const PythonFailure failure = PythonFailure::take_set("load_batch", where);
    if (is_fatal) throw FatalFailure(failure);
    throw failure;
  }
}

// A dataset as a part of another one, or of a loader: a reference to its Python object, which the collector sees.
std::shared_ptr<const Dataset> part(nb::handle dataset) {
  return {std::make_shared<Reference>(nb::borrow(dataset)), nb::cast<PythonDataset&>(dataset).dataset.get()};
}

// For the collector of cycles: an object, or a function, may refer to an object that holds the dataset or loader. The
// dictionaries of such objects are cleared, so that these need no tp_clear.
int visit_dataset(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const PythonDataset& dataset = *nb::inst_ptr<PythonDataset>(self);
  if (dataset.dataset.use_count() != 1) return 0;  // a call that is under way has it, too
  for (PyObject* const held : dataset.held) Py_VISIT(held);
  return 0;
}

int visit_loader(PyObject* self, visitproc visit, void* arg) {
  Py_VISIT(Py_TYPE(self));
  if (!nb::inst_ready(self)) return 0;
  const PythonLoader& loader = *nb::inst_ptr<PythonLoader>(self);
  if (loader.is_idle()) Py_VISIT(loader.dataset());
  return 0;
}

const PyType_Slot dataset_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_dataset)}, {0, nullptr}};
const PyType_Slot loader_slots[] = {{Py_tp_traverse, reinterpret_cast<void*>(visit_loader)}, {0, nullptr}};

// Calls call(numbers) with a Python object for `random`, which goes on behind the numbers that the call has drawn. The object
// has numbers of its own: Python code may keep it.
template <class Call> Example with_random(ExampleRandom& random, Call call) {
  const nb::object numbers = nb::cast(random);
  Example example = call(numbers);
  random = nb::cast<const ExampleRandom&>(numbers);
  return example;
}

std::int64_t length_of(const Reference& function, std::int64_t index) {
  const HoldGil gil;
  if (!gil) throw Error("the interpreter has ended");
  return int_argument({"Loader", "what the dataset's length() has returned"},
                      nb::borrow(function.get())(index));
}

// A Python object with __getitem__, and perhaps with length() and read_with().
class ObjectDataset final : public Dataset {
 public:
  ObjectDataset(nb::object object, std::int64_t size, std::vector<ExampleArray> arrays, nb::object length,
                nb::object read_with, Where where)
      : object_(std::move(object)), size_(size), arrays_(std::move(arrays)), where_(where) {
    if (!length.is_none()) length_ = Reference(std::move(length));
    if (!read_with.is_none()) read_with_ = Reference(std::move(read_with));
  }
  std::int64_t size() const override { return size_; }
  std::vector<ExampleArray> arrays() const override { return arrays_; }
  bool reads_concurrently() const override { return false; }
  Example read(std::int64_t index) const override {
    return in_python("dataset[" + std::to_string(index) + "], in a heddle.data.Loader", where_, [&] {
      PyObject* const key = PyLong_FromLongLong(index);
      const nb::object held = nb::steal(key);
      return to_example(nb::steal(check(PyObject_GetItem(object_.get(), key))), where_);
    });
  }
  Example read_with(std::int64_t index, ExampleRandom& random) const override {
    if (!read_with_.get()) return read(index);
    return in_python("read_with(" + std::to_string(index) + "), in a heddle.data.Loader", where_, [&] {
      return with_random(random, [&](nb::handle numbers) {
        return to_example(nb::borrow(read_with_.get())(index, numbers), where_);
      });
    });
  }
  std::int64_t length(std::int64_t index) const override {
    return length_.get() ? length_of(length_, index) : -1;
  }

 private:
  static PyObject* check(PyObject* object) {
    if (!object) raise_set();
    return object;
  }
  Reference object_, length_, read_with_;
  std::int64_t size_;
  std::vector<ExampleArray> arrays_;
  Where where_;
};

// An object of a class that is derived from a class of heddle.data: its arrays, size or lengths may be its own, and examples are
// read as those of the dataset that it is made of.
class DerivedDataset final : public Dataset {
 public:
  DerivedDataset(std::shared_ptr<const Dataset> dataset, std::int64_t size, std::vector<ExampleArray> arrays,
                 nb::object length)
      : dataset_(std::move(dataset)), size_(size), arrays_(std::move(arrays)) {
    if (!length.is_none()) length_ = Reference(std::move(length));
  }
  std::int64_t size() const override { return size_; }
  std::vector<ExampleArray> arrays() const override { return arrays_; }
  Example read(std::int64_t index) const override { return dataset_->read(index); }
  Example read_with(std::int64_t index, ExampleRandom& random) const override {
    return dataset_->read_with(index, random);
  }
  // Not with arrays of its own, to which the examples may not fit.
  bool gather(std::span<const std::int64_t> indices, std::span<const NDArray> batch) const override {
    const std::vector<ExampleArray> all = dataset_->arrays();
    const bool fits = std::equal(
        all.begin(), all.end(), arrays_.begin(), arrays_.end(),
        [](const auto& one, const auto& own) { return one.dtype == own.dtype && one.shape == own.shape; });
    return fits && dataset_->gather(indices, batch);
  }
  std::int64_t length(std::int64_t index) const override {
    return length_.get() ? length_of(length_, index) : dataset_->length(index);
  }
  std::vector<NDArray> used_arrays() const override { return dataset_->used_arrays(); }
  bool reads_concurrently() const override { return dataset_->reads_concurrently(); }

 private:
  std::shared_ptr<const Dataset> dataset_;
  std::int64_t size_;
  std::vector<ExampleArray> arrays_;
  Reference length_;
};

PythonDataset derived_dataset(nb::handle dataset, std::int64_t size, nb::handle arrays, nb::object length) {
  const std::shared_ptr<const Dataset> base = part(dataset);
  std::vector<ExampleArray> descriptions =
      arrays.is_none() ? base->arrays() : to_descriptions("Loader", arrays);
  std::vector<PyObject*> held{dataset.ptr()};
  if (!length.is_none()) held.push_back(length.ptr());
  return {std::make_shared<DerivedDataset>(base, size, std::move(descriptions), std::move(length)),
          std::move(held)};
}

PythonDataset object_dataset(nb::object object, std::int64_t size, nb::handle arrays, bool varying,
                             nb::object length, nb::object read_with) {
  const Where where = python_call_site();
  std::vector<ExampleArray> descriptions;
  if (!arrays.is_none()) {
    descriptions = to_descriptions("Loader", arrays);
  } else {
    for (const NDArray& array : to_example(object[0], where)) {
      descriptions.push_back({array.dtype(), array.shape()});
      if (varying && array.ndim() > 0) descriptions.back().shape[0] = kInferred;
    }
  }
  std::vector<PyObject*> held{object.ptr()};
  for (const nb::object& method : {length, read_with})
    if (!method.is_none()) held.push_back(method.ptr());
  return {std::make_shared<ObjectDataset>(std::move(object), size, std::move(descriptions), std::move(length),
                                          std::move(read_with), where),
          std::move(held)};
}

class FunctionDataset final : public Dataset {
 public:
  // `draws`: whether fn has random numbers as its last argument.
  FunctionDataset(std::shared_ptr<const Dataset> dataset, nb::object fn, bool draws,
                  std::vector<ExampleArray> arrays, Where where)
      : dataset_(std::move(dataset)),
        fn_(std::move(fn)),
        draws_(draws),
        arrays_(std::move(arrays)),
        where_(where) {}
  std::int64_t size() const override { return dataset_->size(); }
  std::vector<ExampleArray> arrays() const override { return arrays_; }
  std::int64_t length(std::int64_t index) const override { return dataset_->length(index); }
  std::vector<NDArray> used_arrays() const override { return dataset_->used_arrays(); }
  bool reads_concurrently() const override { return false; }
  // The function may wait for its arguments. It gets copies of those whose arrays this op has declared, since ops may be
  // waiting for these that come later. Others are waited for here.
  Example read_with(std::int64_t index, ExampleRandom& random) const override {
    Example example = dataset_->read_with(index, random);
    const std::vector<NDArray> used = dataset_->used_arrays();
    for (NDArray& array : example) {
      if (!array.defined()) continue;
      const bool declared = std::any_of(
          used.begin(), used.end(), [&](const NDArray& each) { return each.storage() == array.storage(); });
      array = array.detach();
      if (declared && array.is_contiguous()) {
        array = copied(array);
      } else {
        array = array.contiguous();
        array.wait();
      }
    }
    return in_python("the function of a heddle.data.MapDataset, of example " + std::to_string(index), where_,
                     [&] { return example_of(nb::borrow(fn_.get()), draws_, example, random, where_); });
  }
  Example read(std::int64_t index) const override {
    ExampleRandom random(0, 0, index);
    return read_with(index, random);
  }
  static Example example_of(nb::handle fn, bool draws, const Example& example, ExampleRandom& random,
                            Where where) {
    if (!draws) return to_example(fn(*to_tuple(example)), where);
    return with_random(
        random, [&](nb::handle numbers) { return to_example(fn(*to_tuple(example), numbers), where); });
  }

 private:
  static NDArray copied(const NDArray& array) {
    const NDArray result(array.shape(), array.dtype());
    if (array.size() > 0) {
      std::memcpy(result.data<std::byte>(), array.data<const std::byte>(),
                  static_cast<std::size_t>(array.size()) * size_of(array.dtype()));
    }
    return result;
  }
  std::shared_ptr<const Dataset> dataset_;
  Reference fn_;
  bool draws_;
  std::vector<ExampleArray> arrays_;
  Where where_;
};

// An example read outside of a loader's op, which would have waited for the arrays that the dataset uses.
Example read_alone(const Dataset& dataset, std::int64_t index) {
  for (const NDArray& array : dataset.used_arrays()) array.wait();
  return dataset.read(index);
}

PythonDataset map_dataset(nb::handle dataset, nb::object fn, nb::handle arrays, bool draws) {
  const Where where = python_call_site();
  std::vector<ExampleArray> descriptions;
  if (!arrays.is_none()) {
    descriptions = to_descriptions("MapDataset", arrays);
  } else {
    const Example first =
        interruptibly([held = nb::cast<PythonDataset&>(dataset).dataset] { return read_alone(*held, 0); });
    ExampleRandom random(0, 0, 0);
    for (const NDArray& array : FunctionDataset::example_of(fn, draws, first, random, where))
      descriptions.push_back({array.dtype(), array.shape()});
  }
  std::vector<PyObject*> held{dataset.ptr(), fn.ptr()};
  return {
      std::make_shared<FunctionDataset>(part(dataset), std::move(fn), draws, std::move(descriptions), where),
      std::move(held)};
}

void bind_datasets(nb::module_& m) {
  nb::class_<PythonDataset>(m, "_Dataset", nb::type_slots(dataset_slots))
      .def("_size", [](const PythonDataset& self) { return self.dataset->size(); })
      .def(
          "_length",
          [](const PythonDataset& self, std::int64_t index) { return self.dataset->length(index); },
          "index"_a)
      .def(
          "_read",
          [](const PythonDataset& self, std::int64_t index) {
            default_engine_is_used();
            return to_tuple(
                interruptibly([dataset = self.dataset, index] { return read_alone(*dataset, index); }));
          },
          "index"_a, nb::sig("def _read(self, index: int) -> tuple[NDArray, ...]"))
      .def(
          "_arrays", [](const PythonDataset& self) { return described(self.dataset->arrays()); },
          nb::sig("def _arrays(self) -> list[tuple[DType, tuple[int | None, ...]]]"));
  m.def("_object_dataset", &object_dataset, "object"_a, "size"_a, "arrays"_a.none(), "varying"_a,
        "length"_a.none(), "read_with"_a.none(),
        nb::sig("def _object_dataset(object: object, size: int, arrays: Any, varying: bool, length: Any, "
                "read_with: Any) -> _Dataset"));
  m.def("_derived_dataset", &derived_dataset, "dataset"_a, "size"_a, "arrays"_a.none(), "length"_a.none(),
        nb::sig("def _derived_dataset(dataset: _Dataset, size: int, arrays: Any, length: Any) -> _Dataset"));
  m.def(
      "_array_dataset",
      [](nb::list objects) {
        const Where where = python_call_site();
        std::vector<NDArray> arrays;
        for (nb::handle object : objects)
          arrays.push_back(to_array({"ArrayDataset", "arrays"}, object, std::nullopt, where));
        return PythonDataset{std::make_shared<ArrayDataset>(std::move(arrays), where)};
      },
      "arrays"_a, nb::sig("def _array_dataset(arrays: list[ArrayLike]) -> _Dataset"));
  m.def(
      "_subset",
      [](nb::handle dataset, const std::vector<std::int64_t>& indices) {
        return PythonDataset{std::make_shared<Subset>(part(dataset), indices), {dataset.ptr()}};
      },
      "dataset"_a, "indices"_a,
      nb::sig("def _subset(dataset: _Dataset, indices: Sequence[int]) -> _Dataset"));
  m.def(
      "_concat_dataset",
      [](nb::list datasets) {
        std::vector<AnyDataset> parts;
        std::vector<PyObject*> held;
        for (nb::handle dataset : datasets) {
          parts.emplace_back(part(dataset));
          held.push_back(dataset.ptr());
        }
        return PythonDataset{std::make_shared<ConcatDataset>(std::move(parts)), std::move(held)};
      },
      "datasets"_a, nb::sig("def _concat_dataset(datasets: list[_Dataset]) -> _Dataset"));
  m.def("_map_dataset", &map_dataset, "dataset"_a, "fn"_a, "arrays"_a.none(), "draws"_a,
        nb::sig("def _map_dataset(dataset: _Dataset, fn: object, arrays: Any, draws: bool) -> _Dataset"));
}

// The value of an argument as int_argument() returns it; a bool is refused, which int_argument() takes for an int.
std::int64_t int_and_no_bool(ArgumentOf of, nb::handle value, std::int64_t least) {
  if (PyBool_Check(value.ptr())) refuse_type(of, value, "an int");
  return int_argument(of, value, least);
}

// 64 bits, as those of a loader's seed.
std::uint64_t seed_in(ArgumentOf of, nb::handle seed) {
  if (PyLong_Check(seed.ptr()) && !PyBool_Check(seed.ptr())) {
    const std::uint64_t bits = PyLong_AsUnsignedLongLong(seed.ptr());
    if (!PyErr_Occurred()) return bits;
    PyErr_Clear();
    int overflow = 0;
    const long long value = PyLong_AsLongLongAndOverflow(seed.ptr(), &overflow);
    if (overflow != 0)
      throw InvalidArgument(std::string("ExampleRandom: seed is ") + nb::str(seed).c_str() +
                            "; want 64 bits");
    return static_cast<std::uint64_t>(value);
  }
  return static_cast<std::uint64_t>(int_and_no_bool(of, seed, std::numeric_limits<std::int64_t>::min()));
}

void bind_random(nb::module_& m) {
  nb::class_<ExampleRandom>(m, "ExampleRandom",
                            "Random numbers of one example in one epoch: the same ones whenever it is read.")
      .def(
          "__init__",
          [](ExampleRandom* self, nb::handle seed, nb::handle epoch, nb::handle index) {
            const char* const function = "ExampleRandom";
            new (self) ExampleRandom(seed_in({function, "seed"}, seed),
                                     int_and_no_bool({function, "epoch"}, epoch, 0),
                                     int_and_no_bool({function, "index"}, index, 0));
          },
          "seed"_a, "epoch"_a, "index"_a,
          nb::sig("def __init__(self, seed: int, epoch: int, index: int) -> None"))
      .def("uniform", &ExampleRandom::uniform, "A float in [0, 1).")
      .def(
          "integer",
          [](ExampleRandom& self, nb::handle below) {
            return self.integer(int_and_no_bool({"ExampleRandom.integer", "below"}, below, 1));
          },
          "below"_a, nb::sig("def integer(self, below: int) -> int"), "An int, 0 to below - 1.")
      .def("bits", &ExampleRandom::bits, "64 random bits, as in numpy.random.default_rng(random.bits()).")
      .def_prop_ro("seed", &ExampleRandom::seed, "That of the loader.")
      .def_prop_ro("epoch", &ExampleRandom::epoch,
                   "The epoch, from 0: for changes that grow with the training.")
      .def_prop_ro("index", &ExampleRandom::index, "The example's number in the loader's dataset.");
}

void bind_augmentation(nb::module_& m) {
  nb::class_<Augmentation>(m, "_Augmentation")
      .def(
          "__init__",
          [](Augmentation* self, std::array<double, 2> area, std::array<std::int64_t, 2> resize,
             std::int64_t padding, std::array<std::int64_t, 2> crop, bool centre, double flip,
             std::vector<double> mean, std::vector<double> std, double erase) {
            new (self) Augmentation{area, resize,          padding,        crop, centre,
                                    flip, std::move(mean), std::move(std), erase};
          },
          "area"_a, "resize"_a, "padding"_a, "crop"_a, "centre"_a, "flip"_a, "mean"_a, "std"_a, "erase"_a)
      .def(
          "_apply",
          [](const Augmentation& self, nb::handle image, std::uint64_t seed, std::int64_t epoch,
             std::int64_t index) {
            const Where where = python_call_site();
            const NDArray from = to_array({"Augmentation", "image"}, image, std::nullopt, where);
            return wrap(augment(self, from, ExampleRandom(seed, epoch, index), where));
          },
          "image"_a, "seed"_a, "epoch"_a, "index"_a,
          nb::sig("def _apply(self, image: ArrayLike, seed: int, epoch: int, index: int) -> NDArray"));
}

// nanobind's stubs of options in one place: the keywords of heddle.data.Loader.
PythonLoader make_loader(nb::handle dataset, std::int64_t batch, bool shuffle, std::uint64_t seed, int rank,
                         int ranks, bool drop_remainder, bool drop_last, int ahead,
                         std::int64_t bucket_by_length, std::vector<double> pad, std::int64_t pad_multiple,
                         std::vector<int> arrays, std::optional<Augmentation> augment_images,
                         int augment_array, bool skip_bad) {
  const Where where = python_call_site();
  default_engine_is_used();
  LoaderOptions options{.batch = batch,
                        .shuffle = shuffle,
                        .seed = seed,
                        .rank = rank,
                        .ranks = ranks,
                        .remainder = drop_remainder ? Remainder::drop : Remainder::wrap,
                        .drop_last = drop_last,
                        .ahead = ahead,
                        .bucket_by_length = bucket_by_length,
                        .pad = std::move(pad),
                        .pad_multiple = pad_multiple,
                        .arrays = std::move(arrays),
                        .augment = std::move(augment_images),
                        .augment_array = augment_array,
                        .skip_bad = skip_bad};
  std::shared_ptr<Loader> loader = interruptibly([held = part(dataset), options = std::move(options), where] {
    return std::make_shared<Loader>(held, options, where);
  });
  return PythonLoader(std::move(loader), dataset.ptr());
}

void bind_loader(nb::module_& m) {
  nb::class_<PythonLoader>(m, "_Loader", nb::type_slots(loader_slots))
      .def("_size", [](const PythonLoader& self) { return self.call([](Loader& of) { return of.size(); }); })
      .def(
          "_start",
          [](const PythonLoader& self, std::int64_t epoch, std::int64_t first) {
            self.call_interruptibly("Loader", [=](Loader& of) { of.start(epoch, first); });
          },
          "epoch"_a, "first"_a)
      .def(
          "_next",
          [](const PythonLoader& self, bool waits) {
            default_engine_is_used();
            // Ctrl-C ends the wait alone: a batch that nobody takes stays. Only this thread captures.
            if (waits && !is_capturing()) self.call_interruptibly("Loader", [](Loader& of) { of.wait(); });
            return to_tuple(self.call([](Loader& of) { return of.next(); }));
          },
          "waits"_a, nb::sig("def _next(self, waits: bool) -> tuple[NDArray, ...]"))
      .def("_drop", [](const PythonLoader& self) { self.call([](Loader& of) { of.drop(); }); })
      .def("_epoch",
           [](const PythonLoader& self) { return self.call([](Loader& of) { return of.epoch(); }); })
      .def("_position",
           [](const PythonLoader& self) { return self.call([](Loader& of) { return of.position(); }); })
      .def("_skipped",
           [](const PythonLoader& self) { return self.call([](Loader& of) { return of.skipped(); }); })
      .def(
          "_indices",
          [](const PythonLoader& self, std::int64_t epoch, std::int64_t batch) {
            return self.call([=](Loader& of) { return of.indices(epoch, batch); });
          },
          "epoch"_a, "batch"_a)
      .def(
          "_arrays",
          [](const PythonLoader& self) {
            return described(self.call([](Loader& of) { return of.arrays(); }));
          },
          nb::sig("def _arrays(self) -> list[tuple[DType, tuple[int | None, ...]]]"));
  m.def("_make_loader", &make_loader, "dataset"_a, "batch"_a, "shuffle"_a, "seed"_a, "rank"_a, "ranks"_a,
        "drop_remainder"_a, "drop_last"_a, "ahead"_a, "bucket_by_length"_a, "pad"_a, "pad_multiple"_a,
        "arrays"_a, "augment"_a.none(), "augment_array"_a, "skip_bad"_a,
        nb::sig(
            "def _make_loader(dataset: _Dataset, batch: int, shuffle: bool, seed: int, rank: int, "
            "ranks: int, drop_remainder: bool, drop_last: bool, ahead: int, bucket_by_length: int, "
            "pad: Sequence[float], pad_multiple: int, arrays: Sequence[int], augment: _Augmentation | None, "
            "augment_array: int, skip_bad: bool) -> _Loader"));
}

}  // namespace

void bind_data(nb::module_& m) {
  bind_random(m);
  bind_datasets(m);
  bind_augmentation(m);
  bind_loader(m);
}

}  // namespace heddle::python
