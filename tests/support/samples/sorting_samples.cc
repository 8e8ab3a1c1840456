// Sample calls of the operators that sort, search and count.
#include <heddle/reduce.h>
#include <heddle/scan.h>
#include <heddle/sorting.h>

#include "sample_values.h"

namespace heddle::testing {
namespace {

void add_sorts(std::vector<Sample>& to) {
  const NDArray x = small({2, 4, 3}), half = array({0.5f, 0.25f}), one = array({1.0f});
  to.insert(
      to.end(),
      {{"sort", {x}, {}, [](In v) { return sort(at(v, 0)); }},
       {"sort", {x, 1, true}, {}, [](In v) { return sort(at(v, 0), 1, true); }},
       {"argsort", {x}, {}, [](In v) { return argsort(at(v, 0)); }},
       {"argsort", {x, 0, true}, {}, [](In v) { return argsort(at(v, 0), 0, true); }},
       {"topk", {x, 2}, {}, [](In v) { return listed(topk(at(v, 0), 2)); }},
       {"topk", {x, 2, 1, false}, {}, [](In v) { return listed(topk(at(v, 0), 2, 1, false)); }},
       {"kthvalue", {x, 2}, {}, [](In v) { return listed(kthvalue(at(v, 0), 2)); }},
       {"kthvalue", {x, 1, 0, true}, {}, [](In v) { return listed(kthvalue(at(v, 0), 1, 0, true)); }},
       {"median", {x}, {}, [](In v) { return median(at(v, 0)); }},
       {"median",
        {x, Dims{0, 2}, true},
        {},
        [](In v) {
          return median(at(v, 0), {0, 2}, true);
        }},
       {"quantile", {x, one}, {}, [](In v) { return quantile(at(v, 0), at(v, 1)); }},
       {"quantile", {x, half, 1, true}, {}, [](In v) { return quantile(at(v, 0), at(v, 1), {1}, true); }},
       {"quantile", {x, 0.5, Dims{1}, true}, {}, [](In v) { return quantile(at(v, 0), 0.5, {1}, true); }},
       {"cummax", {x}, {}, [](In v) { return cummax(at(v, 0)); }},
       {"cummax", {x, 0}, {}, [](In v) { return cummax(at(v, 0), 0); }},
       {"cummin", {x}, {}, [](In v) { return cummin(at(v, 0)); }},
       {"cummin", {x, 0}, {}, [](In v) { return cummin(at(v, 0), 0); }}});
}

void add_searches(std::vector<Sample>& to) {
  const NDArray x = small({2, 3}), sorted = numbers({1, 2, 2}).astype(DType::f32);
  const NDArray counted = small({5}, DType::i64), weights = small({5});
  to.insert(
      to.end(),
      {{"searchsorted", {sorted, x}, {}, [](In v) { return searchsorted(at(v, 0), at(v, 1)); }},
       {"searchsorted", {sorted, x, true}, {}, [](In v) { return searchsorted(at(v, 0), at(v, 1), true); }},
       {"isin", {x, sorted}, {}, [](In v) { return isin(at(v, 0), at(v, 1)); }},
       {"isin", {x, sorted, true}, {}, [](In v) { return isin(at(v, 0), at(v, 1), true); }},
       {"histogram", {x}, {}, [](In v) { return listed(histogram(at(v, 0))); }},
       {"histogram", {x, 3, 0.5, 2.5}, {}, [](In v) { return listed(histogram(at(v, 0), 3, 0.5, 2.5)); }},
       {"unique", {x}, {}, [](In v) { return unique(at(v, 0)); }},
       {"unique", {x, false}, {}, [](In v) { return unique(at(v, 0), false); }},
       {"unique_all", {x}, {}, [](In v) { return listed(unique_all(at(v, 0))); }},
       {"unique_all", {x, false}, {}, [](In v) { return listed(unique_all(at(v, 0), false)); }},
       {"bincount", {counted}, {}, [](In v) { return bincount(at(v, 0)); }},
       {"bincount", {counted, weights, 7}, {}, [](In v) { return bincount(at(v, 0), at(v, 1), 7); }}});
}

}  // namespace

HEDDLE_SAMPLES(sorting) {
  add_sorts(to);
  add_searches(to);
}

}  // namespace heddle::testing
