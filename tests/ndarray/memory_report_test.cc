// The report of the arrays' memory by source line.
#include <string>
#include <thread>

#include <doctest/doctest.h>

#include <heddle/array_op.h>
#include <heddle/memory_report.h>
#include <heddle/ndarray.h>
#include <heddle/print_options.h>

using namespace heddle;

namespace {

struct Tracking {
  Tracking() { track_memory(true); }
  ~Tracking() { track_memory(false); }
};

// The entry of this file's line in the report; an empty one if there is none.
MemorySite site_at(unsigned line) {
  for (const MemorySite& site : memory_report().sites)
    if (site.where.line() == line && std::string(site.where.file_name()).ends_with("memory_report_test.cc"))
      return site;
  return {};
}

}  // namespace

TEST_CASE("memory is counted by the line that made the array, until the last view has gone") {
  const Tracking tracking;
  constexpr std::size_t kBytes = 4 << 10;
  NDArray view;
  const unsigned line = __LINE__ + 2;
  {
    const NDArray x = zeros({1024});
    x.wait();
    CHECK(site_at(line).arrays == 1);
    CHECK(site_at(line).bytes == kBytes);
    view = x[0];
  }
  CHECK(site_at(line).bytes == kBytes);
  view = {};
  CHECK(site_at(line).arrays == 0);
  CHECK(site_at(line).bytes == 0);
}

TEST_CASE("the peak names the lines that held most when all held most") {
  const Tracking tracking;
  reset_memory_peak();
  const std::size_t before = memory_report().bytes;
  const NDArray kept = ones({1000}), at = kept;  // this is the source line `line`
  const unsigned line = __LINE__ - 1;
  kept.wait();
  {
    const NDArray large = ones({5000});  // this is the source line `line` + 4
    large.wait();
  }
  const NDArray later = ones({2000});  // this is the source line `line` + 7
  later.wait();
  CHECK(site_at(line).at_peak == 4000);
  CHECK(site_at(line + 4).at_peak == 20'000);
  CHECK(site_at(line + 4).bytes == 0);
  CHECK(site_at(line + 7).at_peak == 0);
  CHECK(site_at(line + 7).peak == 8000);
  CHECK(memory_report().peak == before + 24'000);
  const std::string text = memory_report().to_string();
  CHECK(text.find("memory_report_test.cc:" + std::to_string(line + 4)) != std::string::npos);
  CHECK(text.find("19.5 KiB") != std::string::npos);
  CHECK(memory_report().to_string(1).find(" more line") != std::string::npos);
  reset_memory_peak();
  CHECK(memory_report().peak == memory_report().bytes);
  CHECK(site_at(line + 4).peak == 0);
}

TEST_CASE("arrays from before are not counted, and may end while others are") {
  NDArray early = ones({100});
  const unsigned line = __LINE__ - 1;
  const Tracking tracking;
  early.wait();
  CHECK(site_at(line).arrays == 0);
  early = {};
  CHECK(site_at(line).arrays == 0);
}

TEST_CASE("many threads make and drop arrays while reports are made") {
  const Tracking tracking;
  std::thread threads[3];
  for (std::thread& one : threads)
    one = std::thread([] {
      for (int i = 0; i < 200; ++i) ones({64}).wait();
    });
  for (int i = 0; i < 50; ++i) {
    const MemoryReport report = memory_report();
    CHECK(report.bytes <= report.peak);
  }
  for (std::thread& one : threads) one.join();
}

TEST_CASE("options of printing are this thread's, and end with their scope") {
  const NDArray x = array({1.0 / 3, 2, 1e-6});
  const std::string usual = x.to_string();
  {
    const PrintScope scope({.precision = 3, .suppress = true});
    CHECK(x.to_string() == "[0.333 2.    0.   ]");
    std::thread([&] { CHECK(x.to_string() == usual); }).join();
    const PrintScope inner({.threshold = 2, .edgeitems = 1, .linewidth = 20});
    CHECK(arange(4).to_string() == "[0. ... 3.]");
  }
  CHECK(x.to_string() == usual);
  CHECK(print_options() == PrintOptions{});
  CHECK_THROWS_WITH_AS(set_print_options({.edgeitems = 0}),
                       "set_print_options: edgeitems is 0; wanted 1 or more", InvalidArgument);
  CHECK_THROWS_AS(set_print_options({.precision = -1}), InvalidArgument);
}
