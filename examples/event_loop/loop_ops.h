// Ops of a Heddle engine that a libuv loop completes: timers, reads of files, exchanges over sockets. The
// engine decides when an op may run, the loop does the work, and no thread blocks meanwhile.
#pragma once

#include <uv.h>

#include <heddle/c/engine.h>

struct request;

// The ops that a loop completes. Only the loop's thread uses this, except that any thread may add to the list
// of requests.
struct loop_ops {
  uv_loop_t* loop;
  uv_async_t wake;
  uv_mutex_t mutex;
  struct request *first, *last;  // the requests whose ops may run, and which the loop has not begun yet
};

int loop_ops_init(struct loop_ops* ops, uv_loop_t* loop);  // returns 0, or an error of libuv
// Must be called on the loop's thread, when all pushed ops have ended.
void loop_ops_close(struct loop_ops* ops);

// The push functions may be called on any thread and return at once. Buffers and handles must live until the
// op has ended. An op fails with HEDDLE_USER and libuv's text if its timer, file or socket does.
heddle_status push_timer(struct loop_ops* ops, heddle_engine* engine, uint64_t milliseconds,
                         const heddle_op_options* options, heddle_error** error);
// Pushes an op that reads `size` bytes of the file from `offset` on. It fails if the file has fewer bytes.
heddle_status push_read(struct loop_ops* ops, heddle_engine* engine, uv_file file, char* to, size_t size,
                        int64_t offset, const heddle_op_options* options, heddle_error** error);
// Pushes an op that sends `size` bytes and receives as many. Exchanges over one socket run one after the
// other only if they mutate a common var.
heddle_status push_exchange(struct loop_ops* ops, heddle_engine* engine, uv_stream_t* socket,
                            const char* send, char* receive, size_t size, const heddle_op_options* options,
                            heddle_error** error);
