#include "snapshot/reshard.h"

#include <algorithm>
#include <filesystem>
#include <memory>
#include <utility>

#include "snapshot/merged_job.h"
#include "snapshot/snapshot_folder.h"
#include "snapshot/split_key.h"
#include "wire/job_settings.h"

namespace heddle::kv_detail {
namespace {

constexpr std::chrono::seconds kSameMoment{1};

// Writes the snapshot of one new server.
class PartWriter {
 public:
  PartWriter(const SnapshotReaders& from, const std::string& path, const SnapshotHeader& header)
      : from_(from), writer_(path, header) {}

  void put(const StateRecord& record, std::span<const std::byte> payload = {}) {
    writer_.add(encode(record), payload);
    ++messages_;
  }

  void put(const MergedKey& key, std::uint32_t number, const ByteRange& range) {
    StateKey mine = key.key;
    mine.number = number;
    mine.bytes = range.second - range.first;
    put(mine, encode_clocks(key.clocks.clocks, key.clocks.missed));
    for (const NewArray& array : arrays_in(key, range, from_)) put_array(array);
  }

  std::uint64_t commit() {
    put(StateEnd{messages_});
    return writer_.commit();
  }

 private:
  void put_array(const NewArray& made) {
    is_first_ = true;
    piece_.clear();
    add(made.array, made.first.size(), [&made](std::uint64_t begin, std::span<std::byte> to) {
      std::copy_n(made.first.begin() + static_cast<std::ptrdiff_t>(begin), to.size(), to.begin());
    });
    for (const ArraySlice& one : made.rest) {
      add(made.array, one.end - one.begin, [&](std::uint64_t begin, std::span<std::byte> to) {
        read_array(*from_[one.server], *one.index, one.begin + begin, to);
      });
    }
    if (is_first_ || !piece_.empty()) flush(made.array);
  }

  // Adds `bytes` bytes to the array that is being written in pieces. read(begin, to) reads those from `begin`
  // on.
  template <class Read> void add(const StateArray& array, std::uint64_t bytes, const Read& read) {
    for (std::uint64_t begin = 0; begin < bytes;) {
      const std::size_t had = piece_.size();
      const std::uint64_t count = std::min<std::uint64_t>(bytes - begin, kPieceBytes - had);
      piece_.resize(had + count);
      read(begin, std::span(piece_).subspan(had));
      begin += count;
      if (piece_.size() == kPieceBytes) flush(array);
    }
  }

  void flush(const StateArray& array) {
    is_first_ ? put(array, piece_) : put(StatePiece{}, piece_);
    is_first_ = false;
    piece_.clear();
  }

  const SnapshotReaders& from_;
  SnapshotWriter writer_;
  std::uint64_t messages_ = 0;
  std::vector<std::byte> piece_;  // the piece that is being filled
  bool is_first_ = true;
};

// A key that a new server has, and the range of bytes of its value that is on this server.
struct NewPart {
  const MergedKey* key;
  ByteRange range;
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
  KeyPlacer placer(new_placement(job.job, options), static_cast<int>(options.servers));
  for (const MergedKey& key : job.keys) {
    const std::vector<KeyPart> parts = placer.place({key.key.name, key.key.bytes, key.row_bytes()});
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
    for (const SnapshotIndex& part : parts) {
      from_.push_back(std::make_unique<SnapshotReader>(part.path));
      all_bytes_ += part.bytes;
    }
    for (const MergedJob& job : jobs_) {
      placed_.push_back(placed(job, options));
      check(job, placed_.back());
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
  // Throws Error if an array for a new server cannot be made from the snapshots.
  void check(const MergedJob& job, const std::vector<std::vector<NewPart>>& servers) const {
    for (const auto& parts : servers) {
      for (const NewPart& part : parts) {
        try {
          arrays_in(*part.key, part.range, from_);
        } catch (const Error& error) {
          throw Error("job '" + job.job.name + "', " + error.what());
        }
      }
    }
  }

  // Warnings about keys whose values are of different moments. The value of each single key is of one moment.
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
  std::vector<std::vector<std::vector<NewPart>>> placed_;  // indexed by job, then by server
  SnapshotReaders from_;
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
