#include "server/key/row_lists.h"

#include <utility>

namespace heddle::kv_detail {
namespace {

constexpr std::size_t kMostLists = 1024;  // most lists of a worker that may be incomplete at once

}  // namespace

std::span<std::byte> RowLists::memory_for(const Request& request, std::size_t piece) {
  if (request.offset == 0) {
    if (lists_.size() >= kMostLists) throw MalformedMessage("too many lists of rows at once");
    List& list = lists_[request.number];
    bytes_ -= bytes_of(list.rows);
    list = {};
    list = {std::make_shared<std::vector<std::int64_t>>(row_count(request)), 0};
    bytes_ += bytes_of(list.rows);
  }
  const auto found = lists_.find(request.number);
  if (found == lists_.end()) return {};
  const List& list = found->second;
  if (request.offset != list.filled || request.bytes != list.rows->size() * kRowNumberBytes)
    throw MalformedMessage("pieces of a list of rows in disorder");
  return std::as_writable_bytes(std::span(*list.rows)).subspan(request.offset, piece);
}

RowList RowLists::arrived(const Request& request, std::size_t piece, std::uint64_t bound) {
  if (request.bytes == 0) return std::make_shared<const std::vector<std::int64_t>>();
  const auto found = lists_.find(request.number);
  if (found == lists_.end()) return nullptr;
  if (request.offset != found->second.filled) throw MalformedMessage("pieces of a list of rows in disorder");
  found->second.filled += piece;
  if (found->second.filled < request.bytes) return nullptr;
  const auto rows = std::move(lists_.extract(found).mapped().rows);
  bytes_ -= bytes_of(rows);
  check_row_list(*rows, bound);
  return rows;
}

}  // namespace heddle::kv_detail
