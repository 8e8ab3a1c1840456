#include "c/foreign_stream.h"

#include <chrono>
#include <future>
#include <thread>
#include <utility>

namespace heddle::c {

// The first error of the work between two recordings. Work runs on any thread.
struct ForeignStream::WorkErrors {
  std::mutex mutex;  // guards `first`
  std::exception_ptr first;
};

struct ForeignStream::ForeignEvent final : Event {
  ForeignEvent(std::shared_ptr<const heddle_stream_methods> its_methods, std::shared_ptr<Owned> its_self)
      : methods(std::move(its_methods)), self(std::move(its_self)) {}
  ~ForeignEvent() override {
    if (made) methods->destroy_event(self->ctx(), handle);
  }
  std::uint64_t advance() { return next_generation(); }

  const std::shared_ptr<const heddle_stream_methods> methods;
  const std::shared_ptr<Owned> self;
  void* handle = nullptr;
  bool made = false;
  std::mutex mutex;  // guards `errors`, the errors of the last generation
  std::shared_ptr<WorkErrors> errors;
};

namespace {

struct Work {
  std::function<void()> fn;
  std::shared_ptr<void> errors;
};

}  // namespace

ForeignStream::ForeignStream(Device device, Lane lane, const heddle_stream_methods& methods, Owned self)
    : Stream(device, lane),
      methods_(std::make_shared<const heddle_stream_methods>(methods)),
      self_(std::make_shared<Owned>(std::move(self))),
      errors_(std::make_shared<WorkErrors>()) {}

void ForeignStream::run_work(void* arg) {
  const std::unique_ptr<Work> work(static_cast<Work*>(arg));
  try {
    work->fn();
  } catch (...) {
    auto& errors = *static_cast<WorkErrors*>(work->errors.get());
    const std::lock_guard guard(errors.mutex);
    if (!errors.first) errors.first = std::current_exception();
  }
}

void ForeignStream::enqueue(std::function<void()> fn) {
  auto work = std::make_unique<Work>(std::move(fn), errors_);
  heddle_error* error = nullptr;
  const heddle_status status = methods_->enqueue(self_->ctx(), run_work, work.get(), &error);
  if (status == HEDDLE_OK) work.release();
  throw_if_failed(status, error, "heddle_stream_methods.enqueue");
}

void ForeignStream::copy(void* to, const void* from, std::size_t bytes) {
  heddle_error* error = nullptr;
  throw_if_failed(methods_->copy(self_->ctx(), to, from, bytes, &error), error, "heddle_stream_methods.copy");
}

void* ForeignStream::native() const { return methods_->native ? methods_->native(self_->ctx()) : nullptr; }

void ForeignStream::begin() {
  if (!methods_->begin) return;
  heddle_error* error = nullptr;
  throw_if_failed(methods_->begin(self_->ctx(), &error), error, "heddle_stream_methods.begin");
}

std::unique_ptr<Event> ForeignStream::make_event() {
  auto event = std::make_unique<ForeignEvent>(methods_, self_);
  heddle_error* error = nullptr;
  throw_if_failed(methods_->create_event(self_->ctx(), &event->handle, &error), error,
                  "heddle_stream_methods.create_event");
  event->made = true;
  return event;
}

void ForeignStream::record(Event& event) {
  auto& own = static_cast<ForeignEvent&>(event);
  auto next = std::make_shared<WorkErrors>();
  {
    const std::lock_guard guard(own.mutex);
    own.errors = std::exchange(errors_, std::move(next));
  }
  heddle_error* error = nullptr;
  const heddle_status status = methods_->record(self_->ctx(), own.handle, own.generation() + 1, &error);
  if (status == HEDDLE_OK) {
    own.advance();
    return;
  }
  finish_work();
  throw_if_failed(status, error, "heddle_stream_methods.record");
}

// Called when an event could not be recorded: waits for the work enqueued so far by enqueueing a function
// behind it. If the stream fails to enqueue that as well, it must not run the work that it has.
void ForeignStream::finish_work() {
  const auto done = std::make_shared<std::promise<void>>();
  auto work = std::make_unique<Work>([done] { done->set_value(); }, errors_);
  heddle_error* error = nullptr;
  const heddle_status status = methods_->enqueue(self_->ctx(), run_work, work.get(), &error);
  heddle_error_destroy(error);
  if (status != HEDDLE_OK) return;
  work.release();
  done->get_future().wait();
}

bool ForeignStream::can_wait_for(const Stream& other) const {
  const auto* foreign = dynamic_cast<const ForeignStream*>(&other);
  return foreign && foreign->methods_->record == methods_->record &&
         foreign->methods_->wait == methods_->wait;
}

void ForeignStream::wait(Event& event, std::uint64_t generation) {
  auto& other = static_cast<ForeignEvent&>(event);
  heddle_error* error = nullptr;
  const heddle_status status = methods_->wait(self_->ctx(), other.handle, generation, &error);
  std::int32_t complete = status == HEDDLE_OK ? 1 : 0;
  while (complete == 0) {  // a failure of poll ends the loop: the op that recorded the event reports it
    heddle_error* of_work = nullptr;
    if (methods_->poll(other.self->ctx(), other.handle, generation, &complete, &of_work) != HEDDLE_OK) break;
    if (complete == 0) std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  throw_if_failed(status, error, "heddle_stream_methods.wait");
}

bool ForeignStream::poll(Event& event, std::uint64_t generation, std::exception_ptr& error) noexcept {
  auto& own = static_cast<ForeignEvent&>(event);
  std::int32_t complete = 0;
  try {
    heddle_error* failure = nullptr;
    throw_if_failed(methods_->poll(self_->ctx(), own.handle, generation, &complete, &failure), failure,
                    "heddle_stream_methods.poll");
  } catch (...) {
    error = std::current_exception();
    return true;
  }
  if (complete == 0) return false;
  const std::lock_guard guard(own.mutex);
  if (own.generation() == generation && own.errors) {
    const std::lock_guard inner(own.errors->mutex);
    if (own.errors->first) error = own.errors->first;
  }
  return true;
}

}  // namespace heddle::c
