#include "server/reports/report.h"

#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include <heddle/error.h>

#include "files.h"
#include "server/hand_made.h"
#include "server/reports/plan_report.h"

using namespace heddle;
using namespace heddle::tool;
using heddle::test::add_times;
using heddle::test::hand_made;
using heddle::test::TemporaryFile;
using heddle::test::worker;

namespace {

// The statistics of hand_made() ten seconds later.
ServerSnapshot later() {
  ServerSnapshot now = hand_made();
  now.stats.uptime += 10;
  now.stats.pushes += 50, now.stats.pulls += 45, now.stats.rounds += 25;
  now.stats.workers[0].bytes_received += 10'485'760;
  now.stats.workers[0].bytes_sent += 20'480;
  add_times(now.stats.requests[0].total, {{0, 5}, {8, 40}}, 0.75);
  add_times(now.stats.requests[0].server, {{0, 45}}, 0.125);
  add_times(now.stats.requests[0].workers, {{0, 5}, {8, 40}}, 0.625);
  add_times(now.stats.requests[1].total, {{0, 48}, {4, 2}}, 0.25);
  add_times(now.stats.requests[1].server, {{0, 48}, {4, 2}}, 0.25);
  add_times(now.stats.requests[1].workers, {{0, 50}}, 0);
  return now;
}

std::vector<int> stragglers(const std::vector<WorkerStats>& workers) {
  ServerStats stats;
  stats.workers = workers;
  std::vector<int> result;
  for (const Straggler& one : stragglers_of(stats)) result.push_back(one.worker);
  return result;
}

// The bytes of a safetensors file with this header and no data.
std::string safetensors(const std::string& header) {
  std::string text;
  for (std::uint64_t at = 0, length = header.size(); at < 8; ++at)
    text += static_cast<char>(length >> 8 * at);
  return text + header;
}

std::string problem_of_file(const std::string& bytes) {
  const TemporaryFile file;
  heddle::test::write_file(file.path, bytes);
  try {
    safetensors_keys(file.path);
  } catch (const std::runtime_error& error) {
    return std::string(error.what()).substr(file.path.size());
  }
  return "";
}

}  // namespace

TEST_CASE("status: what one sample says") {
  CHECK(status_text(hand_made(), nullptr) ==
        "10.0.0.1:9463: server 1 of 2, transport net, up 62 min\n"
        "1 job, 120 keys; 1.5 GiB of values, 3 GiB of optimizer state, 4 KiB of pushes that wait; at most 8 "
        "GiB\n"
        "1000 pushes, 990 pulls, 500 rounds; 3 duplicates, 2 refused, 6 unauthorized; worst staleness 4\n"
        "part 0: a copy, for when its server is lost\n"
        "part 1: served here, the backup has all, 512 B not confirmed\n"
        "\n"
        "Requests since the start, and their wait for other workers:\n"
        "REQUEST  COUNT  SERVER P50  SERVER P99  WAIT P50  WAIT P99\n"
        "pull     990    < 50 us     505 us      < 50 us   49.5 ms\n"
        "push     1000   < 50 us     450 us      -         -\n"
        "\n"
        "JOB      WORKER  STATE      CLOCK  BEHIND  RECEIVED   SENT       PULLS WAITING  SILENT FOR\n"
        "default  0       connected  21     -       4.768 MiB  3.815 MiB  1              0.2 s\n"
        "default  1       gone       17     4       2.861 MiB  1.907 MiB  0              61.0 s\n"
        "\n"
        "Stragglers:\n"
        "  worker 1 of job default: clock 17, 4 behind the median, gone\n");
}

TEST_CASE("status: two samples give rates, by the server's clock") {
  const ServerSnapshot before = hand_made();
  const std::string text = status_text(later(), &before);
  CHECK(text.find("1050 pushes (5/s), 1035 pulls (4.5/s), 525 rounds (2.5/s);") != std::string::npos);
  CHECK(text.find("14.77 MiB, 1 MiB/s") != std::string::npos);
  CHECK(text.find("3.834 MiB, 2 KiB/s") != std::string::npos);
}

TEST_CASE("status: requests are those between two samples, or all if there were none") {
  const ServerSnapshot before = hand_made();
  ServerSnapshot now = later();
  CHECK(status_text(now, &before)
            .find("Requests of the last 10.0 s, and their wait for other workers:\n"
                  "REQUEST  COUNT  SERVER P50  SERVER P99  WAIT P50  WAIT P99\n"
                  "pull     45     < 50 us     < 50 us     16.6 ms   24.8 ms\n"
                  "push     50     < 50 us     875 us      -         -\n") != std::string::npos);
  now.stats.requests = before.stats.requests;
  CHECK(status_text(now, &before).find("Requests since the start,") != std::string::npos);
  add_times(now.stats.requests[0].server, {{19, 990}}, 1e5);
  add_times(now.stats.requests[0].total, {{19, 990}}, 1e5);
  CHECK(status_text(now, nullptr).find("pull     1980   1 ms        > 60 s ") != std::string::npos);
  now.stats.requests.clear();
  CHECK(status_text(now, &before).find("Requests") == std::string::npos);
}

TEST_CASE("status: the example of the page is what is printed") {
  const ServerSnapshot before = hand_made();
  const std::string page = heddle::test::read_file(HEDDLE_METRICS_PAGE);
  CHECK(page.find("```text\n" + status_text(later(), &before) + "```\n") != std::string::npos);
}

TEST_CASE("status: a server that has started again, and a worker that has come anew, have no rates") {
  ServerSnapshot before = later(), now = hand_made();
  CHECK(status_text(now, &before) == status_text(now, nullptr));
  before = hand_made(), now = later();
  now.stats.workers[0].bytes_received = 1024;
  CHECK(status_text(now, &before).find("1 KiB ") != std::string::npos);
  CHECK(status_text(now, &before).find("1 KiB,") == std::string::npos);
}

TEST_CASE("status: a server that drains, without workers, without a limit") {
  ServerSnapshot now = hand_made();
  now.stats.draining = true;
  now.stats.workers.clear();
  now.memory_limit = 0;
  const std::string text = status_text(now, nullptr);
  CHECK(text.find("up 62 min, draining\n") != std::string::npos);
  CHECK(text.find("at most") == std::string::npos);
  CHECK(text.ends_with("\nno worker has been here\n"));
}

TEST_CASE("status: a name cannot move the cursor of a terminal") {
  ServerSnapshot now = hand_made();
  now.stats.workers[0].job = "\x1b[2J\nroot";
  CHECK(status_text(now, nullptr).find("?[2J?root") != std::string::npos);
  CHECK(status_text(now, nullptr).find('\x1b') == std::string::npos);
  CHECK(printable("a\x7F\xC2\x9B\xC2\xA7\xC2") == "a??\xC2\xA7\xC2");
}

TEST_CASE("status: stragglers are more than 2 behind the median of their job, the farthest first") {
  CHECK(stragglers({worker("a", 0, 10), worker("a", 1, 8), worker("a", 2, 10)}).empty());
  CHECK(stragglers({worker("a", 0, 10), worker("a", 1, 7), worker("a", 2, 10)}) == std::vector<int>{1});
  CHECK(stragglers({worker("a", 0, 10), worker("a", 1, 5), worker("a", 2, 3), worker("a", 3, 10),
                    worker("a", 4, 10)}) == std::vector<int>{2, 1});
  CHECK(stragglers({worker("a", 0, 100), worker("b", 1, 5), worker("b", 2, 5)}).empty());
}

TEST_CASE("status: workers that are gone do not count for the median, but may be behind it") {
  CHECK(stragglers({worker("a", 0, 10), worker("a", 1, 1, false), worker("a", 2, 1, false)}) ==
        std::vector<int>{1, 2});
  CHECK(stragglers({worker("a", 0, 10, false), worker("a", 1, 1, false)}).empty());
  CHECK(stragglers({}).empty());
}

TEST_CASE("status: JSON holds numbers in base units") {
  const ServerSnapshot before = hand_made();
  const auto all = nlohmann::json::parse(status_json(later(), &before));
  CHECK(all["address"] == "10.0.0.1:9463");
  CHECK(all["uptime_seconds"] == 3733.5);
  CHECK(all["value_bytes"] == 1610612736);
  CHECK(all["pushes"] == 1050);
  CHECK(all["pushes_per_second"] == 5.0);
  REQUIRE(all["workers"].size() == 2);
  CHECK(all["workers"][0]["received_bytes_per_second"] == 1048576.0);
  CHECK(all["workers"][1]["connected"] == false);
  REQUIRE(all["stragglers"].size() == 1);
  CHECK(all["stragglers"][0]["worker"] == 1);
  CHECK(all["stragglers"][0]["median"] == 21);
  REQUIRE(all["requests"].size() == 2);
  CHECK(all["requests_when"] == "of the last 10.0 s");
  CHECK(all["requests"][0]["request"] == "pull");
  CHECK(all["requests"][0]["count"] == 45);
  CHECK(all["requests"][0]["wait"]["seconds"] == 0.625);
  CHECK(all["requests"][0]["wait"]["p50_seconds"].get<double>() == doctest::Approx(16.5625e-3));
  CHECK(all["requests"][1]["server"]["p99_seconds"].get<double>() == doctest::Approx(875e-6));
  CHECK(nlohmann::json::parse(status_json(later(), nullptr))["pushes_per_second"].is_null());
}

TEST_CASE("plan: keys of a safetensors file are those of its header") {
  const TemporaryFile file;
  heddle::test::write_file(file.path,
                           safetensors(R"({"__metadata__":{"a":"b"},"w":{"dtype":"F32","shape":[2,3],)"
                                       R"("data_offsets":[0,24]},"b":{"dtype":"F32","shape":[1],)"
                                       R"("data_offsets":[24,28]}})"));
  const auto keys = safetensors_keys(file.path);
  REQUIRE(keys.size() == 2);
  CHECK(keys[0].key == "b");
  CHECK(keys[0].bytes == 4);
  CHECK(keys[1].key == "w");
  CHECK(keys[1].bytes == 24);
}

TEST_CASE("plan: what is no safetensors file is refused") {
  CHECK(problem_of_file("") == " is no safetensors file: it has less than 8 bytes");
  CHECK(problem_of_file("\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF{}") ==
        " is no safetensors file: a header of 18446744073709551615 bytes");
  CHECK(problem_of_file(std::string("\0\0\0\1\0\0\0\0{}", 10)) ==
        " is no safetensors file: it ends inside its header");
  CHECK(problem_of_file(safetensors("[]")) == " is no safetensors file: its header is no JSON object");
  CHECK(problem_of_file(safetensors("{\"a\"")) == " is no safetensors file: its header is no JSON object");
  for (const char* entry : {"1", "{}", R"({"data_offsets":1})", R"({"data_offsets":[1]})",
                            R"({"data_offsets":[-1,2]})", R"({"data_offsets":["0","1"]})"}) {
    CAPTURE(entry);
    CHECK(problem_of_file(safetensors(std::string("{\"a\":") + entry + "}")) ==
          " is no safetensors file: a has no data_offsets");
  }
  CHECK(problem_of_file(safetensors(R"({"a":{"data_offsets":[2,1]}})")) ==
        " is no safetensors file: a ends before it begins");
  CHECK_THROWS_AS(safetensors_keys("/nowhere/at/all"), std::runtime_error);
}

TEST_CASE("plan: where keys live, and what each server holds and carries") {
  const ServerPlan plan{.file = "model.safetensors",
                        .placement = "greedy",
                        .optimizer = "adam",
                        .servers = 2,
                        .workers = 4,
                        .keys = {{"big", 4 << 20}, {"bias", 1024}, {"weight", 3072}}};
  CHECK(plan_text(plan) ==
        "model.safetensors: 3 keys, 4.004 MiB; 2 servers, placement greedy\n"
        "\n"
        "KEY     OFFSET        SIZE          SERVER\n"
        "big     0             2 MiB         0\n"
        "big     2097152       2 MiB         1\n"
        "bias    0             1 KiB         1\n"
        "weight  0             3 KiB         0\n"
        "\n"
        "Each server holds values and the state of adam. In a step it receives what all workers push and "
        "sends what they "
        "pull; workers: 4.\n"
        "\n"
        "SERVER  PARTS   VALUES        STATE         RECEIVES      SENDS\n"
        "0       2       2.003 MiB     4.006 MiB     8.012 MiB     8.012 MiB\n"
        "1       2       2.001 MiB     4.002 MiB     8.004 MiB     8.004 MiB\n"
        "\n"
        "The fullest server holds 1.00 times the mean.\n");
  ServerPlan other = plan;
  other.optimizer = "sgd";
  CHECK(plan_text(other).find("0       2       2.003 MiB     0 B           8.012 MiB") != std::string::npos);
  other.optimizer = "lbfgs";
  CHECK_THROWS_WITH_AS(
      plan_text(other),
      "optimizer 'lbfgs': want one of adadelta, adagrad, adam, adamw, lion, nadam, rmsprop, sgd, "
      "momentum",
      std::runtime_error);
  other.optimizer = "lion";
  CHECK(plan_text(other).find("0       2       2.003 MiB     2.003 MiB     8.012 MiB") != std::string::npos);
  other = plan, other.keys.clear();
  CHECK(plan_text(other).find("0       0       0 B") != std::string::npos);
}

TEST_CASE("plan: what it has placed is a list for a store, but for keys that are split") {
  ServerPlan plan{.file = "model.safetensors",
                  .placement = "greedy",
                  .optimizer = "sgd",
                  .servers = 2,
                  .keys = {{"big", 4 << 20}, {"bias", 1024}, {"a=weight", 3072}}};
  CHECK(placement_lines(plan) == "bias=1\na=weight=0\n");
  plan.placement = "explicit:big=1,bias=0,a=weight=1";
  CHECK(placement_lines(plan) == "big=1\nbias=0\na=weight=1\n");
  plan.keys.push_back({"two\nlines", 4});
  CHECK_THROWS_AS(placement_lines(plan), heddle::InvalidArgument);
  CHECK(problem_with_placement("explicit:a=0") == "");
  CHECK(problem_with_placement("random").starts_with("placement 'random': want hash"));
  CHECK(problem_with_placement("explicit:@/nowhere/at/all").find("cannot be read") != std::string::npos);
}
