#include "snapshot/split_key.h"

#include <algorithm>
#include <numeric>
#include <set>
#include <string>

#include "wire/rows.h"

namespace heddle::kv_detail {
namespace {

constexpr const char *kRows = "rows", *kWidth = "width", *kUpdates = "updates";

class Splitter {
 public:
  Splitter(const MergedKey& key, const ByteRange& range, const SnapshotReaders& from)
      : key_(key), range_(range), from_(from) {
    for (const MergedKey::Part& part : key.parts) {
      if (part.offset < range.second && range.first < part.offset + part.bytes()) parts_.push_back(&part);
    }
    if (parts_.empty()) parts_.push_back(&key.parts.front());
  }

  std::vector<NewArray> all() const {
    std::vector<NewArray> result;
    for (std::size_t i = 0; i < first().arrays.size(); ++i) {
      const StateArray& array = first().arrays[i]->array;
      if (!array.has_value) {
        result.push_back({array});
      } else if (array.row_bytes > 0) {
        result.push_back(push_of_rows(i));
      } else {
        result.push_back(cut(array, [i](const MergedKey::Part& part) { return part.arrays[i]; }));
      }
    }
    const bool of_rows = std::any_of(key_.parts.begin(), key_.parts.end(),
                                     [](const auto& part) { return part.state.contains(kRows); });
    if (of_rows) {
      add_state_of_rows(result);
    } else {
      add_state(result);
    }
    return result;
  }

 private:
  // The rows of `part` that lie in the range. They have the indices [first, last) in the part's list of
  // `count` rows.
  struct Selected {
    const MergedKey::Part* part;
    std::uint64_t first = 0, last = 0, count = 0;
  };

  [[noreturn]] void fail(const std::string& why) const { throw Error("key " + key_.key.name + ": " + why); }
  const MergedKey::Part& first() const { return key_.parts.front(); }

  // Adds the arrays of state of a whole value. The array "updates" is not cut, since all parts have the same
  // one.
  void add_state(std::vector<NewArray>& result) const {
    for (const auto& [name, index] : first().state) {
      result.push_back(name == kUpdates ? whole(*index, first().server)
                                        : cut(index->array, [&name = name](const MergedKey::Part& part) {
                                            return part.state.at(name);
                                          }));
    }
  }

  static NewArray whole(const ArrayIndex& index, std::size_t server) {
    return {.array = index.array, .rest = {{server, &index, 0, index.array.bytes}}};
  }

  // Cuts an array that is split over the parts in proportion to the value. find(part) is the array of a part.
  template <class Find> NewArray cut(const StateArray& array, const Find& find) const {
    if (key_.parts.size() == 1 && range_.second - range_.first == key_.key.bytes)
      return whole(*find(first()), first().server);
    const std::uint64_t bytes = array.bytes, of = first().bytes(), common = std::gcd(bytes, of);
    const auto scaled = [&](std::uint64_t at) {
      if (bytes == 0 || at == 0) return std::uint64_t{0};
      const std::uint64_t unit = of / common, result = at / unit * (bytes / common);
      if (at % unit != 0 || result % size_of(array.dtype) != 0) fail_cut();
      return result;
    };
    const std::uint64_t begin = scaled(range_.first), end = scaled(range_.second);
    NewArray result{.array = array};
    result.array.bytes = end - begin;
    for (const MergedKey::Part* part : parts_) {
      const ArrayIndex* const index = find(*part);
      const std::uint64_t offset = scaled(part->offset);
      if (index->array.bytes != scaled(part->offset + part->bytes()) - offset)
        fail("its parts' arrays '" + array.name + "' are not split as it is");
      result.rest.push_back({part->server, index, std::max(begin, offset) - offset,
                             std::min(end, offset + index->array.bytes) - offset});
    }
    return result;
  }

  [[noreturn]] void fail_cut() const {
    fail(
        "the new servers' parts of it would cut rows of which there is an optimizer's state, or a push that "
        "waits: "
        "it can be restored for as many servers as there were, or for fewer");
  }

  void check_cut(std::uint64_t row_bytes) const {
    if (row_bytes == 0 || range_.first % row_bytes != 0 || range_.second % row_bytes != 0) fail_cut();
  }

  std::vector<std::int64_t> read_numbers(const MergedKey::Part& part, const ArrayIndex& index,
                                         std::uint64_t count, std::uint64_t row_bytes) const {
    if (count > index.array.bytes / kRowNumberBytes) fail("it has more rows than numbers of rows");
    std::vector<std::int64_t> numbers(count);
    read_array(*from_[part.server], index, 0, std::as_writable_bytes(std::span(numbers)));
    if (row_bytes > 0) check_row_list(numbers, part.bytes() / row_bytes);
    return numbers;
  }

  // Selects the rows of the part that lie in the range, and appends the numbers that they have in the new
  // part to `to`.
  Selected select(const MergedKey::Part& part, const std::vector<std::int64_t>& numbers,
                  std::uint64_t row_bytes, NewArray& to) const {
    const auto offset = static_cast<std::int64_t>(part.offset / row_bytes),
               begin = static_cast<std::int64_t>(range_.first / row_bytes),
               end = static_cast<std::int64_t>(range_.second / row_bytes);
    const auto from = std::lower_bound(numbers.begin(), numbers.end(), begin - offset);
    const auto until = std::lower_bound(from, numbers.end(), end - offset);
    for (auto number = from; number != until; ++number) {
      const std::int64_t mine = *number + offset - begin;
      const auto bytes = std::as_bytes(std::span(&mine, 1));
      to.first.insert(to.first.end(), bytes.begin(), bytes.end());
    }
    return {&part, static_cast<std::uint64_t>(from - numbers.begin()),
            static_cast<std::uint64_t>(until - numbers.begin()), numbers.size()};
  }

  // Array `i`, a push of rows: the numbers of its rows in the range, followed by their values.
  NewArray push_of_rows(std::size_t i) const {
    const std::uint64_t row_bytes = first().arrays[i]->array.row_bytes;
    check_cut(row_bytes);
    NewArray result{.array = first().arrays[i]->array};
    for (const MergedKey::Part* part : parts_) {
      const ArrayIndex& index = *part->arrays[i];
      if (index.array.row_bytes != row_bytes) fail("its parts have pushes of different rows");
      const std::uint64_t count = index.array.bytes / (kRowNumberBytes + row_bytes),
                          values = count * kRowNumberBytes;
      const Selected rows = select(*part, read_numbers(*part, index, count, row_bytes), row_bytes, result);
      result.rest.push_back(
          {part->server, &index, values + rows.first * row_bytes, values + rows.last * row_bytes});
    }
    set_bytes(result);
    return result;
  }

  static void set_bytes(NewArray& made) {
    made.array.bytes = made.first.size();
    for (const ArraySlice& one : made.rest) made.array.bytes += one.end - one.begin;
  }

  // Finds the array with the number of elements of a row, which must be the same in all parts.
  const ArrayIndex& width(std::uint64_t& elements, std::size_t& server) const {
    const ArrayIndex* found = nullptr;
    for (const MergedKey::Part& part : key_.parts) {
      const auto mine = part.state.find(kWidth);
      if (mine == part.state.end()) continue;
      const auto number = static_cast<std::uint64_t>(read_numbers(part, *mine->second, 1, 0)[0]);
      if (found && number != elements) fail("its parts have rows of different lengths");
      found = mine->second, elements = number, server = part.server;
    }
    if (!found || elements == 0 || elements > key_.key.bytes) fail("its rows have no length");
    return *found;
  }

  // Adds the arrays of state of rows. A part with state of a whole value counts as one with state of all its
  // rows.
  void add_state_of_rows(std::vector<NewArray>& result) const {
    std::uint64_t elements = 0;
    std::size_t server = 0;
    const ArrayIndex& width_index = width(elements, server);
    const std::uint64_t row_bytes = elements * size_of(key_.key.dtype);
    check_cut(row_bytes);
    NewArray list{.array = {.role = StateArray::Role::optimizer, .dtype = DType::i64, .name = kRows}};
    std::vector<Selected> selected;
    for (const MergedKey::Part* part : parts_) {
      const auto rows = part->state.find(kRows);
      std::vector<std::int64_t> numbers(rows == part->state.end() ? part->bytes() / row_bytes : 0);
      std::iota(numbers.begin(), numbers.end(), 0);
      if (rows != part->state.end())
        numbers = read_numbers(*part, *rows->second, rows->second->array.bytes / kRowNumberBytes, row_bytes);
      selected.push_back(select(*part, numbers, row_bytes, list));
    }
    set_bytes(list);
    result.push_back(std::move(list));
    result.push_back(whole(width_index, server));
    for (const auto& [name, index] : first().state) {
      if (name == kUpdates) result.push_back(whole(*index, first().server));
      if (name != kUpdates && name != kRows && name != kWidth)
        result.push_back(column(name, index->array, selected));
    }
  }

  NewArray column(const std::string& name, const StateArray& array,
                  const std::vector<Selected>& selected) const {
    NewArray result{.array = array};
    for (const Selected& one : selected) {
      const ArrayIndex& index = *one.part->state.at(name);
      const std::uint64_t each = one.count > 0 ? index.array.bytes / one.count : 0;
      if (each * one.count != index.array.bytes) fail("its optimizer's state '" + name + "' fits no rows");
      result.rest.push_back({one.part->server, &index, one.first * each, one.last * each});
    }
    set_bytes(result);
    return result;
  }

  const MergedKey& key_;
  const ByteRange range_;
  const SnapshotReaders& from_;
  std::vector<const MergedKey::Part*> parts_;  // the parts of the key that have bytes of the range
};

}  // namespace

std::vector<NewArray> arrays_in(const MergedKey& key, const ByteRange& range, const SnapshotReaders& from) {
  return Splitter(key, range, from).all();
}

void read_array(SnapshotReader& from, const ArrayIndex& index, std::uint64_t begin,
                std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const std::uint64_t skipped = begin % kPieceBytes;
    const auto some = bytes.first(std::min<std::uint64_t>(bytes.size(), kPieceBytes - skipped));
    from.read_again(index.pieces.at(begin / kPieceBytes) + skipped, some);
    begin += some.size();
    bytes = bytes.subspan(some.size());
  }
}

}  // namespace heddle::kv_detail
