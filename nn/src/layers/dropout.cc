#include <heddle/dropout.h>
#include <heddle/layers/dropout.h>
#include <heddle/number_text.h>

#include "layers/layer_table.h"

namespace heddle {

using namespace nn_detail;

Dropout::Dropout(double probability, Generator* generator)
    : probability_(probability), generator_(generator) {
  if (probability >= 0 && probability < 1) return;
  throw InvalidArgument("Dropout: the probability must be in [0, 1), not " + number_text(probability));
}

NDArray Dropout::forward(const NDArray& x) {
  check_defined(*this, x);
  return dropout(x, probability_, generator_ ? *generator_ : default_generator(), training());
}

std::string Dropout::to_string() const { return "Dropout(" + number_text(probability_) + ")"; }

HEDDLE_LAYERS(dropout) {
  table.family("Layers without weights");
  // The registry's Dropout takes no generator, since the layer would have to keep it, and lock it in each
  // call, as long as the layer lives.
  table.add("Dropout", "In training zeroes each element with this probability.",
            {{.name = "probability", .kind = ArgumentKind::real}},
            [](const LayerArguments& a) { return layer(Dropout(a.real("probability"))); });
}

}  // namespace heddle
