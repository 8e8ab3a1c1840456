#include "loop_ops.h"

#include <stdlib.h>

struct request {
  struct loop_ops* ops;
  heddle_completion* completion;
  int (*begin)(struct request* request);  // runs on the loop's thread; returns 0, or an error of libuv
  struct request* next;
  union {
    uv_timer_t timer;
    uv_fs_t file;
    uv_write_t write;
  } handle;
  uint64_t milliseconds;
  uv_file fd;
  int64_t offset;
  uv_stream_t* socket;
  uv_buf_t out, in;  // `in`: the memory that is still to be filled
  int began, ended;  // began: libuv still writes from the request; ended: the completion was called
};

// Ends the op. libuv may still use the request, so the caller frees it later.
static void end(struct request* request, int result) {
  heddle_error* error = NULL;
  if (request->ended) return;
  request->ended = 1;
  if (result >= 0) {
    heddle_completion_done(request->completion);
    return;
  }
  heddle_error_create(HEDDLE_USER, uv_strerror(result), NULL, &error);
  heddle_completion_fail(request->completion, error);
}

static void free_timer(uv_handle_t* timer) { free(timer->data); }

static void on_timer(uv_timer_t* timer) {
  end(timer->data, 0);
  uv_close((uv_handle_t*)timer, free_timer);
}

static int begin_timer(struct request* request) {
  uv_timer_t* const timer = &request->handle.timer;
  const int result = uv_timer_init(request->ops->loop, timer);
  if (result < 0) return result;
  timer->data = request;
  return uv_timer_start(timer, on_timer, request->milliseconds, 0);
}

static void on_file(uv_fs_t* file) {
  struct request* const request = file->data;
  const ssize_t got = file->result;
  uv_fs_req_cleanup(file);
  end(request, got < 0 ? (int)got : (size_t)got == request->in.len ? 0 : UV_EOF);
  free(request);
}

static int begin_file(struct request* request) {
  uv_fs_t* const file = &request->handle.file;
  file->data = request;
  return uv_fs_read(request->ops->loop, file, request->fd, &request->in, 1, request->offset, on_file);
}

static void give_memory(uv_handle_t* socket, size_t wanted, uv_buf_t* memory) {
  struct request* const request = socket->data;
  (void)wanted;
  *memory = request->in;
}

// Ends an exchange when its write and its reads are done. on_sent, which may come last, frees the request if
// the write began.
static void end_exchange(struct request* request, int result) {
  uv_read_stop(request->socket);
  end(request, result);
  if (!request->began) free(request);
}

static void on_received(uv_stream_t* socket, ssize_t got, const uv_buf_t* memory) {
  struct request* const request = socket->data;
  (void)memory;
  if (got < 0) {
    end_exchange(request, (int)got);
    return;
  }
  request->in.base += got;
  request->in.len -= (size_t)got;
  if (request->in.len == 0) end_exchange(request, 0);
}

static void on_sent(uv_write_t* write, int result) {
  struct request* const request = write->data;
  request->began = 0;
  if (request->ended) {
    free(request);
  } else if (result < 0) {
    end_exchange(request, result);
  }
}

static int begin_exchange(struct request* request) {
  uv_write_t* const write = &request->handle.write;
  request->socket->data = request;
  write->data = request;
  int result = uv_read_start(request->socket, give_memory, on_received);
  if (result < 0) return result;
  result = uv_write(write, request->socket, &request->out, 1, on_sent);
  if (result < 0) {
    uv_read_stop(request->socket);
    return result;
  }
  request->began = 1;
  return 0;
}

// Begins the requests that ops have queued, in order. A completion may run other ops on this thread, which
// add to the list.
static void begin_all(uv_async_t* wake) {
  struct loop_ops* const ops = wake->data;
  for (;;) {
    uv_mutex_lock(&ops->mutex);
    struct request* const request = ops->first;
    if (request) ops->first = request->next;
    uv_mutex_unlock(&ops->mutex);
    if (!request) return;
    const int result = request->begin(request);
    if (result < 0) {
      end(request, result);
      free(request);
    }
  }
}

int loop_ops_init(struct loop_ops* ops, uv_loop_t* loop) {
  ops->loop = loop;
  ops->first = ops->last = NULL;
  ops->wake.data = ops;
  const int result = uv_mutex_init(&ops->mutex);
  return result < 0 ? result : uv_async_init(loop, &ops->wake, begin_all);
}

static void destroy_mutex(uv_handle_t* wake) {
  struct loop_ops* const ops = wake->data;
  uv_mutex_destroy(&ops->mutex);
}

void loop_ops_close(struct loop_ops* ops) { uv_close((uv_handle_t*)&ops->wake, destroy_mutex); }

// The function of all these ops: passes the request to the loop, which owns it from then on.
static heddle_status hand_over(void* ctx, const heddle_run* run, heddle_completion* completion,
                               heddle_error** error) {
  struct request** const owned = ctx;
  struct request* const request = *owned;
  struct loop_ops* const ops = request->ops;
  (void)run, (void)error;
  *owned = NULL;
  request->completion = completion;
  request->next = NULL;
  uv_mutex_lock(&ops->mutex);
  if (ops->first) {
    ops->last->next = request;
  } else {
    ops->first = request;
  }
  ops->last = request;
  uv_async_send(
      // uv_async_send is the only function of libuv that any thread may call. The mutex keeps the loop from
      // closing `wake` meanwhile.
      &ops->wake);
  uv_mutex_unlock(&ops->mutex);
  return HEDDLE_OK;
}

// A skipped op still owns its request.
static void destroy(void* ctx) {
  struct request** const owned = ctx;
  free(*owned);
  free(owned);
}

static heddle_status push(struct request request, heddle_engine* engine, const heddle_op_options* options,
                          heddle_error** error) {
  struct request** const owned = malloc(sizeof *owned);
  struct request* const copy = malloc(sizeof *copy);
  if (!owned || !copy) {
    free(owned);
    free(copy);
    return heddle_error_create(HEDDLE_OUT_OF_MEMORY, "no memory for a request", NULL, error) == HEDDLE_OK
               ? HEDDLE_OUT_OF_MEMORY
               : HEDDLE_FAILED;
  }
  *copy = request;
  *owned = copy;
  return heddle_push_async(engine, hand_over, owned, destroy, options, error);
}

heddle_status push_timer(struct loop_ops* ops, heddle_engine* engine, uint64_t milliseconds,
                         const heddle_op_options* options, heddle_error** error) {
  const struct request request = {.ops = ops, .begin = begin_timer, .milliseconds = milliseconds};
  return push(request, engine, options, error);
}

heddle_status push_read(struct loop_ops* ops, heddle_engine* engine, uv_file file, char* to, size_t size,
                        int64_t offset, const heddle_op_options* options, heddle_error** error) {
  const struct request request = {
      .ops = ops, .begin = begin_file, .fd = file, .offset = offset, .in = {.base = to, .len = size}};
  return push(request, engine, options, error);
}

heddle_status push_exchange(struct loop_ops* ops, heddle_engine* engine, uv_stream_t* socket,
                            const char* send, char* receive, size_t size, const heddle_op_options* options,
                            heddle_error** error) {
  const struct request request = {.ops = ops,
                                  .begin = begin_exchange,
                                  .socket = socket,
                                  .out = {.base = (char*)send, .len = size},
                                  .in = {.base = receive, .len = size}};
  return push(request, engine, options, error);
}
