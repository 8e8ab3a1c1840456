// Sample calls of the operators that rearrange elements.
#include <heddle/creation.h>
#include <heddle/rearrange.h>

#include "sample_values.h"

namespace heddle::testing {
namespace {

void add_parts(std::vector<Sample>& to) {
  const NDArray x = small({4, 2});
  to.insert(to.end(), {{"split",
                        {x, numbers({1, 3})},
                        {},
                        [](In v) {
                          return split(at(v, 0), std::vector<std::int64_t>{1, 3});
                        }},
                       {"split", {x, 2, 1}, {}, [](In v) { return split(at(v, 0), 2, 1); }},
                       {"chunk", {x, 3}, {}, [](In v) { return chunk(at(v, 0), 3); }},
                       {"chunk", {x, 2, 1}, {}, [](In v) { return chunk(at(v, 0), 2, 1); }},
                       {"unstack", {x}, {}, [](In v) { return unstack(at(v, 0)); }},
                       {"unstack", {x, 1}, {}, [](In v) { return unstack(at(v, 0), 1); }},
                       {"broadcast_arrays",
                        {std::vector<NDArray>{small({2, 1}), small({3})}},
                        {},
                        [](In v) { return broadcast_arrays(list_at(v, 0)); }},
                       {"meshgrid",
                        {std::vector<NDArray>{small({2}), small({3})}},
                        {},
                        [](In v) { return meshgrid(list_at(v, 0)); }},
                       {"meshgrid", {std::vector<NDArray>{small({2}), small({3})}, "ij"}, {}, [](In v) {
                          return meshgrid(list_at(v, 0), false);
                        }}});
}

void add_orders(std::vector<Sample>& to) {
  const NDArray x = small({2, 3, 2});
  to.insert(to.end(), {{"swapaxes", {x, 0, -1}, {}, [](In v) { return swapaxes(at(v, 0), 0, -1); }},
                       {"moveaxis", {x, 0, 2}, {}, [](In v) { return moveaxis(at(v, 0), {0}, {2}); }},
                       {"flip", {x}, {}, [](In v) { return flip(at(v, 0)); }},
                       {"flip",
                        {x, Dims{0, 2}},
                        {},
                        [](In v) {
                          return flip(at(v, 0), {0, 2});
                        }},
                       {"rot90", {x}, {}, [](In v) { return rot90(at(v, 0)); }},
                       {"rot90",
                        {x, 3, Dims{1, 2}},
                        {},
                        [](In v) {
                          return rot90(at(v, 0), 3, {1, 2});
                        }},
                       {"roll", {x, 1}, {}, [](In v) { return roll(at(v, 0), {1}); }},
                       {"roll",
                        {x, Dims{1, -1}, Dims{0, 1}},
                        {},
                        [](In v) {
                          return roll(at(v, 0), {1, -1}, {0, 1});
                        }},
                       {"atleast_1d", {small({})}, {}, [](In v) { return atleast_1d(at(v, 0)); }},
                       {"atleast_2d", {small({3})}, {}, [](In v) { return atleast_2d(at(v, 0)); }},
                       {"atleast_3d", {small({3})}, {}, [](In v) { return atleast_3d(at(v, 0)); }},
                       {"tile",
                        {x, Dims{2, 1, 3}},
                        {},
                        [](In v) {
                          return tile(at(v, 0), {2, 1, 3});
                        }},
                       {"repeat",
                        {small({3}), numbers({2, 0, 1})},
                        {},
                        [](In v) {
                          return repeat(at(v, 0), std::vector<std::int64_t>{2, 0, 1});
                        }},
                       {"repeat", {x, 2, 1}, {}, [](In v) { return repeat(at(v, 0), 2, 1); }},
                       {"pad", {x, 1}, {}, [](In v) { return pad(at(v, 0), {1}, {1}); }},
                       {"pad",
                        {x, Dims{1, 0, 2}, Dims{0, 2, 1}, "reflect", 2.5},
                        {},
                        [](In v) {
                          return pad(at(v, 0), {1, 0, 2}, {0, 2, 1}, PadMode::reflect, 2.5);
                        }},
                       {"pad", {x, 1, 2, "constant", 2}, {}, [](In v) {
                          return pad(at(v, 0), {1}, {2}, PadMode::constant, 2);
                        }}});
}

void add_diagonals(std::vector<Sample>& to) {
  const NDArray x = small({3, 2, 3});
  to.insert(to.end(),
            {{"tril", {x}, {}, [](In v) { return tril(at(v, 0)); }},
             {"tril", {x, 1}, {}, [](In v) { return tril(at(v, 0), 1); }},
             {"triu", {x}, {}, [](In v) { return triu(at(v, 0)); }},
             {"triu", {x, -1}, {}, [](In v) { return triu(at(v, 0), -1); }},
             {"diag", {small({3})}, {}, [](In v) { return diag(at(v, 0)); }},
             {"diag", {small({3, 3}), 1}, {}, [](In v) { return diag(at(v, 0), 1); }},
             {"diagonal", {x}, {}, [](In v) { return diagonal(at(v, 0)); }},
             {"diagonal", {x, 1, 1, -1}, {}, [](In v) { return diagonal(at(v, 0), 1, 1, -1); }},
             {"matrix_trace", {x}, {}, [](In v) { return matrix_trace(at(v, 0)); }},
             {"matrix_trace", {x, 1, 1, -1}, {}, [](In v) { return matrix_trace(at(v, 0), 1, 1, -1); }}});
}

void add_series(std::vector<Sample>& to) {
  to.insert(to.end(),
            {{"full_like", {small({2, 3}), 2.5}, {}, [](In v) { return full_like(at(v, 0), 2.5); }},
             {"full_like", {small({2}, DType::i64), 7}, {}, [](In v) { return full_like(at(v, 0), 7); }},
             {"ones_like", {small({2, 3})}, {}, [](In v) { return ones_like(at(v, 0)); }},
             {"linspace", {0, 1}, {}, [](In) { return linspace(0, 1); }},
             {"linspace",
              {1, 2.5, 7, false, DType::f64, cpu(1)},
              {},
              [](In) { return linspace(1, 2.5, 7, false, DType::f64, cpu(1)); }},
             {"logspace", {0, 1}, {}, [](In) { return logspace(0, 1); }},
             {"logspace", {1, 4, 4, false, 2, DType::i64, cpu(1)}, {}, [](In) {
                return logspace(1, 4, 4, false, 2, DType::i64, cpu(1));
              }}});
}

}  // namespace

HEDDLE_SAMPLES(rearrange) {
  add_series(to);
  add_parts(to);
  add_orders(to);
  add_diagonals(to);
}

}  // namespace heddle::testing
