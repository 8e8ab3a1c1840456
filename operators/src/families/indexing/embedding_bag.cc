// embedding_bag: sums, means and maxima of rows of a table.
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include <heddle/autograd.h>
#include <heddle/creation.h>
#include <heddle/embedding.h>
#include <heddle/scatter.h>
#include <heddle/shape_ops.h>

#include "autograd/record.h"
#include "core/operator.h"
#include "core/operator_table.h"
#include "families/indexing/embedding.h"
#include "families/indexing/places.h"
#include "families/row_sparse/row_sparse.h"

namespace heddle {

using namespace operators_detail;

namespace {

constexpr const char* kBagOp = "embedding_bag";
constexpr const char* kBagModes[] = {"sum", "mean", "max"};

// The arguments, checked. Arrays are detached; sample_weights is undefined without weights.
struct BagArguments {
  BagProblem problem;
  NDArray indices, sample_weights;
};

void check_sample_weights(const NDArray& weight, const NDArray& indices, const EmbeddingBagOptions& options) {
  const NDArray& given = options.per_sample_weights;
  if (!given.defined()) return;
  check_arrays(kBagOp, {&weight, &given});
  if (options.mode != BagMode::sum)
    throw InvalidArgument(std::string(kBagOp) + ": per_sample_weights with mode " +
                          kBagModes[static_cast<std::uint8_t>(options.mode)] + "; want sum");
  if (given.shape() != indices.shape() || given.dtype() != weight.dtype())
    throw InvalidArgument(std::string(kBagOp) + ": per_sample_weights are " + name_of(given.dtype()) + " " +
                          given.shape().to_string() + "; want " + name_of(weight.dtype()) + " " +
                          indices.shape().to_string());
}

BagArguments bags_of(const NDArray& weight, const NDArray& indices, const NDArray& offsets,
                     const EmbeddingBagOptions& options) {
  check_arrays(kBagOp, {&weight, &indices});
  check_floating(kBagOp, weight);
  check_indices(kBagOp, "indices", indices);
  if (weight.ndim() == 0) throw InvalidArgument("embedding_bag: a weight of shape () has no rows");
  BagProblem problem{.op = kBagOp,
                     .mode = options.mode,
                     .bags = 0,
                     .length = 0,
                     .offsets = {},
                     .padding = padding_row(kBagOp, options.padding_index, weight.shape()[0])};
  if (indices.ndim() != (offsets.defined() ? 1 : 2))
    throw InvalidArgument(
        std::string(kBagOp) + ": indices are " + indices.shape().to_string() +
        (offsets.defined() ? ", with offsets; want one axis" : ", without offsets; want (bags, length)"));
  if (offsets.defined()) {
    check_arrays(kBagOp, {&weight, &offsets});
    check_indices(kBagOp, "offsets", offsets);
    if (offsets.ndim() != 1)
      throw InvalidArgument(std::string(kBagOp) + ": offsets are " + offsets.shape().to_string() +
                            "; want (bags,)");
    problem.offsets = offsets.detach();
    problem.bags = offsets.size();
  } else {
    problem.bags = indices.shape()[0];
    problem.length = indices.shape()[1];
  }
  check_sample_weights(weight, indices, options);
  if (options.sparse_grad && options.mode == BagMode::max)
    throw InvalidArgument(std::string(kBagOp) + ": sparse_grad with mode max; want sum or mean");
  const NDArray& factors = options.per_sample_weights;
  return {problem, indices.detach(), factors.defined() ? factors.detach().contiguous() : NDArray()};
}

std::vector<NDArray> bag_reads(const BagArguments& bags, std::initializer_list<NDArray> more) {
  std::vector<NDArray> reads{more};
  for (const NDArray& array : {bags.indices, bags.sample_weights, bags.problem.offsets})
    if (array.defined()) reads.push_back(array);
  return reads;
}

Shape bags_shape(std::int64_t rows, const Shape& weight) {
  Shape shape = weight;
  shape[0] = rows;
  return shape;
}

// Adds the gradient of weight to `whole`.
void add_bag_gradient(const BagArguments& bags, const NDArray& places, const NDArray& g,
                      const NDArray& whole) {
  if (is_half(whole.dtype())) {
    const NDArray sums = whole.astype(DType::f32);
    BagArguments widened = bags;
    widened.sample_weights = wide(bags.sample_weights);
    add_bag_gradient(widened, places, g.astype(DType::f32), sums);
    return void(whole.detach().assign(sums));
  }
  const NDArray source = g.detach().contiguous(), target = whole.detach();
  auto* kernel = kernel_for<EmbeddingBagGradientKernel>("embedding_bag_gradient", whole);
  std::vector<NDArray> reads = bag_reads(bags, {source, target});
  if (places.defined()) reads.push_back(places);
  const NDArray writes[]{target};
  push_op("embedding_bag_gradient", reads, writes, [=](const KernelContext& context) {
    kernel(context, bags.problem, source, bags.indices, bags.sample_weights, places, target);
  });
}

// What the forward pass of max makes of a table: its elements at these rows, 0 for row -1.
NDArray at_places(const NDArray& table, const NDArray& places) {
  return where(less(places, 0), 0, take_along_axis(table, maximum(places, 0), 0));
}

// Records what has the gradient of weight alone.
void record_bags(NDArray& y, const NDArray& weight, const BagArguments& given, const NDArray& places,
                 bool sparse, const NDArray& offsets, const EmbeddingBagOptions& options) {
  BagArguments bags = given;
  std::vector<NDArray> saved{bags.indices};
  if (bags.problem.offsets.defined()) saved.push_back(bags.problem.offsets);
  if (places.defined()) saved.push_back(places);
  if (bags.sample_weights.defined())
    saved.push_back(bags.sample_weights = save_for_backward(bags.sample_weights));
  if (sparse) {
    return record_rows(kBagOp, y, weight, std::move(saved), [=, shape = weight.shape()](const NDArray& g) {
      return push_bag_rows("embedding_bag_gradient", bags.problem, g, bags.indices, bags.sample_weights,
                           shape);
    });
  }
  const auto add = [=](const NDArray& g, const NDArray& whole) { add_bag_gradient(bags, places, g, whole); };
  if (places.defined())
    return record_part(kBagOp, y, weight, std::move(saved), add,
                       [places](const NDArray& like_weight) { return at_places(like_weight, places); });
  EmbeddingBagOptions same = options;
  same.sparse_grad = false;
  same.per_sample_weights = bags.sample_weights;
  record_part(kBagOp, y, weight, std::move(saved), add,
              [=, at = bags.indices, begins = offsets.defined() ? offsets.detach() : offsets](
                  const NDArray& like_weight) { return embedding_bag(like_weight, at, begins, same); });
}

// The sums with weights that have a gradient: rows are looked up, weighted, and added up by operators of their own.
NDArray with_weight_gradient(const NDArray& weight, const NDArray& offsets, const BagArguments& bags,
                             const EmbeddingBagOptions& options) {
  const std::int64_t total = bags.indices.size();
  const NDArray at = reshape(bags.indices, {total});  // rows have no more axes than weight
  Shape of_rows = Dims::filled(weight.ndim(), 1);
  of_rows[0] = total;
  const NDArray rows = wide(embedding_of(
      kBagOp, weight, at, {.sparse_grad = options.sparse_grad, .padding_index = options.padding_index}));
  NDArray products = rows * reshape(wide(options.per_sample_weights), of_rows);
  if (bags.problem.padding >= 0)
    products = where(reshape(equal(at, bags.problem.padding), of_rows), 0, products);
  const EngineScope scope(weight.engine());
  NDArray places = arange(total, DType::i64, weight.device());
  if (!offsets.defined()) places = reshape(places, bags.indices.shape());
  return cast(embedding_bag(products, places, offsets, {.mode = BagMode::sum}), weight.dtype());
}

}  // namespace

RowSparse operators_detail::push_bag_rows(const char* name, const BagProblem& problem,
                                          const NDArray& gradient, const NDArray& indices,
                                          const NDArray& sample_weights, const Shape& shape) {
  const NDArray g = wide(gradient.detach()).contiguous(), at = indices.detach(),
                factors = wide(sample_weights);
  const RowSparse y = make_row_sparse(g, shape, g.dtype(), at.size());
  auto* kernel = kernel_for<EmbeddingBagRowsKernel>("embedding_bag_rows", g);
  const std::vector<NDArray> reads = bag_reads({problem, at, factors}, {g});
  const NDArray writes[]{y.rows(), y.values(), y.count()};
  push_op(name, reads, writes,
          [=](const KernelContext& context) { kernel(context, problem, g, at, factors, y); });
  if (gradient.dtype() == y.dtype()) return y;
  return {shape, y.rows(), y.values().astype(gradient.dtype()), y.count()};
}

NDArray embedding_bag(const NDArray& weight, const NDArray& indices, const NDArray& offsets,
                      const EmbeddingBagOptions& options, Where where) {
  const CallSite site(where);
  const BagArguments bags = bags_of(weight, indices, offsets, options);
  if (recording({&options.per_sample_weights}))
    return ndarray_detail::in_name_of(kBagOp,
                                      [&] { return with_weight_gradient(weight, offsets, bags, options); });
  const NDArray source = weight.detach().contiguous();
  const Shape shape = bags_shape(bags.problem.bags, weight.shape());
  NDArray y = make_result(weight, shape, weight.dtype());
  const bool taped = recording({&weight});
  const NDArray places =
      taped && options.mode == BagMode::max ? make_result(weight, shape, DType::i64) : NDArray();
  auto* kernel = kernel_for<EmbeddingBagKernel>(kBagOp, weight);
  std::vector<NDArray> writes{y};
  if (places.defined()) writes.push_back(places);
  push_op(kBagOp, bag_reads(bags, {source}), writes, [=, y = y.detach()](const KernelContext& context) {
    kernel(context, bags.problem, source, bags.indices, bags.sample_weights, y, places);
  });
  if (taped) record_bags(y, weight, bags, places, options.sparse_grad, offsets, options);
  return y;
}

HEDDLE_OPERATORS(embedding_bag) {
  table.family("Neural networks");
  table.add(
      "embedding_bag",
      +[](const NDArray& weight, const NDArray& indices, const NDArray& offsets, const std::string& mode,
          const NDArray& per_sample_weights, bool sparse_grad, std::optional<std::int64_t> padding_index,
          Where where) {
        std::uint8_t which = 0;
        while (mode != kBagModes[which]) ++which;
        return embedding_bag(weight, indices, offsets,
                             {.mode = static_cast<BagMode>(which),
                              .per_sample_weights = per_sample_weights,
                              .sparse_grad = sparse_grad,
                              .padding_index = padding_index},
                             where);
      },
      {"Sums, means or maxima of rows of weight (n, d...): those at indices (bags, length), or at indices "
       "(total,) in bags that begin at `offsets` (bags,). per_sample_weights, for sum, has a factor for each "
       "index; indices equal to `padding_index` are left out.",
       {{"weight", DTypes::floating},
        {"indices", DTypes::integers},
        {"offsets", kNone, DTypes::integers},
        {"mode", "mean", kBagModes},
        {"per_sample_weights", kNone, DTypes::floating},
        {"sparse_grad", false},
        {"padding_index", kNone}},
       "that of weight",
       kDifferentiable});
}

}  // namespace heddle
