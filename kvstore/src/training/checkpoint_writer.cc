#include <condition_variable>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/array_error.h>
#include <heddle/array_op.h>
#include <heddle/checkpoint_writer.h>
#include <heddle/log.h>
#include <heddle/parallel.h>
#include <heddle/safetensors.h>
#include <heddle/var_use.h>

#include "files/safetensors_writer.h"
#include "training/checkpoint_content.h"

namespace heddle {
namespace {

constexpr std::size_t kPart = std::size_t{1} << 20;  // bytes that are copied at a time

struct CopiedPart {
  std::size_t array, begin, bytes;
};

std::vector<CopiedPart> parts_of(const std::vector<NDArray>& arrays) {
  std::vector<CopiedPart> parts;
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    const std::size_t bytes = static_cast<std::size_t>(arrays[i].size()) * size_of(arrays[i].dtype());
    for (std::size_t begin = 0; begin < bytes; begin += kPart)
      parts.push_back({i, begin, std::min(kPart, bytes - begin)});
  }
  return parts;
}

// Replaces the arrays by copies, which one op makes: they are from one moment, whatever other threads push.
void copy_arrays(Safetensors& content) {
  std::vector<NDArray> from, to;
  for (auto& [name, array] : content.arrays) {
    if (!array.defined())
      ndarray_detail::refuse_undefined(("CheckpointWriter::save: '" + name + "'").c_str());
    NDArray source = array.detach();
    if (source.device().kind != DeviceKind::cpu) source = source.copy_to(cpu());
    from.push_back(source.contiguous());
    to.emplace_back(source.shape(), source.dtype());
    array = to.back();
  }
  if (from.empty()) return;
  const Access access = array_access("copy_checkpoint", from, to);
  from[0].engine().push(
      [from, to, parts = parts_of(from)] {
        std::vector<std::pair<std::byte*, const std::byte*>> memory;
        for (std::size_t i = 0; i < from.size(); ++i)
          memory.emplace_back(from[i].size() ? to[i].data<std::byte>() : nullptr,
                              from[i].size() ? from[i].data<const std::byte>() : nullptr);
        parallel_for(static_cast<std::int64_t>(parts.size()), 1, [&](std::int64_t begin, std::int64_t end) {
          for (std::int64_t i = begin; i < end; ++i) {
            const CopiedPart& part = parts[static_cast<std::size_t>(i)];
            const auto& [target, source] = memory[part.array];
            std::memcpy(target + part.begin, source + part.begin, part.bytes);
          }
        });
      },
      access, CallSite::current());
}

}  // namespace

struct CheckpointSave::State {
  std::string path;
  Safetensors content;
  mutable std::mutex mutex{};  // guards the members below; nothing else is locked while it is held
  mutable std::condition_variable changed{};
  bool is_done = false;
  std::exception_ptr failure{};
  mutable bool is_seen = false;  // whether a call has told of the failure

  void end(std::exception_ptr error) {
    const std::lock_guard guard(mutex);
    failure = std::move(error);
    is_done = true;
    changed.notify_all();
  }
  // Waits, and takes the failure.
  std::exception_ptr result() const {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return is_done; });
    is_seen = true;
    return failure;
  }
  // The failure that no call has told of; null: none by now.
  std::exception_ptr take_unseen() const {
    const std::lock_guard guard(mutex);
    return is_done && !std::exchange(is_seen, true) ? failure : nullptr;
  }
};

bool CheckpointSave::done() const {
  const std::lock_guard guard(state_->mutex);
  return state_->is_done;
}

void CheckpointSave::wait() const {
  if (const std::exception_ptr error = state_->result()) std::rethrow_exception(error);
}

std::string CheckpointSave::error() const {
  const std::lock_guard guard(state_->mutex);
  if (!state_->failure) return "";
  state_->is_seen = true;
  try {
    std::rethrow_exception(state_->failure);
  } catch (const std::exception& error) {
    return error.what();
  }
}

struct CheckpointWriter::Queue {
  using Save = std::shared_ptr<CheckpointSave::State>;
  explicit Queue(std::size_t at_most) : most(at_most), thread([this] { work(); }) {}
  ~Queue() {
    {
      const std::lock_guard guard(mutex);
      is_closed = true;
    }
    changed.notify_all();
    thread.join();
  }

  void work() {
    for (std::unique_lock lock(mutex);;) {
      changed.wait(lock, [&] { return is_closed || written < saves.size(); });
      if (written == saves.size()) return;
      const Save save = saves[written];
      lock.unlock();
      write(*save);
      lock.lock();
      ++written;
      changed.notify_all();
    }
  }

  static void write(CheckpointSave::State& save) {
    std::exception_ptr error;
    try {
      ndarray_detail::in_file_call("CheckpointWriter::save", [&] {
        for (const auto& [name, array] : save.content.arrays) wait_on(array.var());
        ndarray_detail::write_safetensors(save.path, save.content, {.checksums = true});
      });
    } catch (...) {
      error = std::current_exception();
    }
    save.content = {};
    save.end(std::move(error));
  }

  // Forgets saves that are done; rethrows the first failure that nobody knows.
  void collect() {
    std::unique_lock lock(mutex);
    while (written > 0) {
      const Save save = saves.front();
      saves.pop_front();
      --written;
      if (const std::exception_ptr error = save->take_unseen()) std::rethrow_exception(error);
    }
  }

  void wait_for_room(std::size_t room) {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return saves.size() - written <= room; });
  }

  const std::size_t most;
  std::mutex mutex{};  // guards the members below; a save's mutex may be locked while it is held
  std::condition_variable changed{};
  std::deque<Save> saves{};  // those that are done come first
  std::size_t written = 0;   // how many of them are done
  bool is_closed = false;
  std::thread thread;
};

CheckpointWriter::CheckpointWriter(std::size_t most) {
  if (most == 0) throw InvalidArgument("CheckpointWriter: most is 0; want 1 or more");
  queue_ = std::make_unique<Queue>(most);
}

CheckpointWriter::~CheckpointWriter() {
  queue_->wait_for_room(0);
  while (true) {
    try {
      queue_->collect();
      return;
    } catch (const std::exception& error) {
      write_log(error.what());
    }
  }
}

CheckpointSave CheckpointWriter::save(const std::string& path, const Checkpoint& checkpoint, Where where) {
  const CallSite site(where);
  queue_->collect();
  auto state = std::make_shared<CheckpointSave::State>();
  state->path = path;
  queue_->wait_for_room(queue_->most - 1);
  queue_->collect();
  state->content = checkpoint_content("CheckpointWriter::save", checkpoint);
  copy_arrays(state->content);
  {
    const std::lock_guard guard(queue_->mutex);
    queue_->saves.push_back(state);
  }
  queue_->changed.notify_all();
  return CheckpointSave(std::move(state));
}

void CheckpointWriter::wait() {
  queue_->wait_for_room(0);
  queue_->collect();
}

bool CheckpointWriter::idle() const {
  const std::lock_guard guard(queue_->mutex);
  return queue_->written == queue_->saves.size();
}

}  // namespace heddle
