// Safetensors and npy files, checkpoints.
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
#include <heddle/csv.h>
#include <heddle/npy.h>
#include <heddle/npz.h>
#include <heddle/safetensors.h>

#include "array.h"
#include "engines.h"
#include "errors.h"
#include "interruptibly.h"
#include "module.h"
#include "objects.h"
#include "place.h"

namespace heddle::python {
namespace {

using namespace nb::literals;
using Texts = std::map<std::string, std::string>;
using Arrays = std::map<std::string, NDArray>;

std::string path_of(nb::handle path) {
  const nb::object text = nb::module_::import_("os").attr("fspath")(path);
  return nb::cast<std::string>(text);
}

void save(nb::handle path, const Arrays& arrays, const Texts& metadata, bool checksums) {
  interruptibly([file = path_of(path), arrays, metadata, checksums, where = python_place()] {
    save_safetensors(file, {arrays, metadata}, {.checksums = checksums}, where);
  });
}

Device device_of(nb::handle device) { return device.is_none() ? cpu() : to_device(device); }

Arrays load(nb::handle path, nb::handle device) {
  default_engine_is_used();
  return interruptibly([file = path_of(path), on = device_of(device), where = python_place()] {
    return load_safetensors(file, on, where).arrays;
  });
}

void save_array(nb::handle path, nb::handle object) {
  const Where where = python_place();
  interruptibly([file = path_of(path), array = to_array(object, std::nullopt, where), where] {
    save_npy(file, array, where);
  });
}

nb::object load_array(nb::handle path, nb::handle device) {
  default_engine_is_used();
  return wrap(interruptibly([file = path_of(path), on = device_of(device), where = python_place()] {
    return load_npy(file, on, where);
  }));
}

nb::object map_array(nb::handle path) {
  default_engine_is_used();
  return wrap(interruptibly([file = path_of(path), where = python_place()] { return map_npy(file, where); }));
}

Arrays map_arrays(nb::handle path) {
  default_engine_is_used();
  return interruptibly(
      [file = path_of(path), where = python_place()] { return map_safetensors(file, where).arrays; });
}

void save_arrays_npz(nb::handle path, const Arrays& arrays, bool compressed) {
  interruptibly([file = path_of(path), arrays, compressed, where = python_place()] {
    save_npz(file, arrays, {.compressed = compressed}, where);
  });
}

Arrays load_arrays_npz(nb::handle path, nb::handle device) {
  default_engine_is_used();
  return interruptibly([file = path_of(path), on = device_of(device), where = python_place()] {
    return load_npz(file, on, where);
  });
}

char one_character(const std::string& text, const char* name) {
  if (text.size() != 1)
    throw InvalidArgument(std::string("load_csv: ") + name + " is '" + text +
                          "'; wanted one character of ASCII");
  return text[0];
}

nb::object load_table(nb::handle path, const std::string& delimiter, int skip_lines,
                      const std::string& comment, nb::handle dtype, const std::vector<int>& columns,
                      nb::handle device) {
  default_engine_is_used();
  const CsvOptions options{one_character(delimiter, "delimiter"), skip_lines,
                           comment.empty() ? '\0' : one_character(comment, "comment"),
                           dtype.is_none() ? DType::f64 : to_dtype(dtype), columns};
  return wrap(interruptibly([file = path_of(path), options, on = device_of(device), where = python_place()] {
    return load_csv(file, options, on, where);
  }));
}

void save_table(nb::handle path, nb::handle object, const std::string& delimiter, const std::string& header,
                int precision) {
  const Where where = python_place();
  const CsvWriteOptions options{one_character(delimiter, "delimiter"), header, precision};
  interruptibly([file = path_of(path), array = to_array(object, std::nullopt, where), options, where] {
    save_csv(file, array, options, where);
  });
}

// A checkpoint with all that it points to, and the locks of these in one order.
struct OwnedCheckpoint {
  Checkpoint checkpoint;
  std::shared_ptr<Trainer> trainer;
  std::vector<std::shared_ptr<Generator>> generators;
  std::set<std::shared_ptr<ObjectMutex>> mutexes;

  OwnedCheckpoint(const std::vector<Parameter>& parameters, const PythonTrainer* its_trainer,
                  nb::dict its_generators, nb::dict counters)
      : checkpoint{.parameters = parameters} {
    if (its_trainer) {
      trainer = its_trainer->object();
      checkpoint.trainer = trainer.get();
      mutexes.insert(its_trainer->mutex());
    }
    for (auto [name, object] : its_generators) {
      const auto& generator = nb::cast<const PythonGenerator&>(object);
      generators.push_back(generator.object());
      checkpoint.generators[nb::cast<std::string>(name)] = generator.object().get();
      mutexes.insert(generator.mutex());
    }
    for (auto [name, value] : counters)
      checkpoint.counters[nb::cast<std::string>(name)] = nb::cast<std::int64_t>(value);
  }
  std::vector<std::unique_lock<ObjectMutex>> lock() const {
    std::vector<std::unique_lock<ObjectMutex>> locks;
    for (const std::shared_ptr<ObjectMutex>& mutex : mutexes) locks.emplace_back(*mutex);
    return locks;
  }
};

void write_checkpoint(nb::handle path, const std::vector<Parameter>& parameters, const PythonTrainer* trainer,
                      nb::dict generators, nb::dict counters, const Arrays& arrays, const Texts& notes) {
  auto owned = std::make_shared<OwnedCheckpoint>(parameters, trainer, generators, counters);
  owned->checkpoint.arrays = arrays;
  owned->checkpoint.notes = notes;
  interruptibly([file = path_of(path), owned, where = python_place()] {
    const auto locks = owned->lock();
    save_checkpoint(file, owned->checkpoint, where);
  });
}

// Fills the parameters, the trainer, the generators and the dict of counters in place; returns arrays and notes.
nb::tuple read_checkpoint(nb::handle path, const std::vector<Parameter>& parameters,
                          const PythonTrainer* trainer, nb::dict generators, nb::dict counters) {
  auto owned = std::make_shared<OwnedCheckpoint>(parameters, trainer, generators, counters);
  interruptibly([file = path_of(path), owned, where = python_place()] {
    const auto locks = owned->lock();
    load_checkpoint(file, owned->checkpoint, where);
  });
  for (const auto& [name, value] : owned->checkpoint.counters) counters[name.c_str()] = value;
  return nb::make_tuple(owned->checkpoint.arrays, owned->checkpoint.notes);
}

void write_residuals(nb::handle path, const PythonTrainer& trainer) {
  trainer.call_interruptibly(
      [file = path_of(path), where = python_place()](Trainer& of) { save_residuals(file, of, where); });
}

}  // namespace

void bind_files(nb::module_& m) {
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
        return interruptibly([file = path_of(path)] { return load_safetensors_metadata(file); });
      },
      "path"_a, nb::sig("def load_safetensors_metadata(path: str | os.PathLike[str]) -> dict[str, str]"));
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
        nb::sig("def load_checkpoint(path: str | os.PathLike[str], parameters: Sequence[Parameter] = ..., "
                "trainer: Trainer | "
                "None = None, generators: dict[str, Generator] = ..., counters: dict[str, int] = ...) -> "
                "tuple[dict[str, "
                "NDArray], dict[str, str]]"),
        "Fills parameters, trainer, generators and the dict of counters in place; returns the arrays and the "
        "notes.");
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
