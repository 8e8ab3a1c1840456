// A stream that a C program implements: its methods behind the interface of heddle::Stream.
#pragma once

#include <memory>
#include <mutex>

#include <heddle/c/stream.h>
#include <heddle/stream.h>

#include "c/boundary.h"

namespace heddle::c {

class ForeignStream final : public Stream {
 public:
  ForeignStream(Device device, Lane lane, const heddle_stream_methods& methods, Owned self);

  void enqueue(std::function<void()> fn) override;
  void copy(void* to, const void* from, std::size_t bytes) override;
  void* native() const override;
  void begin() override;
  std::unique_ptr<Event> make_event() override;
  void record(Event& event) override;
  bool can_wait_for(const Stream& other) const override;
  void wait(Event& event, std::uint64_t generation) override;
  bool poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept override;

 private:
  struct WorkErrors;
  struct ForeignEvent;
  static void run_work(void* arg);
  void finish_work();

  const std::shared_ptr<const heddle_stream_methods> methods_;
  const std::shared_ptr<Owned> self_;   // shared with the events, whose methods need it
  std::shared_ptr<WorkErrors> errors_;  // errors of the work since the last recording
};

}  // namespace heddle::c
