// Devices, and streams that need no accelerator.
#include <atomic>
#include <cstring>
#include <sstream>
#include <stdexcept>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/error.h>
#include <heddle/host_stream.h>

namespace heddle::test {
namespace {

// Blocks until the event's last recording is complete. Returns the error that it brings.
std::exception_ptr await(Stream& stream, Event& event) {
  std::exception_ptr error;
  while (!stream.poll(event, event.generation(), error)) std::this_thread::yield();
  return error;
}

TEST_CASE("a device is written as a program writes it") {
  CHECK(cpu(2).to_string() == "cpu(2)");
  CHECK(gpu(1).to_string() == "gpu(1)");
  CHECK(cpu_pinned().to_string() == "cpu_pinned");
  CHECK(std::string(name_of(gpu().kind)) == "cuda");
  CHECK(gpu(0) == gpu());
  CHECK(gpu(0) != gpu(1));
  CHECK(cpu() != cpu_pinned());
  std::ostringstream out;
  out << gpu(3);
  CHECK(out.str() == "gpu(3)");
  CHECK_THROWS_WITH_AS(gpu(-1), "gpu(-1): the index must not be negative", InvalidArgument);
  CHECK_THROWS_WITH_AS(cpu(-2), "cpu(-2): the index must not be negative", InvalidArgument);
}

TEST_CASE("a stream is made for a device that ops can run on") {
  const std::unique_ptr<Stream> stream = make_stream(cpu(1), Lane::copy_out);
  CHECK(stream->device() == cpu(1));
  CHECK(stream->lane() == Lane::copy_out);
  CHECK(std::string(name_of(stream->lane())) == "copy out");
  CHECK(stream->native() == nullptr);
  CHECK_THROWS_WITH_AS(make_stream(cpu_pinned()),
                       "make_stream: cpu_pinned is memory; ops run on cpu(i) and gpu(i)", InvalidArgument);
  CHECK_THROWS_AS(make_stream(gpu(gpu_count())), Error);
}

TEST_CASE("work on a host stream runs later, in its order, on a thread of its own") {
  std::vector<int> order;
  std::thread::id ran_on;
  {
    HostStream stream(cpu());
    for (int i = 0; i < 100; ++i) stream.enqueue([&order, i] { order.push_back(i); });
    stream.enqueue([&] { ran_on = std::this_thread::get_id(); });
  }  // the stream's destructor waits for the work
  REQUIRE(order.size() == 100);
  for (int i = 0; i < 100; ++i) CHECK(order[static_cast<std::size_t>(i)] == i);
  CHECK(ran_on != std::this_thread::get_id());
}

TEST_CASE("a copy is work like any other") {
  HostStream stream(cpu(), Lane::copy_in, {.stepped = true});
  int from = 1, to = 0;
  stream.enqueue([&] { from = 7; });
  stream.copy(&to, &from, sizeof from);
  CHECK(to == 0);
  CHECK(stream.run_one());
  CHECK(stream.run_one());
  CHECK(to == 7);
}

TEST_CASE("a stepped stream does one thing a step, and tells when there is nothing left") {
  HostStream stream(cpu(), Lane::compute, {.stepped = true});
  CHECK(stream.idle());
  CHECK_FALSE(stream.step());
  int ran = 0;
  const std::unique_ptr<Event> event = stream.make_event();
  stream.enqueue([&] { ++ran; });
  stream.record(*event);
  stream.enqueue([&] { ++ran; });
  std::exception_ptr error;
  CHECK(stream.run_one());
  CHECK(stream.run_one());
  CHECK(stream.run_one());
  CHECK(ran == 2);
  CHECK_FALSE(stream.run_one());
  CHECK_FALSE(stream.idle());
  // The recording of the event has run, but the event completes only by complete_one().
  CHECK_FALSE(stream.poll(*event, 1, error));
  CHECK(stream.complete_one());
  CHECK(stream.poll(*event, 1, error));
  CHECK(stream.idle());
}

TEST_CASE("an event brings the first error since the recording before it") {
  HostStream stream(cpu());
  const auto first = stream.make_event(), second = stream.make_event(), third = stream.make_event();
  bool went_on = false;
  stream.record(*first);
  stream.enqueue([] { throw std::runtime_error("one"); });
  stream.enqueue([] { throw std::runtime_error("two"); });
  stream.enqueue([&] { went_on = true; });
  stream.record(*second);
  stream.record(*third);
  CHECK(await(stream, *third) == nullptr);
  CHECK(await(stream, *first) == nullptr);
  const std::exception_ptr error = await(stream, *second);
  REQUIRE(error);
  CHECK_THROWS_WITH_AS(std::rethrow_exception(error), "one", std::runtime_error);
  CHECK(went_on);
}

TEST_CASE("a check is called when the work before it has run, and its error is that of the next event") {
  for (const bool stepped : {false, true}) {
    HostStream stream(cpu(), Lane::compute, {.stepped = stepped});
    const auto with_check = stream.make_event(), after = stream.make_event();
    bool ran = false, ran_before_check = false;
    stream.enqueue([&] { ran = true; });
    stream.check_when_done([&] {
      ran_before_check = ran;
      throw std::runtime_error("index 7");
    });
    stream.check_when_done([] { throw std::runtime_error("index 8"); });
    stream.record(*with_check);
    stream.record(*after);
    while (stepped && stream.step()) {
    }
    const std::exception_ptr error = await(stream, *with_check);
    CHECK(ran_before_check);
    REQUIRE(error);
    CHECK_THROWS_WITH_AS(std::rethrow_exception(error), "index 7", std::runtime_error);
    CHECK(await(stream, *after) == nullptr);
  }
}

TEST_CASE("a stream with a thread waits for another's event") {
  for (int delay : {0, 5}) {
    HostStream a(cpu(), Lane::compute, {.seed = 1, .most_delay = delay});
    HostStream b(cpu(), Lane::compute, {.seed = 2, .most_delay = delay});
    long value = 0;  // not atomic, since only the events order its uses
    const auto on_a = a.make_event(), on_b = b.make_event();
    for (int i = 0; i < 200; ++i) {
      a.enqueue([&] { ++value; });
      a.record(*on_a);
      b.wait(*on_a, on_a->generation());
      b.enqueue([&] { value *= 3; });
      b.record(*on_b);
      a.wait(*on_b, on_b->generation());
      await(b, *on_b);
      CHECK(value == 3);
      value = 0;
    }
  }
}

TEST_CASE("who asked to be told of an event is told once, before or after it completes") {
  HostStream stream(cpu(), Lane::compute, {.stepped = true});
  const std::unique_ptr<Event> event = stream.make_event();
  int told = 0;
  stream.record(*event);
  CHECK(stream.notify(*event, 1, [&](const std::exception_ptr&) { ++told; }));
  CHECK(told == 0);
  while (stream.step()) {
  }
  CHECK(told == 1);
  CHECK(stream.notify(*event, 1, [&](const std::exception_ptr&) { told += 10; }));
  CHECK(told == 11);
  HostStream silent(cpu(), Lane::compute, {.stepped = true, .calls_back = false});
  CHECK_FALSE(silent.notify(*event, 1, [&](const std::exception_ptr&) { told += 100; }));
  CHECK(told == 11);
}

TEST_CASE("nonsense given to a host stream is refused at the call") {
  HostStream stream(cpu(), Lane::compute, {.stepped = true});
  CHECK_THROWS_WITH_AS(stream.enqueue(nullptr), "enqueue: the function is empty", InvalidArgument);
  Event alien;
  CHECK_THROWS_WITH_AS(stream.record(alien), "record: the event is of another kind of stream",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(stream.wait(alien, 0), "wait: the event is of another kind of stream",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(HostStream(cpu(), Lane::compute, {.most_delay = -1}),
                       "HostStream: most_delay is -1; it must not be negative", InvalidArgument);
}

}  // namespace
}  // namespace heddle::test
