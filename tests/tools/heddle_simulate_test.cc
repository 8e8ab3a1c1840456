#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <string>

#include <doctest/doctest.h>
#include <nlohmann/json.hpp>

#include "heddle_program.h"

using namespace heddle::test;

namespace {

using Json = nlohmann::json;

Outcome simulate(const std::string& arguments) { return run_heddle("simulate " + arguments); }

// What `heddle simulate` predicts for one number of ranks and one algorithm.
Json forecast(const std::string& arguments, const std::string& algorithm, int ranks) {
  const Outcome outcome =
      simulate(arguments + " --json --algorithms " + algorithm + " --ranks " + std::to_string(ranks));
  CHECK(outcome.error == "");
  REQUIRE(outcome.status == 0);
  const Json json = Json::parse(outcome.out);
  REQUIRE(json["ranks"].size() == 1);
  REQUIRE(json["ranks"][0]["ranks"] == ranks);
  return json["ranks"][0]["schemes"][0];
}

Json event(const char* category, const std::string& name, double start, double length, int sequence) {
  return {{"ph", std::string(category) == "async" ? "b" : "X"},
          {"cat", category},
          {"name", name},
          {"ts", start},
          {"dur", length},
          {"pid", 1},
          {"tid", 1},
          {"args", {{"engine", 1}, {"seq", sequence}}}};
}

// A trace of one training step of a single rank. Times in microseconds: the forward pass takes 0 to 1000;
// gradients of 1,000,000 bytes are ready at 2000 and at 3000, each of which is reduced in 10; the update ends
// at 3500.
File one_step() {
  return File(
      Json({event("op", "forward", 0, 1000, 1), event("op", "backward", 1000, 1000, 2),
            event("async", "all_reduce 1000000 B", 2000, 10, 3), event("op", "backward", 2000, 1000, 4),
            event("async", "all_reduce 1000000 B", 3000, 10, 5), event("op", "update", 3010, 490, 6)})
          .dump());
}

// Options for a network that takes 100 us per message and 1 ns per byte, with additions that take no time.
const std::string kNetwork =
    " --alpha 100us --beta 1GB/s --local-alpha 100us --local-beta 1GB/s --gamma 1000000GB/s ";

}  // namespace

TEST_CASE("simulate: a step by hand, on a ring of two and of five ranks") {
  const File trace = one_step();
  // On two ranks the reduction of a bucket takes 2 x (100 us + 500 us). The first bucket is reduced from 2000
  // to 3200, the second from 3200 to 4400; then the update takes 490.
  const Json two = forecast(trace.path() + kNetwork + "--bucket 1", "ring", 2);
  CHECK(two["step"].get<double>() == doctest::Approx(4890e-6).epsilon(1e-5));
  CHECK(two["efficiency"].get<double>() == doctest::Approx(3490.0 / 4890).epsilon(1e-5));
  CHECK(two["communication"].get<double>() == doctest::Approx(2400e-6).epsilon(1e-5));
  CHECK(two["hidden"].get<double>() == doctest::Approx(1000.0 / 2400).epsilon(1e-5));
  // On five ranks the reduction of a bucket takes 8 x (100 us + 200 us). The first bucket is reduced from
  // 2000 to 4400, the second from 4400 to 6800.
  CHECK(forecast(trace.path() + kNetwork + "--bucket 1", "ring", 5)["step"].get<double>() ==
        doctest::Approx(7290e-6).epsilon(1e-5));
  // With --steps 2 the trace counts as two steps of one bucket each. The second step computes from 2010 to
  // 3000.
  CHECK(forecast(trace.path() + kNetwork + "--bucket 1 --steps 2", "ring", 2)["step"].get<double>() ==
        doctest::Approx((990 + 1200) * 1e-6).epsilon(1e-5));
  // With one rank nothing is reduced.
  const Json one = forecast(trace.path() + kNetwork + "--bucket 1", "ring", 1);
  CHECK(one["efficiency"].get<double>() == doctest::Approx(1));
  CHECK(one["hidden"].get<double>() == doctest::Approx(1));
}

TEST_CASE("simulate: buckets that are put together wait for their last gradient") {
  const File trace = one_step();
  // Both gradients are in one bucket, whose reduction takes 2 x (100 us + 1000 us) and starts at 3000.
  const Json one = forecast(trace.path() + kNetwork + "--bucket 2MB", "ring", 2);
  CHECK(one["step"].get<double>() == doctest::Approx((3000 + 2200 + 490) * 1e-6).epsilon(1e-5));
  CHECK(one["hidden"].get<double>() == doctest::Approx(0));
}

TEST_CASE("simulate: parameter servers by hand") {
  const File trace = one_step();
  // Four workers on separate hosts and one server. The push of a gradient takes 4 x (100 us + 1000 us), and
  // its pull as long; the second push overlaps with the first pull. The first gradient is pushed from 2000 to
  // 6400 and pulled until 10800; the second is pushed from 6400 to 10800 and pulled until 15200.
  const Json one = forecast(trace.path() + kNetwork + "--servers 1", "server", 4);
  CHECK(one["step"].get<double>() == doctest::Approx(15690e-6).epsilon(1e-5));
  // Two servers with one gradient each. A worker's link is busy with the first gradient until 3100, and the
  // push and the pull of the second gradient take 4400 each.
  const Json two = forecast(trace.path() + kNetwork + "--servers 2", "server", 4);
  CHECK(two["step"].get<double>() == doctest::Approx(12390e-6).epsilon(1e-5));
}

TEST_CASE("simulate: of a trace of many steps the one in the middle counts, whatever else was reduced") {
  Json events;
  int sequence = 0;
  double now = 0;
  const auto reduce = [&](double after, int bytes) {
    now += after;
    events.push_back(event("async", "all_reduce " + std::to_string(bytes) + " B", now, 10, ++sequence));
    now += 10;
  };
  events.push_back(event("op", "begin", 0, 50000, ++sequence));
  now = 50000;
  for (int step = 0; step < 30; ++step) {
    reduce(step == 0 ? 90000 : 3000 + step % 3, 4000);  // step 0 takes far longer than the later steps
    reduce(500, 8000);
    reduce(490, 2000);
    if (step == 20) reduce(100, 8);  // a small reduction that is not of a gradient, such as that of a count
  }
  const File trace(events.dump());
  const Outcome outcome = simulate(trace.path() + " --json --ranks 1 --algorithms ring");
  REQUIRE(outcome.status == 0);
  const Json step = Json::parse(outcome.out)["step"];
  CHECK(step["gradients"] == 3);
  CHECK(step["bytes"] == 14000);
  CHECK(step["compute"].get<double>() == doctest::Approx((3001 + 10 + 500 + 10 + 490) * 1e-6).epsilon(1e-3));
  CHECK(step["after"] == 0);
}

TEST_CASE("simulate: published models have their published sizes, and lose speed with ranks") {
  const struct {
    const char* name;
    double parameters, images;
  } models[] = {{"vgg16", 138357544, 64},
                {"resnet101", 44549160, 64},
                {"inception3", 23834568, 64},
                {"hepcnn", 594178, 8}};
  for (const auto& model : models) {
    const Outcome outcome = simulate(std::string("--model ") + model.name + " --json --ranks-per-host 4");
    REQUIRE(outcome.status == 0);
    const Json json = Json::parse(outcome.out);
    CHECK(json["step"]["bytes"].get<double>() == doctest::Approx(4 * model.parameters).epsilon(1e-9));
    CHECK(json["ranks"].size() == 12);
    double before = 1;
    for (const Json& row : json["ranks"]) {
      const Json& ring = row["schemes"][0];
      CHECK(ring["efficiency"].get<double>() <= before + 1e-9);
      CHECK(ring["images_per_second"].get<double>() ==
            doctest::Approx(model.images * row["ranks"].get<double>() / ring["step"].get<double>()));
      before = ring["efficiency"].get<double>();
    }
  }
}

TEST_CASE("simulate: a tuning file gives what is not said") {
  const File trace = one_step(),
             tuning("local_alpha_us 200\nlocal_beta_ns 1\nremote_alpha_us 7\ngamma_ns 0\n");
  const std::string common = trace.path() + " --bucket 1 --ranks-per-host 2 --tuning " + tuning.path();
  // With 200 us per message from the file, a bucket takes 2 x (200 us + 500 us): the first is reduced from
  // 2000 to 3400, the second from 3400 to 4800.
  CHECK(forecast(common, "ring", 2)["step"].get<double>() == doctest::Approx(5290e-6).epsilon(1e-5));
  // The option overrides the file: a bucket takes 2 x (100 us + 500 us).
  CHECK(forecast(common + " --local-alpha 100us", "ring", 2)["step"].get<double>() ==
        doctest::Approx(4890e-6).epsilon(1e-5));
  const File bad("local_alpha_us 200\nlocal_gamma 1\n");
  const Outcome outcome = simulate(trace.path() + " --tuning " + bad.path());
  CHECK(outcome.status == 1);
  CHECK(holds(outcome.error, bad.path() + ":2: there is no 'local_gamma'"));
}

TEST_CASE("simulate: the table and the page show every algorithm and number of ranks") {
  const File page;
  const Outcome outcome = simulate("--model vgg16 --ranks 2,64 --html " + page.path());
  REQUIRE(outcome.status == 0);
  const std::string html = page.text();
  for (const char* name : {"ring", "tree", "hierarchical", "server"}) {
    CHECK(holds(outcome.out, name));
    CHECK(holds(html, std::string(">") + name + "</text>"));
    CHECK(holds(html, std::string(name) + ", 64 ranks: "));
  }
  CHECK(holds(html, "<svg"));
  CHECK(!holds(html, "HEDDLE_FORECAST"));
  CHECK(!holds(html, "http"));
}

TEST_CASE("simulate: what is wrong is said") {
  const File trace = one_step(), empty("[]"), old(Json({event("async", "all_reduce", 0, 10, 1)}).dump());
  const struct {
    std::string arguments, error;
    int status;
  } cases[] = {
      {"", "want a trace or --model", 1},
      {trace.path() + " --model vgg16", "want a trace or --model", 1},
      {"--model lenet", "there is no model 'lenet'; there is hepcnn, inception3, resnet101, vgg16", 1},
      {empty.path(), "no all_reduce", 1},
      {old.path(), "do not say how much they carry", 1},
      {"/nowhere/at/all", "/nowhere/at/all", 1},
      {trace.path() + " --steps 3", "--steps is 3, but the trace has only 2 all_reduce", 1},
      {trace.path() + " --speed 3", "--speed is of --model", 1},
      {"--model vgg16 --steps 3", "--steps is of a trace", 1},
      {"--model vgg16 --alpha 20", "--alpha: '20': want a time like 20us", 1},
      {"--model vgg16 --beta 0Gbit/s", "--beta: '0Gbit/s': want a rate", 1},
      {"--model vgg16 --beta 25Gb", "--beta: '25Gb': want a rate", 1},
      {"--model vgg16 --bucket big", "--bucket: 'big': want bytes", 1},
      {"--model vgg16 --bucket 1e400", "--bucket: '1e400': want bytes", 1},
      {"--model vgg16 --algorithms star", "there is no algorithm 'star'", 1},
      {"--model vgg16 --ranks 0", "--ranks", 2},
      {"--model vgg16 --ranks-per-host 0", "--ranks-per-host", 2},
      {"--model vgg16 --servers -1", "--servers", 2},
      {"--model vgg16 --html /nowhere/at/all", "cannot write /nowhere/at/all", 1},
  };
  for (const auto& one : cases) {
    CAPTURE(one.arguments);
    const Outcome outcome = simulate(one.arguments);
    CHECK(outcome.status == one.status);
    CHECK(holds(outcome.error, one.error));
  }
}
