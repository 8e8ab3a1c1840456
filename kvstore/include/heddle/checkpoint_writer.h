// CheckpointWriter: checkpoints that are written while training goes on.
//
//   CheckpointWriter writer;
//   for (...) {
//     step();
//     if (++steps % 1000 == 0) writer.save("run.safetensors", checkpoint);  // returns at once
//   }
//   writer.wait();
#pragma once

#include <cstddef>
#include <memory>
#include <string>

#include <heddle/checkpoint.h>

namespace heddle {

// One save of a CheckpointWriter. Copies are the same save. May outlive the writer. Any thread.
class CheckpointSave {
 public:
  bool done() const;          // whether the file is complete, or the save has failed
  void wait() const;          // blocks until done(); rethrows the error
  std::string error() const;  // the message of the error; empty: none so far

 private:
  friend class CheckpointWriter;
  struct State;
  explicit CheckpointSave(std::shared_ptr<State> state) : state_(std::move(state)) {}
  std::shared_ptr<State> state_;
};

// Writes checkpoints on a thread of its own. For one thread at a time.
class CheckpointWriter {
 public:
  // At most `most` saves are under way; a save more waits for the oldest. Each holds a copy of all arrays.
  explicit CheckpointWriter(std::size_t most = 1);
  ~CheckpointWriter();  // waits for all saves; errors that no call has thrown go to the log
  CheckpointWriter(const CheckpointWriter&) = delete;
  CheckpointWriter& operator=(const CheckpointWriter&) = delete;

  // Saves what save_checkpoint() called now would save, to the same file. An op copies the arrays, in the order of the
  // pushes, so that later steps change nothing in the file; generators, counters and notes are read now. The file is
  // replaced atomically: after a crash or an error it is the old one or the new one. An error arrives at the save's wait()
  // and, if nobody has asked for it, at the next call of save() or wait(), which then has no other effect. Blocks where
  // Trainer::state() does, and while `most` saves are under way.
  CheckpointSave save(const std::string& path, const Checkpoint& checkpoint, Where where = Where::current());
  void wait();        // blocks until all saves are done; rethrows the first error that no call has thrown
  bool idle() const;  // whether no save is under way

 private:
  struct Queue;
  std::unique_ptr<Queue> queue_;
};

}  // namespace heddle
