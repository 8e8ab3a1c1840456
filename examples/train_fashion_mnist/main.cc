// Trains a convolutional network on Fashion-MNIST: loading, shuffling and gathering of batches, the network,
// the optimizer and the counting are all ops; the program waits only for numbers from a few steps ago.
#include <csignal>
#include <cstdio>
#include <exception>
#include <memory>

#include "data.h"
#include "options.h"
#include "plot.h"
#include "progress.h"
#include "training.h"

namespace {

constexpr int kFailed = 1, kBadUsage = 2, kInterrupted = 130;

volatile std::sig_atomic_t interrupted = 0;

// Makes the first Ctrl-C end the training in good order, and the second one end the process at once.
void catch_interrupt() {
  struct sigaction action {};
  action.sa_handler = [](int) { interrupted = 1; };
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  sigaction(SIGINT, &action, nullptr);
}

void start_engine(const Options& options) {
  heddle::EngineOptions engine = heddle::EngineOptions::from_environment();
  if (options.workers > 0) engine.workers = options.workers;
  heddle::set_default_engine_options(engine);
}

Series curve(const std::string& name, const std::string& color, bool markers,
             const std::vector<Point>& points, std::size_t column) {
  Series series{.name = name, .color = color, .markers = markers};
  for (const Point& point : points) series.points.emplace_back(point[0], point[column]);
  return series;
}

void plot(const std::string& path, const Training& training) {
  auto panel = [&](const std::string& what, std::size_t column) {
    return Panel{.title = what,
                 .x_label = "epoch",
                 .y_label = what,
                 .legend_at_top = column == 1,
                 .series = {curve("training", "#4878a8", false, training.train_curve(), column),
                            curve("test", "#d1602c", true, training.test_curve(), column)}};
  };
  write_svg(path, "Fashion-MNIST", {panel("loss", 1), panel("accuracy", 2)});
}

void print_summary(const Options& options, const Training& training, const ProgressLine& progress) {
  const std::string ranks =
      training.ranks() > 1 ? " on each of " + std::to_string(training.ranks()) + " ranks" : "";
  std::printf("trained %lld epochs, %.1f s, %.0f images/s, %d workers%s\n",
              static_cast<long long>(options.epochs), progress.seconds(), progress.images_per_second(),
              heddle::default_engine().workers(), ranks.c_str());
  std::printf("final loss %.9g (%a)\n", training.final_loss(), training.final_loss());
  std::printf("test loss %.9g (%a)\n", training.test().mean_loss(), training.test().mean_loss());
  if (!options.plot.empty()) std::printf("curves are in %s\n", options.plot.c_str());
  if (!options.save.empty()) std::printf("checkpoint is in %s\n", options.save.c_str());
  std::printf("test accuracy %.4f\n", training.test().accuracy());
}

// Makes the training. Everything that the user gave is checked here, before the training begins.
std::unique_ptr<Training> prepare(const Options& options) {
  check_distinct(options);
  const auto job = heddle::LaunchEnvironment::from_environment();
  check_ranks(options, job.size);
  if (job.rank == 0 && !options.save.empty()) check_writable("--save", options.save);
  if (job.rank == 0 && !options.plot.empty()) check_writable("--plot", options.plot);
  start_engine(options);
  Dataset train = load_dataset(options.data, "train", options.limit);
  Dataset test = load_dataset(options.data, "t10k", options.limit);
  std::shared_ptr<heddle::Communicator> ranks;
  if (options.kvstore != "local") ranks = heddle::Communicator::create({}, job);
  auto training = std::make_unique<Training>(options, train, test, ranks);
  train.wait();
  test.wait();
  if (!options.resume.empty()) training->resume();
  return training;
}

int run(const Options& options, Training& training) {
  const bool first = training.rank() == 0;
  if (first) std::printf("%s\n", training.describe().c_str());
  catch_interrupt();
  ProgressLine progress(!first);
  bool finished = training.run(progress, [] { return interrupted != 0; });
  if (first && !options.plot.empty()) plot(options.plot, training);
  if (first && finished) print_summary(options, training, progress);
  if (!finished) {
    progress.line(options.save.empty()
                      ? "interrupted; nothing is saved without --save"
                      : "interrupted; go on with --resume " + options.save + " --save " + options.save);
  }
  training.wait_for_all();
  return finished ? 0 : kInterrupted;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::unique_ptr<Training> training;
  try {
    ParsedOptions parsed = parse_options(argc, argv);
    if (!parsed.options) return parsed.exit_status;
    options = *parsed.options;
    training = prepare(options);
  } catch (const DataError& error) {
    std::fprintf(stderr,
                 "train_fashion_mnist: %s\nGet the data with: apt install dataset-fashion-mnist\n"
                 "or say where they are with --data DIR.\n",
                 error.what());
    return kBadUsage;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "train_fashion_mnist: %s\n", error.what());
    return kBadUsage;
  }
  try {
    const int status = run(options, *training);
    if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
      std::fprintf(stderr, "train_fashion_mnist: the output could not be written\n");
      return kFailed;
    }
    return status;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "\ntrain_fashion_mnist: %s\n", error.what());
    return kFailed;
  }
}
