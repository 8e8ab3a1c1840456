// Samples of losses.
#include <heddle/losses.h>
#include <heddle/shape_ops.h>

#include "samples/sample_values.h"

namespace heddle::testing {

namespace {

using Loss = NDArray(const NDArray&, const NDArray&, Reduction, Where);

// A loss with two arrays, by its defaults and with all arguments.
template <Loss* loss>
void add_loss(std::vector<Sample>& to, const char* name, const NDArray& a, const NDArray& b) {
  to.push_back(
      {name, {a, b}, {}, [](In v) { return loss(at(v, 0), at(v, 1), Reduction::mean, Where::current()); }});
  to.push_back({name, {a, b, std::string("none")}, {}, [](In v) {
                  return loss(at(v, 0), at(v, 1), Reduction::none, Where::current());
                }});
}

}  // namespace

HEDDLE_SAMPLES(losses) {
  const NDArray x = small({4, 3}), y = small({3, 4}), labels = numbers({2, 0, 1, 2}), weight = small({3});
  const NDArray target = reshape(y, {4, 3});
  add_loss<mse_loss>(to, "mse_loss", x, target);
  add_loss<l1_loss>(to, "l1_loss", x, target);
  add_loss<kl_div>(to, "kl_div", x, target);
  add_loss<soft_cross_entropy>(to, "soft_cross_entropy", x, target);
  to.insert(
      to.end(),
      {{"huber_loss", {x, target}, {}, [](In v) { return huber_loss(at(v, 0), at(v, 1)); }},
       {"huber_loss",
        {x, target, 0.5, std::string("sum")},
        {},
        [](In v) { return huber_loss(at(v, 0), at(v, 1), 0.5, Reduction::sum); }},
       {"bce_with_logits", {x, target}, {}, [](In v) { return bce_with_logits(at(v, 0), at(v, 1)); }},
       {"bce_with_logits",
        {x, target, 2.0, std::string("none")},
        {},
        [](In v) { return bce_with_logits(at(v, 0), at(v, 1), 2, Reduction::none); }},
       {"hinge_loss", {x, target}, {}, [](In v) { return hinge_loss(at(v, 0), at(v, 1)); }},
       {"hinge_loss",
        {x, target, 9.5, std::string("sum")},
        {},
        [](In v) { return hinge_loss(at(v, 0), at(v, 1), 9.5, Reduction::sum); }},
       {"triplet_loss", {x, target, x}, {}, [](In v) { return triplet_loss(at(v, 0), at(v, 1), at(v, 2)); }},
       {"triplet_loss",
        {x, target, target, 0.5, std::string("none")},
        {},
        [](In v) { return triplet_loss(at(v, 0), at(v, 1), at(v, 2), 0.5, Reduction::none); }},
       {"nll_loss", {x, labels}, {}, [](In v) { return nll_loss(at(v, 0), at(v, 1)); }},
       {"nll_loss",
        {x, labels, weight, 2, std::string("none")},
        {},
        [](In v) {
          return nll_loss(at(v, 0), at(v, 1), {at(v, 2), 2, 0, Reduction::none});
        }},
       {"cross_entropy_with", {x, labels}, {}, [](In v) { return cross_entropy_with(at(v, 0), at(v, 1)); }},
       {"cross_entropy_with", {x, labels, weight, 0, 0.1, std::string("sum")}, {}, [](In v) {
          return cross_entropy_with(at(v, 0), at(v, 1), {at(v, 2), 0, 0.1, Reduction::sum});
        }}});
}

}  // namespace heddle::testing
