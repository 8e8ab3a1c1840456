// Sample calls of the operators that read and write at positions given by index arrays.
#include <heddle/scatter.h>

#include "sample_values.h"

namespace heddle::testing {
namespace {

void add_scatters(std::vector<Sample>& to) {
  using Scatters = NDArray (*)(const NDArray&, const NDArray&, const Operand&, int, Where);
  using Indexed = NDArray (*)(const NDArray&, const NDArray&, const NDArray&, int, Where);
  const NDArray x = small({3, 4}), places = array<std::int64_t>({0, 2, 2, 1, 0, -1}, {3, 2});
  const NDArray source = small({3, 2}), rows = numbers({2, 0, 2});
  for (const auto& [name, f] :
       std::initializer_list<std::pair<const char*, Scatters>>{{"scatter", scatter},
                                                               {"scatter_add", scatter_add},
                                                               {"scatter_min", scatter_min},
                                                               {"scatter_max", scatter_max}}) {
    to.push_back({name, {x, places, source}, {}, [f = f](In v) {
                    return f(at(v, 0), at(v, 1), at(v, 2), -1, Where::current());
                  }});
    to.push_back({name, {x, places, 2, 0}, {}, [f = f](In v) {
                    return f(at(v, 0), at(v, 1), 2, 0, Where::current());
                  }});
  }
  for (const auto& [name, f] : std::initializer_list<std::pair<const char*, Indexed>>{
           {"index_add", index_add}, {"index_copy", index_copy}}) {
    to.push_back({name, {x, rows, small({3, 4})}, {}, [f = f](In v) {
                    return f(at(v, 0), at(v, 1), at(v, 2), 0, Where::current());
                  }});
    to.push_back({name, {x, rows, small({3, 3}), 1}, {}, [f = f](In v) {
                    return f(at(v, 0), at(v, 1), at(v, 2), 1, Where::current());
                  }});
  }
  const std::vector<NDArray> pairs{numbers({0, 2, 0}), numbers({1, -1, 1})};
  to.insert(to.end(),
            {{"take_along_axis", {x, places}, {}, [](In v) { return take_along_axis(at(v, 0), at(v, 1)); }},
             {"take_along_axis",
              {x, array<std::int64_t>({0, 2, 2, 1}, {1, 4}), 0},
              {},
              [](In v) { return take_along_axis(at(v, 0), at(v, 1), 0); }},
             {"gather", {x, places}, {}, [](In v) { return gather(at(v, 0), at(v, 1)); }},
             {"gather", {x, places, 0}, {}, [](In v) { return gather(at(v, 0), at(v, 1), 0); }},
             {"index_put",
              {x, pairs, small({3})},
              {},
              [](In v) { return index_put(at(v, 0), list_at(v, 1), at(v, 2)); }},
             {"index_put",
              {x, pairs, 2, true},
              {},
              [](In v) { return index_put(at(v, 0), list_at(v, 1), 2, true); }},
             {"put", {x, places, source}, {}, [](In v) { return put(at(v, 0), at(v, 1), at(v, 2)); }}});
}

void add_masks(std::vector<Sample>& to) {
  const NDArray x = small({2, 3}), mask = array<bool>({true, false, true});
  to.insert(to.end(),
            {{"masked_select", {x, mask}, {}, [](In v) { return masked_select(at(v, 0), at(v, 1)); }},
             {"masked_fill", {x, mask, 2.5}, {}, [](In v) { return masked_fill(at(v, 0), at(v, 1), 2.5); }},
             {"masked_scatter",
              {x, mask, small({5})},
              {},
              [](In v) { return masked_scatter(at(v, 0), at(v, 1), at(v, 2)); }},
             {"nonzero", {x}, {}, [](In v) { return nonzero(at(v, 0)); }},
             {"argwhere", {x}, {}, [](In v) { return argwhere(at(v, 0)); }}});
}

}  // namespace

HEDDLE_SAMPLES(scatter) {
  add_scatters(to);
  add_masks(to);
}

}  // namespace heddle::testing
