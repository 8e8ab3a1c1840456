#include "snapshot/background_writer.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "snapshot/snapshot_folder.h"

namespace heddle::kv_detail {

BackgroundWriter::BackgroundWriter(std::string folder, const SnapshotHeader& header, std::size_t kept,
                                   std::vector<SavedMessage> state)
    : folder_(std::move(folder)), header_(header), kept_(kept), state_(std::move(state)) {
  result_.path = snapshot_path(folder_, header.number, header.servers, header.sequence);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    result_.error = std::string("there is no thread to write it: ") + error.what();
    over_.store(true);
  }
}

BackgroundWriter::~BackgroundWriter() { wait(); }

void BackgroundWriter::run() noexcept {
  const auto begun = std::chrono::steady_clock::now();
  try {
    write();
  } catch (const std::exception& error) {
    result_.error = error.what();
  }
  result_.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  over_.store(true);
}

void BackgroundWriter::write() {
  SnapshotWriter writer(result_.path, header_);
  for (const SavedMessage& one : state_) {
    writer.add(one.head, one.payload.bytes);
    written_.fetch_add(1, std::memory_order_release);
  }
  result_.bytes = writer.commit();
  try {
    remove_old_snapshots(folder_, header_.number, header_.servers, kept_);
  } catch (const std::exception&) {  // the next one removes them
  }
}

// The owner of a value changes it in place once it is the only one: it must see that the thread has read it.
bool BackgroundWriter::go_on() {
  const std::size_t written = written_.load(std::memory_order_acquire);
  for (; released_ < written; ++released_) state_[released_].payload = {};
  return over_.load();
}

const WrittenSnapshot& BackgroundWriter::wait() {
  if (thread_.joinable()) thread_.join();
  state_.clear();
  return result_;
}

}  // namespace heddle::kv_detail
