#include "communicator.h"

#include <heddle/c/communicator.h>

using namespace heddle;
using namespace heddle::c;

namespace {

static_assert(static_cast<std::int32_t>(ReduceOp::avg) == HEDDLE_AVG);

struct Wanted {
  std::shared_ptr<Engine> engine;
  CommOptions options;
};

// Converts a timeout. Rounds up, so that a short timeout does not become 0, which stands for the default.
std::chrono::milliseconds milliseconds_of(std::int64_t nanoseconds) {
  return std::chrono::ceil<std::chrono::milliseconds>(std::chrono::nanoseconds(nanoseconds));
}

Wanted wanted_by(const heddle_communicator_options* options, const char* call) {
  if (options) check_struct(options, call, "heddle_communicator_options");
  Wanted wanted{engine_of(options ? options->engine : nullptr, call), {}};
  wanted.options.engine = wanted.engine.get();
  if (!options) return wanted;
  if (options->timeout < 0) throw InvalidArgument(std::string(call) + ": timeout is negative");
  if (options->gpu < 0) throw InvalidArgument(std::string(call) + ": gpu is negative");
  if (options->backend) wanted.options.backend = options->backend;
  if (options->algorithm) wanted.options.algorithm = options->algorithm;
  wanted.options.timeout = milliseconds_of(options->timeout);
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

// The body of an API function for a collective. `in` and `out` are the same array if the collective has one.
template <class Call>
heddle_status collective(const heddle_communicator* communicator, const heddle_array* in,
                         const heddle_array* out, heddle_error** error, const char* name,
                         Call&& call) noexcept {
  return called(error, [&] {
    const HandleAccess<heddle_communicator> rank(communicator, name);
    const UsedArray from(in, name), to(out, name);
    call(*(*rank)->communicator, from->array, to->array);
  });
}

heddle_communicator* new_rank(std::shared_ptr<Engine> engine, std::shared_ptr<Communicator> communicator) {
  return make_handle<heddle_communicator>(
      std::make_shared<const Rank>(Rank{std::move(engine), std::move(communicator)}));
}

// The body of an API function that makes a new communicator from a given one. Sets *made to null if this rank
// is not part of the new communicator.
template <class Make>
heddle_status make_rank(const heddle_communicator* from, heddle_communicator** made, heddle_error** error,
                        const char* call, Make&& make) noexcept {
  return called(error, [&] {
    const std::shared_ptr<const Rank> rank = *HandleAccess<heddle_communicator>(from, call);
    check_out(made, call, "the new communicator");
    const EngineScope scope(*rank->engine);
    std::shared_ptr<Communicator> ranks = make(*rank->communicator);
    *made = ranks ? new_rank(rank->engine, std::move(ranks)) : nullptr;
  });
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
    const HandleAccess<heddle_communicator> of(communicator, "heddle_communicator_rank");
    check_out(rank, "heddle_communicator_rank", "rank");
    check_out(size, "heddle_communicator_rank", "size");
    *rank = (*of)->communicator->rank();
    *size = (*of)->communicator->size();
  });
}

heddle_status heddle_communicator_backend(const heddle_communicator* communicator, const char** backend,
                                          heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_communicator> of(communicator, "heddle_communicator_backend");
    check_out(backend, "heddle_communicator_backend", "backend");
    *backend = static_text((*of)->communicator->backend());
  });
}

heddle_status heddle_communicator_var(const heddle_communicator* communicator, heddle_var** var,
                                      heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_communicator> of(communicator, "heddle_communicator_var");
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

heddle_status heddle_reduce(const heddle_communicator* communicator, const heddle_array* array, int32_t root,
                            int32_t reduction, heddle_error** error) {
  return collective(communicator, array, array, error, "heddle_reduce",
                    [&](Communicator& ranks, const NDArray&, const NDArray& to) {
                      ranks.reduce(to, root, reduction_of(reduction, "heddle_reduce"));
                    });
}

heddle_status heddle_all_to_all(const heddle_communicator* communicator, const heddle_array* in,
                                const int64_t* in_counts, const heddle_array* out, const int64_t* out_counts,
                                heddle_error** error) {
  return collective(communicator, in, out, error, "heddle_all_to_all",
                    [&](Communicator& ranks, const NDArray& from, const NDArray& to) {
                      if (!in_counts && !out_counts) return ranks.all_to_all(from, to);
                      check_out(in_counts, "heddle_all_to_all", "in_counts");
                      check_out(out_counts, "heddle_all_to_all", "out_counts");
                      const auto parts = static_cast<std::size_t>(ranks.size());
                      ranks.all_to_all(from, std::span(in_counts, parts), to, std::span(out_counts, parts));
                    });
}

heddle_status heddle_send(const heddle_communicator* communicator, const heddle_array* array, int32_t to,
                          heddle_error** error) {
  return collective(communicator, array, array, error, "heddle_send",
                    [&](Communicator& ranks, const NDArray& from, const NDArray&) { ranks.send(from, to); });
}

heddle_status heddle_recv(const heddle_communicator* communicator, const heddle_array* array, int32_t from,
                          heddle_error** error) {
  return collective(communicator, array, array, error, "heddle_recv",
                    [&](Communicator& ranks, const NDArray&, const NDArray& to) { ranks.recv(to, from); });
}

heddle_status heddle_barrier(const heddle_communicator* communicator, heddle_error** error) {
  return called(error, [&] {
    (*HandleAccess<heddle_communicator>(communicator, "heddle_barrier"))->communicator->barrier();
  });
}

heddle_status heddle_communicator_wait(const heddle_communicator* communicator, heddle_error** error) {
  return called(error, [&] {
    (*HandleAccess<heddle_communicator>(communicator, "heddle_communicator_wait"))->communicator->wait();
  });
}

heddle_status heddle_communicator_abort(const heddle_communicator* communicator, const char* why,
                                        heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_communicator> of(communicator, "heddle_communicator_abort");
    (*of)->communicator->abort(text_of(why, "heddle_communicator_abort", "why"));
  });
}

heddle_status heddle_communicator_shared_array(const heddle_communicator* communicator, int32_t dtype,
                                               const int64_t* shape, int32_t ndim, heddle_array** array,
                                               heddle_error** error) {
  return called(error, [&] {
    constexpr const char* kCall = "heddle_communicator_shared_array";
    const HandleAccess<heddle_communicator> of(communicator, kCall);
    const DType wanted = dtype_of_number(dtype, kCall);
    const Dims dims = dims_of(shape, ndim, kCall);
    check_out(array, kCall, "array");
    *array = new_handle((*of)->communicator->shared_array(dims, wanted), EngineLink((*of)->engine));
  });
}

heddle_status heddle_communicator_split(const heddle_communicator* communicator, int32_t colour, int32_t key,
                                        heddle_communicator** part, heddle_error** error) {
  return make_rank(communicator, part, error, "heddle_communicator_split",
                   [&](Communicator& ranks) { return ranks.split(colour, key); });
}

heddle_status heddle_communicator_shrink(const heddle_communicator* communicator,
                                         heddle_communicator** survivors, heddle_error** error) {
  return make_rank(communicator, survivors, error, "heddle_communicator_shrink",
                   [](Communicator& ranks) { return ranks.shrink(); });
}

heddle_status heddle_communicator_grow(const heddle_communicator* communicator, int32_t size, int64_t timeout,
                                       heddle_communicator** grown, heddle_error** error) {
  return make_rank(communicator, grown, error, "heddle_communicator_grow",
                   [&](Communicator& ranks) { return ranks.grow(size, milliseconds_of(timeout)); });
}

heddle_status heddle_communicator_flight_recorder(const heddle_communicator* communicator, char** text,
                                                  heddle_error** error) {
  return called(error, [&] {
    const HandleAccess<heddle_communicator> of(communicator, "heddle_communicator_flight_recorder");
    check_out(text, "heddle_communicator_flight_recorder", "text");
    *text = make_text((*of)->communicator->flight_recorder());
  });
}
