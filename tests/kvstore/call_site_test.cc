// Errors, traces and reports name the source line that called a store, a trainer or a checkpoint.
#include <memory>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/heddle.h>

#include "call_sites.h"

using namespace heddle;
using namespace heddle::test;

namespace {

NDArray leaf(Shape shape) {
  NDArray weight = ones(shape);
  set_requires_grad(weight);
  return weight;
}

// A store of a job with one rank.
std::shared_ptr<KVStore> allreduce_store(const std::string& compression = "none") {
  return KVStore::create("allreduce", Communicator::create_local(1)[0], {.compression = compression});
}

// Checks the source line that each kind of call reports. A pull follows each push on the same line: a store
// may delay a push until the pull, and still reports the push's line.
void check_store(KVStore& store, const NDArray& value) {
  const NDArray out = ones(value.shape());
  const std::vector<NDArray> values{value, ones(value.shape())}, outs{out, ones(value.shape())};
  check_site("KVStore::init", [&] { store.init(0, value); });
  const NDArray columns = ones({3, 2}).transpose();  // not contiguous, so that it is copied
  check_site("KVStore::adopt", [&] { store.adopt(2, columns); });
  check_site("KVStore::broadcast", [&] { store.broadcast(1, value, outs); });
  check_site("KVStore::push_pull", [&] { store.push_pull(0, values, outs); });
  check_site("KVStore::assign", [&] { store.assign(0, value); });
  check_site("KVStore::pull", [&] { store.pull(0, outs); });
  check_site("KVStore::push", [&] { store.push(0, values), store.pull(0, outs); });
  check_site("KVStore::push", [&] { store.push(0, value), store.pull(0, out); });
  check_site("KVStore::push", [&] { store.push(0, {value, out}), store.pull(0, {out}); });
  const NDArray rows = array<std::int64_t>({1, 2}), two = ones({2});
  const std::vector<RowSparse> some{row_sparse(rows, two, value.shape())};
  check_site("KVStore::push", [&] { store.push(0, some[0]), store.pull(0, out); });
  check_site("KVStore::push", [&] { store.push(0, some), store.pull(0, out); });
  check_site("KVStore::pull_rows", [&] { store.pull_rows(0, rows, two); });
  check_site("KVStore::pull_rows", [&] { store.pull_rows(0, rows); });
  const std::vector<KVStore::Key> keys{0, 1};
  check_site("KVStore::push_pull", [&] { store.push_pull(keys, values, outs); });
  check_site("KVStore::push", [&] { store.push(keys, values), store.pull(keys, outs); });
  check_site("KVStore::pull", [&] { store.pull(keys, outs); });
  store.set_optimizer("adam");
  check_site("KVStore::push", [&] { store.push(0, value), store.pull(0, out); });
  const auto state = store.optimizer_state();
  check_site("KVStore::set_optimizer_state", [&] { store.set_optimizer_state(state); });
  check_site("KVStore::clear_errors", [&] { store.clear_errors(); });
}

}  // namespace

TEST_CASE("each call of a store names its line") {
  for (const Shape& shape : {Shape{4}, Shape{100'000}}) {
    check_store(*KVStore::create("local"), ones(shape));
    check_store(*allreduce_store(), ones(shape));
    check_store(*allreduce_store("1bit"), ones(shape));
  }
}

TEST_CASE("what the ranks do for a store names the line of the store's call") {
  const auto ranks = Communicator::create_local(1);
  const NDArray value = ones({4});
  check_site("KVStore::create", [&] { KVStore::create("allreduce", ranks[0]); });
  const auto store = KVStore::create("allreduce", ranks[0]);
  store->init(0, value);
  check_site("KVStore::barrier", [&] { store->barrier(); });
  check_site("KVStore::set_optimizer", [&] { store->push(0, value), store->set_optimizer("sgd"); });
}

TEST_CASE("what compression has left out is read and set on the line of the call") {
  const auto store = allreduce_store("1bit");
  store->init(0, ones({4}));
  store->push(0, ones({4}));
  store->barrier();
  const auto residuals = store->residuals();
  check_site("KVStore::residuals", [&] { store->push(0, ones({4})), store->barrier(), store->residuals(); });
  check_site("KVStore::check_residuals", [&] { store->check_residuals([&] { return residuals; }); });
  check_site("KVStore::set_residuals", [&] { store->set_residuals(residuals); });
}

TEST_CASE("an update that comes with a later call names the line of its push") {
  const auto store = allreduce_store();
  const NDArray value = ones({4});
  store->init(0, value);
  store->set_optimizer("sgd");
  store->push(0, value);
  const std::string place = "tests/kvstore/call_site_test.cc:" + std::to_string(__LINE__ - 1);
  bool found = false;
  for (const OpSite& site : sites_of_ops([&] { store->pull(0, value); })) {
    found |= site.name == "sgd_update" && site.at == place;
  }
  CHECK(found);
}

TEST_CASE("each call of a trainer and of a checkpoint names its line") {
  const TemporaryDirectory files;
  const std::string path = files.file("checkpoint");
  for (const bool distributed : {false, true}) {
    const auto store = [&] { return distributed ? allreduce_store() : nullptr; };
    const std::vector<Parameter> parameters{{"a", leaf({4})}, {"b", leaf({100'000})}};
    const TrainerOptions options{.optimizer = "adam", .store = store()};
    Trainer trainer(parameters, {.optimizer = "adam", .store = store()});
    const auto differentiate = [&] {
      for (const Parameter& parameter : parameters) backward(sum(parameter.value));
    };
    differentiate();
    check_site("Trainer::step", [&] { trainer.step(); });
    CapturedStep captured = trainer.capture([](const std::vector<NDArray>& batch) { return batch[0]; });
    const std::vector<NDArray> batch{ones({4})};
    captured.run(batch);  // captures the next time
    check_site("CapturedStep::run", [&] { captured.run(batch); });
    captured.reset();
    captured.run(batch);
    check_site("CapturedStep::operator()", [&] { captured(batch); });
    check_site("Trainer::set_state", [&] { trainer.set_state(trainer.state()); });
    check_site("Trainer::check_state", [&] { trainer.check_state(trainer.state()); });
    check_site("Trainer::clear_errors", [&] { trainer.clear_errors(); });
    Checkpoint checkpoint{.parameters = parameters, .trainer = &trainer};
    check_site("save_checkpoint", [&] { save_checkpoint(path, checkpoint); });
    if (distributed) check_site("save_residuals", [&] { save_residuals(path, trainer); });
    check_site("load_checkpoint", [&] { load_checkpoint(path, checkpoint); });
    NDArray columns = ones({3, 2}).transpose();  // not contiguous, so that the store copies it
    set_requires_grad(columns);
    check_site("Trainer::Trainer", [&] { Trainer({{"columns", columns}}, options); });
  }
}

TEST_CASE("fit, evaluate, predict and a checkpoint writer name their lines") {
  const TemporaryDirectory files;
  Sequential net{Dense(3, 2)};
  Trainer trainer(net.parameters(), {.optimizer = "adam"});
  const NDArray x = ones({8, 3}), labels = zeros({8}, DType::i64);
  FitOptions options;
  options.loss = "cross_entropy";
  options.metrics = {"accuracy"};
  options.batch = 4;
  options.verbose = false;
  options.capture = FitCapture::never;  // a worker that helps with a graph is no op of a line
  check_site("fit", [&] { fit(net, trainer, {x, labels}, options); });
  check_site("evaluate", [&] { evaluate(net, {x, labels}, {.metrics = options.metrics}); });
  check_site("predict", [&] { predict(net, {x}); });
  CheckpointWriter writer;
  check_site("CheckpointWriter::save", [&] { writer.save(files.file("run"), {.trainer = &trainer}); });
  writer.wait();
}

TEST_CASE("a gradient that fails is reported with the line of its forward call") {
  const NDArray weight = leaf({4}), far = full({2}, 9, DType::i64);
  Trainer trainer(std::vector<Parameter>{{"weight", weight}});
  const NDArray loss = sum(take(weight, far));
  const std::string place = "tests/kvstore/call_site_test.cc:" + std::to_string(__LINE__ - 1);
  backward(loss);
  trainer.step();
  const std::string step = "sgd_update at tests/kvstore/call_site_test.cc:" + std::to_string(__LINE__ - 1);
  try {
    current_engine().wait_all();
    FAIL("take with an index out of range did not fail");
  } catch (const AggregateError& error) {
    bool named = false;
    for (const ErrorReport& report : error.reports()) named |= text_of(report.where) == place;
    CHECK(named);
  }
  const ErrorReport report = weight.engine().error_of(weight.var());
  CHECK(text_of(report.where) == place);
  bool skipped = false;
  for (const std::string& op : report.path) skipped |= op == step;
  CHECK(skipped);
  trainer.clear_errors();
}
