// Receives the lists of rows of a worker's pulls, which come in pieces.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "wire/rows.h"

namespace heddle::kv_detail {

using RowList = std::shared_ptr<const std::vector<std::int64_t>>;

inline std::uint64_t bytes_of(const RowList& list) { return list ? list->size() * kRowNumberBytes : 0; }

class RowLists {
 public:
  // Memory for a piece of a pull's list, which row_problem() has accepted. Throws MalformedMessage for a
  // piece that is not the next one.
  std::span<std::byte> memory_for(const Request& request, std::size_t piece);
  // Called when a piece has been received. Returns the list if it is complete. Null: it is not, or is
  // unknown.
  RowList arrived(const Request& request, std::size_t piece, std::uint64_t bound);
  std::uint64_t bytes() const { return bytes_; }
  void clear() { lists_.clear(), bytes_ = 0; }

 private:
  struct List {
    std::shared_ptr<std::vector<std::int64_t>> rows;
    std::uint64_t filled = 0;
  };
  std::map<std::uint64_t, List> lists_;  // lists that are being received, by Request::number of the pull
  std::uint64_t bytes_ = 0;
};

}  // namespace heddle::kv_detail
