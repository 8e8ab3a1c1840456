// Errors, traces and reports name the line that called a layer or an optimizer.
#include <functional>
#include <string>

#include <doctest/doctest.h>

#include <heddle/average_weights.h>
#include <heddle/clip_grad.h>
#include <heddle/data.h>
#include <heddle/fold_batch_norms.h>
#include <heddle/layer_registry.h>
#include <heddle/loss_scaler.h>
#include <heddle/metrics.h>
#include <heddle/model.h>
#include <heddle/model_picture.h>
#include <heddle/ops.h>
#include <heddle/optimizer.h>
#include <heddle/pruning.h>
#include <heddle/quantize.h>
#include <heddle/safetensors.h>
#include <heddle/sequential.h>
#include <heddle/summary.h>
#include <heddle/summary_writer.h>
#include <heddle/weights.h>

#include "call_sites.h"
#include "files.h"

using namespace heddle;
using namespace heddle::test;

namespace {

class Twice : public Module {
  NDArray forward(const NDArray& x) override { return x + x; }
};

struct Weighted : Module {
  NDArray weight = parameter("weight", ones({3}));
  NDArray operator()(const NDArray& x, const NDArray& y, Where where = Where::current()) {
    return call(
        {x, y}, [&] { return x * weight + y; }, where);
  }
};

// call() throws an InvalidArgument that names the line of this check, on which the call has to stand.
void check_refusal(const std::function<void()>& call, Where where = Where::current()) {
  try {
    call();
    FAIL_CHECK("no error");
  } catch (const InvalidArgument& error) {
    CHECK(text_of(error.where()) == text_of(where));
    CHECK(std::string(error.what()) == error.message() + "; called at " + text_of(where));
  }
}

}  // namespace

TEST_CASE("layers and what is in them name the line of the call") {
  Generator generator(1);
  const NDArray image = ones({2, 1, 6, 6}), rows = ones({2, 3});
  Sequential net{Conv2d(1, 2, 3, {.relu = true}), MaxPool2d(2), Flatten(), Dense(8, 3), Tanh(), Twice()};
  Sequential others{Relu(), Sigmoid(), Dropout(0.5), Dense(3, 2)};
  AvgPool2d pool(2);
  Weighted weighted;
  check_site("load_weights", [&] { load_weights(Dense(3, 2).parameters(), {{"weight", ones({2, 3})}}); });
  const test::TemporaryFile weights;
  save_safetensors(weights.path, {.arrays = {{"weight", ones({2, 3})}}, .metadata = {}});
  check_site("load_weights", [&] { load_weights(Dense(3, 2), weights.path); });
  check_site("Module::operator()", [&] { net(image); });
  check_site("Module::operator()", [&] { others(rows); });
  check_site("Module::operator()", [&] { pool(image); });
  check_site("Module::operator()", [&] { Twice()(rows); });
  check_site("Module::call", [&] { weighted(rows, rows); });
  check_site("Module::run", [&] { net.run({image}); });
  check_site("Module::to", [&] { Dense(2, 3).to(cpu(1)); });
  check_site("Module::run", [&] { others.run(std::vector<NDArray>{rows}); });
  check_site("summarize", [&] { summarize(net, {image}); });
  check_site("summarize", [&] { summarize(others, std::vector<NDArray>{rows}); });
  const Symbol symbol = input("x", {2, 3});
  const auto shared = std::make_shared<Dense>(3, 2);
  check_site("input", [&] { input("x", {2, 3}); });
  check_site("connect", [&] { connect(Dense(3, 2), symbol); });
  check_site("connect", [&] { connect(shared, symbol); });
  check_site("connect", [&] { connect("exp", {symbol}); });
  check_site("connect_all", [&] { connect_all(shared, {symbol}); });
  check_site("connect_all", [&] { connect_all("exp", {symbol}); });
  const test::TemporaryFile file;
  check_site("save_model", [&] { save_model(file.path, others); });
  check_site("load_model", [&] { load_model(file.path); });
  check_site("make_layer", [&] { make_layer("Dense", {3, 2}); });
  check_site("make_layer", [&] { make_layer(*find_layer("Dense"), OperatorValues{3, 2}); });
  check_site("Dense::Dense", [&] { Dense(3, 2); });
  check_site("Conv::Conv", [&] { Conv1d(1, 2, 3); });
  check_site("Conv::Conv", [&] { Conv2d(1, 2, 3); });
  check_site("Conv::Conv", [&] { Conv3d(1, 2, 3); });
  check_site("ConvTranspose::ConvTranspose", [&] { ConvTranspose1d(1, 2, 3); });
  check_site("ConvTranspose::ConvTranspose", [&] { ConvTranspose2d(1, 2, 3); });
  check_site("ConvTranspose::ConvTranspose", [&] { ConvTranspose3d(1, 2, 3); });
  GlobalMaxPool highest;
  check_site("Module::operator()", [&] { highest(image); });
  check_site("LayerNorm::LayerNorm", [&] { LayerNorm(3); });
  check_site("RmsNorm::RmsNorm", [&] { RmsNorm(3); });
  check_site("GroupNorm::GroupNorm", [&] { GroupNorm(1, 3); });
  check_site("InstanceNorm::InstanceNorm", [&] { InstanceNorm(3, {}); });
  check_site("BatchNorm::BatchNorm", [&] { BatchNorm(3); });
  check_site("Rnn::Rnn", [&] { Rnn(3, 2); });
  check_site("Lstm::Lstm", [&] { Lstm(3, 2); });
  check_site("Gru::Gru", [&] { Gru(3, 2); });
  Lstm recurrent(3, 2);
  const NDArray sequence = ones({1, 2, 3});
  check_site("RecurrentLayer::operator()", [&] { recurrent(sequence, {.h = zeros({1, 1, 2})}); });
  check_site("Embedding::Embedding", [&] { Embedding(3, 2); });
  check_site("Embedding::Embedding", [&] { Embedding(3, 2, {.padding_index = 0}); });
  check_site("EmbeddingBag::EmbeddingBag", [&] { EmbeddingBag(3, 2, {.padding_index = 0}); });
  check_site("MultiHeadAttention::MultiHeadAttention", [&] { MultiHeadAttention(4, 2); });
  check_site("TransformerBlock::TransformerBlock", [&] { TransformerBlock(4, 2); });
  check_site("LearnedPositions::LearnedPositions", [&] { LearnedPositions(3, 2); });
  const NDArray tokens = ones({1, 2, 4});
  MultiHeadAttention attend(4, 2, {.causal = true});
  TransformerBlock block(4, 2, {.causal = true});
  AttentionCache first, second;
  check_site("MultiHeadAttention::decode", [&] { attend.decode(tokens, first); });
  check_site("TransformerBlock::decode", [&] { block.decode(tokens, second); });
  check_site("Module::operator()", [&] { block(tokens); });
  check_site("Module::run", [&] { attend.run({tokens, tokens}); });
  const NDArray ids = zeros({2}, DType::i64);
  Embedding lookup(3, 2, {.sparse_grad = true});
  check_site("Module::operator()", [&] { lookup(ids); });
}

TEST_CASE("an optimizer names the line of the call") {
  for (const char* name : {"sgd", "adam"}) {
    const auto optimizer = create_optimizer(name);
    const NDArray weight = ones({4}), gradient = ones({4});
    check_site("Optimizer::update", [&] { optimizer->update(0, weight, gradient); });
    const RowSparse rows = retain(gradient, zeros({2}, DType::i64));
    check_site("Optimizer::update", [&] { optimizer->update(0, weight, rows); });
    // a dense update after one of rows
    check_site("Optimizer::update", [&] { optimizer->update(0, weight, gradient); });
    const std::vector<Key> keys{1, 2};
    const std::vector<NDArray> weights{ones({2}), ones({3})}, gradients{ones({2}), ones({3})};
    check_site("Optimizer::update_all", [&] { optimizer->update_all(keys, weights, gradients); });
    check_site("Optimizer::set_state", [&] { optimizer->set_state(optimizer->state()); });
    check_site("Optimizer::clear_errors", [&] { optimizer->clear_errors(); });
  }
}

TEST_CASE("a summary writer and pictures name the line of the call") {
  const test::TemporaryDirectory folder;
  SummaryWriter writer(folder.path.string());
  const NDArray x = ones({2, 3});
  Dense layer(3, 2);
  check_site("SummaryWriter::scalar", [&] { writer.scalar("x", ones({}), 0); });
  check_site("SummaryWriter::histogram", [&] { writer.histogram("x", x, 0); });
  check_site("SummaryWriter::image", [&] { writer.image("x", x, 0); });
  check_site("SummaryWriter::text", [&] { writer.text("x", "y", 0); });
  check_site("SummaryWriter::hyperparameters", [&] { writer.hyperparameters({{"lr", 0.5}}, {}); });
  check_site("SummaryWriter::graph", [&] { writer.graph(layer, {x}); });
  check_site("to_svg", [&] { to_svg(layer, {x}); });
  check_site("save_svg", [&] { save_svg(folder.file("x.svg"), layer, {x}); });
  check_refusal([&] { writer.scalar("", 1, 0); });
}

TEST_CASE("a metric names the line of the call") {
  Accuracy accuracy, other;
  const NDArray scores = ones({2, 3}), labels = zeros({2}, DType::i64);
  check_site("Metric::state", [&] { other.state(); });  // makes it
  check_site("Metric::update", [&] { accuracy.update(scores, labels); });
  check_site("Metric::merge", [&] { accuracy.merge(other.state()); });
  check_site("Metric::result", [&] { accuracy.result(); });
  check_site("Metric::value", [&] { (void)accuracy.value(); });
  check_site("Metric::to_string", [&] { (void)accuracy.to_string(); });
  check_site("Metric::reset", [&] { accuracy.reset(); });
}

TEST_CASE("clipping and averages name the line of the call") {
  NDArray weight = ones({3});
  set_requires_grad(weight);
  const std::vector<Parameter> parameters{{"weight", weight}};
  backward(sum(weight * weight));
  check_site("clip_grad_norm", [&] { clip_grad_norm(parameters, 1); });
  check_site("clip_grad_value", [&] { clip_grad_value(parameters, 1); });
  check_site("clip_grad_norm", [&] { clip_grad_norm({weight}, 1); });
  check_site("AverageWeights::AverageWeights", [&] { AverageWeights made(parameters); });
  AverageWeights average(parameters);
  check_site("AverageWeights::update", [&] { average.update(); });
  check_site("AverageWeights::swap", [&] { average.swap(), average.swap(); });
  check_site("AverageWeights::set_state", [&] { average.set_state(average.state()); });
  check_site("UseAverages::UseAverages", [&] { const UseAverages now(average); });
  check_site("LossScaler::LossScaler", [&] { LossScaler made; });
  LossScaler scaler;
  check_site("LossScaler::scale", [&] { scaler.scale(weight); });
  check_site("LossScaler::unscale", [&] { scaler.unscale(parameters); });
  check_site("LossScaler::set_state", [&] { scaler.set_state(scaler.state()); });
  check_site("LossScaler::clear_errors", [&] { scaler.clear_errors(); });
}

TEST_CASE("what is done after training names the line of the call") {
  Sequential net{Dense(3, 3), BatchNorm(3), Dense(3, 2)};
  net.train(false);
  check_site("Pruning::Pruning", [&] { Pruning made(net); });
  Pruning pruning(net);
  check_site("Pruning::prune", [&] { pruning.prune(0.6); });
  check_site("Pruning::apply", [&] { pruning.apply(); });
  check_site("Pruning::keep_zeros", [&] { pruning.keep_zeros(); });
  check_site("Pruning::state", [&] { pruning.state(); });
  check_site("Pruning::set_state", [&] { pruning.set_state(pruning.state()); });
  check_site("Pruning::report", [&] { (void)pruning.report(); });
  check_site("prune", [&] { prune(net); });
  check_site("fold_batch_norms", [&] { fold_batch_norms(net); });
  check_site("quantize", [&] { quantize(net, {ones({2, 3})}); });
  Sequential other{Dense(3, 2)};
  other.train(false);
  check_site("QuantizedDense::QuantizedDense", [&] { QuantizedDense(3, 2); });
  check_site("QuantizedConv::QuantizedConv", [&] { QuantizedConv2d(3, 2, 1); });
  check_site("quantize", [&] { quantize(other, [&] { other(ones({2, 3})); }); });
}

TEST_CASE("a bad argument of a layer or an optimizer is refused with the line of the call") {
  const NDArray x = ones({2, 3});
  const RowSparse rows = retain(x, zeros({2}, DType::i64));
  Sequential twice{Dense(3, 2), Dense(3, 2)};
  Embedding lookup(3, 2);
  check_refusal([&] { Dense(3, 2)(ones({2, 4})); });
  check_refusal([&] { twice(x); });
  check_refusal([&] { Embedding(0, 2); });
  check_refusal([&] { lookup(x); });
  check_refusal([&] { create_optimizer("sgd")->update(0, ones({3, 3}), rows); });
}

TEST_CASE("batches and augmentation name the line of the call") {
  const NDArray columns = ones({3, 4}).permuted({1, 0}), image = ones({1, 4, 4}),
                odd = arange(9).slice(0, {.step = 2});
  check_site("augment", [&] { augment({.flip = 0.5}, image, ExampleRandom(0, 0, 0)); });
  check_site("ArrayDataset::ArrayDataset", [&] { ArrayDataset({columns}); });
  check_site("SequenceDataset::SequenceDataset", [&] { SequenceDataset(odd, 2); });
  check_site("Loader::Loader", [&] { Loader(ArrayDataset({image})).next(); });
}
