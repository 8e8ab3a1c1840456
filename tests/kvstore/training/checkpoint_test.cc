#include <files.h>
#include <filesystem>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

using namespace heddle;
using namespace heddle::test;

namespace {

// A training run in which everything has state that a checkpoint has to restore: dropout, shuffling,
// momentum, a schedule.
struct Run {
  Generator initial{1}, shuffle{2}, noise{3};
  NDArray x = Generator(4).normal({96, 6}), labels = Generator(5).integers({96}, 0, 3);
  Sequential net;
  Trainer trainer;
  std::int64_t epoch = 0;
  std::vector<float> losses;

  explicit Run(const std::string& optimizer, OptimizerParams params)
      : net{Dense(6, 12, {.relu = true}, initial), Dropout(0.3, noise), Dense(12, 3, {}, initial)},
        trainer(net.parameters(),
                {.optimizer = optimizer, .params = params, .schedule = cosine_schedule(0.1, 24)}) {}

  void run_epoch() {
    std::vector<std::int64_t> order = shuffle.permutation(96).to_vector<std::int64_t>();
    for (std::size_t begin = 0; begin < order.size(); begin += 8) {
      std::vector<float> rows;
      std::vector<std::int64_t> row_labels;
      for (std::size_t i = begin; i < begin + 8; ++i) {
        std::vector<float> row = x[order[i]].to_vector<float>();
        rows.insert(rows.end(), row.begin(), row.end());
        row_labels.push_back(labels[order[i]].item<std::int64_t>());
      }
      NDArray loss = cross_entropy(net(array(rows, {8, 6})), array(row_labels, {8}));
      backward(loss);
      trainer.step();
      losses.push_back(loss.item<float>());
    }
    ++epoch;
  }

  Checkpoint checkpoint() {
    return {.parameters = net.parameters(),
            .trainer = &trainer,
            .generators = {{"shuffle", &shuffle}, {"noise", &noise}},
            .counters = {{"epoch", epoch}},
            .arrays = {{"curve", array(losses, {static_cast<std::int64_t>(losses.size())})}},
            .notes = {{"batch", "8"}}};
  }
};

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

}  // namespace

TEST_CASE("a resumed run gives the losses of one that never stopped, to the last bit") {
  TemporaryDirectory directory;
  for (const char* optimizer : {"sgd", "adam"}) {
    OptimizerParams params;
    if (std::string(optimizer) == "sgd") params = {{"momentum", 0.9}, {"weight_decay", 1e-3}};
    std::string path = directory.file(optimizer);
    Run straight(optimizer, params), first(optimizer, params), second(optimizer, params);
    straight.run_epoch();
    straight.run_epoch();
    first.run_epoch();
    save_checkpoint(path, first.checkpoint());

    second.initial.set_position(1000);
    second.net.parameters()[0].value.detach().fill(7);  // values that loading the checkpoint has to overwrite
    Checkpoint loaded = second.checkpoint();
    load_checkpoint(path, loaded);
    CHECK(loaded.counters.at("epoch") == 1);
    CHECK(loaded.arrays.at("curve").to_vector<float>() == first.losses);
    CHECK(loaded.notes == std::map<std::string, std::string>{{"batch", "8"}});
    CHECK(checkpoint_notes(path) == loaded.notes);
    CHECK(second.trainer.steps() == 12);
    second.losses = first.losses;
    second.run_epoch();
    CHECK(second.losses == straight.losses);
  }
}

TEST_CASE("a checkpoint of something else is refused and changes nothing") {
  TemporaryDirectory directory;
  std::string path = directory.file("run.ckpt");
  Run saved("sgd", {});
  saved.run_epoch();
  save_checkpoint(path, saved.checkpoint());

  Run other("adam", {});
  std::vector<float> before = other.net.parameters()[0].value.to_vector<float>();
  std::uint64_t position = other.shuffle.position();
  auto refuse = [&](Checkpoint checkpoint, const std::string& reason) {
    std::string message = message_of([&] { load_checkpoint(path, checkpoint); });
    CAPTURE(message);
    CHECK(contains(message, path));
    CHECK(contains(message, reason));
    CHECK(other.net.parameters()[0].value.to_vector<float>() == before);
    CHECK(other.shuffle.position() == position);
    CHECK(other.trainer.steps() == 0);
  };
  refuse(other.checkpoint(), "does not fit");  // the checkpoint has the state of sgd, which does not fit adam

  Checkpoint renamed = other.checkpoint();
  renamed.trainer = nullptr;
  renamed.parameters[0].name = "elsewhere";
  refuse(renamed, "no parameter 'elsewhere'");

  Checkpoint reshaped = other.checkpoint();
  reshaped.parameters[0].value = zeros({2, 2});
  refuse(reshaped, "(12, 6)");

  Checkpoint fewer = other.checkpoint();
  fewer.parameters.pop_back();
  refuse(fewer, "has 4 parameters, the model 3");

  Checkpoint counted = other.checkpoint();
  counted.trainer = nullptr;
  counted.counters["lap"] = 0;
  refuse(counted, "no 'counter.lap'");

  Generator extra;
  Checkpoint generated = other.checkpoint();
  generated.trainer = nullptr;
  generated.generators["extra"] = &extra;
  refuse(generated, "no 'seed.extra'");
}

TEST_CASE("files that are no checkpoints are refused") {
  TemporaryDirectory directory;
  Run run("sgd", {});
  Checkpoint checkpoint = run.checkpoint();
  CHECK(
      contains(message_of([&] { load_checkpoint(directory.file("none"), checkpoint); }), "cannot be opened"));
  const std::string place =
      "; called at tests/kvstore/training/checkpoint_test.cc:" + std::to_string(__LINE__ + 1);
  CHECK_THROWS_WITH_AS(checkpoint_notes(directory.file("none")), doctest::Contains(place.c_str()), Error);
  CHECK_THROWS_WITH_AS(checkpoint_notes(directory.file("none")), doctest::Contains("checkpoint_notes: "),
                       Error);
  std::string path = directory.file("plain");
  save_safetensors(path, {.arrays = {{"x", ones({2})}}, .metadata = {}});
  CHECK(contains(message_of([&] { load_checkpoint(path, checkpoint); }), "no checkpoint"));
  save_safetensors(path, {.arrays = {{"x", ones({2})}}, .metadata = {{"format", "pt"}}});
  CHECK(contains(message_of([&] { load_checkpoint(path, checkpoint); }), "format 'pt'"));
  CHECK(contains(message_of([&] { save_checkpoint(directory.file("no/such/place"), checkpoint); }),
                 "no/such/place"));
}

TEST_CASE("a damaged checkpoint is refused with the array's name and changes nothing") {
  TemporaryFile file;
  Run saved("sgd", {});
  saved.run_epoch();
  save_checkpoint(file.path, saved.checkpoint());
  const auto weight = saved.net.parameters()[0].value.to_vector<float>();
  std::string bytes = read_file(file.path);
  const std::string pattern(reinterpret_cast<const char*>(weight.data()), weight.size() * sizeof(float));
  const std::size_t at = bytes.find(pattern);
  REQUIRE(at != std::string::npos);
  bytes[at + 5] = static_cast<char>(bytes[at + 5] ^ 1);
  write_file(file.path, bytes);

  Run other("sgd", {});
  const auto before = other.net.parameters()[0].value.to_vector<float>();
  Checkpoint checkpoint = other.checkpoint();
  const std::string message = message_of([&] { load_checkpoint(file.path, checkpoint); });
  CAPTURE(message);
  CHECK(contains(message, file.path));
  CHECK(contains(message, "array 'parameter." + other.net.parameters()[0].name + "'"));
  CHECK(contains(message, "the file is damaged"));
  CHECK(other.net.parameters()[0].value.to_vector<float>() == before);
}

TEST_CASE("a checkpoint without checksums, as earlier versions wrote them, is loaded") {
  TemporaryFile file;
  Run saved("sgd", {{"momentum", 0.9}});
  saved.run_epoch();
  save_checkpoint(file.path, saved.checkpoint());
  save_safetensors(file.path, load_safetensors(file.path));
  CHECK_FALSE(contains(read_file(file.path), "crc32"));

  Run other("sgd", {{"momentum", 0.9}});
  Checkpoint checkpoint = other.checkpoint();
  load_checkpoint(file.path, checkpoint);
  CHECK(checkpoint.counters.at("epoch") == 1);
  CHECK(other.trainer.steps() == saved.trainer.steps());
  CHECK(other.net.parameters()[0].value.to_vector<float>() ==
        saved.net.parameters()[0].value.to_vector<float>());
}

TEST_CASE("generators that are null and arrays that are undefined are refused") {
  const TemporaryFile file;
  Generator generator;
  save_checkpoint(file.path, {.parameters = {{"w", ones({2})}}, .generators = {{"g", &generator}}});
  Checkpoint null{.parameters = {{"w", ones({2})}}, .generators = {{"g", nullptr}}};
  CHECK_THROWS_WITH_AS(save_checkpoint(file.path, null), "save_checkpoint: generator 'g' is null",
                       InvalidArgument);
  CHECK_THROWS_WITH_AS(load_checkpoint(file.path, null), "load_checkpoint: generator 'g' is null",
                       InvalidArgument);
  Checkpoint undefined{.parameters = {{"w", NDArray()}}, .generators = {{"g", &generator}}};
  CHECK_THROWS_WITH_AS(load_checkpoint(file.path, undefined),
                       "load_checkpoint: parameter 'w' is an undefined array", InvalidArgument);
}

TEST_CASE("a checkpoint cut off anywhere, or with any byte changed, is refused and changes nothing") {
  const TemporaryFile file;
  Run saved("sgd", {{"momentum", 0.9}}), other("sgd", {{"momentum", 0.9}});
  saved.run_epoch();
  save_checkpoint(file.path, saved.checkpoint());
  const std::string whole = read_file(file.path);
  const std::vector<float> before = other.net.parameters()[0].value.to_vector<float>();
  const auto refused = [&](const std::string& bytes) {
    write_file(file.path, bytes);
    Checkpoint checkpoint = other.checkpoint();
    const std::string message = message_of([&] { load_checkpoint(file.path, checkpoint); });
    return contains(message, file.path) && checkpoint.counters.at("epoch") == 0;
  };
  for (std::size_t at = 0; at < whole.size(); at += at < 2000 ? 61 : 211) {
    CAPTURE(at);
    CHECK(refused(whole.substr(0, at)));
    std::string changed = whole;
    changed[at] = static_cast<char>(changed[at] ^ 0x10);
    CHECK(refused(changed));
  }
  CHECK(other.net.parameters()[0].value.to_vector<float>() == before);
  CHECK(other.trainer.steps() == 0);
}

TEST_CASE("two parameters of one name cannot be saved") {
  TemporaryDirectory directory;
  std::string path = directory.file("twice");
  Checkpoint checkpoint{
      .parameters = {{"0.weight", ones({2})}, {"1.weight", ones({2})}, {"0.weight", ones({2})}}};
  CHECK_THROWS_WITH_AS(save_checkpoint(path, checkpoint),
                       "save_checkpoint: two parameters are called '0.weight'", InvalidArgument);
  CHECK_FALSE(std::filesystem::exists(path));
}

TEST_CASE("loading fills what the program has handles of: counters and arrays of the saved shape and dtype") {
  const TemporaryFile file;
  const NDArray mean = full({3}, 1.5), other = zeros({2}, DType::i64);
  save_checkpoint(file.path, {.counters = {{"epoch", 5}},
                              .arrays = {{"mean", mean}, {"curve", ones({4})}, {"new", other}}});
  const NDArray running = zeros({3}), curve = zeros({2});
  const NDArray part = running[Slice{0, 2}];
  Checkpoint loaded{.counters = {{"epoch", 0}},
                    .arrays = {{"mean", running}, {"curve", curve}, {"new", NDArray()}}};
  const std::int64_t& epoch = loaded.counters["epoch"];
  load_checkpoint(file.path, loaded);
  CHECK(epoch == 5);
  CHECK(running.to_vector<float>() == std::vector<float>{1.5, 1.5, 1.5});
  CHECK(part.to_vector<float>() == std::vector<float>{1.5, 1.5});
  CHECK(loaded.arrays.at("mean").storage() == running.storage());
  CHECK(curve.to_vector<float>() == std::vector<float>{0, 0});
  CHECK(loaded.arrays.at("curve").to_vector<float>() == std::vector<float>{1, 1, 1, 1});
  CHECK(loaded.arrays.at("new").dtype() == DType::i64);

  Checkpoint more{.counters = {{"epoch", 0}}, .arrays = {{"mean", zeros({3})}, {"variance", zeros({3})}}};
  const NDArray before = more.arrays.at("mean");
  CHECK(contains(message_of([&] { load_checkpoint(file.path, more); }), "has no array 'variance'"));
  CHECK(before.to_vector<float>() == std::vector<float>{0, 0, 0});
  CHECK(more.counters.at("epoch") == 0);
}

TEST_CASE("a run goes on from a checkpoint whose parameters were listed in another order") {
  const TemporaryFile file;
  const auto make = [](bool swapped) {
    std::vector<Parameter> parameters;
    for (const char* name : {"a", "b"}) {
      NDArray value = ones({2});
      set_requires_grad(value);
      parameters.push_back({name, value});
    }
    if (swapped) std::swap(parameters[0], parameters[1]);
    return parameters;
  };
  const TrainerOptions options{.optimizer = "adam", .params = {{"lr", 0.1}}};
  const auto step = [](Trainer& trainer) {
    for (const auto& [name, value] : trainer.parameters()) backward(sum(value * (name == "a" ? 1.0 : -3.0)));
    trainer.step();
  };
  const std::vector<Parameter> saved = make(false), resumed = make(true);
  Trainer first(saved, options), other(resumed, options);
  step(first);
  save_checkpoint(file.path, {.parameters = saved, .trainer = &first});
  Checkpoint loaded{.parameters = resumed, .trainer = &other};
  load_checkpoint(file.path, loaded);
  step(first);
  step(other);
  CHECK(saved[0].value.to_vector<float>() == resumed[1].value.to_vector<float>());
  CHECK(saved[1].value.to_vector<float>() == resumed[0].value.to_vector<float>());
}
