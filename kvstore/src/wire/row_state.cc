#include "wire/row_state.h"

#include <cstring>

#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

NDArray whole_array(const NDArray& of_rows, std::span<const std::int64_t> numbers, std::int64_t rows,
                    std::int64_t elements) {
  if (of_rows.size() != std::ssize(numbers) * elements)
    throw MalformedMessage("state of " + std::to_string(of_rows.size()) + " elements for " +
                           std::to_string(numbers.size()) + " rows");
  const NDArray whole = zeros({rows * elements}, of_rows.dtype());
  whole.wait();
  of_rows.wait();
  const std::size_t bytes = static_cast<std::size_t>(elements) * size_of(of_rows.dtype());
  const auto* from = of_rows.data<const std::byte>();
  auto* const to = whole.data<std::byte>();
  for (const std::int64_t row : numbers) {
    std::memcpy(to + static_cast<std::size_t>(row) * bytes, from, bytes);
    from += bytes;
  }
  return whole;
}

}  // namespace

StateArrays whole_state(const StateArrays& state, std::int64_t rows) {
  const auto list = state.find("rows"), width = state.find("width");
  if (list == state.end() || width == state.end()) return state;
  if (list->second.dtype() != DType::i64 || width->second.dtype() != DType::i64 || width->second.size() != 1)
    throw MalformedMessage("state of rows without numbers of them");
  list->second.wait();
  const std::span numbers(list->second.data<const std::int64_t>(),
                          static_cast<std::size_t>(list->second.size()));
  check_row_list(numbers, static_cast<std::uint64_t>(rows));
  StateArrays all;
  for (const auto& [name, array] : state) {
    if (name == "rows" || name == "width") continue;
    const std::int64_t elements = name == "row_updates" ? 1 : width->second.item<std::int64_t>();
    all[name] = name == "updates" ? array : whole_array(array, numbers, rows, elements);
  }
  return all;
}

}  // namespace heddle::kv_detail
