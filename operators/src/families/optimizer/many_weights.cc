// Ops on all weights at once: clipping of their gradients, and their moving averages.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <mutex>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include <heddle/creation.h>
#include <heddle/elementwise.h>
#include <heddle/gradient_clipping.h>
#include <heddle/number_text.h>
#include <heddle/optimizer_update.h>

#include "autograd/tape.h"
#include "core/operator.h"
#include "families/optimizer/kernels.h"

namespace heddle {

using namespace operators_detail;

namespace {

// The gradient of a leaf in memory of its own, so that it may change in place. Called with the leaf's mutex
// locked.
ClippedGrad own_gradient(AutogradMeta& leaf) {
  if (leaf.grad.defined()) {
    if (!leaf.grad_owned || !leaf.grad.is_contiguous()) {
      leaf.grad = leaf.grad.detach().copy();
      leaf.grad_owned = true;
    }
    return {.whole = leaf.grad.detach()};
  }
  if (!leaf.row_sparse_grad.defined()) return {};
  const RowSparse& rows = leaf.row_sparse_grad;
  leaf.row_sparse_grad = RowSparse(rows.shape(), rows.rows(), rows.values().copy(), rows.count());
  return {.rows = leaf.row_sparse_grad};
}

void check_clipped(const char* op, const ClippedGrad& grad, const NDArray& leaf, std::size_t index) {
  const DType dtype = grad.whole.defined() ? grad.whole.dtype() : grad.rows.dtype();
  const Device device = grad.whole.defined() ? grad.whole.device() : grad.rows.device();
  const std::string who = std::string(op) + ": the gradient of leaf " + std::to_string(index) + " is ";
  if (dtype != DType::f32 && dtype != DType::f64)
    throw InvalidArgument(who + name_of(dtype) + "; want f32 or f64");
  if (device != leaf.device())
    throw InvalidArgument(who + "on " + device.to_string() + ", the leaf on " + leaf.device().to_string());
}

std::shared_ptr<AutogradMeta> leaf_at(const char* op, const std::vector<NDArray>& leaves, std::size_t index) {
  const std::shared_ptr<AutogradMeta> meta = meta_of(leaves[index]);
  if (meta && meta->leaf) return meta;
  throw InvalidArgument(std::string(op) + ": array " + std::to_string(index) +
                        " is no leaf, and so has no gradient to clip; pass parameters");
}

// The gradients of all leaves, each once. Checks everything before it changes a gradient.
std::vector<ClippedGrad> own_gradients(const char* op, const std::vector<NDArray>& leaves) {
  if (leaves.empty()) throw InvalidArgument(std::string(op) + ": there are no leaves");
  check_arrays(op, leaves);
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::shared_ptr<AutogradMeta> meta = leaf_at(op, leaves, i);
    const std::lock_guard lock(meta->mutex);
    if (meta->grad.defined()) check_clipped(op, {.whole = meta->grad}, leaves[i], i);
    if (meta->row_sparse_grad.defined()) check_clipped(op, {.rows = meta->row_sparse_grad}, leaves[i], i);
  }
  std::vector<ClippedGrad> all;
  std::unordered_set<const AutogradMeta*> seen;
  for (std::size_t i = 0; i < leaves.size(); ++i) {
    const std::shared_ptr<AutogradMeta> meta = leaf_at(op, leaves, i);
    if (!seen.insert(meta.get()).second) continue;
    NDArray replaced;  // destroyed after the lock is released: it may hold the last reference on a tape
    const std::lock_guard lock(meta->mutex);
    replaced = meta->grad;
    ClippedGrad grad = own_gradient(*meta);
    if (grad.whole.defined() || grad.rows.defined()) all.push_back(std::move(grad));
  }
  return all;
}

struct ClipAccess {
  std::vector<NDArray> reads, writes;
};
ClipAccess access_of(const std::vector<ClippedGrad>& grads) {
  ClipAccess access;
  for (const ClippedGrad& grad : grads) {
    const NDArray& changed = grad.whole.defined() ? grad.whole : grad.rows.values();
    access.writes.push_back(changed);
    access.reads.push_back(changed);
    if (grad.whole.defined()) continue;
    access.reads.push_back(grad.rows.rows());
    access.reads.push_back(grad.rows.count());
  }
  return access;
}

void check_bound(const char* op, const char* name, double bound) {
  if (std::isfinite(bound) && bound >= 0) return;
  throw InvalidArgument(std::string(op) + ": " + name + " must be finite and not negative, not " +
                        number_text(bound));
}

}  // namespace

NDArray clip_grad_norm(const std::vector<NDArray>& leaves, double max_norm, const ClipOptions& options,
                       Where where) {
  const CallSite site(where);
  constexpr const char* kOp = "clip_grad_norm";
  check_bound(kOp, "max_norm", max_norm);
  std::vector<ClippedGrad> grads = own_gradients(kOp, leaves);
  const bool wide = std::any_of(grads.begin(), grads.end(), [](const ClippedGrad& grad) {
    return (grad.whole.defined() ? grad.whole.dtype() : grad.rows.dtype()) == DType::f64;
  });
  const NDArray norm = make_result(leaves[0], Shape{}, wide ? DType::f64 : DType::f32);
  auto* kernel = kernel_for<ClipNormKernel>(kOp, norm);
  ClipAccess access = access_of(grads);
  access.writes.push_back(norm);
  push_op(kOp, access.reads, access.writes,
          recordable([kernel, grads = std::move(grads), norm, max_norm, refuse = options.refuse_nonfinite](
                         const KernelContext& context) { kernel(context, grads, norm, max_norm, refuse); }));
  return norm;
}

void clip_grad_value(const std::vector<NDArray>& leaves, double max_value, Where where) {
  const CallSite site(where);
  constexpr const char* kOp = "clip_grad_value";
  check_bound(kOp, "max_value", max_value);
  std::vector<ClippedGrad> grads = own_gradients(kOp, leaves);
  if (grads.empty()) return;
  auto* kernel = kernel_for<ClipValueKernel>(kOp, leaves[0]);
  const ClipAccess access = access_of(grads);
  push_op(kOp, access.reads, access.writes,
          recordable([kernel, grads = std::move(grads), max_value](const KernelContext& context) {
            kernel(context, grads, max_value);
          }));
}

void operators_detail::unscale_gradients(const std::vector<NDArray>& leaves, const LossScaleState& state) {
  constexpr const char* kOp = "unscale_gradients";
  std::vector<ClippedGrad> grads = own_gradients(kOp, leaves);
  if (grads.empty()) return;
  const bool on_cpu = leaves.front().device().kind == DeviceKind::cpu;
  // The op on a GPU writes a flag there, which is copied to the CPU: ops that read it are issued after that.
  const NDArray nonfinite = on_cpu ? state.nonfinite : make_result(leaves.front(), Shape{}, DType::f32);
  if (on_cpu) check_arrays(kOp, {&leaves.front(), &state.scale});
  auto* kernel = kernel_for<UnscaleKernel>(kOp, leaves.front());
  ClipAccess access = access_of(grads);
  access.writes.push_back(nonfinite);
  if (on_cpu) access.reads.push_back(nonfinite);
  access.reads.push_back(state.scale);
  push_op(kOp, access.reads, access.writes,
          [kernel, grads = std::move(grads), scale = state.scale, nonfinite](const KernelContext& context) {
            kernel(context, grads, scale, nonfinite);
          });
  if (!on_cpu) state.nonfinite.assign(maximum(state.nonfinite, nonfinite.copy_to(cpu())));
}

void operators_detail::update_loss_scale(const LossScaleState& state, double growth, double backoff,
                                         std::int64_t interval) {
  const std::vector<NDArray> all{state.scale, state.nonfinite, state.good, state.skipped};
  auto* kernel = kernel_for<LossScaleKernel>("update_loss_scale", state.scale);
  push_op("update_loss_scale", all, all,
          [=](const KernelContext& context) { kernel(context, state, growth, backoff, interval); });
}

void operators_detail::average_update(const std::vector<NDArray>& averages,
                                      const std::vector<NDArray>& weights, const NDArray& updates,
                                      double decay, bool warm_up) {
  auto* kernel = kernel_for<AverageKernel>("average_update", averages.front());
  std::vector<NDArray> writes = averages;
  writes.push_back(updates);
  std::vector<NDArray> reads = writes;
  reads.insert(reads.end(), weights.begin(), weights.end());
  push_op("average_update", reads, writes,
          [kernel, averages, weights, updates, decay, warm_up](const KernelContext& context) {
            std::int64_t& count = *updates.data<std::int64_t>();
            const auto n = static_cast<double>(count);
            kernel(context, averages, weights, warm_up ? std::min(decay, (1 + n) / (10 + n)) : decay);
            ++count;
          });
}

void operators_detail::swap_values(const std::vector<NDArray>& a, const std::vector<NDArray>& b) {
  auto* kernel = kernel_for<SwapKernel>("swap_values", a.front());
  std::vector<NDArray> all = a;
  all.insert(all.end(), b.begin(), b.end());
  push_op("swap_values", all, all, [kernel, a, b](const KernelContext& context) { kernel(context, a, b); });
}

}  // namespace heddle
