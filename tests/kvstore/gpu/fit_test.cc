// fit() of a network on a GPU: near what the CPU gives, and the same bits when it is resumed.
#include <cmath>
#include <files.h>
#include <functional>
#include <memory>
#include <message_of.h>
#include <optional>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/data.h>
#include <heddle/heddle.h>

#include "../../gpu_arrays/problems.h"
#include "fit/fit_program.h"

using namespace heddle;
using namespace heddle::test;

namespace {

using Change = std::function<void(FitOptions&)>;

bool near(double here, double there) {
  return there == doctest::Approx(here).epsilon(1e-3) || std::abs(there - here) < 1e-4 ||
         (std::isnan(here) && std::isnan(there));
}

bool near(const FitResult& here, const FitResult& there) {
  bool all = here.steps == there.steps && here.values.size() == there.values.size() &&
             here.state.size() == there.state.size();
  for (const auto& [name, values] : here.values)
    for (std::size_t i = 0; all && i < values.size(); ++i) all = near(values[i], there.values.at(name)[i]);
  for (std::size_t k = 0; all && k < here.state.size(); ++k)
    for (std::size_t i = 0; i < here.state[k].size(); ++i)
      all = all && near(here.state[k][i], there.state[k][i]);
  return all;
}

TrainerOptions trainer_options(bool scales = false) {
  TrainerOptions options{.optimizer = "sgd", .params = {{"lr", 0.05}, {"momentum", 0.9}}};
  if (scales) options.scaler = LossScaler({.scale = 0x1p126, .interval = 3});  // the first steps are skipped
  return options;
}

FitResult trained(Device device, const TrainerOptions& trainer, const Change& change) {
  FitProgram program(trainer);
  program.net.to(device);
  FitOptions all = program.options(2);
  all.metrics = {"accuracy", "f1"};
  change(all);
  const FitResult result = program.result(program.fit(all));
  for (const Parameter& one : program.net.state()) CHECK(one.value.device() == device);
  return result;
}

}  // namespace

TEST_CASE(
    "fit on a GPU: losses, metrics and weights are near the CPU's, captured, accumulated, clipped, scaled") {
  for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
    for (const int accumulate : {1, 2}) {
      for (const bool scales : {false, true}) {
        CAPTURE(accumulate);
        CAPTURE(scales);
        const Change change = [&](FitOptions& all) {
          all.capture = capture;
          all.accumulate = accumulate;
          all.clip_norm = accumulate == 2 ? 0.5 : 0;
        };
        const FitResult here = trained(cpu(), trainer_options(scales), change);
        CHECK(near(here, trained(gpu(0), trainer_options(scales), change)));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("fit on a GPU: data, losses and metrics of all forms") {
  std::vector<FitResult> results;
  std::vector<std::vector<float>> predicted;
  for (const int form : {0, 1, 2, 3, 4, 5}) {
    CAPTURE(form);
    const Device device = form == 0 ? cpu() : gpu(0);
    FitProgram program(trainer_options());
    program.net.to(device);
    FitOptions all = program.options(2);
    all.loss = [](const std::vector<NDArray>& outputs, const std::vector<NDArray>& labels) {
      CHECK(outputs[0].device() == labels[0].device());
      return cross_entropy(outputs[0], labels[0]);
    };
    if (form == 2) {  // arrays on the GPU
      for (NDArray* const one : {&program.x, &program.labels, &program.other_x}) *one = one->copy_to(device);
    }
    ArrayBatches batches({program.x, program.labels}, {.batch = 16, .shuffle = true, .seed = 11});
    Loader loader(ArrayDataset({program.x.copy_to(cpu()), program.labels.copy_to(cpu())}),
                  {.batch = 16, .device = form == 5 ? device : cpu()});  // with an order of its own
    const FitData data = form >= 4   ? FitData(loader)
                         : form == 3 ? FitData(batches)
                                     : FitData{program.x, program.labels};
    results.push_back(program.result(fit(program.net, program.trainer, data, all)));
    const NDArray result = predict(program.net, {program.other_x})[0];
    CHECK(result.device() == cpu());
    predicted.push_back(result.to_vector<float>());
    const FitValues values = evaluate(program.net, {program.other_x, program.other_labels},
                                      {.loss = "cross_entropy", .metrics = {"accuracy"}});
    CHECK(near(values.at("accuracy"), results.back().values.at("val_accuracy").back()));
  }
  CHECK(near(results[0], results[1]));
  CHECK(results[2] == results[1]);
  CHECK(results[3] == results[1]);
  CHECK(results[5] == results[4]);
  CHECK(predicted[3] == predicted[1]);
  CHECK(predicted[2] == predicted[1]);
  CHECK(problems() == "");
}

TEST_CASE("fit on a GPU: a run that is resumed equals one that never stopped, also on the other device") {
  TemporaryDirectory directory;
  const auto options = [](const FitProgram& program) {
    FitOptions all = program.options(4);
    all.callbacks = {EarlyStopping({.patience = 1, .restore_best = true}),
                     ReduceOnPlateau({.factor = 0.5, .min_delta = 0.2, .patience = 0})};
    return all;
  };
  std::vector<FitResult> straight;
  for (const Device device : {cpu(), gpu(0)}) {
    FitProgram program;
    program.net.to(device);
    FitOptions all = options(program);
    all.callbacks.push_back(
        std::make_shared<ModelCheckpoint>(directory.file(device.to_string() + " {step}"),
                                          ModelCheckpointOptions{.every_epochs = 0, .every_steps = 1}));
    straight.push_back(program.result(program.fit(all)));
  }
  CHECK(near(straight[0], straight[1]));
  for (const std::string step : {"5", "6", "7", "12"}) {
    CAPTURE(step);
    const auto resumed = [&](Device saved, Device device) {
      FitProgram again;
      manual_seed(99);
      for (const Parameter& one : again.net.state()) one.value.detach().fill(3);
      again.net.to(device);
      FitOptions rest = options(again);
      rest.resume = directory.file(saved.to_string() + " " + step);
      return again.result(again.fit(rest));
    };
    CHECK(resumed(gpu(0), gpu(0)) == straight[1]);
    CHECK(near(resumed(cpu(), gpu(0)), straight[0]));
    CHECK(near(resumed(gpu(0), cpu()), straight[0]));
  }
  CHECK(problems() == "");
}

TEST_CASE("fit on a GPU: a checkpoint has the arrays that one of the CPU has") {
  TemporaryDirectory directory;
  std::vector<std::map<std::string, NDArray>> saved;
  for (const Device device : {cpu(), gpu(0)}) {
    FitProgram program;
    program.net.to(device);
    FitOptions all = program.options(2);
    all.callbacks = {EarlyStopping({.patience = 5, .restore_best = true}),
                     std::make_shared<ModelCheckpoint>(directory.file("saved"))};
    program.fit(all);
    saved.push_back(load_safetensors(directory.file("saved")).arrays);
  }
  CHECK(saved[0].size() == saved[1].size());
  for (const auto& [name, here] : saved[0]) {
    CAPTURE(name);
    const NDArray there = saved[1].at(name);
    CHECK(there.dtype() == here.dtype());
    CHECK(there.shape() == here.shape());
    CHECK(there.device() == cpu());
  }
}

TEST_CASE("fit on a GPU: a loss that is not finite is named as on the CPU, and its step changes nothing") {
  for (const int accumulate : {1, 2}) {
    for (const double value : {1e30, std::nan("")}) {
      for (const FitCapture capture : {FitCapture::automatic, FitCapture::never}) {
        CAPTURE(accumulate);
        CAPTURE(value);
        FitOptions all;
        all.capture = capture;
        all.accumulate = accumulate;
        all.clip_norm = accumulate == 2 ? 1 : 0;
        std::vector<std::string> messages;
        std::vector<FitResult> results;
        for (const Device device : {cpu(), gpu(0)}) {
          WrongRow program;
          messages.push_back(program.fit(device, value, all));
          CHECK(program.trainer.steps() == 4 / accumulate);
          results.push_back({.state = arrays_of(program.net.state())});
          for (const auto& [name, array] : program.trainer.state())
            results.back().state.push_back(array.astype(DType::f32).to_vector<float>());
        }
        CHECK(contains(messages[0], "fit: epoch 0, batch 4: the loss is "));
        CHECK(messages[1] == messages[0]);
        CHECK(near(results[0], results[1]));
      }
    }
  }
  CHECK(problems() == "");
}

TEST_CASE("fit on a GPU: a label that is none is refused, and the training goes on") {
  FitProgram program(trainer_options());
  program.net.to(gpu(0));
  program.labels.slice(0, {40, 41}).fill(9);
  FitOptions all = program.options(1);
  all.shuffle = false;
  CHECK(contains(message_of([&] { program.fit(all); }), "9"));
  program.labels.slice(0, {40, 41}).fill(1);
  CHECK(program.fit(all)["loss"].size() == 1);
  CHECK(problems() == "");
}

TEST_CASE("fit on a GPU: callbacks that read values and weights") {
  TemporaryDirectory directory;
  FitProgram program(trainer_options());
  program.net.to(gpu(0));
  FitOptions all = program.options(2);
  std::vector<double> losses;
  const auto reads = std::make_shared<TestCallback>();
  reads->batch_end = [&](FitRun& run) {
    run.later({"batch_loss", "accuracy"},
              [&](const FitValues& values) { losses.push_back(values.at("batch_loss")); });
  };
  all.callbacks = {
      reads, std::make_shared<TensorBoard>(directory.file("board"), TensorBoardOptions{.histograms = 1}),
      std::make_shared<CsvLogger>(directory.file("log.csv"))};
  program.fit(all);
  CHECK(losses.size() == 12);
  for (const double loss : losses) CHECK(std::isfinite(loss));
  CHECK(problems() == "");
}

TEST_CASE("fit on a GPU: steps do not make the host wait for the device") {
  for (const bool stops : {false, true}) {
    FitProgram program(trainer_options());
    program.net.to(gpu(0));
    FitOptions all = program.options(1);
    all.stop_on_nan = stops;
    all.validation = {};
    program.fit(all);
    const std::uint64_t before = host_waits();
    program.fit(all);
    CHECK(host_waits() == before);
  }
}

TEST_CASE("fit on GPUs of two ranks: as on the CPU, and a loss of one rank that is not finite ends both") {
  for (const bool is_bad : {false, true}) {
    CAPTURE(is_bad);
    std::vector<std::vector<FitResult>> results;
    std::vector<std::vector<std::string>> messages;
    for (const bool on_gpus : {false, true}) {
      std::vector<FitResult> of_ranks(2);
      messages.push_back(on_two_ranks([&](std::size_t rank, std::shared_ptr<KVStore> store) {
        const WrongRow program;
        const Device device = on_gpus ? gpu(static_cast<int>(rank) % gpu_count()) : cpu();
        program.x.slice(0, {71, 72}).fill(is_bad ? 1e30 : 1);  // in the share of rank 1
        Sequential net = program.net;
        net.to(device);
        Trainer trainer(net.parameters(),
                        {.params = {{"lr", 0.01}, {"momentum", 0.9}}, .store = std::move(store)});
        FitOptions all;
        all.loss = "mse_loss";
        all.batch = 16;
        all.epochs = 2;
        all.shuffle = all.verbose = false;
        all.validation = {program.x.slice(0, {0, 30}), program.y.slice(0, {0, 30})};
        try {
          of_ranks[rank].values = fit(net, trainer, {program.x, program.y}, all).values;
        } catch (...) {
          of_ranks[rank].state = arrays_of(net.state());
          throw;
        }
        of_ranks[rank].state = arrays_of(net.state());
      }));
      results.push_back(std::move(of_ranks));
    }
    CHECK(messages[1] == messages[0]);
    CHECK((messages[0] == kNone) == !is_bad);
    for (const std::size_t rank : {0, 1}) CHECK(near(results[0][rank], results[1][rank]));
  }
  CHECK(problems() == "");
}
