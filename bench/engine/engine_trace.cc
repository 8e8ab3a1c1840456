// trace: the time per op with and without recording a trace, for ops that take a microsecond. trace_more: by
// how many percent recording lengthens a run, for each pair of runs. trace_stop: the time to stop the trace
// and write its remaining records, which trace and trace_more do not include.
#include <algorithm>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <unistd.h>
#include <vector>

#include <heddle/trace.h>

#include "engine/engine_workload.h"

namespace heddle::bench {

namespace {

constexpr double kSpinSeconds = 1e-6;

class TraceRuns {
 public:
  explicit TraceRuns(std::uint32_t ops, int workers) : stage_(dag(ops)) {
    stage_.set_spin(spin_steps(kSpinSeconds));
    peer_ = heddle_peer().make(stage_.program(), stage_.cells(), workers);
  }

  double plain() {
    plain_.push_back(nanoseconds_an_op());
    return plain_.back();
  }

  double traced() {
    const auto path =
        std::filesystem::temp_directory_path() / ("engine_bench_trace." + std::to_string(getpid()));
    trace::start(path.string());
    traced_.push_back(nanoseconds_an_op());
    const double start = now();
    const trace::TraceSummary summary = trace::stop();
    stop_.push_back((now() - start) * 1e9 / stage_.ops());
    std::filesystem::remove(path);
    if (!summary.error.empty()) throw std::runtime_error("trace: " + summary.error);
    if (summary.dropped > 0 || summary.records < stage_.ops())
      throw std::runtime_error("the trace is not whole");
    return traced_.back();
  }

  // By how many percent a traced run is longer than the untraced run before it. Leaves out the first pair of
  // runs, which warms up.
  std::vector<double> more_percent() const {
    std::vector<double> more;
    for (std::size_t i = 1; i < traced_.size(); ++i) more.push_back(100 * (traced_[i] / plain_[i] - 1));
    return more;
  }
  std::vector<double> stop() const { return {stop_.begin() + 1, stop_.end()}; }

 private:
  double nanoseconds_an_op() {
    stage_.clear();
    const double start = now();
    peer_->session([&](Session& session) {
      session.push(0, stage_.ops());
      session.wait_all();
    });
    const double nanoseconds = (now() - start) * 1e9 / stage_.ops();
    stage_.check("heddle");
    return nanoseconds;
  }

  Stage stage_;
  std::unique_ptr<Peer> peer_;
  std::vector<double> plain_, traced_, stop_;
};

Result result_of(const Setting& setting, const std::string& name, const std::string& unit,
                 const std::vector<double>& values) {
  const auto [least, most] = std::minmax_element(values.begin(), values.end());
  return {"engine",        name,  "heddle_traced",
          setting.workers, unit,  median(values),
          *least,          *most, static_cast<int>(values.size()),
          values};
}

void run(const Setting& setting) {
  if (trace::running()) throw std::runtime_error("trace: HEDDLE_TRACE is set");
  TraceRuns runs(setting.ops_of(200'000, 40'000), setting.workers);
  run_case(setting,
           {"engine",
            "trace",
            "ns/op",
            setting.workers,
            {{"heddle", [&] { return runs.plain(); }}, {"heddle_traced", [&] { return runs.traced(); }}}});
  report(setting, {result_of(setting, "trace_more", "%", runs.more_percent())});
  report(setting, {result_of(setting, "trace_stop", "ns/op", runs.stop())});
}

}  // namespace

Workload trace_workload() { return {"trace", run}; }

}  // namespace heddle::bench
