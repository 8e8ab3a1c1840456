// A worker's record of a key whose value is on servers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <heddle/compression.h>
#include <heddle/ndarray.h>

namespace heddle {

// The part of a key's value that one server keeps.
struct ClientKeyPart {
  static constexpr std::uint32_t kNone = ~0u;
  std::size_t server = 0;
  std::size_t offset = 0, bytes = 0;
  // Offset and size of this part in the bytes that a push of the key sends, which may be compressed.
  std::size_t sent_offset = 0, sent_bytes = 0;
  // The key's number on `server`; kNone: not known yet. Only ops that mutate ClientKey::var change `number`
  // and `clock`.
  std::uint32_t number = kNone;
  std::uint64_t clock = 0;  // number of pushes of the key that the server has acknowledged
  // The version of this part's value that ClientKey::pulled holds; 0: none. Only ops that mutate that array
  // change it.
  std::uint32_t pulled = 0;
};

struct ClientKey {
  std::string name;
  Shape shape;
  DType dtype;
  std::size_t row_bytes = 0;  // bytes of a row; 0: the value has no rows
  std::int32_t priority;
  Var var;
  std::vector<ClientKeyPart> parts;
  std::shared_ptr<const Codec> codec{};       // codec of pushes; null: not compressed
  NDArray residual{};                         // f32 of shape `shape`: what compressed pushes have left out
  std::shared_ptr<const Codec> pull_codec{};  // codec of pulls; null: not compressed
  NDArray pulled{};                           // f32: the value as compressed pulls have received it
  std::uint64_t bundle = 0;                   // number of the last bundle that this key was added to
  bool is_known() const {                     // whether all servers of the key have answered its init
    return std::all_of(parts.begin(), parts.end(),
                       [](const ClientKeyPart& part) { return part.number != ClientKeyPart::kNone; });
  }
  bool has_whole_rows() const {  // whether no part begins or ends within a row
    return row_bytes > 0 && std::all_of(parts.begin(), parts.end(), [this](const ClientKeyPart& part) {
             return part.offset % row_bytes == 0 && part.bytes % row_bytes == 0;
           });
  }
  std::size_t bytes() const { return static_cast<std::size_t>(element_count(shape)) * size_of(dtype); }
};

}  // namespace heddle
