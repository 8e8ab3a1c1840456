// The safetensors format: named arrays and text in one file (https://github.com/huggingface/safetensors).
#pragma once

#include <map>
#include <string>

#include <heddle/ndarray.h>

namespace heddle {

struct Safetensors {
  std::map<std::string, NDArray> arrays;
  std::map<std::string, std::string> metadata;  // UTF-8
};

// How to save. A file with checksums (CRC-32 of each array and of the header, stored as metadata, which
// loading removes) is checked when it is loaded. Other programs can read it, but must not write another file
// with these metadata.
struct SafetensorsOptions {
  bool checksums = false;
};

// Blocks. The same content gives the same bytes. One op reads all arrays, which belong to one engine, so that
// it sees no change that other threads push meanwhile (arrays that are not contiguous are copied just
// before). Writes a temporary file beside `path`, syncs and renames it: a crash leaves the old file or the
// new one, and perhaps a temporary one, which the next save to `path` removes. Throws Error with the path and
// the system's message, and rethrows the error that poisons an array.
void save_safetensors(const std::string& path, const Safetensors& content, SafetensorsOptions options = {},
                      Where where = Where::current());

// Throws Error naming the file and what is wrong with it, such as the array that does not match its checksum. Checks
// every length in the file.
Safetensors load_safetensors(const std::string& path, Device device = cpu(), Where where = Where::current());

// The arrays on the file's own pages, which the system reads when an op touches them, on the current engine's
// cpu(0). Nothing is copied but arrays out of alignment; changes stay in this process. Checksums of arrays
// are not checked. The file must not be truncated meanwhile, which would kill the process.
Safetensors map_safetensors(const std::string& path, Where where = Where::current());

// Only the metadata of the file: reads no array and needs no engine.
std::map<std::string, std::string> load_safetensors_metadata(const std::string& path,
                                                             Where where = Where::current());

}  // namespace heddle
