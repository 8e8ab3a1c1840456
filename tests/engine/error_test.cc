#include <atomic>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/graph.h>

#include "schedulers.h"

using namespace heddle;
using heddle::test::kSchedulers;
using heddle::test::on_every_scheduler_with_errors;

namespace {

struct Custom {
  int code;
};

}  // namespace

TEST_CASE("an error reaches every dependent with its type intact, and stays") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var(), free = engine.new_var();
    bool ran = false, other = false;
    engine.push([] { throw Custom{42}; }, {.mutate = {a}, .name = "load"});
    const auto line = std::source_location::current().line() - 1;
    engine.push([&] { ran = true; }, {.read = {a}, .mutate = {b}, .name = "scale"});
    engine.push([&] { ran = true; }, {.read = {b}, .mutate = {c}, .name = "sum"});
    engine.push([&] { other = true; }, {.mutate = {free}});
    for (const Var& var : {a, b, c, a, c}) {
      try {
        engine.wait(var);
        FAIL("no error");
      } catch (const Custom& error) {
        CHECK(error.code == 42);
      }
    }
    engine.wait(free);
    CHECK(other);
    CHECK_FALSE(ran);
    const ErrorReport report = engine.error_of(c);
    CHECK(report.op == "load");
    CHECK(report.where.line() == line);
    REQUIRE(report.path.size() == 2);
    CHECK(report.path[0].starts_with("scale at "));
    CHECK(report.path[1].starts_with("sum at "));
    CHECK(report.to_string().find("load") != std::string::npos);
    CHECK(report.to_string().find("error_test.cc:" + std::to_string(line)) != std::string::npos);
    CHECK(report.to_string().find("Custom") != std::string::npos);
    CHECK_FALSE(engine.error_of(free).exception);
  });
}

TEST_CASE("poison goes when the var is overwritten without being read, or cleared") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Var var = engine.new_var();
    int value = 0;
    engine.push([] { throw std::runtime_error("first"); }, {.mutate = {var}});
    engine.push([&] { value = 1; }, {.read = {var}, .mutate = {var}});
    CHECK_THROWS_AS(engine.wait(var), std::runtime_error);
    CHECK(value == 0);
    engine.push([&] { value = 2; }, {.mutate = {var}});
    engine.wait(var);
    CHECK(value == 2);
    engine.push([] { throw std::runtime_error("second"); }, {.mutate = {var}});
    engine.clear_error(var);
    engine.push([&] { value += 1; }, {.read = {var}, .mutate = {var}});
    engine.wait(var);
    CHECK(value == 3);
  });
}

TEST_CASE("an overwrite that fails replaces the error; the earliest of several errors travels on") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
    engine.push([] { throw std::runtime_error("one"); }, {.mutate = {a}});
    engine.push([] { throw std::logic_error("two"); }, {.mutate = {b}});
    engine.push([] {}, {.read = {b, a}, .mutate = {c}});
    CHECK_THROWS_WITH(engine.wait(c), "one");
    engine.push([] { throw std::logic_error("three"); }, {.mutate = {a}});
    CHECK_THROWS_WITH(engine.wait(a), "three");
    CHECK_THROWS_WITH(engine.wait(c), "one");
  });
}

TEST_CASE("wait_all reports all errors, also those of ops without vars, and again while a var is poisoned") {
  for (const EngineOptions& options : kSchedulers) {
    Engine engine(options);
    Var a = engine.new_var(), b = engine.new_var();
    engine.push([] { throw std::runtime_error("on a"); }, {.mutate = {a}, .name = "op a"});
    engine.push([] { throw Custom{1}; }, {.mutate = {b}});
    engine.push([] { throw std::runtime_error("without vars"); });
    try {
      engine.wait_all();
      FAIL("no error");
    } catch (const AggregateError& errors) {
      CHECK(errors.reports().size() == 3);
      const std::string text = errors.what();
      for (const char* part : {"on a", "op a", "without vars", "Custom", "3 ops failed"}) {
        CAPTURE(part);
        CHECK(text.find(part) != std::string::npos);
      }
    }
    engine.push([] {}, {.mutate = {b}});
    try {
      engine.wait_all();
      FAIL("no error");
    } catch (const AggregateError& errors) {
      REQUIRE(errors.reports().size() == 1);
      CHECK(errors.reports()[0].message() == "on a");
    }
    engine.push([] {}, {.mutate = {a}});
    engine.wait_all();
  }
}

TEST_CASE("asynchronous errors: failed, dropped, thrown before and after the completion left") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var(), d = engine.new_var();
    engine.push_async([](RunContext&, Completion done) { done.fail(std::make_exception_ptr(Custom{7})); },
                      {.mutate = {a}});
    CHECK_THROWS_AS(engine.wait(a), Custom);
    engine.push_async([](RunContext&, Completion) {}, {.mutate = {b}, .name = "forgets"});
    CHECK_THROWS_AS(engine.wait(b), DroppedCompletion);
    CHECK(engine.error_of(b).message().find("forgets") != std::string::npos);
    engine.push_async([](RunContext&, Completion) { throw Custom{8}; }, {.mutate = {c}});
    CHECK_THROWS_AS(engine.wait(c), Custom);
    std::thread finisher;
    engine.push_async(
        [&](RunContext&, Completion done) {
          finisher = std::thread([moved = std::move(done)]() mutable { moved.done(); });
          throw Custom{9};
        },
        {.mutate = {d}});
    CHECK_THROWS_AS(engine.wait(d), Custom);
    finisher.join();
    bool ran = false;
    engine.push_async(
        [&](RunContext&, Completion done) {
          ran = true;
          done.done();
        },
        {.read = {a}, .mutate = {d}});
    CHECK_THROWS_AS(engine.wait(d), Custom);
    CHECK_FALSE(ran);
  });
}

TEST_CASE("a prepared op that failed can be pushed again") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Var var = engine.new_var();
    int calls = 0;
    PreparedOp op = engine.prepare(
        [&] {
          if (++calls % 2) throw Custom{calls};
        },
        {.mutate = {var}});
    engine.push(op);
    CHECK_THROWS_AS(engine.wait(var), Custom);
    engine.push(op);
    engine.wait(var);
    CHECK(calls == 2);
  });
}

TEST_CASE("an error's path may be very long") {
  Engine engine({.workers = 2});
  Var var = engine.new_var();
  engine.push([] { throw Custom{1}; }, {.mutate = {var}});
  for (int i = 0; i < 200000; ++i) engine.push([] {}, {.read = {var}, .mutate = {var}});
  CHECK_THROWS_AS(engine.wait(var), Custom);
  CHECK(engine.error_of(var).path.size() == 200000);
  engine.clear_error(var);
  engine.wait(var);
}

// Lets ThreadSanitizer see whether the path of an error is read while its steps are destroyed.
TEST_CASE("an error is described while the errors behind it are replaced") {
  Engine engine({.workers = 3});
  Var a = engine.new_var(), b = engine.new_var(), c = engine.new_var();
  std::atomic<bool> stop = false;
  bool complete = true;
  std::thread watch([&] {
    // Looks only at b. Locking c would order this thread after the thread that frees the steps which c and b
    // share, and so hide a race.
    while (!stop) {
      const ErrorReport report = engine.error_of(b);
      complete &= !report.exception || (report.op == "fails" && report.path.size() == 1);
    }
  });
  for (int round = 0; round < 10'000; ++round) {
    engine.push([] { throw Custom{1}; }, {.mutate = {a}, .name = "fails"});
    engine.push([] {}, {.read = {a}, .mutate = {b}});
    engine.push([] {}, {.read = {b}, .mutate = {c}});
    for (const Var& var : {a, b, c}) engine.push([] {}, {.mutate = {var}});
  }
  stop = true;
  watch.join();
  CHECK(complete);
  CHECK_THROWS_AS(engine.wait_all(), AggregateError);
}

TEST_CASE("an exception holds the last handle on a var that has a long error of its own") {
  auto held = std::make_shared<int>(1);
  struct Holds {
    Var var;
    std::shared_ptr<int> what;
  };
  Engine engine({.workers = 2});
  Var last = engine.new_var();
  for (int depth = 0; depth < 3; ++depth) {
    Var inner = engine.new_var();
    engine.push([last, held] { throw Holds{last, held}; }, {.mutate = {inner}});
    for (int i = 0; i < 50'000; ++i) engine.push([] {}, {.read = {inner}, .mutate = {inner}});
    CHECK_THROWS_AS(engine.wait(inner), Holds);
    last = inner;
  }
  last = engine.new_var();
  engine.wait(last);
  CHECK_THROWS_AS(engine.wait_all(), AggregateError);
  CHECK_NOTHROW(engine.wait_all());
  CHECK(held.use_count() == 1);
}

TEST_CASE("a failing op does not keep the exception's memory once its vars are clean") {
  Engine engine({.workers = 2});
  Var var = engine.new_var();
  auto held = std::make_shared<int>(1);
  struct Holds {
    std::shared_ptr<int> what;
  };
  for (int i = 0; i < 1000; ++i) {
    engine.push([held] { throw Holds{held}; }, {.mutate = {var}});
    CHECK_THROWS_AS(engine.wait(var), Holds);
  }
  engine.clear_error(var);
  engine.wait_all();
  CHECK(held.use_count() < 10);
}

TEST_CASE("no error is dropped while it poisons a var, however many there are") {
  Engine engine({.workers = 2});
  std::vector<Var> vars;
  for (int i = 0; i < 12000; ++i) {
    vars.push_back(engine.new_var());
    engine.push([] { throw Custom{1}; }, {.mutate = {vars.back()}});
  }
  try {
    engine.wait_all();
    FAIL("no error");
  } catch (const AggregateError& errors) {
    CHECK(errors.reports().size() == 12000);
  }
}

TEST_CASE("of errors that nobody has seen the first thousand are kept, and the rest is counted") {
  on_every_scheduler_with_errors([](Engine& engine) {
    for (int i = 0; i < 5000; ++i)
      engine.push([i] { throw std::runtime_error("failure " + std::to_string(i)); });
    try {
      engine.wait_all();
      FAIL("no error");
    } catch (const AggregateError& errors) {
      CHECK(errors.reports().size() == 1000);
      CHECK(errors.more() == 4000);
      const std::string what = errors.what();
      CHECK(what.starts_with("5000 ops failed:"));
      CHECK(what.ends_with("\n... and 4990 more, 4000 of which were counted but not kept"));
      if (engine.options().scheduler == Scheduler::naive) {
        CHECK(errors.reports().front().message() == "failure 0");
        CHECK(errors.reports().back().message() == "failure 999");
      }
    }
    CHECK_NOTHROW(engine.wait_all());
  });
}

TEST_CASE("both errors of an asynchronous op are on record, and a null one is an error") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var();
    engine.push_async(
        [](RunContext&, Completion done) {
          done.fail(std::make_exception_ptr(Custom{1}));
          throw std::runtime_error("and thrown");
        },
        {.mutate = {a}});
    engine.push_async([](RunContext&, Completion done) { done.fail(nullptr); }, {.mutate = {b}});
    CHECK_THROWS_AS(engine.wait(a), Custom);
    CHECK_THROWS_AS(engine.wait(b), Error);
    try {
      engine.wait_all();
      FAIL("no error");
    } catch (const AggregateError& errors) {
      CHECK(errors.reports().size() == 3);
      CHECK(std::string(errors.what()).find("and thrown") != std::string::npos);
    }
  });
}

TEST_CASE("an error that wait_all has thrown and that poisons nothing is not thrown again") {
  on_every_scheduler_with_errors([](Engine& engine) {
    for (int round = 0; round < 500; ++round) {
      std::thread elsewhere;
      engine.push_async(
          [&](RunContext&, Completion completion) {
            elsewhere = std::thread(
                [held = std::move(completion)]() mutable { held.fail(std::make_exception_ptr(7)); });
          },
          {.mutate = {engine.new_var()}});
      CHECK_THROWS_AS(engine.wait_all(), AggregateError);
      CHECK_NOTHROW(engine.wait_all());
      elsewhere.join();
    }
  });
}

TEST_CASE("an error whose var has been dropped is not thrown again, whichever thread drops the var") {
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2, .spin = 1e-3});
  for (int round = 0; round < 3000; ++round) {
    Var poisoned = engine.new_var();
    engine.push([] { throw std::runtime_error("no"); }, {.mutate = {poisoned}});
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
    CHECK_THROWS_AS(engine.wait_all(), AggregateError);
    poisoned = Var();
    CHECK_NOTHROW(engine.wait_all());
  }
}

namespace {

// The function of an op. Records whether the op ran or was skipped.
struct Awaited {
  std::string* heard;
  void operator()() const { *heard = "ran"; }
  void operator()(RunContext&, Completion done) const {
    *heard = "ran";
    done.done();
  }
  void skipped(const std::exception_ptr& why) const noexcept {
    try {
      std::rethrow_exception(why);
    } catch (const std::exception& error) {
      *heard = error.what();
    }
  }
};

}  // namespace

TEST_CASE("an op with a member skipped() is told why it does not run") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Var a = engine.new_var(), b = engine.new_var();
    std::string sync, async, well, prepared;
    engine.push([] { throw std::runtime_error("no data"); }, {.mutate = {a}});
    engine.push(Awaited{&sync}, {.read = {a}});
    engine.push_async(Awaited{&async}, {.read = {a}, .mutate = {b}});
    engine.push(engine.prepare(Awaited{&prepared}, {.read = {b}}));
    engine.push(Awaited{&well}, {.mutate = {b}});
    engine.wait(b);
    CHECK_THROWS_AS(engine.wait(a), std::runtime_error);
    try {
      engine.wait_all();
    } catch (const AggregateError&) {
    }
    CHECK(sync == "no data");
    CHECK(async == "no data");
    CHECK(prepared == "no data");
    CHECK(well == "ran");
  });
}

TEST_CASE("an op in a graph and one of a cancelled group are told too") {
  on_every_scheduler_with_errors([](Engine& engine) {
    Var a = engine.new_var();
    std::string inside, cancelled;
    Graph graph = engine.capture([&] { engine.push_async(Awaited{&inside}, {.read = {a}}); });
    engine.push([] { throw std::runtime_error("no data"); }, {.mutate = {a}});
    graph.launch();
    Group group;
    group.cancel();
    engine.push(Awaited{&cancelled}, {.mutate = {engine.new_var()}, .group = group});
    try {
      engine.wait_all();
    } catch (const AggregateError&) {
    }
    CHECK(inside == "no data");
    CHECK(cancelled.find("cancel") != std::string::npos);
  });
}
