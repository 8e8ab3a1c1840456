// What a worker knows of a key whose value is on servers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include <heddle/compression.h>
#include <heddle/ndarray.h>

namespace heddle {

// The elements of a key that one server has.
struct StoreKeyPart {
  static constexpr std::uint32_t kNone = ~0u;
  std::size_t server = 0;
  std::size_t offset = 0, bytes = 0;
  std::size_t sent_offset = 0, sent_bytes = 0;  // of a push: the same, if it is not compressed
  // Of the key on that server. This and `clock` belong to the op that mutates the key's var.
  std::uint32_t number = kNone;
  std::uint64_t clock = 0;  // pushes that the server has acknowledged
  std::uint32_t pulled =
      0;  // compressed: the number of the value that StoreKey::pulled has. Of that array's ops
};

struct StoreKey {
  std::string name;
  Shape shape;
  DType dtype;
  std::size_t row_bytes = 0;  // 0: it has no rows
  std::int32_t priority;
  Var var;
  std::vector<StoreKeyPart> parts;
  std::shared_ptr<const Codec> codec{};  // of pushes; null: they are as they are
  NDArray residual{};  // f32, like the value: what compressed pushes have left out. Changed by their ops
  std::shared_ptr<const Codec> pull_codec{};  // null: values are pulled as they are
  NDArray pulled{};                           // f32: what servers have sent
  std::uint64_t bundle = 0;                   // the number of the last one that it is in
  bool is_known() const {                     // by its servers
    return std::all_of(parts.begin(), parts.end(),
                       [](const StoreKeyPart& part) { return part.number != StoreKeyPart::kNone; });
  }
  bool has_whole_rows() const {  // in each part
    return row_bytes > 0 && std::all_of(parts.begin(), parts.end(), [this](const StoreKeyPart& part) {
             return part.offset % row_bytes == 0 && part.bytes % row_bytes == 0;
           });
  }
  std::size_t bytes() const { return static_cast<std::size_t>(element_count(shape)) * size_of(dtype); }
};

}  // namespace heddle
