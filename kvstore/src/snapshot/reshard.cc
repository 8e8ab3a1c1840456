#include "snapshot/reshard.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "snapshot/merged_job.h"
#include "snapshot/snapshot_folder.h"
#include "wire/job_terms.h"

namespace heddle::kv_detail {
namespace {

using Range = std::pair<std::uint64_t, std::uint64_t>;  // bytes of the whole value: begin, end

constexpr std::chrono::seconds kSameMoment{1};

// The number of updates is the same for all parts of a value; other arrays are split as the value is.
bool is_count(const StateArray& array) {
  return array.role == StateArray::Role::optimizer && array.name == "updates";
}

// What is kept of single rows cannot be split as the value is.
void check_splits(const MergedKey& key) {
  for (const MergedKey::Part& part : key.parts) {
    for (const ArrayIndex* one : part.arrays) {
      const StateArray& array = one->array;
      if (is_count(array) || !array.has_value) continue;
      if (array.bytes == part.index->key.bytes && array.dtype == key.key.dtype && array.row_bytes == 0)
        continue;
      throw Error(
          "key " + key.key.name + " has " +
          (array.role == StateArray::Role::push
               ? std::string("pushes of single rows that wait")
               : "an optimizer's state of single rows, '" + array.name + "'") +
          ", and its value is split over servers: it can only be restored for as many servers as there were");
    }
  }
}

// Writes the snapshot of one new server.
class PartWriter {
 public:
  PartWriter(std::vector<std::unique_ptr<SnapshotReader>>& from, const std::string& path,
             const SnapshotHeader& header)
      : from_(from), writer_(path, header) {}

  void put(const StateRecord& record, std::span<const std::byte> payload = {}) {
    writer_.add(encode(record), payload);
    ++messages_;
  }

  void put(const MergedKey& key, std::uint32_t number, Range range) {
    StateKey mine = key.key;
    mine.number = number;
    mine.bytes = range.second - range.first;
    put(mine, encode_clocks(key.clocks.clocks, key.clocks.missed));
    for (std::size_t i = 0; i < key.parts.front().arrays.size(); ++i) {
      const StateArray& array = key.parts.front().arrays[i]->array;
      if (is_count(array) || !array.has_value || is_whole(key, range)) {
        put_array(array, {{&key.parts.front(), i}}, {0, array.bytes});
      } else {
        std::vector<Source> sources;
        for (const MergedKey::Part& part : key.parts) sources.push_back({&part, i});
        put_array(array, sources, range);
      }
    }
  }

  // All of the key is in one place, before and after.
  static bool is_whole(const MergedKey& key, Range range) {
    return key.parts.size() == 1 && range.second - range.first == key.key.bytes;
  }

  std::uint64_t commit() {
    put(StateEnd{messages_});
    return writer_.commit();
  }

 private:
  struct Source {
    const MergedKey::Part* part;
    std::size_t array;
  };

  void put_array(StateArray array, const std::vector<Source>& sources, Range range) {
    array.bytes = range.second - range.first;
    bool first = true;
    do {
      const std::uint64_t end = std::min<std::uint64_t>(range.second, range.first + kPieceBytes);
      piece_.resize(end - range.first);
      for (const Source& one : sources) read(one, range.first);
      first ? put(array, piece_) : put(StatePiece{}, piece_);
      first = false;
      range.first = end;
    } while (range.first < range.second);
  }

  // What the source has of the bytes from `begin` on that piece_ takes.
  void read(const Source& source, std::uint64_t begin) {
    const ArrayIndex& index = *source.part->arrays[source.array];
    const std::uint64_t offset = source.part->offset;
    std::uint64_t at = std::max(begin, offset);
    const std::uint64_t end = std::min(begin + piece_.size(), offset + index.array.bytes);
    while (at < end) {
      const std::uint64_t inside = at - offset, skipped = inside % kPieceBytes;
      const std::uint64_t count = std::min(end - at, kPieceBytes - skipped);
      from_[source.part->server]->read_again(index.pieces.at(inside / kPieceBytes) + skipped,
                                             std::span(piece_).subspan(at - begin, count));
      at += count;
    }
  }

  std::vector<std::unique_ptr<SnapshotReader>>& from_;
  SnapshotWriter writer_;
  std::uint64_t messages_ = 0;
  std::vector<std::byte> piece_;
};

// Which keys a new server has, and which bytes of them.
struct NewPart {
  const MergedKey* key;
  Range range;
};

PlacementRule new_placement(const StateJob& job, const ReshardOptions& options) {
  const PlacementRule before = placement_of(job);
  if (before.kind != Placement::by_list) return before;
  if (options.placement.kind == Placement::by_list) return options.placement;
  throw Error("job '" + job.name +
              "' has an explicit placement, for as many servers as there were: --placement says "
              "where its keys will be");
}

std::vector<std::vector<NewPart>> placed(const MergedJob& job, const ReshardOptions& options) {
  std::vector<std::vector<NewPart>> result(options.servers);
  Placer placer(new_placement(job.job, options), static_cast<int>(options.servers));
  for (const MergedKey& key : job.keys) {
    const std::vector<KeyPart> parts = placer.place({key.key.name, key.key.bytes, key.row_bytes()});
    if (parts.size() > 1 || key.parts.size() > 1) check_splits(key);
    for (const KeyPart& part : parts)
      result[static_cast<std::size_t>(part.server)].push_back(
          {&key, {part.offset, part.offset + part.bytes}});
  }
  return result;
}

class Resharder {
 public:
  Resharder(const std::vector<SnapshotIndex>& parts, const ReshardOptions& options)
      : parts_(parts), options_(options), jobs_(merge_jobs(parts, options.newest_parts)) {
    for (const MergedJob& job : jobs_) placed_.push_back(placed(job, options));
    for (const SnapshotIndex& part : parts) {
      from_.push_back(std::make_unique<SnapshotReader>(part.path));
      all_bytes_ += part.bytes;
    }
  }

  Resharded run() {
    Resharded result{.notes = notes()};
    try {
      for (std::uint32_t server = 0; server < options_.servers; ++server) write(server, result.files);
    } catch (...) {
      std::error_code ignored;
      for (const std::string& file : result.files) std::filesystem::remove(file, ignored);
      throw;
    }
    return result;
  }

 private:
  // Values of different keys that are of different moments: every key by itself is whole.
  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    const auto [first, last] =
        std::minmax_element(parts_.begin(), parts_.end(),
                            [](const auto& a, const auto& b) { return a.header.time < b.header.time; });
    if (last->header.time - first->header.time > kSameMoment) {
      all.push_back("the snapshots were taken from " + utc_text(first->header.time) + " to " +
                    utc_text(last->header.time));
    }
    for (const MergedJob& job : jobs_) {
      for (std::size_t rank = 0; rank < job.workers.size(); ++rank) {
        std::uint64_t least = ~std::uint64_t{0}, most = 0;
        for (const MergedKey& key : job.keys) {
          least = std::min(least, key.clocks.clocks[rank]);
          most = std::max(most, key.clocks.clocks[rank]);
        }
        if (job.keys.empty() || least == most) continue;
        all.push_back("job '" + job.job.name + "': keys have from " + std::to_string(least) + " to " +
                      std::to_string(most) + " pushes of worker " + std::to_string(rank) +
                      ": their values are of different moments");
      }
    }
    return all;
  }

  void write(std::uint32_t server, std::vector<std::string>& files) {
    SnapshotHeader header{
        .number = server, .servers = options_.servers, .sequence = 1, .incarnation = options_.incarnation};
    header.time = parts_.front().header.time;
    for (const SnapshotIndex& part : parts_) header.time = std::min(header.time, part.header.time);
    const std::string path = snapshot_path(options_.out, server, options_.servers, header.sequence);
    PartWriter writer(from_, path, header);
    writer.put(StateBegin{.number = server,
                          .servers = options_.servers,
                          .incarnation = options_.incarnation,
                          .jobs_begun = jobs_.size()});
    for (std::size_t job = 0; job < jobs_.size(); ++job) write(writer, job, server);
    written_ += writer.commit();
    files.push_back(path);
    if (options_.progress) options_.progress(std::min(written_, all_bytes_), all_bytes_);
  }

  void write(PartWriter& writer, std::size_t index, std::uint32_t server) {
    const MergedJob& job = jobs_[index];
    StateJob mine = job.job;
    mine.servers = options_.servers;
    mine.consistency = with_placement(mine.consistency, new_placement(mine, options_).text());
    mine.incarnation = options_.incarnation + 1 + index;
    writer.put(mine);
    for (const StateWorker& worker : job.workers) writer.put(worker);
    std::uint32_t number = 0;
    for (const NewPart& part : placed_[index][server]) writer.put(*part.key, number++, part.range);
  }

  const std::vector<SnapshotIndex>& parts_;
  const ReshardOptions& options_;
  const std::vector<MergedJob> jobs_;
  std::vector<std::vector<std::vector<NewPart>>> placed_;  // by job and server
  std::vector<std::unique_ptr<SnapshotReader>> from_;      // by server
  std::uint64_t all_bytes_ = 0, written_ = 0;
};

}  // namespace

Resharded reshard(const std::vector<SnapshotIndex>& parts, const ReshardOptions& options) {
  std::error_code error;
  std::filesystem::create_directories(options.out, error);
  if (error) throw Error("the folder " + options.out + " cannot be made: " + error.message());
  for (const SnapshotName& one : snapshots_in(options.out)) {
    if (one.servers == options.servers)
      throw Error(options.out + " has snapshots of " + std::to_string(options.servers) +
                  " servers already: " + one.path);
  }
  return Resharder(parts, options).run();
}

}  // namespace heddle::kv_detail
