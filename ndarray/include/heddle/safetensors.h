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

// How to save. A file with checksums (CRC-32 of each array and of the header, as metadata that loading takes out again)
// is checked when it is loaded; other programs read it like any other, but must not write it anew with these metadata.
struct SafetensorsOptions {
  bool checksums = false;
};

// Blocks. The same content gives the same bytes. The arrays, all of one engine, are read at one point between ops
// (what is not contiguous, just before), even if other threads go on pushing ops that change them. Writes a temporary
// file beside `path`, syncs and renames it, so that a crash leaves the old file or the new one. Throws Error with the
// path and the system's words, and rethrows what poisons an array.
void save_safetensors(const std::string& path, const Safetensors& content, SafetensorsOptions options = {},
                      Where where = Where::current());

// Throws Error naming the file and what is wrong with it, the array that does not match its checksum among that; never
// trusts a length in it.
Safetensors load_safetensors(const std::string& path, Device device = cpu(), Where where = Where::current());

// Its text alone: reads no array, makes none, and needs no engine.
std::map<std::string, std::string> load_safetensors_metadata(const std::string& path);

}  // namespace heddle
