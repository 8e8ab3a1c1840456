#include "snapshot/background_writer.h"

#include <chrono>
#include <system_error>
#include <utility>

#include "snapshot/snapshot_folder.h"

namespace heddle::kv_detail {
namespace {

constexpr int kReleasedAtOnce = 4;  // most parts that one call of go_on() releases

}  // namespace

BackgroundWriter::BackgroundWriter(std::string folder, const SnapshotHeader& header, std::size_t kept)
    : folder_(std::move(folder)), header_(header), kept_(kept) {
  result_.path = snapshot_path(folder_, header.number, header.servers, header.sequence);
  try {
    thread_ = std::thread([this] { run(); });
  } catch (const std::system_error& error) {
    result_.error = std::string("there is no thread to write it: ") + error.what();
    over_.store(true);
  }
}

BackgroundWriter::~BackgroundWriter() {
  {
    const std::lock_guard guard(mutex_);
    given_up_ = !complete_;
  }
  changed_.notify_one();
  wait();
}

void BackgroundWriter::add(Part part) {
  if (over_.load()) return;
  {
    const std::lock_guard guard(mutex_);
    to_write_.push_back(std::move(part));
  }
  changed_.notify_one();
}

void BackgroundWriter::complete() {
  {
    const std::lock_guard guard(mutex_);
    complete_ = true;
  }
  changed_.notify_one();
}

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

// Waits for the next part to write, and moves it to writing_. False: there are no more parts.
bool BackgroundWriter::next() {
  std::unique_lock lock(mutex_);
  // The thread that owns the values changes them in place once nobody else holds them. A written part is
  // handed back and released on that thread, so that this thread's reads of the values come before the
  // changes.
  if (!writing_.empty()) written_.push_back(std::exchange(writing_, {}));
  changed_.wait(lock, [this] { return !to_write_.empty() || complete_ || given_up_; });
  if (given_up_) throw Error("it was given up before it was complete");
  if (to_write_.empty()) return false;
  writing_ = std::move(to_write_.front());
  to_write_.pop_front();
  return true;
}

void BackgroundWriter::write() {
  SnapshotWriter writer(result_.path, header_);
  while (next()) {
    for (const SavedMessage& one : writing_) writer.add(one.head, one.payload.bytes);
  }
  result_.bytes = writer.commit();
  try {
    remove_old_snapshots(folder_, header_.number, header_.servers, kept_);
  } catch (const std::exception&) {  // ignored: the writer of the next snapshot removes old snapshots, too
  }
}

bool BackgroundWriter::has_written() {
  const std::lock_guard guard(mutex_);
  return !written_.empty();
}

bool BackgroundWriter::go_on() {
  const bool over = over_.load();
  for (int i = 0; i < kReleasedAtOnce; ++i) {
    Part part;
    {
      const std::lock_guard guard(mutex_);
      if (written_.empty()) return over;
      part = std::move(written_.front());
      written_.pop_front();
    }
  }
  return false;
}

const WrittenSnapshot& BackgroundWriter::wait() {
  if (thread_.joinable()) thread_.join();
  to_write_.clear();
  written_.clear();
  writing_.clear();
  return result_;
}

}  // namespace heddle::kv_detail
