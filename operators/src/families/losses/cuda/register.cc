// Registers connectionist temporal classification for GPUs.
#include <heddle/error.h>

#include "core/kernel_table.h"
#include "cuda/arrays.h"
#include "cuda/data_fault.h"
#include "cuda/scratch.h"
#include "families/losses/ctc_kernels.h"
#include "families/losses/cuda/ctc.h"

namespace heddle::cuda_kernels {
namespace {

[[noreturn]] void refuse_ctc(const CtcProblem& p, const FaultSlot& found, long long places) {
  const auto value = static_cast<std::int64_t>(found.value);
  const std::int64_t sequence = found.place / places;
  switch (found.kind) {
    case kCtcTargetLength:
      refuse_ctc_length("ctc_loss", "target length", sequence, value, p.longest);
    case kCtcInputLength:
      refuse_ctc_length("ctc_loss", "input length", sequence, value, p.steps);
    case kCtcLargeSum:
      refuse_large_ctc_sum(p);
    case kCtcLabel:
      refuse_ctc_label(p, sequence, found.place % places - kCtcLabel, value);
    default:
      refuse_ctc_sum(p, value);
  }
}

// The problem with its sequences, which are checked. There is one at least. `report`: what is wrong fails the op.
class CheckedSequences {
 public:
  CheckedSequences(const KernelContext& context, const CtcProblem& p, const CtcIds& ids, DType dtype,
                   bool report)
      : memory_(context, "sequences of ctc_loss", static_cast<std::size_t>(p.batch) * sizeof(CtcSequence)),
        shape_{p.steps,
               p.batch,
               p.classes,
               p.longest,
               p.labels,
               p.blank,
               p.flat,
               dtype == DType::f64,
               static_cast<const long long*>(read_address(ids.targets)),
               static_cast<const long long*>(read_address(ids.input_lengths)),
               static_cast<const long long*>(read_address(ids.target_lengths)),
               memory_.as<CtcSequence>()} {
    void* const stream = context.stream().native();
    if (!report) {
      check_launch(context, launch_ctc_sequences(stream, shape_, nullptr));
      return;
    }
    const DataFault fault(context);
    check_launch(context, launch_ctc_sequences(stream, shape_, fault.slot()));
    fault.check(context,
                [p, places = ctc_places(shape_)](const FaultSlot& found) { refuse_ctc(p, found, places); });
  }
  const CtcShape& shape() const { return shape_; }

 private:
  Scratch memory_;
  CtcShape shape_;
};

// StateChains of states and the memory that they need.
class StateChains {
 public:
  StateChains(const KernelContext& context, const CtcProblem& p, const CtcShape& shape, bool all_steps,
              bool dual)
      : context_(context),
        shape_(shape),
        dual_(dual),
        rows_(ctc_rows(shape, dual)),
        states_(all_steps ? static_cast<std::size_t>(p.states()) * number() : 0),
        totals_(context, "totals of ctc_loss", static_cast<std::size_t>(p.batch) * number()),
        alpha_(context, "states of ctc_loss", states_),
        beta_(context, "states of ctc_loss", states_),
        more_(context, "rows of ctc_loss", static_cast<std::size_t>(2 * p.batch * rows_.room)) {
    rows_.rows = more_.as<std::byte>();
    chains_.totals = totals_.data();
    chains_.alpha = alpha_.data();
    chains_.beta = beta_.data();
    chains_.zero_infinity = p.zero_infinity;
  }
  // Of dual chains: u.
  void run(const void* x, const void* u, void* losses) {
    chains_.x = x;
    chains_.u = u;
    chains_.losses = losses;
    check_launch(context_, launch_ctc_chains(context_.stream().native(), shape_, rows_, chains_, dual_));
  }
  void find_probabilities(void* states, void* g_grad) const {
    check_launch(context_, launch_ctc_probabilities(context_.stream().native(), shape_, chains_, dual_,
                                                    states, g_grad));
  }

 private:
  std::size_t number() const { return sizeof(double) * (dual_ ? 2 : 1); }

  const KernelContext& context_;
  const CtcShape& shape_;
  bool dual_;
  CtcRows rows_;
  std::size_t states_;  // bytes
  Scratch totals_, alpha_, beta_, more_;
  CtcChains chains_{};
};

// A batch without sequences has no labels.
bool has_no_sequence(const CtcProblem& p) {
  if (p.batch == 0 && p.flat && p.labels != 0) refuse_ctc_sum(p, 0);
  return p.batch == 0;
}

void ctc_kernel(const KernelContext& context, const CtcProblem& p, const NDArray& x, const CtcIds& ids,
                const NDArray& losses, const NDArray& states) {
  if (has_no_sequence(p)) return;
  const CheckedSequences sequences(context, p, ids, x.dtype(), true);
  const bool wanted = states.defined() && states.size() > 0;
  StateChains chains(context, p, sequences.shape(), wanted, false);
  chains.run(read_address(x), nullptr, written_address(losses));
  if (wanted) chains.find_probabilities(written_address(states), nullptr);
}

void put_gradient(const KernelContext& context, const CtcProblem& p, const CtcShape& shape, const void* g,
                  const void* states, void* x_grad) {
  const auto labels = static_cast<std::size_t>(p.labels);
  const Scratch next(context, labels * sizeof(int)), first(context, labels);
  check_launch(context, launch_ctc_gradient(context.stream().native(), shape, g, states, x_grad,
                                            next.as<int>(), first.as<bool>()));
}

void ctc_backward_kernel(const KernelContext& context, const CtcProblem& p, const NDArray& g,
                         const CtcIds& ids, const NDArray& states, const NDArray& x_grad) {
  if (has_no_sequence(p) || p.steps == 0) return;
  const CheckedSequences sequences(context, p, ids, g.dtype(), false);
  put_gradient(context, p, sequences.shape(), read_address(g), read_address(states), written_address(x_grad));
}

void ctc_curvature_kernel(const KernelContext& context, const CtcProblem& p, const NDArray& g,
                          const NDArray& x, const CtcIds& ids, const NDArray& u, const NDArray& g_grad,
                          const NDArray& x_grad) {
  if (has_no_sequence(p)) return;
  const CheckedSequences sequences(context, p, ids, x.dtype(), false);
  StateChains chains(context, p, sequences.shape(), true, true);
  chains.run(read_address(x), read_address(u), nullptr);
  const Scratch states(context, "derivatives of ctc_loss",
                       static_cast<std::size_t>(p.states()) * size_of(x.dtype()));
  chains.find_probabilities(states.data(), written_address(g_grad));
  put_gradient(context, p, sequences.shape(), read_address(g), states.data(), written_address(x_grad));
}

CtcDecoding decoding_of(const CtcProblem& p, const NDArray& x, const NDArray& input_lengths,
                        const NDArray& labels, const NDArray& numbers, FaultSlot* fault) {
  return {p.steps,
          p.batch,
          p.classes,
          p.blank,
          x.dtype() == DType::f64,
          read_address(x),
          static_cast<const long long*>(read_address(input_lengths)),
          static_cast<long long*>(written_address(labels)),
          static_cast<long long*>(written_address(numbers)),
          fault};
}

void check_decoding(const KernelContext& context, const char* op, const CtcProblem& p,
                    const DataFault& fault) {
  fault.check(context, [op, steps = p.steps](const FaultSlot& found) {
    refuse_ctc_length(op, "input length", found.place, static_cast<std::int64_t>(found.value), steps);
  });
}

void ctc_greedy_kernel(const KernelContext& context, const CtcProblem& p, const NDArray& x,
                       const NDArray& input_lengths, const NDArray& labels, const NDArray& numbers) {
  if (p.batch == 0) return;
  const DataFault fault(context);
  check_launch(context, launch_ctc_greedy(context.stream().native(),
                                          decoding_of(p, x, input_lengths, labels, numbers, fault.slot())));
  check_decoding(context, "ctc_greedy_decode", p, fault);
}

void ctc_beam_kernel(const KernelContext& context, const CtcProblem& p, const NDArray& x,
                     const NDArray& input_lengths, std::int64_t beam, const NDArray& labels,
                     const NDArray& numbers, const NDArray& scores) {
  if (p.batch == 0) return;
  constexpr const char* kName = "ctc_beam_search";
  const DataFault fault(context);
  const CtcDecoding problem = decoding_of(p, x, input_lengths, labels, numbers, fault.slot());
  CtcBeam search = ctc_beam(problem, beam);
  constexpr long long kMost = 0x7fffffff;  // of candidates, and of beginnings in all steps
  if (search.nodes > kMost || search.beam > kMost / (1 + search.likely))
    throw Error(std::string(kName) + ": beam is " + std::to_string(beam) + ", too large for a GPU");
  const Scratch memory(context, "beginnings of ctc_beam_search",
                       static_cast<std::size_t>(p.batch * search.bytes));
  search.memory = memory.as<std::byte>();
  check_launch(context, launch_ctc_beam(context.stream().native(), problem, search, written_address(scores)));
  check_decoding(context, kName, p, fault);
}

}  // namespace
}  // namespace heddle::cuda_kernels

namespace heddle {

HEDDLE_CUDA_KERNELS(ctc) {
  using namespace cuda_kernels;
  table.add<CtcKernel>("ctc_loss", DeviceKind::cuda, ctc_kernel);
  table.add<CtcBackwardKernel>("ctc_loss_backward", DeviceKind::cuda, ctc_backward_kernel);
  table.add<CtcCurvatureKernel>("ctc_loss_curvature", DeviceKind::cuda, ctc_curvature_kernel);
  table.add<CtcGreedyKernel>("ctc_greedy_decode", DeviceKind::cuda, ctc_greedy_kernel);
  table.add<CtcBeamKernel>("ctc_beam_search", DeviceKind::cuda, ctc_beam_kernel);
}

}  // namespace heddle
