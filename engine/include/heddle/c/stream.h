// Ops on streams, the queues of work of a device; and streams that the program implements. docs/streams.md
// tells what other ops wait for.
#pragma once

#include <heddle/c/op.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_stream heddle_stream;  // a handle on a stream, which lives until its engine ends

#define HEDDLE_CPU ((int32_t)0)
#define HEDDLE_CUDA ((int32_t)1)

#define HEDDLE_LANE_COMPUTE ((int32_t)0)
#define HEDDLE_LANE_COPY_IN ((int32_t)1)
#define HEDDLE_LANE_COPY_OUT ((int32_t)2)
#define HEDDLE_LANE_COMMUNICATION ((int32_t)3)

// The engine's own stream of that device and lane, made at first use.
HEDDLE_API heddle_status heddle_stream_of(heddle_engine* engine, int32_t device, int32_t index, int32_t lane,
                                          heddle_stream** stream, heddle_error** error);
// Frees the handle; the stream lives until its engine ends.
HEDDLE_API heddle_status heddle_stream_destroy(heddle_stream* stream);

// The function of an op on a stream: as heddle_op_fn, but it only enqueues work on `stream` and returns. The op is done
// when that work has run. It must not wait for the work; nor may destroy(ctx), which is called when the work has run.
typedef heddle_status (*heddle_stream_fn)(void* ctx, const heddle_run* run, heddle_stream* stream,
                                          heddle_error** error);
HEDDLE_API heddle_status heddle_push_on(heddle_engine* engine, const heddle_stream* stream,
                                        heddle_stream_fn fn, void* ctx, heddle_destroy_fn destroy,
                                        const heddle_op_options* options, heddle_error** error);

// heddle_stream_enqueue and heddle_stream_copy are only for a heddle_stream_fn, on the stream that it is
// given. They do not wait for the work.
//
// The function `work` is called on some host thread, after the work enqueued before; a result other than
// HEDDLE_OK fails the op that enqueued it. It must neither use a GPU nor wait for a stream.
typedef heddle_status (*heddle_work_fn)(void* ctx, heddle_error** error);
// destroy(ctx) is called once, when the work has run or will not run, on any thread.
HEDDLE_API heddle_status heddle_stream_enqueue(heddle_stream* stream, heddle_work_fn work, void* ctx,
                                               heddle_destroy_fn destroy, heddle_error** error);
HEDDLE_API heddle_status heddle_stream_copy(heddle_stream* stream, void* to, const void* from, size_t bytes,
                                            heddle_error** error);
// The back end's handle, a cudaStream_t on a GPU; null if it has none.
HEDDLE_API heddle_status heddle_stream_native(heddle_stream* stream, void** native, heddle_error** error);

// A stream that the program implements. `self` is passed to each function; all but `begin` and `native` are
// needed. One thread at a time calls enqueue, copy, record and wait; any thread may call `poll` at any time.
// None may wait for the work, block for long or call this library. A status that is not HEDDLE_OK fails the
// op for which the call was made; *error as in heddle_op_fn.
typedef struct heddle_stream_methods {
  size_t struct_size;  // sizeof(heddle_stream_methods)
  // Calls work(arg) exactly once on some thread, after the work enqueued before. work() never fails. If
  // enqueue fails, work must not be called.
  heddle_status (*enqueue)(void* self, void (*work)(void* arg), void* arg, heddle_error** error);
  heddle_status (*copy)(void* self, void* to, const void* from, size_t bytes, heddle_error** error);
  // An event is a point in the work that is recorded again and again, each time as the next generation, and only when the
  // one before is complete. destroy_event is called when its last generation is complete.
  heddle_status (*create_event)(void* self, void** event, heddle_error** error);
  void (*destroy_event)(void* self, void* event);
  // The event completes when all work enqueued before has run. If record fails, the engine enqueues a
  // function behind that work and waits for it; if enqueue fails as well, the stream must not run the work
  // that it has.
  heddle_status (*record)(void* self, void* event, uint64_t generation, heddle_error** error);
  // Work enqueued from now on runs after this generation of an event, which a stream with the same methods has recorded.
  // A generation that is complete may be asked for while the event is recorded anew. If `wait` fails, the op
  // waits until poll says that the generation is complete.
  heddle_status (*wait)(void* self, void* event, uint64_t generation, heddle_error** error);
  // Sets *complete to 1 if that generation of the event is complete, else to 0. If poll fails, the generation
  // counts as complete, and the failure is the error of the work that it stands for.
  heddle_status (*poll)(void* self, void* event, uint64_t generation, int32_t* complete,
                        heddle_error** error);
  // Called before a thread enqueues, to make the device its current one where a back end needs that; may be
  // null.
  heddle_status (*begin)(void* self, heddle_error** error);
  void* (*native)(void* self);  // may be null
} heddle_stream_methods;

// The engine uses the stream from now on until the engine ends; then, or if this fails, destroy(self) is
// called once. `methods` are copied.
HEDDLE_API heddle_status heddle_stream_adopt(heddle_engine* engine, const heddle_stream_methods* methods,
                                             void* self, heddle_destroy_fn destroy, int32_t device,
                                             int32_t index, int32_t lane, heddle_stream** stream,
                                             heddle_error** error);

#ifdef __cplusplus
}
#endif
