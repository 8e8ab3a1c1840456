// How long a collective takes: Heddle's communicator beside Open MPI and Gloo, at the same sizes, in
// interleaved runs.
#include <algorithm>
#include <cstdio>
#include <fstream>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <heddle/usable_cores.h>

#include "comm/comm_fit.h"
#include "comm/comm_subjects.h"
#include "command_line.h"
#include "support/support.h"

namespace {

using namespace heddle;
using namespace heddle::bench;

struct Arguments {
  CommSetting setting;
  Options options;
  std::vector<std::string> sizes;
  std::string tune;
  bool check_model = false;
};

constexpr const char* kExplanation = R"(
The table has the columns of nccl-tests: `time` is that of one call on the slowest rank, the median over the runs, each
of many calls back to back; algbw is size / time, busbw what the links carry: times 2(n-1)/n for all_reduce, (n-1)/n for
all_gather, reduce_scatter and all_to_all. `#wrong` counts elements that were not what they should have been.

burst: 64 all_reduces of that size, as ops pushed at once and waited for, in MPI one after the other; the time is that of all
of them, the size that of one. heddle_unfused sends each alone (HEDDLE_COMM_FUSION=0).

Subjects: heddle, the blocking call on malloc's memory; heddle_shared, the same on shared_array; heddle_op, an engine op
and wait(); openmpi, and openmpi_tuned with malloc told to keep its memory; gloo, the fastest of its algorithms; with tcp
and two ranks sockets, the simplest program: one thread that exchanges halves over one socket, adds, and exchanges sums.

  comm_bench                                             all_reduce of 4 B to 64 MiB by 2 ranks
  comm_bench -n 4 --sizes 4,64K --subjects heddle,openmpi
  comm_bench --backend tcp --pin --json results.jsonl
  comm_bench --backend tcp --pin --tune tuning           what HEDDLE_COMM_TUNING=tuning then chooses algorithms by
  comm_bench --backend tcp --check-model -n 8            what the model says for 2 and 8 ranks, over what is measured
)";

// The factor from algorithm bandwidth to bus bandwidth, as in nccl-tests.
double bus_factor(const std::string& collective, int ranks) {
  const double others = static_cast<double>(ranks - 1) / ranks;
  if (collective == "all_reduce") return 2 * others;
  if (collective == "broadcast" || collective == "reduce") return 1;
  return others;
}

// Runs one subject at one size.
class Series {
 public:
  Series(const CommSubject& subject, const CommSetting& setting, std::size_t count, double sample)
      : subject_(subject), setting_(setting), count_(count), sample_(sample) {
    choose_variant();
  }

  double microseconds() { return sampled(variant_, calls_) * 1e6; }
  long wrong() const { return wrong_; }
  const std::string& variant() const { return variant_; }

 private:
  static constexpr long kMostCalls = 50'000, kLeastCalls = 2;

  double sampled(const std::string& variant, long calls) {
    const CommSample sample = subject_.ranks->run(setting_.collective, variant, count_, calls);
    wrong_ += sample.wrong;
    return sample.seconds;
  }

  long calls_for(double seconds) const {
    const double calls = sample_ / std::max(seconds, 1e-9);
    return std::clamp(static_cast<long>(std::min(calls, 1e9)), kLeastCalls, kMostCalls);
  }

  // The first calls at a size are slow, since they touch new memory.
  double tried(const std::string& variant) {
    const double first = sampled(variant, kLeastCalls);
    const double second = sampled(variant, calls_for(4 * first));
    return sampled(variant, calls_for(2 * second));
  }

  // Chooses the fastest variant. A variant may fail at a size, as long as one works.
  void choose_variant() {
    double best = 0;
    std::string problem = "no variant";
    for (const std::string& variant : subject_.variants) {
      try {
        const double seconds = tried(variant);
        if (!variant_.empty() && seconds >= best) continue;
        best = seconds;
        variant_ = variant;
      } catch (const std::exception& error) {
        problem = error.what();
        if (subject_.variants.size() > 1) std::printf("without %s: %s\n", variant.c_str(), problem.c_str());
      }
    }
    if (variant_.empty()) throw std::runtime_error(problem);
    calls_ = calls_for(best);
  }

  const CommSubject& subject_;
  const CommSetting& setting_;
  std::size_t count_;
  double sample_;
  std::string variant_;
  long calls_ = 1, wrong_ = 0;
};

std::string case_name(const CommSetting& setting, std::size_t bytes) {
  return setting.collective + '_' + setting.backend + (setting.pin ? "_pinned_" : "_") +
         std::to_string(bytes);
}

void print_header(const Arguments& arguments) {
  const CommSetting& setting = arguments.setting;
  std::printf("# %s, %d ranks%s, Heddle's backend %s, median of %d runs\n", setting.collective.c_str(),
              setting.ranks, setting.pin ? ", each on a core of its own" : "", setting.backend.c_str(),
              arguments.options.runs);
  std::printf("#%11s %10s %5s %5s  %-24s %10s %10s .. %-10s %8s %8s %7s %8s\n", "size", "count", "type", "op",
              "subject", "time", "min", "max", "algbw", "busbw", "#wrong", "ratio");
  std::printf("#%11s %10s %5s %5s  %-24s %10s %24s %8s %8s %7s %8s\n", "(B)", "(elements)", "", "", "",
              "(us)", "", "(GB/s)", "(GB/s)", "", "first/it");
}

void print_row(const CommSetting& setting, std::size_t bytes, const Result& result, const Series& series,
               double first) {
  const bool reduces = setting.collective.find("reduce") != std::string::npos;
  const double bandwidth = static_cast<double>(bytes) / (result.median * 1e3);
  const std::string name = result.subject == "gloo" ? "gloo " + series.variant() : result.subject;
  std::printf("%12zu %10zu %5s %5s  %-24s %10.2f %10.2f .. %-10.2f %8.3f %8.3f %7ld %7.2fx\n", bytes,
              bytes / sizeof(float), "f32", reduces ? "sum" : "-", name.c_str(), result.median, result.min,
              result.max, bandwidth, bandwidth * bus_factor(setting.collective, setting.ranks),
              series.wrong(), first / result.median);
}

// Measures all subjects at one size, in interleaved runs. Returns how many result elements were wrong.
long run_size(const Arguments& arguments, const std::vector<CommSubject>& subjects, std::size_t bytes,
              std::vector<CommPoint>& points) {
  const CommSetting& setting = arguments.setting;
  std::vector<Series> series;
  for (const CommSubject& subject : subjects) {
    series.emplace_back(subject, setting, bytes / sizeof(float), arguments.options.quick ? 5e-3 : 20e-3);
  }
  Case the_case{"comm", case_name(setting, bytes), "us", setting.ranks, {}};
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    the_case.subjects.push_back({subjects[i].name, [&one = series[i]] { return one.microseconds(); }});
  }
  const std::vector<Result> results = measure(the_case, arguments.options);
  long wrong = 0;
  for (std::size_t i = 0; i < results.size(); ++i) {
    print_row(setting, bytes, results[i], series[i], results.front().median);
    points.push_back({results[i].subject, bytes, results[i].median, setting.ranks});
    wrong += series[i].wrong();
  }
  std::fflush(stdout);
  append_json(results, arguments.options);
  return wrong;
}

void print_fit(const NetworkCost& fit, const std::vector<CommPoint>& points) {
  double least = 1, most = 1;
  for (const CommPoint& point : points) {
    least = std::min(least, ratio_to_model(fit, point));
    most = std::max(most, ratio_to_model(fit, point));
  }
  std::printf(
      "# alpha %.2f us a message, beta %.4f ns/B, gamma %.4f ns/B combined; model / measured %.2f to %.2f\n",
      fit.local.alpha * 1e6, fit.local.beta * 1e9, fit.gamma * 1e9, least, most);
}

// Writes a tuning file with the fitted costs within one host. The costs between hosts, which one host cannot
// measure, are written as comments.
void write_tuning(const Arguments& arguments, const std::vector<CommPoint>& points) {
  const NetworkCost fit = fit_of(points);
  print_fit(fit, points);
  std::istringstream lines(tuning_to_text(fit));
  std::ofstream file(arguments.tune);
  file << "# comm_bench --backend " << arguments.setting.backend << ", " << arguments.setting.ranks
       << " ranks of one host; remote_alpha_us and remote_beta_ns are the network's\n";
  for (std::string line; std::getline(lines, line);)
    file << (line.starts_with("remote") ? "# " : "") << line << '\n';
  if (!file.flush()) throw std::runtime_error("cannot write " + arguments.tune);
}

// The sizes to measure, in bytes: multiples of one element, or of `ranks` elements if the collective gives
// each rank a part of the array.
std::vector<std::size_t> sizes_of(const Arguments& arguments) {
  const CommSetting& setting = arguments.setting;
  if (setting.collective == "barrier") return {0};
  const auto ranks = static_cast<std::size_t>(setting.ranks);
  const bool parts = setting.collective.starts_with("all_") ? setting.collective != "all_reduce"
                                                            : setting.collective == "reduce_scatter";
  const std::size_t whole = sizeof(float) * (parts ? ranks : 1);
  std::vector<std::size_t> sizes;
  for (const std::string& text : arguments.sizes) {
    const std::size_t bytes = std::max(bytes_of(text) / whole, std::size_t{1}) * whole;
    if (case_name(setting, bytes).find(arguments.options.filter) != std::string::npos) sizes.push_back(bytes);
  }
  return sizes;
}

// Measures the subjects at all sizes. Returns how many result elements were wrong.
long measure_all(const Arguments& arguments, std::vector<CommPoint>& points) {
  const std::vector<std::size_t> sizes = sizes_of(arguments);
  const MeetingPlace place;
  const std::vector<CommSubject> subjects = start_subjects(arguments.setting, place);
  if (subjects.empty()) throw std::runtime_error("there is nothing to measure");
  print_header(arguments);
  long wrong = 0;
  for (const std::size_t bytes : sizes) wrong += run_size(arguments, subjects, bytes, points);
  return wrong;
}

void print_check(const NetworkCost& network, const std::vector<CommPoint>& points) {
  std::printf("# model / measured, %d ranks on %d cores\n#%11s", points.front().ranks, network.cores, "size");
  std::vector<std::string> subjects;
  for (const CommPoint& point : points) {
    if (point.bytes == points.front().bytes) subjects.push_back(point.subject);
  }
  for (const std::string& subject : subjects) std::printf(" %26s", subject.c_str());
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (i % subjects.size() == 0) std::printf("\n%12zu", points[i].bytes);
    std::printf(" %26.2f", ratio_to_model(network, points[i]));
  }
  std::printf("\n\n");
}

// Fits the cost model to measurements of two ranks, then compares its predictions with measurements of two
// ranks and of the wanted number of ranks. fit.cores tells the model when ranks must share a core.
long check_model(Arguments arguments) {
  std::vector<CommPoint> two, points;
  const int ranks = std::exchange(arguments.setting.ranks, 2);
  long wrong = measure_all(arguments, two);
  NetworkCost fit = fit_of(two);
  fit.cores = usable_cores().count();
  print_fit(fit, two);
  print_check(fit, two);
  if (ranks <= 2) return wrong;
  arguments.setting.ranks = ranks;
  wrong += measure_all(arguments, points);
  print_check(fit, points);
  return wrong;
}

// Makes each algorithm of all_reduce a subject: the cost model predicts the time of an algorithm, not that of
// Heddle's automatic choice of an algorithm.
void ask_for_algorithms(CommSetting& setting) {
  if (setting.collective != "all_reduce") throw std::runtime_error("the model is that of all_reduce");
  if (setting.algorithms.empty())
    setting.algorithms = {"ring", "tree", "recursive_doubling", "halving_doubling"};
  setting.subjects.clear();
  for (const std::string& algorithm : setting.algorithms) setting.subjects.push_back("heddle_" + algorithm);
}

int run(Arguments arguments) {
  if (!arguments.tune.empty() || arguments.check_model) ask_for_algorithms(arguments.setting);
  std::vector<CommPoint> points;
  const long wrong = arguments.check_model ? check_model(arguments) : measure_all(arguments, points);
  if (!arguments.tune.empty() && !arguments.check_model) write_tuning(arguments, points);
  if (wrong > 0) std::fprintf(stderr, "comm_bench: %ld elements were wrong\n", wrong);
  return wrong > 0 ? 1 : 0;
}

void add_comm_options(heddle::command_line::Command& app, Arguments& arguments) {
  CommSetting& setting = arguments.setting;
  add_run_options(app, arguments.options);
  app.add_option("-n,--ranks", setting.ranks, "processes of every subject").show_default().range(1, 256);
  app.add_option("--sizes", arguments.sizes,
                 "bytes, with K, M or G; default 4,1K,64K,1M,16M,64M, with --quick to 1M")
      .delimiter(',');
  app.add_option("--collective", setting.collective, "what is called")
      .show_default()
      .one_of({"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all", "barrier",
               "burst"});
  app.add_option("--backend", setting.backend,
                 "Heddle's; with tcp, Open MPI uses TCP alone too; mpi needs a build with HEDDLE_MPI=ON")
      .show_default()
      .one_of({"shm", "tcp", "mpi"});
  app.add_option("--algorithms", setting.algorithms, "of Heddle's all_reduce; each is a subject more")
      .delimiter(',');
  app.add_option("--subjects", setting.subjects, "only these, separated by commas").delimiter(',');
  app.add_option("--hosts", setting.hosts,
                 "Heddle's ranks act as if they were on so many hosts; with --backend tcp")
      .range(1, 64)
      .show_default();
  app.add_flag("--pin", setting.pin,
               "keep rank r on core r, of every subject; the cases then are called pinned");
  app.add_option("--tune", arguments.tune,
                 "fit alpha, beta and gamma to Heddle's algorithms and write them for HEDDLE_COMM_TUNING");
  app.add_flag(
      "--check-model", arguments.check_model,
      "fit them to 2 ranks, and compare what the model says for these and for -n with what is measured");
}

}  // namespace

int main(int argc, char** argv) {
  Arguments arguments;
  heddle::command_line::Program app(
      "comm_bench", "What a collective takes: Heddle's communicator beside Open MPI and Gloo");
  app.footer(kExplanation);
  add_comm_options(app, arguments);
  if (const auto status = app.parse(argc, argv)) return *status;
  if (arguments.sizes.empty()) {
    arguments.sizes = {"4", "1K", "64K", "1M"};
    if (!arguments.tune.empty() || arguments.check_model)
      arguments.sizes = {"1K", "4K", "16K", "64K", "256K", "1M", "4M", "16M"};
    else if (!arguments.options.quick)
      arguments.sizes.insert(arguments.sizes.end(), {"16M", "64M"});
  }
  try {
    return run(arguments);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "comm_bench: %s\n", error.what());
    return 1;
  }
}
