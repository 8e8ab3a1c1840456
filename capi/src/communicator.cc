#include <heddle/c/communicator.h>
#include <heddle/communicator.h>

#include "array_handle.h"

using namespace heddle;
using namespace heddle::c;

namespace heddle::c {

// Destroyed from below: the communicator before its engine.
struct Rank {
  std::shared_ptr<Engine> engine;
  std::shared_ptr<Communicator> communicator;
};

}  // namespace heddle::c

namespace {

static_assert(static_cast<std::int32_t>(ReduceOp::avg) == HEDDLE_AVG);

struct Wanted {
  std::shared_ptr<Engine> engine;
  CommOptions options;
};

Wanted wanted_by(const heddle_communicator_options* options, const char* call) {
  if (options) check_struct(options, call, "heddle_communicator_options");
  Wanted wanted{engine_of(options ? options->engine : nullptr, call), {}};
  wanted.options.engine = wanted.engine.get();
  if (!options) return wanted;
  if (options->timeout < 0) throw InvalidArgument(std::string(call) + ": timeout is negative");
  if (options->backend) wanted.options.backend = options->backend;
  if (options->algorithm) wanted.options.algorithm = options->algorithm;
  wanted.options.timeout = std::chrono::milliseconds((options->timeout + 999'999) / 1'000'000);
  wanted.options.reproducible = options->reproducible != 0;
  wanted.options.gpu = options->gpu - 1;
  return wanted;
}

ReduceOp reduction_of(std::int32_t reduction, const char* call) {
  if (reduction < HEDDLE_SUM || reduction > HEDDLE_AVG)
    throw InvalidArgument(std::string(call) + ": the reduction is " + std::to_string(reduction) +
                          ", want HEDDLE_SUM to HEDDLE_AVG");
  return static_cast<ReduceOp>(reduction);
}

// A call of a rank with one or two arrays.
template <class Call>
heddle_status collective(const heddle_communicator* communicator, const heddle_array* in,
                         const heddle_array* out, heddle_error** error, const char* name,
                         Call&& call) noexcept {
  return called(error, [&] {
    const Borrowed<heddle_communicator> rank(communicator, name);
    const UsedArray from(in, name), to(out, name);
    call(*(*rank)->communicator, from->array, to->array);
  });
}

heddle_communicator* new_rank(std::shared_ptr<Engine> engine, std::shared_ptr<Communicator> communicator) {
  return make_handle<heddle_communicator>(
      std::make_shared<const Rank>(Rank{std::move(engine), std::move(communicator)}));
}

}  // namespace

heddle_status heddle_communicator_create(const heddle_communicator_options* options,
                                         heddle_communicator** communicator, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_communicator_create";
    const Wanted wanted = wanted_by(options, kCall);
    check_out(communicator, kCall, "communicator");
    *communicator = new_rank(wanted.engine, Communicator::create(wanted.options));
  });
}

heddle_status heddle_communicator_create_local(const heddle_communicator_options* options, int32_t size,
                                               heddle_communicator** communicators, heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_communicator_create_local";
    const Wanted wanted = wanted_by(options, kCall);
    check_out(communicators, kCall, "communicators");
    const auto ranks = Communicator::create_local(size, wanted.options);
    std::vector<heddle_communicator*> made;
    made.reserve(ranks.size());
    try {
      for (const auto& rank : ranks) made.push_back(new_rank(wanted.engine, rank));
    } catch (...) {
      for (heddle_communicator* one : made) heddle_communicator_destroy(one);
      throw;
    }
    std::copy(made.begin(), made.end(), communicators);
  });
}

heddle_status heddle_communicator_destroy(heddle_communicator* communicator) {
  return guarded(nullptr, [&] {
    if (communicator) take(communicator, "heddle_communicator_destroy");
  });
}

heddle_status heddle_communicator_rank(const heddle_communicator* communicator, int32_t* rank, int32_t* size,
                                       heddle_error** error) {
  return called(error, [&] {
    const Borrowed<heddle_communicator> of(communicator, "heddle_communicator_rank");
    check_out(rank, "heddle_communicator_rank", "rank");
    check_out(size, "heddle_communicator_rank", "size");
    *rank = (*of)->communicator->rank();
    *size = (*of)->communicator->size();
  });
}

heddle_status heddle_communicator_var(const heddle_communicator* communicator, heddle_var** var,
                                      heddle_error** error) {
  return called(error, [&] {
    const Borrowed<heddle_communicator> of(communicator, "heddle_communicator_var");
    check_out(var, "heddle_communicator_var", "var");
    *var = make_handle<heddle_var>((*of)->communicator->var());
  });
}

heddle_status heddle_all_reduce(const heddle_communicator* communicator, const heddle_array* in,
                                const heddle_array* out, int32_t reduction, heddle_error** error) {
  return collective(communicator, in, out, error, "heddle_all_reduce",
                    [&](Communicator& ranks, const NDArray& from, const NDArray& to) {
                      const ReduceOp op = reduction_of(reduction, "heddle_all_reduce");
                      if (in == out) return ranks.all_reduce(to, op);
                      ranks.all_reduce(from, to, op);
                    });
}

heddle_status heddle_reduce_scatter(const heddle_communicator* communicator, const heddle_array* in,
                                    const heddle_array* out, int32_t reduction, heddle_error** error) {
  return collective(communicator, in, out, error, "heddle_reduce_scatter",
                    [&](Communicator& ranks, const NDArray& from, const NDArray& to) {
                      ranks.reduce_scatter(from, to, reduction_of(reduction, "heddle_reduce_scatter"));
                    });
}

heddle_status heddle_all_gather(const heddle_communicator* communicator, const heddle_array* in,
                                const heddle_array* out, heddle_error** error) {
  return collective(
      communicator, in, out, error, "heddle_all_gather",
      [](Communicator& ranks, const NDArray& from, const NDArray& to) { ranks.all_gather(from, to); });
}

heddle_status heddle_broadcast(const heddle_communicator* communicator, const heddle_array* array,
                               int32_t root, heddle_error** error) {
  return collective(
      communicator, array, array, error, "heddle_broadcast",
      [&](Communicator& ranks, const NDArray&, const NDArray& to) { ranks.broadcast(to, root); });
}

heddle_status heddle_barrier(const heddle_communicator* communicator, heddle_error** error) {
  return called(error, [&] {
    (*Borrowed<heddle_communicator>(communicator, "heddle_barrier"))->communicator->barrier();
  });
}

heddle_status heddle_communicator_wait(const heddle_communicator* communicator, heddle_error** error) {
  return called(error, [&] {
    (*Borrowed<heddle_communicator>(communicator, "heddle_communicator_wait"))->communicator->wait();
  });
}

heddle_status heddle_communicator_abort(const heddle_communicator* communicator, const char* why,
                                        heddle_error** error) {
  return called(error, [&] {
    const Borrowed<heddle_communicator> of(communicator, "heddle_communicator_abort");
    (*of)->communicator->abort(text_of(why, "heddle_communicator_abort", "why"));
  });
}
