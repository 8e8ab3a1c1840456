// Python functions for safetensors files, npy files and checkpoints.
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/checkpoint.h>
#include <heddle/checkpoint_writer.h>
#include <heddle/csv.h>
#include <heddle/npy.h>
#include <heddle/npz.h>
#include <heddle/readable_safetensors.h>
#include <heddle/safetensors.h>
#include <heddle/weights.h>

#include "arguments.h"
#include "arrays/array.h"
#include "call_site.h"
#include "engine/engines.h"
#include "engine/interruptibly.h"
#include "module.h"
#include "objects.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using Texts = std::map<std::string, std::string>;
using Arrays = std::map<std::string, NDArray>;

void save(nb::handle path, const Arrays& arrays, const Texts& metadata, bool checksums) {
  interruptibly(
      [file = path_of("save_safetensors", path), arrays, metadata, checksums, where = python_call_site()] {
        save_safetensors(file, {arrays, metadata}, {.checksums = checksums}, where);
      });
}

Device device_of(const char* function, nb::handle device) {
  return device.is_none() ? cpu() : to_device({function, "device"}, device);
}

Arrays load(nb::handle path, nb::handle device) {
  default_engine_is_used();
  return interruptibly([file = path_of("load_safetensors", path), on = device_of("load_safetensors", device),
                        where = python_call_site()] { return load_safetensors(file, on, where).arrays; });
}

void save_array(nb::handle path, nb::handle object) {
  const Where where = python_call_site();
  interruptibly([file = path_of("save_npy", path),
                 array = to_array({"save_npy", "array"}, object, std::nullopt, where),
                 where] { save_npy(file, array, where); });
}

nb::object load_array(nb::handle path, nb::handle device) {
  default_engine_is_used();
  return wrap(interruptibly([file = path_of("load_npy", path), on = device_of("load_npy", device),
                             where = python_call_site()] { return load_npy(file, on, where); }));
}

// Converts a key of a dict, which is the name of the object.
std::string name_in(ArgumentOf of, nb::handle name) {
  if (!PyUnicode_Check(name.ptr())) refuse_type(of, name, "a str as the name");
  return text_in(of, name);
}

nb::object map_array(nb::handle path) {
  default_engine_is_used();
  return wrap(interruptibly(
      [file = path_of("map_npy", path), where = python_call_site()] { return map_npy(file, where); }));
}

Arrays map_arrays(nb::handle path) {
  default_engine_is_used();
  return interruptibly([file = path_of("map_safetensors", path), where = python_call_site()] {
    return map_safetensors(file, where).arrays;
  });
}

void save_arrays_npz(nb::handle path, const Arrays& arrays, bool compressed) {
  interruptibly([file = path_of("save_npz", path), arrays, compressed, where = python_call_site()] {
    save_npz(file, arrays, {.compressed = compressed}, where);
  });
}

Arrays load_arrays_npz(nb::handle path, nb::handle device) {
  default_engine_is_used();
  return interruptibly([file = path_of("load_npz", path), on = device_of("load_npz", device),
                        where = python_call_site()] { return load_npz(file, on, where); });
}

nb::tuple load_named_weights(const std::vector<Parameter>& parameters, const Arrays& arrays,
                             const Texts& rename, const std::vector<std::string>& ignore, bool strict,
                             const Texts& unreadable) {
  const WeightReport report = load_weights(
      parameters, arrays, {.rename = rename, .ignore = ignore, .strict = strict, .unreadable = unreadable},
      python_call_site());
  return nb::make_tuple(report.missing, report.unexpected, report.other_shape, report.other_dtype);
}

char one_character(ArgumentOf of, const std::string& text) {
  if (text.size() != 1) refuse_value(of, "'" + text + "'", "one character of ASCII");
  return text[0];
}

nb::object load_table(nb::handle path, const std::string& delimiter, int skip_lines,
                      const std::string& comment, nb::handle dtype, const std::vector<int>& columns,
                      nb::handle device) {
  default_engine_is_used();
  const CsvOptions options{one_character({"load_csv", "delimiter"}, delimiter), skip_lines,
                           comment.empty() ? '\0' : one_character({"load_csv", "comment"}, comment),
                           dtype.is_none() ? DType::f64 : to_dtype({"load_csv", "dtype"}, dtype), columns};
  return wrap(interruptibly([file = path_of("load_csv", path), options, on = device_of("load_csv", device),
                             where = python_call_site()] { return load_csv(file, options, on, where); }));
}

void save_table(nb::handle path, nb::handle object, const std::string& delimiter, const std::string& header,
                int precision) {
  const Where where = python_call_site();
  const CsvWriteOptions options{one_character({"save_csv", "delimiter"}, delimiter), header, precision};
  interruptibly([file = path_of("save_csv", path),
                 array = to_array({"save_csv", "array"}, object, std::nullopt, where), options,
                 where] { save_csv(file, array, options, where); });
}

// A checkpoint that owns the objects to which it points. `mutexes` are the locks of these objects, in a fixed
// order.
struct OwnedCheckpoint {
  Checkpoint checkpoint;
  std::shared_ptr<Trainer> trainer;
  std::vector<std::shared_ptr<Generator>> generators;
  std::set<std::shared_ptr<ObjectMutex>> mutexes;

  OwnedCheckpoint(const char* function, const std::vector<Parameter>& parameters,
                  const PythonTrainer* its_trainer, nb::dict its_generators, nb::dict counters)
      : checkpoint{.parameters = parameters} {
    if (its_trainer) {
      trainer = its_trainer->object();
      checkpoint.trainer = trainer.get();
      mutexes.insert(its_trainer->mutex());
    }
    for (auto [name, object] : its_generators) {
      const ArgumentOf of{function, "generators"};
      if (!nb::isinstance<PythonGenerator>(object))
        refuse_type(of, its_generators, "names and Generators; there is a " + kind_of(object) + " in it");
      const PythonGenerator& generator = *nb::inst_ptr<PythonGenerator>(object);
      generators.push_back(generator.object());
      checkpoint.generators[name_in(of, name)] = generator.object().get();
      mutexes.insert(generator.mutex());
    }
    for (auto [name, value] : counters) {
      const ArgumentOf of{function, "counters"};
      checkpoint.counters[name_in(of, name)] = int_argument(of, value);
    }
    for (const std::shared_ptr<ObjectMutex>& mutex : mutexes) HeldLock::refuse(*mutex, function);
  }
  struct Lock {
    explicit Lock(ObjectMutex& mutex) : guard(mutex), held(mutex) {}
    std::lock_guard<ObjectMutex> guard;
    HeldLock held;
  };
  std::vector<std::unique_ptr<Lock>> lock() const {
    std::vector<std::unique_ptr<Lock>> locks;
    for (const std::shared_ptr<ObjectMutex>& mutex : mutexes) locks.push_back(std::make_unique<Lock>(*mutex));
    return locks;
  }
};

void write_checkpoint(nb::handle path, const std::vector<Parameter>& parameters, const PythonTrainer* trainer,
                      nb::dict generators, nb::dict counters, const Arrays& arrays, const Texts& notes) {
  auto owned =
      std::make_shared<OwnedCheckpoint>("save_checkpoint", parameters, trainer, generators, counters);
  owned->checkpoint.arrays = arrays;
  owned->checkpoint.notes = notes;
  interruptibly([file = path_of("save_checkpoint", path), owned, where = python_call_site()] {
    const auto locks = owned->lock();
    save_checkpoint(file, owned->checkpoint, where);
  });
}

using PythonWriter = Locked<CheckpointWriter>;

CheckpointSave write_checkpoint_late(const PythonWriter& self, nb::handle path,
                                     const std::vector<Parameter>& parameters, const PythonTrainer* trainer,
                                     nb::dict generators, nb::dict counters, const Arrays& arrays,
                                     const Texts& notes) {
  auto owned = std::make_shared<OwnedCheckpoint>("save", parameters, trainer, generators, counters);
  owned->checkpoint.arrays = arrays;
  owned->checkpoint.notes = notes;
  return self.call_interruptibly(
      "save", [file = path_of("save", path), owned, where = python_call_site()](CheckpointWriter& writer) {
        const auto locks = owned->lock();
        return writer.save(file, owned->checkpoint, where);
      });
}

void bind_writer(nb::module_& m) {
  nb::class_<CheckpointSave>(m, "CheckpointSave", "One save of a CheckpointWriter. Thread-safe.")
      .def("done", &CheckpointSave::done, "Whether the file is complete, or the save has failed.")
      .def(
          "wait", [](const CheckpointSave& self) { interruptibly([self] { self.wait(); }); },
          "Blocks until it is done; raises its error.")
      .def("error", &CheckpointSave::error, "The text of its error; empty: none so far.");
  nb::class_<PythonWriter>(m, "CheckpointWriter",
                           "Writes checkpoints while the training goes on. Thread-safe.")
      .def(
          "__init__",
          [](PythonWriter* self, std::int64_t most) {
            if (most < 1)
              throw InvalidArgument("CheckpointWriter: most is " + std::to_string(most) + "; want 1 or more");
            new (self) PythonWriter(std::make_shared<CheckpointWriter>(static_cast<std::size_t>(most)));
          },
          "most"_a = 1, "So many saves may be under way; one more waits for the oldest.")
      .def("save", &write_checkpoint_late, "path"_a, "parameters"_a = std::vector<Parameter>{},
           "trainer"_a = nb::none(), "generators"_a = nb::dict(), "counters"_a = nb::dict(),
           "arrays"_a = Arrays{}, "notes"_a = Texts{},
           nb::sig("def save(self, path: str | os.PathLike[str], parameters: Sequence[Parameter] = ..., "
                   "trainer: Trainer | None = None, generators: dict[str, Generator] = ..., counters: "
                   "dict[str, int] = ..., arrays: dict[str, NDArray] = ..., notes: dict[str, str] = ...) -> "
                   "CheckpointSave"),
           "Saves what save_checkpoint() called now would save; returns at once.")
      .def(
          "wait",
          [](const PythonWriter& self) {
            self.call_interruptibly("wait", [](CheckpointWriter& writer) { writer.wait(); });
          },
          "Blocks until all saves are done; raises the first error that no call has raised.")
      .def("idle", [](const PythonWriter& self) {
        return self.call([](const CheckpointWriter& writer) { return writer.idle(); });
      });
}

// Reads a checkpoint. Writes into the given parameters, trainer, generators, dict of counters and arrays.
// Returns all arrays and the notes.
nb::tuple read_checkpoint(nb::handle path, const std::vector<Parameter>& parameters,
                          const PythonTrainer* trainer, nb::dict generators, nb::dict counters,
                          const Arrays& arrays) {
  auto owned =
      std::make_shared<OwnedCheckpoint>("load_checkpoint", parameters, trainer, generators, counters);
  owned->checkpoint.arrays = arrays;
  interruptibly([file = path_of("load_checkpoint", path), owned, where = python_call_site()] {
    const auto locks = owned->lock();
    load_checkpoint(file, owned->checkpoint, where);
  });
  for (const auto& [name, value] : owned->checkpoint.counters)
    counters[nb::str(name.data(), name.size())] = value;
  return nb::make_tuple(owned->checkpoint.arrays, owned->checkpoint.notes);
}

void write_residuals(nb::handle path, const PythonTrainer& trainer) {
  trainer.call_interruptibly(
      "save_residuals", [file = path_of("save_residuals", path), where = python_call_site()](Trainer& of) {
        save_residuals(file, of, where);
      });
}

}  // namespace

void bind_files(nb::module_& m) {
  bind_writer(m);
  m.def("save_safetensors", &save, "path"_a, "arrays"_a, "metadata"_a = Texts{}, "checksums"_a = false,
        nb::sig("def save_safetensors(path: str | os.PathLike[str], arrays: dict[str, NDArray], metadata: "
                "dict[str, str] = ..., "
                "checksums: bool = False) -> None"),
        "Blocks. Replaces the file at once: a crash leaves the old one or the new one.");
  m.def("load_safetensors", &load, "path"_a, "device"_a = nb::none(),
        nb::sig("def load_safetensors(path: str | os.PathLike[str], device: DeviceLike | None = None) -> "
                "dict[str, NDArray]"),
        "The arrays of a file.");
  m.def(
      "load_safetensors_metadata",
      [](nb::handle path) {
        return interruptibly([file = path_of("load_safetensors_metadata", path), where = python_call_site()] {
          return load_safetensors_metadata(file, where);
        });
      },
      "path"_a, nb::sig("def load_safetensors_metadata(path: str | os.PathLike[str]) -> dict[str, str]"));
  m.def("_load_weights", &load_named_weights, "parameters"_a, "arrays"_a, "rename"_a, "ignore"_a, "strict"_a,
        "unreadable"_a,
        nb::sig("def _load_weights(parameters: list[Parameter], arrays: dict[str, NDArray], rename: "
                "dict[str, str], "
                "ignore: list[str], strict: bool, unreadable: dict[str, str]) -> tuple[list[str], list[str], "
                "list[str], list[str]]"));
  m.def(
      "_map_weights",
      [](nb::handle path) {
        default_engine_is_used();
        const ndarray_detail::ReadableSafetensors file = interruptibly(
            [of = path_of("load_weights", path)] { return ndarray_detail::map_readable_safetensors(of); });
        return nb::make_tuple(file.arrays, file.unreadable);
      },
      "path"_a,
      nb::sig("def _map_weights(path: str | os.PathLike[str]) -> tuple[dict[str, NDArray], dict[str, str]]"));
  m.def("save_checkpoint", &write_checkpoint, "path"_a, "parameters"_a = std::vector<Parameter>{},
        "trainer"_a = nb::none(), "generators"_a = nb::dict(), "counters"_a = nb::dict(),
        "arrays"_a = Arrays{}, "notes"_a = Texts{},
        nb::sig("def save_checkpoint(path: str | os.PathLike[str], parameters: Sequence[Parameter] = ..., "
                "trainer: Trainer | "
                "None = None, generators: dict[str, Generator] = ..., counters: dict[str, int] = ..., "
                "arrays: dict[str, NDArray] "
                "= ..., notes: dict[str, str] = ...) -> None"),
        "Everything that a training run needs to go on. Blocks.");
  m.def("load_checkpoint", &read_checkpoint, "path"_a, "parameters"_a = std::vector<Parameter>{},
        "trainer"_a = nb::none(), "generators"_a = nb::dict(), "counters"_a = nb::dict(),
        "arrays"_a = Arrays{},
        nb::sig("def load_checkpoint(path: str | os.PathLike[str], parameters: Sequence[Parameter] = ..., "
                "trainer: Trainer | None = None, generators: dict[str, Generator] = ..., counters: dict[str, "
                "int] = ..., arrays: dict[str, NDArray] = ...) -> tuple[dict[str, NDArray], dict[str, str]]"),
        "Fills parameters, trainer, generators, the dict of counters, and the arrays that have the saved "
        "shape and dtype in place; returns all arrays and the notes.");
  m.def("save_residuals", &write_residuals, "path"_a, "trainer"_a,
        nb::sig("def save_residuals(path: str | os.PathLike[str], trainer: Trainer) -> None"),
        "What compression has left out, beside the checkpoint at `path`, before it is saved. All workers "
        "call it.");
  m.def("save_npy", &save_array, "path"_a, "array"_a,
        nb::sig("def save_npy(path: str | os.PathLike[str], array: ArrayLike) -> None"),
        "Blocks. A .npy file of NumPy; not for bf16. Replaces the file at once.");
  m.def("load_npy", &load_array, "path"_a, "device"_a = nb::none(),
        nb::sig("def load_npy(path: str | os.PathLike[str], device: DeviceLike | None = None) -> NDArray"),
        "The array of a .npy file.");
  m.def("map_npy", &map_array, "path"_a, nb::sig("def map_npy(path: str | os.PathLike[str]) -> NDArray"),
        "The array of a .npy file on the file's own pages, read when they are touched; changes stay in this "
        "process.");
  m.def("map_safetensors", &map_arrays, "path"_a,
        nb::sig("def map_safetensors(path: str | os.PathLike[str]) -> dict[str, NDArray]"),
        "As map_npy, for all arrays of a .safetensors file.");
  m.def("save_npz", &save_arrays_npz, "path"_a, "arrays"_a, "compressed"_a = false,
        nb::sig("def save_npz(path: str | os.PathLike[str], arrays: dict[str, NDArray], compressed: bool = "
                "False) -> None"),
        "Blocks. A .npz file of NumPy; not for bf16. Replaces the file at once.");
  m.def("load_npz", &load_arrays_npz, "path"_a, "device"_a = nb::none(),
        nb::sig("def load_npz(path: str | os.PathLike[str], device: DeviceLike | None = None) -> dict[str, "
                "NDArray]"),
        "The arrays of a .npz file.");
  m.def("load_csv", &load_table, "path"_a, "delimiter"_a = ",", "skip_lines"_a = 0, "comment"_a = "#",
        "dtype"_a = nb::none(), "columns"_a = std::vector<int>{}, "device"_a = nb::none(),
        nb::sig("def load_csv(path: str | os.PathLike[str], delimiter: str = ',', skip_lines: int = 0, "
                "comment: str = "
                "'#', dtype: DTypeLike | None = None, columns: Sequence[int] = ..., device: DeviceLike | "
                "None = None) "
                "-> NDArray"),
        "A table of numbers as text, f64 unless told otherwise: an array (rows, columns). An empty field is "
        "NaN.");
  m.def("save_csv", &save_table, "path"_a, "array"_a, "delimiter"_a = ",", "header"_a = "", "precision"_a = 0,
        nb::sig("def save_csv(path: str | os.PathLike[str], array: ArrayLike, delimiter: str = ',', header: "
                "str = '', "
                "precision: int = 0) -> None"),
        "An array of one axis or two as text, with as many digits as give the same numbers unless told "
        "otherwise.");
}

}  // namespace heddle::python
