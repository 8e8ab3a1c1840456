// Event files, read by a reader of their own.
#include <algorithm>
#include <cmath>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <message_of.h>
#include <set>
#include <string>
#include <sys/resource.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/engine.h>
#include <heddle/layers.h>
#include <heddle/log.h>
#include <heddle/model.h>
#include <heddle/ops.h>
#include <heddle/sequential.h>
#include <heddle/summary_writer.h>

#include "logging/event_file.h"
#include "logging/event_reader.h"
#include "schedulers.h"

using namespace heddle;
using namespace heddle::test;

namespace {

std::vector<double> doubles_in(const std::string& bytes) {
  std::vector<double> all;
  for (std::size_t at = 0; at < bytes.size(); at += 8) all.push_back(number_at<double>(bytes, at));
  return all;
}

// An array whose op has failed.
NDArray failed() { return take(ones({2}), array<std::int64_t>({5})); }

struct Buckets {
  double min, max, count, sum, squares;
  std::vector<double> limits, counts;
  bool operator==(const Buckets&) const = default;
};

Buckets buckets_of(const ReadValue& value) {
  const Fields f = fields_of(only(value.fields, 5));
  const auto real = [&](int field) { return number_at<double>(only(f, field), 0); };
  return {real(1), real(2), real(3), real(4), real(5), doubles_in(only(f, 6)), doubles_in(only(f, 7))};
}

// How many of the values lie from the limit before to before each limit.
std::vector<double> counted(const std::vector<double>& values, const std::vector<double>& limits) {
  std::vector<double> counts(limits.size(), 0);
  for (const double value : values) {
    if (!std::isfinite(value)) continue;
    const auto at = std::upper_bound(limits.begin(), limits.end(), value) - limits.begin();
    ++counts[std::min(static_cast<std::size_t>(at), limits.size() - 1)];
  }
  return counts;
}

}  // namespace

TEST_CASE("the checksum is CRC-32C, rotated and added to a constant") {
  for (const std::string& text : {std::string(), std::string("123456789"), std::string(1000, '\xff')})
    CHECK(nn_detail::masked_crc32c(text) == slow_masked_crc(text));
}

TEST_CASE("scalars are in the order of the calls, numbers and arrays, and arrays are read as they were") {
  on_every_scheduler([](Engine& engine) {
    const EngineScope scope(engine);
    const TemporaryDirectory folder;
    SummaryWriter writer(folder.file("runs/1"), {.suffix = ".test"});
    CHECK(writer.path().ends_with(".test"));
    CHECK(std::filesystem::path(writer.path()).filename().string().find("events.out.tfevents.") == 0);
    NDArray x = zeros({});
    for (int step = 0; step < 20; ++step) {
      writer.scalar("array", x, step);
      writer.scalar("number", step + 0.5, step);
      x += 1;
    }
    writer.scalar("count", array<std::int64_t>({7}), -3);
    writer.scalar("flag", ones({1}) > 0, std::int64_t{1} << 40);
    writer.flush();
    const std::vector<ReadValue> values = values_of(writer.path());
    REQUIRE(values.size() == 42);
    for (int step = 0; step < 20; ++step) {
      const ReadValue &of_array = values[static_cast<std::size_t>(2 * step)],
                      &of_number = values[static_cast<std::size_t>(2 * step + 1)];
      CHECK(of_array.tag == "array");
      CHECK(of_array.step == step);
      CHECK(of_array.scalar() == static_cast<float>(step));
      CHECK(of_number.tag == "number");
      CHECK(of_number.scalar() == static_cast<float>(step) + 0.5f);
    }
    CHECK(values[40].scalar() == 7);
    CHECK(values[40].step == -3);
    CHECK(values[41].scalar() == 1);
    CHECK(values[41].step == std::int64_t{1} << 40);
  });
}

TEST_CASE("threads write whole records") {
  const TemporaryDirectory folder;
  SummaryWriter writer(folder.file("run"));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      NDArray x = full({}, t);
      for (int step = 0; step < 200; ++step) {
        writer.scalar("t" + std::to_string(t), x, step);
        if (step % 50 == 0) writer.flush();
      }
    });
  for (std::thread& one : threads) one.join();
  writer.close();
  std::map<std::string, std::int64_t> next;
  for (const ReadValue& one : values_of(writer.path())) CHECK(one.step == next[one.tag]++);
  for (int t = 0; t < 4; ++t) CHECK(next["t" + std::to_string(t)] == 200);
}

TEST_CASE("an array's error comes at flush, and other records are written") {
  on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const TemporaryDirectory folder;
    SummaryWriter writer(folder.file("run"));
    writer.scalar("before", 1, 0);
    writer.scalar("bad", failed()[0], 1);
    writer.histogram("bad", failed(), 1);
    writer.scalar("after", full({}, 2), 2);
    CHECK(message_of<Error>([&] { writer.flush(); }).find("5") != std::string::npos);
    writer.flush();
    writer.scalar("last", 3, 3);
    writer.close();
    std::vector<std::string> tags;
    for (const ReadValue& one : values_of(writer.path())) tags.push_back(one.tag);
    CHECK(tags == std::vector<std::string>{"before", "after", "last"});
  });
}

TEST_CASE("a histogram counts as its limits say, whatever the numbers are and with any number of workers") {
  Generator generator(1);
  const double inf = std::numeric_limits<double>::infinity(), huge = std::numeric_limits<double>::max();
  std::vector<double> special{0,   -0.0, 1e-12, -1e-12, 1e-13, -1e-13, 5e-324, -5e-324, 1,           -1,
                              1.1, huge, -huge, 1e20,   1e21,  -1e21,  inf,    -inf,    std::nan("")};
  for (double limit = 1e-12; limit < 1e20; limit *= 1.1) special.insert(special.end(), {limit, -limit});
  const std::vector<NDArray> arrays{array<double>(special, {static_cast<std::int64_t>(special.size())}),
                                    generator.normal({300, 1000}, 0, 1),
                                    generator.normal({1000}, 3, 0.01).astype(DType::f16),
                                    array<std::int64_t>({-5, 0, 3, 3, 9}),
                                    zeros({0}),
                                    full({3}, std::nan("")),
                                    transpose(generator.normal({7, 90}, 0, 100, DType::f64))};
  const TemporaryDirectory folder;
  SummaryWriter writer(folder.file("run"));
  for (const NDArray& one : arrays) writer.histogram("h", one, 0);
  writer.close();
  const std::vector<ReadValue> values = values_of(writer.path());
  REQUIRE(values.size() == arrays.size());
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    CAPTURE(i);
    std::vector<double> all = arrays[i].astype(DType::f64).to_vector<double>();
    const Buckets buckets = buckets_of(values[i]);
    REQUIRE(buckets.limits.size() == buckets.counts.size());
    CHECK(!buckets.limits.empty());
    CHECK(std::is_sorted(buckets.limits.begin(), buckets.limits.end()));
    CHECK(buckets.counts == counted(all, buckets.limits));
    std::erase_if(all, [](double value) { return !std::isfinite(value); });
    CHECK(buckets.count == static_cast<double>(all.size()));
    CHECK(buckets.min == (all.empty() ? 0 : *std::min_element(all.begin(), all.end())));
    CHECK(buckets.max == (all.empty() ? 0 : *std::max_element(all.begin(), all.end())));
    double sum = 0;
    for (const double value : all) sum += value;
    if (i > 0) CHECK(buckets.sum == doctest::Approx(sum));
  }
  const auto run = [&](int workers) {
    Engine engine({.workers = workers});
    const EngineScope scope(engine);
    const TemporaryDirectory own;
    SummaryWriter to(own.file("run"));
    to.histogram("h", Generator(2).normal({500, 999}, 0, 1), 0);
    to.close();
    return buckets_of(values_of(to.path()).at(0));
  };
  const Buckets one = run(1);
  CHECK(one == run(2));
  CHECK(one == run(4));
}

TEST_CASE("of many records that fail, flush says the first error, and the others are written") {
  on_every_scheduler_with_errors([](Engine& engine) {
    const EngineScope scope(engine);
    const TemporaryDirectory folder;
    SummaryWriter writer(folder.file("run"));
    for (int i = 0; i < 500; ++i) {
      writer.scalar("bad", failed()[0], i);
      writer.scalar("good", i, i);
    }
    CHECK(message_of<Error>([&] { writer.flush(); }).find("5") != std::string::npos);
    writer.flush();
    writer.close();
    CHECK(values_of(writer.path()).size() == 500);
  });
}

TEST_CASE("images are PNG files of their size") {
  const TemporaryDirectory folder;
  SummaryWriter writer(folder.file("run"));
  writer.image("grey", Generator(1).uniform({5, 7}, -0.5, 1.5), 0);
  writer.image("colours", full({3, 4, 6}, 200, DType::u8), 0);
  writer.image("last", ones({4, 6, 4}), 0, true);
  writer.image("many", ones({5, 1, 2, 3}), 0);
  writer.close();
  const std::vector<ReadValue> values = values_of(writer.path());
  REQUIRE(values.size() == 4);
  const std::vector<std::vector<std::int64_t>> wanted{{5, 7, 1}, {4, 6, 3}, {4, 6, 4}, {4, 9, 1}};
  for (std::size_t i = 0; i < 4; ++i) {
    const Fields image = fields_of(only(values[i].fields, 4));
    CHECK(std::stoll(only(image, 1)) == wanted[i][0]);
    CHECK(std::stoll(only(image, 2)) == wanted[i][1]);
    CHECK(std::stoll(only(image, 3)) == wanted[i][2]);
    CHECK(only(image, 4).starts_with("\x89PNG\r\n\x1a\n"));
  }
}

TEST_CASE("a graph has a node for each layer and operator, with its inputs") {
  const TemporaryDirectory folder;
  SummaryWriter writer(folder.file("run"));
  const Symbol x = input("x", {kInferred, 4});
  const Symbol y = connect(Dense(4, 3), x);
  Model model({x}, {connect("add", {connect(Sequential{Relu(), Dense(3, 3)}, y), y})});
  writer.graph(model, {ones({2, 4})});
  writer.close();
  const std::vector<std::string> records = records_of(writer.path());
  REQUIRE(records.size() == 2);
  std::map<std::string, std::vector<std::string>> inputs;
  std::map<std::string, std::string> ops;
  const Fields graph = fields_of(only(fields_of(records[1]), 4));
  for (auto [begin, end] = graph.equal_range(1); begin != end; ++begin) {
    const Fields node = fields_of(begin->second);
    ops[only(node, 1)] = only(node, 2);
    for (auto [from, to] = node.equal_range(3); from != to; ++from)
      inputs[only(node, 1)].push_back(from->second);
  }
  using Names = std::vector<std::string>;
  CHECK(ops["x"] == "Placeholder");
  CHECK(inputs["dense_0_Dense"] == Names{"x"});
  CHECK(inputs["sequential_0/0_Relu"] == Names{"dense_0_Dense"});
  CHECK(inputs["sequential_0/1_Dense"] == Names{"sequential_0/0_Relu"});
  CHECK(inputs["add_0"] == Names{"sequential_0/1_Dense", "dense_0_Dense"});
  CHECK(ops.size() == 5);
}

TEST_CASE("a full disk is an error at flush, the file keeps whole records, and what fits later is written") {
  const TemporaryDirectory folder;
  SummaryWriter writer(folder.file("run"));
  writer.scalar("first", 1, 0);
  writer.flush();
  rlimit before{};
  REQUIRE(getrlimit(RLIMIT_FSIZE, &before) == 0);
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{4096, before.rlim_max};
  REQUIRE(setrlimit(RLIMIT_FSIZE, &small) == 0);
  writer.text("long", std::string(10000, 'x'), 1);
  writer.scalar("short", 2, 2);
  writer.text("long", std::string(10000, 'x'), 3);
  const std::string why = message_of<Error>([&] { writer.flush(); });
  REQUIRE(setrlimit(RLIMIT_FSIZE, &before) == 0);
  std::signal(SIGXFSZ, handler);
  CHECK(why == "event file '" + writer.path() + "' cannot be written: File too large; 2 records are missing");
  writer.scalar("last", 3, 4);
  writer.close();
  std::vector<std::string> tags;
  for (const ReadValue& one : values_of(writer.path())) tags.push_back(one.tag);
  CHECK(tags == std::vector<std::string>{"first", "short", "last"});
}

TEST_CASE("what is wrong is said at the call") {
  const auto why = [](auto f) { return message_of<InvalidArgument>(f); };
  const TemporaryDirectory folder;
  SummaryWriter writer(folder.file("run"));
  CHECK(why([&] { writer.scalar("", 1, 0); }) == "SummaryWriter::scalar: the tag is empty");
  CHECK(why([&] { writer.scalar("x", ones({2}), 0); }) ==
        "SummaryWriter::scalar: the array is (2,); want one element");
  CHECK(why([&] { writer.image("x", ones({2}), 0); }) ==
        "SummaryWriter::image: the image is f32 (2,); want (H, W), (C, H, W) or (N, C, H, W)");
  CHECK(why([&] {
          writer.image("x", ones({2, 3, 4}), 0);
        }) == "SummaryWriter::image: the image is f32 (2, 3, 4); want 1, 3 or 4 channels");
  CHECK(why([&] {
          writer.image("x", ones({3, 4}, DType::i64), 0);
        }).find("want u8, bool or a floating dtype") != std::string::npos);
  CHECK(why([&] { writer.image("x", zeros({0, 4}), 0); }).find("1 to 32768 pixels") != std::string::npos);
  CHECK_THROWS_AS(writer.histogram("x", NDArray(), 0), InvalidArgument);
  Engine other({.workers = 1});
  NDArray foreign;
  {
    const EngineScope scope(other);
    foreign = ones({1});
  }
  CHECK(why([&] { writer.scalar("x", foreign, 0); }).find("another engine") != std::string::npos);
  writer.close();
  writer.close();
  CHECK(why([&] { writer.scalar("x", 1, 0); }) == "SummaryWriter::scalar: the writer is closed");
  const std::string file = folder.file("file");
  write_file(file, "x");
  CHECK(message_of<Error>([&] { SummaryWriter(file + "/run"); }).find("cannot be made") != std::string::npos);
  const std::string zero = std::string("a") + '\0' + "b";
  CHECK(why([&] { SummaryWriter(folder.file("run"), {.suffix = zero}); }) ==
        "SummaryWriter: the suffix has a zero byte, which no path has");
  CHECK(why([&] { SummaryWriter{folder.file(zero)}; }).find("the folder has a zero byte") !=
        std::string::npos);
}

TEST_CASE("a writer that is destroyed writes everything, and logs an error") {
  const TemporaryDirectory folder;
  std::string path, logged;
  {
    SummaryWriter writer(folder.file("run"));
    path = writer.path();
    for (int i = 0; i < 100; ++i) writer.scalar("x", full({}, i), i);
  }
  CHECK(values_of(path).size() == 100);
  set_log([&](std::string_view text) { logged += text; });
  {
    SummaryWriter writer(folder.file("run"));
    writer.scalar("x", failed()[0], 0);
  }
  set_log({});
  CHECK(logged.find("SummaryWriter: ") == 0);
}

TEST_CASE("a process that is killed leaves whole records") {
  const TemporaryDirectory folder;
  const pid_t child = fork();
  if (child == 0) {
    nn_detail::EventFile file(folder.file("events"));
    for (int i = 0;; ++i) {
      file.append(std::string(static_cast<std::size_t>(100 + i % 900), 'r'));
      if (i == 500) write_file(folder.file("begun"), "");
    }
  }
  while (!std::filesystem::exists(folder.file("begun"))) std::this_thread::yield();
  kill(child, SIGKILL);
  int status = 0;
  REQUIRE(waitpid(child, &status, 0) == child);
  const std::string file = read_file(folder.file("events"));
  std::size_t at = 0, count = 0;
  while (at + 16 <= file.size()) {
    const auto length = number_at<std::uint64_t>(file, at);
    if (at + 16 + length > file.size()) break;  // the write that was under way
    CHECK(number_at<std::uint32_t>(file, at + 12 + length) == slow_masked_crc(file.substr(at + 12, length)));
    at += 16 + length;
    ++count;
  }
  CHECK(count > 500);
}
