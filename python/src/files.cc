// Safetensors files and checkpoints.
#include <map>
#include <string>
#include <vector>

#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <heddle/checkpoint.h>
#include <heddle/safetensors.h>

#include "array.h"
#include "errors.h"
#include "module.h"
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
  const std::string file = path_of(path);
  const Where where = python_place();
  const ReleaseGil released;
  save_safetensors(file, {arrays, metadata}, {.checksums = checksums}, where);
}

Arrays load(nb::handle path, nb::handle device) {
  const std::string file = path_of(path);
  const Device on = device.is_none() ? cpu() : to_device(device);
  const Where where = python_place();
  const ReleaseGil released;
  return load_safetensors(file, on, where).arrays;
}

Checkpoint checkpoint_of(const std::vector<Parameter>& parameters, Trainer* trainer, nb::dict generators,
                         nb::dict counters) {
  Checkpoint checkpoint{.parameters = parameters, .trainer = trainer};
  for (auto [name, generator] : generators) {
    checkpoint.generators[nb::cast<std::string>(name)] = nb::cast<Generator*>(generator);
  }
  for (auto [name, value] : counters)
    checkpoint.counters[nb::cast<std::string>(name)] = nb::cast<std::int64_t>(value);
  return checkpoint;
}

void write_checkpoint(nb::handle path, const std::vector<Parameter>& parameters, Trainer* trainer,
                      nb::dict generators, nb::dict counters, const Arrays& arrays, const Texts& notes) {
  const std::string file = path_of(path);
  Checkpoint checkpoint = checkpoint_of(parameters, trainer, generators, counters);
  checkpoint.arrays = arrays;
  checkpoint.notes = notes;
  const Where where = python_place();
  const ReleaseGil released;
  save_checkpoint(file, checkpoint, where);
}

// Fills the parameters, the trainer, the generators and the dict of counters in place; returns arrays and notes.
nb::tuple read_checkpoint(nb::handle path, const std::vector<Parameter>& parameters, Trainer* trainer,
                          nb::dict generators, nb::dict counters) {
  const std::string file = path_of(path);
  Checkpoint checkpoint = checkpoint_of(parameters, trainer, generators, counters);
  const Where where = python_place();
  {
    const ReleaseGil released;
    load_checkpoint(file, checkpoint, where);
  }
  for (const auto& [name, value] : checkpoint.counters) counters[name.c_str()] = value;
  return nb::make_tuple(checkpoint.arrays, checkpoint.notes);
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
      "load_safetensors_metadata", [](nb::handle path) { return load_safetensors_metadata(path_of(path)); },
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
}

}  // namespace heddle::python
