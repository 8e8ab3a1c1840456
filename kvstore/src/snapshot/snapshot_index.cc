#include "snapshot/snapshot_index.h"

#include <algorithm>
#include <utility>

namespace heddle::kv_detail {
namespace {

constexpr std::uint64_t kStep = 16 << 20;  // bytes that are read between two calls of `progress`

void require(bool good, const char* wrong) {
  if (!good) throw MalformedMessage(wrong);
}

class Indexer {
 public:
  SnapshotIndex index;
  bool is_over = false;

  void add(const StateRecord& record, std::span<const std::byte> payload, std::uint64_t at) {
    require(!is_over, "a message after the end");
    require((messages_ == 0) == std::holds_alternative<StateBegin>(record), "the state has no beginning");
    require((missing_ > 0) == std::holds_alternative<StatePiece>(record), "pieces of an array are missing");
    payload_ = payload;
    at_ = at;
    std::visit([this](const auto& one) { take(one); }, record);
    ++messages_;
  }

 private:
  void take(const StateBegin& begin) { index.begin = begin; }
  void take(const StateJob& job) {
    require_all_workers();
    index.jobs.push_back({job});
  }
  void take(const StateWorker& worker) {
    JobIndex& job = this->job();
    require(job.workers.size() < job.job.workers, "a worker too many");
    job.workers.push_back(worker);
  }
  void take(const StateCollective&) { require_all_workers(); }
  void take(const StateKey& key) {
    require_all_workers();
    job().keys.push_back({key, decode_clocks(payload_, job().job.workers)});
  }
  void take(const StateArray& array) {
    require(!job().keys.empty(), "an array of no key");
    missing_ = array.bytes;
    job().keys.back().arrays.push_back({array});
    take(StatePiece{});
  }
  void take(const StatePiece&) {
    require(payload_.size() == std::min<std::uint64_t>(missing_, kPieceBytes), "a piece of another length");
    missing_ -= payload_.size();
    if (!payload_.empty()) job().keys.back().arrays.back().pieces.push_back(at_);
  }
  void take(const StateEnd& end) {
    require_all_workers();
    require(end.messages == messages_, "messages of the state are missing");
    is_over = true;
  }
  JobIndex& job() {
    require(!index.jobs.empty(), "a part of no job");
    return index.jobs.back();
  }
  void require_all_workers() {
    require(index.jobs.empty() || job().workers.size() == job().job.workers, "workers of a job are missing");
  }

  std::span<const std::byte> payload_;
  std::uint64_t at_ = 0, messages_ = 0, missing_ = 0;
};

}  // namespace

SnapshotIndex index_snapshot(const std::string& path, const SnapshotProgress& progress) {
  SnapshotReader reader(path);
  Indexer indexer;
  std::vector<std::byte> head, payload;
  std::uint64_t told = 0;
  while (reader.next(head, payload)) {
    try {
      indexer.add(decode_state_record(head, indexer.index.begin.version), payload,
                  reader.offset() - payload.size());
    } catch (const MalformedMessage& error) {
      reader.refuse(error.what());
    }
    if (progress && reader.offset() - told >= kStep) progress(told = reader.offset(), reader.bytes());
  }
  if (!indexer.is_over) reader.refuse("the state has no end");
  SnapshotIndex index = std::move(indexer.index);
  index.path = path;
  index.header = reader.header();
  index.bytes = reader.bytes();
  return index;
}

}  // namespace heddle::kv_detail
