#include <heddle/dropout.h>
#include <heddle/layers/dropout.h>
#include <heddle/number_text.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

Dropout::Dropout(const LayerCall& call) : Layer(call) {
  const double probability = real("probability");
  if (probability >= 0 && probability < 1) return;
  throw InvalidArgument("Dropout: the probability must be in [0, 1), not " + number_text(probability));
}

Dropout::Dropout(double probability) : Dropout(call_of("Dropout", {probability}, CallSite::current())) {}

Dropout::Dropout(double probability, Generator& generator) : Dropout(probability) { generator_ = &generator; }

NDArray Dropout::compute(const NDArray& x) {
  return dropout(x, real("probability"), generator_ ? *generator_ : default_generator(), training());
}

HEDDLE_LAYERS(dropout) {
  table.family("Layers without weights");
  // The registry's Dropout takes no generator, since the layer would have to keep it, and lock it in each
  // call, as long as the layer lives.
  table.add<Dropout>({.name = "Dropout",
                      .documentation = "In training zeroes each element with this probability.",
                      .arguments = {{.name = "probability", .kind = ArgumentKind::real}}});
}

}  // namespace heddle
