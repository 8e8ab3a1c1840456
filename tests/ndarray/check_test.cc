#include <cstdlib>
#include <functional>
#include <latch>
#include <schedulers.h>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/check.h>
#include <heddle/graph.h>
#include <heddle/parallel.h>

namespace heddle {
namespace {

class Checking {
 public:
  explicit Checking(bool on = true) : before_(check::enabled()) { check::enable(on); }
  ~Checking() { check::enable(before_); }
  Checking(const Checking&) = delete;
  Checking& operator=(const Checking&) = delete;

 private:
  bool before_;
};

// Waits for `result`, whose op must have failed with UndeclaredAccess, and returns that error's message. Any
// other outcome fails the test.
std::string report_on(const NDArray& result) {
  try {
    result.wait();
  } catch (const UndeclaredAccess& error) {
    return error.what();
  }
  return "legal";
}

bool says(const std::string& report, std::initializer_list<const char*> parts) {
  for (const char* part : parts) {
    if (report.find(part) == std::string::npos) return false;
  }
  return true;
}

// Runs test(x, y) on each scheduler with the access checker; x is (2, 3), y is (4,).
void with_arrays(const std::function<void(const NDArray& x, const NDArray& y)>& test) {
  const Checking checking;
  test::on_every_scheduler([&](Engine& engine) {
    EngineScope scope(engine);
    const NDArray x = ones({2, 3}), y = zeros({4});
    engine.wait_all();
    test(x, y);
  });
}

}  // namespace

TEST_CASE("an undeclared read is an error that names op, place, array and what was done") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    array_push("forgetful", {}, {y}, [x, y] { y.data<float>()[0] = x.data<const float>()[0]; });
    const std::string report = report_on(y);
    CAPTURE(report);
    CHECK(says(report, {"op 'forgetful' pushed at ", "check_test.cc:", "an array of f32 (2, 3)",
                        "declared: nothing; touched: read"}));
    CHECK(x.to_vector<float>() == std::vector<float>(6, 1));
  });
}

TEST_CASE("an undeclared write is an error") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    array_push("stray", {}, {y}, [x] { x.data<float>()[0] = 7; });
    CHECK(says(report_on(y), {"'stray'", "(2, 3)", "declared: nothing; touched: write"}));
    CHECK(x.to_vector<float>() == std::vector<float>(6, 1));
  });
}

TEST_CASE("a write to what was declared as read is an error") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    array_push("sly", {x}, {y}, [x] { x.data<float>()[0] = 7; });
    CHECK(says(report_on(y), {"'sly'", "(2, 3)", "declared: read; touched: write"}));
    CHECK(x.to_vector<float>() == std::vector<float>(6, 1));
  });
}

TEST_CASE("what was declared may be done: reads, writes, and reads of what is written") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    array_push("honest", {x}, {y}, [x, y] {
      y.data<float>()[0] = x.data<const float>()[0];
      y.data<float>()[1] = y.data<const float>()[0] + 1;
    });
    CHECK(report_on(y) == "legal");
    CHECK(y[1].item<float>() == 2);
    CHECK(x.to_string() == "[[1. 1. 1.]\n [1. 1. 1.]]");
  });
}

TEST_CASE("views are declared by any other view of their storage") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    const NDArray row = x[0], column = x.permuted({1, 0})[2];
    array_push("views", {row}, {y}, [column, y] { y.data<float>()[0] = column.data<const float>()[0]; });
    CHECK(report_on(y) == "legal");
    array_push("views", {row}, {y}, [column] { column.data<float>()[0] = 0; });
    CHECK(says(report_on(y), {"an array of f32 (2,)", "declared: read; touched: write"}));
  });
}

TEST_CASE("bytes and whole storages are looked after too") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    array_push("bytes", {}, {y}, [x] { x.data<const std::byte>(); });
    CHECK(says(report_on(y), {"(2, 3)", "touched: read"}));
    y.fill(0);
    array_push("storage", {x}, {y}, [x] { x.storage()->data(); });
    CHECK(says(report_on(y), {"a storage of 24 bytes", "declared: read; touched: write"}));
  });
}

TEST_CASE("chunks of a parallel loop count as the op that runs it") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    const auto touch_all = [x, y] {
      parallel_for(4, 1,
                   [&](std::int64_t i, std::int64_t) { y.data<float>()[i] = x.data<const float>()[i]; });
    };
    array_push("loop", {x}, {y}, touch_all);
    CHECK(report_on(y) == "legal");
    CHECK(y.to_vector<float>() == std::vector<float>(4, 1));
    array_push("loop", {}, {y}, touch_all);
    CHECK(says(report_on(y), {"op 'loop'", "declared: nothing; touched: read"}));
  });
}

TEST_CASE("in a graph each op is held to its own list and named, whatever the others declare") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    Engine& engine = y.engine();
    const NDArray z = zeros({4});
    z.wait();
    Graph graph = engine.capture(
        [&] {
          array_push("honest", {x}, {z}, [x, z] { z.data<float>()[0] += x.data<const float>()[0]; });
          array_push("forgetful", {}, {y}, [x, y] { y.data<float>()[0] = x.data<const float>()[0]; });
        },
        "step");
    Graph writes = engine.capture([&] {
      array_push("sly", {x}, {y}, [x] { x.data<float>()[0] = 7; });
      array_push("owner", {}, {x}, [x] { x.data<float>()[0] = 1; });
    });
    for (int launch = 0; launch < 3; ++launch) {
      graph.launch();
      const std::string report = report_on(y);
      CAPTURE(report);
      CHECK(says(report, {"op 'forgetful' pushed at ", "check_test.cc:", "(2, 3)",
                          "declared: nothing; touched: read"}));
      writes.launch();
      CHECK(says(report_on(y), {"op 'sly'", "(2, 3)", "declared: read; touched: write"}));
    }
    CHECK(report_on(x) == "legal");
    CHECK(report_on(z) == "legal");
    CHECK(z[0].item<float>() == 3);
    y.fill(0);
  });
}

TEST_CASE("a parallel loop in a graph counts as the op that runs it") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    const auto touch_all = [x, y] {
      parallel_for(4, 1,
                   [&](std::int64_t i, std::int64_t) { y.data<float>()[i] = x.data<const float>()[i]; });
    };
    Graph graph = y.engine().capture([&] {
      array_push("fill", {}, {x}, [x] { x.data<float>()[0] = 1; });
      array_push("loop", {x}, {y}, touch_all);
    });
    graph.launch();
    CHECK(report_on(y) == "legal");
    CHECK(y.to_vector<float>() == std::vector<float>(4, 1));
    Graph forgetful = y.engine().capture([&] {
      array_push("fill", {}, {x}, [x] { x.data<float>()[0] = 1; });
      array_push("loop", {}, {y}, touch_all);
    });
    forgetful.launch();
    CHECK(says(report_on(y), {"op 'loop'", "declared: nothing; touched: read"}));
  });
}

TEST_CASE("what an op of a graph has made is its own for that launch alone") {
  with_arrays([](const NDArray&, const NDArray& y) {
    NDArray kept;
    Graph graph = y.engine().capture([&] {
      array_push("maker", {}, {y}, [y, &kept] {
        EngineScope scope(y.engine());
        if (kept.defined()) *kept.data<float>() = 1;
        kept = array<float>({5});
        *y.data<float>() = *kept.data<const float>();
      });
    });
    graph.launch();
    CHECK(report_on(y) == "legal");
    graph.launch();
    CHECK(says(report_on(y), {"op 'maker'", "declared: nothing; touched: write"}));
  });
}

TEST_CASE("an op that runs while another waits is held to its own list") {
  with_arrays([](const NDArray& x, const NDArray& y) {
    const NDArray inner = zeros({1}), stray = zeros({1});
    inner.wait();
    stray.wait();
    array_push("outer", {x}, {y}, [x, y, inner, stray] {
      array_push("inner", {x}, {inner}, [x, inner] { *inner.data<float>() = *x.data<const float>(); });
      array_push("stray", {}, {stray}, [stray, x] { *stray.data<float>() = *x.data<const float>(); });
      inner.wait();
      CHECK(says(report_on(stray), {"op 'stray'", "declared: nothing; touched: read"}));
      *y.data<float>() = *x.data<const float>();
    });
    CHECK(report_on(y) == "legal");
    CHECK(y[0].item<float>() == 1);
    CHECK(inner.item<float>() == 1);
    CHECK_THROWS_AS(stray.wait(), UndeclaredAccess);
  });
}

TEST_CASE("an op may use arrays that it made, once it has waited for them; the ops that it pushes may not") {
  with_arrays([](const NDArray&, const NDArray& y) {
    array_push("maker", {}, {y}, [y] {
      EngineScope scope(y.engine());
      const NDArray scratch = array<float>({5}), filled = full({1}, 3);
      filled.wait();
      *y.data<float>() = *scratch.data<const float>() + *filled.data<const float>();
      const NDArray other = zeros({1});
      array_push("other", {}, {other}, [scratch] { *scratch.data<float>() = 6; });
      CHECK(says(report_on(other), {"op 'other'", "declared: nothing; touched: write"}));
    });
    CHECK(report_on(y) == "legal");
    CHECK(y[0].item<float>() == 8);
  });
}

TEST_CASE("the thread that pushed a change has to wait for it before it touches the data") {
  const Checking checking;
  Engine engine({.scheduler = Scheduler::threaded, .workers = 2});
  EngineScope scope(engine);
  const NDArray x = zeros({2, 2}), y = zeros({3});
  engine.wait_all();
  std::latch gate(1);
  array_push("slow", {}, {x}, [&gate] { gate.wait(); });
  array_push("queued", {x}, {y}, [] {});
  CHECK_THROWS_WITH_AS(x.data<const float>(), doctest::Contains("an array of f32 (2, 2) was touched (read)"),
                       UndeclaredAccess);
  CHECK_THROWS_WITH_AS(y.data<float>(), doctest::Contains("(3,) was touched (write)"), UndeclaredAccess);
  gate.count_down();
  y.wait();
  CHECK(*x.data<const float>() == 0);
  *y.data<float>() = 1;
  CHECK(y[0].item<float>() == 1);
}

TEST_CASE("an asynchronous op's work on another thread is legal") {
  const Checking checking;
  test::on_every_scheduler([](Engine& engine) {
    EngineScope scope(engine);
    const NDArray y = zeros({1});
    y.wait();
    std::thread helper;
    const Access access = array_access("async", {}, {&y, 1});
    engine.push_async(
        [&helper, y](RunContext&, Completion completion) {
          helper = std::thread([y, completion = std::move(completion)]() mutable {
            *y.data<float>() = 4;
            completion.done();
          });
        },
        access);
    CHECK(report_on(y) == "legal");
    helper.join();
    CHECK(y.item<float>() == 4);
  });
}

TEST_CASE("the checker is off unless HEDDLE_CHECK or a call turns it on") {
  const char* wanted = std::getenv("HEDDLE_CHECK");
  CHECK(check::enabled() == (wanted && std::string_view(wanted) == "1"));
  const Checking checking(false);
  const NDArray x = ones({2}), y = zeros({1});
  x.wait();
  array_push("unchecked", {}, {y}, [x, y] { *y.data<float>() = *x.data<float>(); });
  CHECK(report_on(y) == "legal");
  CHECK(y.item<float>() == 1);
}

}  // namespace heddle
