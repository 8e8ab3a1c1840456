#include <functional>
#include <memory>
#include <string>
#include <utility>

#include <heddle/c/stream.h>
#include <heddle/stream_ops.h>

#include "c/call_fn.h"
#include "c/foreign_stream.h"

using namespace heddle;
using namespace heddle::c;

namespace {

Device device_of(std::int32_t device, std::int32_t index, const char* call) {
  if (device == HEDDLE_CPU) return cpu(index);
  if (device == HEDDLE_CUDA) return gpu(index);
  throw InvalidArgument(std::string(call) + ": device is " + std::to_string(device) +
                        ", want HEDDLE_CPU or HEDDLE_CUDA");
}

Lane lane_of(std::int32_t lane, const char* call) {
  if (lane >= HEDDLE_LANE_COMPUTE && lane <= HEDDLE_LANE_COMMUNICATION) return static_cast<Lane>(lane);
  throw InvalidArgument(std::string(call) + ": lane is " + std::to_string(lane) +
                        ", want a HEDDLE_LANE_ constant");
}

// The closure of an op on a stream.
struct CallStreamFn {
  heddle_stream_fn fn;
  OwnedCtx ctx;
  std::weak_ptr<Engine> engine;
  void operator()(RunContext& context, Stream& stream) const {
    Lent<heddle_run> run(&context);
    Lent<heddle_stream> lent({&stream, engine});
    heddle_error* error = nullptr;
    throw_if_failed(fn(ctx.owned.ctx(), run.get(), lent.get(), &error), error, "the op's function");
  }
  void skipped(const std::exception_ptr& why) noexcept { ctx.tell_skipped(why); }
};

// The stream of a handle during a call; throws Error if its engine has ended.
class StreamOfEngine {
 public:
  StreamOfEngine(const heddle_stream* stream, const char* call) {
    const HandleAccess<heddle_stream> handle(stream, call);
    engine_ = handle->engine.lock();
    stream_ = handle->stream;
    if (!engine_) throw Error(std::string(call) + ": the stream's engine has ended");
  }
  Stream& operator*() const { return *stream_; }

 private:
  std::shared_ptr<Engine> engine_;
  Stream* stream_;
};

void check_methods(const heddle_stream_methods* methods, const char* call) {
  check_struct(methods, call, "heddle_stream_methods");
  if (!methods->enqueue || !methods->copy || !methods->create_event || !methods->destroy_event ||
      !methods->record || !methods->wait || !methods->poll) {
    throw InvalidArgument(std::string(call) + ": a method is a null pointer; only begin and native may be");
  }
}

}  // namespace

heddle_status heddle_stream_of(heddle_engine* engine, int32_t device, int32_t index, int32_t lane,
                               heddle_stream** stream, heddle_error** error) {
  return guarded(error, [&] {
    constexpr const char* kCall = "heddle_stream_of";
    const HandleAccess<heddle_engine> of(engine, kCall);
    check_out(stream, kCall, "stream");
    Stream& found = (*of)->stream(device_of(device, index, kCall), lane_of(lane, kCall));
    *stream = make_handle<heddle_stream>({&found, *of});
  });
}

heddle_status heddle_stream_destroy(heddle_stream* stream) {
  return guarded(nullptr, [&] {
    if (stream) take(stream, "heddle_stream_destroy");
  });
}

heddle_status heddle_push_on(heddle_engine* engine, const heddle_stream* stream, heddle_stream_fn fn,
                             void* ctx, heddle_destroy_fn destroy, const heddle_op_options* options,
                             heddle_error** error) {
  Owned owned(ctx, destroy);
  return guarded(error, [&] {
    constexpr const char* kCall = "heddle_push_on";
    const HandleAccess<heddle_engine> to(engine, kCall);
    if (!fn) throw_null(kCall, "fn");
    const StreamOfEngine on(stream, kCall);
    const OpAccess access(options, kCall);
    (*to)->push_on(*on, CallStreamFn{fn, {std::move(owned), access.on_skipped()}, *to}, *access,
                   access.where());
  });
}

heddle_status heddle_stream_enqueue(heddle_stream* stream, heddle_work_fn work, void* ctx,
                                    heddle_destroy_fn destroy, heddle_error** error) {
  Owned owned(ctx, destroy);
  return guarded(error, [&] {
    const StreamOfEngine on(stream, "heddle_stream_enqueue");
    if (!work) throw_null("heddle_stream_enqueue", "work");
    (*on).enqueue([work, own = std::make_shared<Owned>(std::move(owned))] {
      heddle_error* failure = nullptr;
      throw_if_failed(work(own->ctx(), &failure), failure, "the work of a stream");
    });
  });
}

heddle_status heddle_stream_copy(heddle_stream* stream, void* to, const void* from, size_t bytes,
                                 heddle_error** error) {
  return guarded(error, [&] {
    const StreamOfEngine on(stream, "heddle_stream_copy");
    if (bytes > 0 && !to) throw_null("heddle_stream_copy", "to");
    if (bytes > 0 && !from) throw_null("heddle_stream_copy", "from");
    (*on).copy(to, from, bytes);
  });
}

heddle_status heddle_stream_native(heddle_stream* stream, void** native, heddle_error** error) {
  return guarded(error, [&] {
    const StreamOfEngine on(stream, "heddle_stream_native");
    check_out(native, "heddle_stream_native", "native");
    *native = (*on).native();
  });
}

heddle_status heddle_stream_adopt(heddle_engine* engine, const heddle_stream_methods* methods, void* self,
                                  heddle_destroy_fn destroy, int32_t device, int32_t index, int32_t lane,
                                  heddle_stream** stream, heddle_error** error) {
  Owned owned(self, destroy);
  return guarded(error, [&] {
    constexpr const char* kCall = "heddle_stream_adopt";
    const HandleAccess<heddle_engine> to(engine, kCall);
    check_methods(methods, kCall);
    check_out(stream, kCall, "stream");
    const Device on = device_of(device, index, kCall);
    auto foreign = std::make_unique<ForeignStream>(on, lane_of(lane, kCall), *methods, std::move(owned));
    Stream& adopted = (*to)->adopt_stream(std::move(foreign));
    *stream = make_handle<heddle_stream>({&adopted, *to});
  });
}
