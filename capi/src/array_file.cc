#include <heddle/c/array_file.h>
#include <heddle/csv.h>
#include <heddle/default_engine.h>
#include <heddle/npy.h>
#include <heddle/npz.h>
#include <heddle/safetensors.h>

#include "archive.h"
#include "c/wait.h"
#include "new_array.h"

using namespace heddle;
using namespace heddle::c;

namespace heddle::c {

ArchiveContent::ArchiveContent(const heddle_archive* archive, const char* call) {
  const HandleAccess<heddle_archive> of(archive, call);
  const std::lock_guard guard((*of)->mutex);
  for (const auto& [name, value] : (*of)->arrays) {
    engines.push_back(value.engine.lock(call));
    arrays.emplace(name, value.array);
  }
  texts.insert((*of)->texts.begin(), (*of)->texts.end());
}

const std::map<std::string, NDArray>& ArchiveContent::of_engine(const Engine& engine,
                                                                const char* call) const {
  for (const auto& [name, array] : arrays) check_engine(array.engine(), engine, call);
  return arrays;
}

LinkedArrays linked(const std::map<std::string, NDArray>& arrays, const std::shared_ptr<Engine>& engine) {
  const EngineLink link(engine);
  LinkedArrays all;
  for (const auto& [name, array] : arrays) all.emplace(name, LinkedArray{array, link});
  return all;
}

heddle_archive* new_archive(LinkedArrays arrays) {
  auto archive = std::make_shared<Archive>();
  archive->arrays = std::move(arrays);
  return make_handle<heddle_archive>(std::move(archive));
}

}  // namespace heddle::c

namespace {

template <class Map> const char* name_at(const Map& map, std::size_t index, const char* call) {
  if (index >= map.size())
    throw InvalidArgument(std::string(call) + ": index " + std::to_string(index) + " of " +
                          std::to_string(map.size()) + " names");
  return std::next(map.begin(), static_cast<std::ptrdiff_t>(index))->first.c_str();
}

template <class Map> auto& value_of(Map& map, const char* name, const char* call) {
  const auto found = map.find(text_of(name, call, "name"));
  if (found == map.end()) throw InvalidArgument(std::string(call) + ": there is no '" + name + "'");
  return found->second;
}

void check_first_cpu(const NewArray& place, const char* call) {
  if (place.device() == cpu()) return;
  throw InvalidArgument(std::string(call) + ": device " + place.device().to_string() + "; wanted cpu(0)");
}

heddle_archive* archive_of(const std::map<std::string, NDArray>& arrays,
                           const std::map<std::string, std::string>& texts, const NewArray& place) {
  auto loaded = std::make_shared<Archive>();
  loaded->arrays = linked(arrays, place.shared_engine());
  loaded->texts.insert(texts.begin(), texts.end());
  return make_handle<heddle_archive>(std::move(loaded));
}

}  // namespace

heddle_status heddle_npy_save(const char* path, const heddle_array* array, heddle_error** error) {
  return called(error, [&] {
    const std::string file = text_of(path, "heddle_npy_save", "path");
    const UsedArray of(array, "heddle_npy_save");
    c::wait(of.engine(), of->array.var(), "heddle_npy_save");
    save_npy(file, of->array);
  });
}

heddle_status heddle_npy_load(const char* path, const heddle_array_options* options, heddle_array** array,
                              heddle_error** error) {
  return called(error, [&] {
    const std::string file = text_of(path, "heddle_npy_load", "path");
    const NewArray place(options, "heddle_npy_load");
    check_out(array, "heddle_npy_load", "array");
    const EngineScope scope(place.engine());
    *array = new_handle(load_npy(file, place.device()), place.link());
  });
}

heddle_status heddle_npy_map(const char* path, const heddle_array_options* options, heddle_array** array,
                             heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_npy_map";
    const std::string file = text_of(path, kCall, "path");
    const NewArray place(options, kCall);
    check_out(array, kCall, "array");
    check_first_cpu(place, kCall);
    const EngineScope scope(place.engine());
    *array = new_handle(map_npy(file), place.link());
  });
}

heddle_status heddle_csv_load(const char* path, char delimiter, int32_t skip_lines,
                              const heddle_array_options* options, heddle_array** array,
                              heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_csv_load";
    const std::string file = text_of(path, kCall, "path");
    const NewArray place(options, kCall);
    check_out(array, kCall, "array");
    const EngineScope scope(place.engine());
    const CsvOptions wanted{.delimiter = delimiter, .skip_lines = skip_lines, .dtype = place.dtype()};
    *array = new_handle(load_csv(file, wanted, place.device()), place.link());
  });
}

heddle_status heddle_csv_save(const char* path, const heddle_array* array, char delimiter, const char* header,
                              heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_csv_save";
    const std::string file = text_of(path, kCall, "path");
    const UsedArray of(array, kCall);
    c::wait(of.engine(), of->array.var(), kCall);
    save_csv(file, of->array, {.delimiter = delimiter, .header = header ? header : ""});
  });
}

heddle_status heddle_archive_create(heddle_archive** archive, heddle_error** error) {
  return called(error, [&] {
    check_out(archive, "heddle_archive_create", "archive");
    *archive = make_handle<heddle_archive>(std::make_shared<Archive>());
  });
}

heddle_status heddle_archive_destroy(heddle_archive* archive) {
  return guarded(nullptr, [&] {
    if (archive) take(archive, "heddle_archive_destroy");
  });
}

heddle_status heddle_archive_set(heddle_archive* archive, const char* name, const heddle_array* array,
                                 heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_archive_set";
    const HandleAccess<heddle_archive> to(archive, kCall);
    const std::string key = text_of(name, kCall, "name");
    const UsedArray of(array, kCall);
    const LinkedArray value{of->array.detach(), of->engine};
    const std::lock_guard guard((*to)->mutex);
    (*to)->arrays.insert_or_assign(key, value);
  });
}

heddle_status heddle_archive_set_text(heddle_archive* archive, const char* name, const char* text,
                                      heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_archive_set_text";
    const HandleAccess<heddle_archive> to(archive, kCall);
    const std::string key = text_of(name, kCall, "name"), value = text_of(text, kCall, "text");
    const std::lock_guard guard((*to)->mutex);
    (*to)->texts.insert_or_assign(key, value);
  });
}

heddle_status heddle_archive_size(const heddle_archive* archive, size_t* arrays, size_t* texts,
                                  heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_archive> of(archive, "heddle_archive_size");
    check_out(arrays, "heddle_archive_size", "arrays");
    check_out(texts, "heddle_archive_size", "texts");
    const std::lock_guard guard((*of)->mutex);
    *arrays = (*of)->arrays.size();
    *texts = (*of)->texts.size();
  });
}

heddle_status heddle_archive_name(const heddle_archive* archive, size_t index, const char** name,
                                  heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_archive> of(archive, "heddle_archive_name");
    check_out(name, "heddle_archive_name", "name");
    const std::lock_guard guard((*of)->mutex);
    *name = name_at((*of)->arrays, index, "heddle_archive_name");
  });
}

heddle_status heddle_archive_text_name(const heddle_archive* archive, size_t index, const char** name,
                                       heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_archive> of(archive, "heddle_archive_text_name");
    check_out(name, "heddle_archive_text_name", "name");
    const std::lock_guard guard((*of)->mutex);
    *name = name_at((*of)->texts, index, "heddle_archive_text_name");
  });
}

heddle_status heddle_archive_get(const heddle_archive* archive, const char* name, heddle_array** array,
                                 heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_archive> of(archive, "heddle_archive_get");
    check_out(array, "heddle_archive_get", "array");
    const std::lock_guard guard((*of)->mutex);
    *array = make_handle<heddle_array>(value_of((*of)->arrays, name, "heddle_archive_get"));
  });
}

heddle_status heddle_archive_text(const heddle_archive* archive, const char* name, const char** text,
                                  heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_archive> of(archive, "heddle_archive_text");
    check_out(text, "heddle_archive_text", "text");
    const std::lock_guard guard((*of)->mutex);
    *text = value_of((*of)->texts, name, "heddle_archive_text").c_str();
  });
}

heddle_status heddle_archive_save(const heddle_archive* archive, const char* path, int32_t checksums,
                                  heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_archive_save";
    const ArchiveContent content(archive, kCall);
    const std::string file = text_of(path, kCall, "path");
    save_safetensors(file, {content.arrays, content.texts}, {.checksums = checksums != 0});
  });
}

heddle_status heddle_archive_load(const char* path, const heddle_array_options* options,
                                  heddle_archive** archive, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_archive_load";
    const std::string file = text_of(path, kCall, "path");
    const NewArray place(options, kCall);
    check_out(archive, kCall, "archive");
    const EngineScope scope(place.engine());
    const Safetensors content = load_safetensors(file, place.device());
    *archive = archive_of(content.arrays, content.metadata, place);
  });
}

heddle_status heddle_archive_map(const char* path, const heddle_array_options* options,
                                 heddle_archive** archive, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_archive_map";
    const std::string file = text_of(path, kCall, "path");
    const NewArray place(options, kCall);
    check_out(archive, kCall, "archive");
    check_first_cpu(place, kCall);
    const EngineScope scope(place.engine());
    const Safetensors content = map_safetensors(file);
    *archive = archive_of(content.arrays, content.metadata, place);
  });
}

heddle_status heddle_archive_save_npz(const heddle_archive* archive, const char* path, int32_t compressed,
                                      heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_archive_save_npz";
    const ArchiveContent content(archive, kCall);
    const std::string file = text_of(path, kCall, "path");
    if (!content.texts.empty())
      throw InvalidArgument(std::string(kCall) + ": the archive has texts, which npz files have not");
    save_npz(file, content.arrays, {.compressed = compressed != 0});
  });
}

heddle_status heddle_archive_load_npz(const char* path, const heddle_array_options* options,
                                      heddle_archive** archive, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_archive_load_npz";
    const std::string file = text_of(path, kCall, "path");
    const NewArray place(options, kCall);
    check_out(archive, kCall, "archive");
    const EngineScope scope(place.engine());
    *archive = archive_of(load_npz(file, place.device()), {}, place);
  });
}
