// A libuv program that lets the engine order what timers, files and sockets do and what worker threads compute. At each tick
// of a clock a block of a file is read; a worker thread sums it up; the sum goes to a peer, which answers. The loop never
// waits for the engine, and no thread of the engine waits for the loop.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loop_ops.h"

// kBlocks: how many; kBlock: bytes of each; kTick: milliseconds
enum { kBlocks = 20, kBlock = 4096, kTick = 2 };

struct block {
  char bytes[kBlock];
  uint64_t sum, answer;  // answer: what the peer sends back, the sum + 1
};

static struct {
  uv_loop_t loop;
  struct loop_ops ops;
  heddle_engine* engine;
  // listener and peer: the server's side of the connection, in this program as well
  uv_tcp_t listener, peer, client;
  uv_connect_t connecting;
  uv_async_t finished;
  uv_file file;
  char path[64];
  struct block blocks[kBlocks];
  heddle_error* failure;
} app;

static void die(const char* what, const char* why) {
  fprintf(stderr, "event_loop: %s: %s\n", what, why);
  exit(1);
}

static void check_uv(const char* what, int result) {
  if (result < 0) die(what, uv_strerror(result));
}

static void check(const char* what, heddle_status status, heddle_error* error) {
  char* text = NULL;
  if (status == HEDDLE_OK) return;
  heddle_error_to_text(error, &text);
  die(what, text ? text : "no memory");
}

// --- the peer ---

static struct {
  uint64_t sum;
  size_t received;  // bytes of `sum` so far
} asked;            // one request at a time

static void give_memory(uv_handle_t* socket, size_t wanted, uv_buf_t* memory) {
  (void)socket, (void)wanted;
  *memory = uv_buf_init((char*)&asked.sum + asked.received, (unsigned)(sizeof asked.sum - asked.received));
}

static void on_answered(uv_write_t* write, int result) {
  check_uv("answer", result);
  free(write->data);
  free(write);
}

static void on_request(uv_stream_t* socket, ssize_t got, const uv_buf_t* memory) {
  (void)memory;
  if (got == UV_EOF) return;
  check_uv("request", (int)got);
  asked.received += (size_t)got;
  if (asked.received < sizeof asked.sum) return;
  asked.received = 0;
  uv_write_t* const write = malloc(sizeof *write);
  uint64_t* const answer = malloc(sizeof *answer);
  if (!write || !answer) die("answer", "no memory");
  *answer = asked.sum + 1;
  write->data = answer;
  const uv_buf_t buffer = uv_buf_init((char*)answer, sizeof *answer);
  check_uv("answer", uv_write(write, socket, &buffer, 1, on_answered));
}

static void on_connection(uv_stream_t* listener, int result) {
  check_uv("listen", result);
  check_uv("accept", uv_tcp_init(&app.loop, &app.peer));
  check_uv("accept", uv_accept(listener, (uv_stream_t*)&app.peer));
  check_uv("accept", uv_read_start((uv_stream_t*)&app.peer, give_memory, on_request));
}

// --- ops ---

static heddle_status sum_up(void* ctx, const heddle_run* run, heddle_error** error) {
  struct block* const block = ctx;
  (void)run, (void)error;
  block->sum = 0;
  for (int i = 0; i < kBlock; ++i) block->sum += (unsigned char)block->bytes[i];
  return HEDDLE_OK;
}

// The last op. Its function, or finish_failed if it is skipped, wakes the loop; both may run on any thread.
static heddle_status finish(void* ctx, const heddle_run* run, heddle_error** error) {
  (void)ctx, (void)run, (void)error;
  uv_async_send(&app.finished);
  return HEDDLE_OK;
}

static void finish_failed(void* ctx, const heddle_error* why) {
  (void)ctx;
  heddle_error_copy(why, &app.failure);
  uv_async_send(&app.finished);
}

static void push_block(int i, heddle_var* clock, heddle_var* connection, heddle_var* answer) {
  struct block* const block = &app.blocks[i];
  heddle_error* error = NULL;
  heddle_var *bytes, *sum;
  check("var", heddle_var_create(app.engine, &bytes, &error), error);
  check("var", heddle_var_create(app.engine, &sum, &error), error);
  heddle_var *const tick_and_bytes[] = {clock, bytes}, *const to_answer[] = {connection, answer};

  const heddle_op_options tick = {
      .struct_size = sizeof tick, .mutate = tick_and_bytes, .mutate_count = 2, .name = "tick"};
  check("tick", push_timer(&app.ops, app.engine, kTick, &tick, &error), error);

  const heddle_op_options read = {
      .struct_size = sizeof read, .mutate = &bytes, .mutate_count = 1, .name = "read"};
  check("read",
        push_read(&app.ops, app.engine, app.file, block->bytes, kBlock, (int64_t)i * kBlock, &read, &error),
        error);

  const heddle_op_options add = {.struct_size = sizeof add,
                                 .read = &bytes,
                                 .read_count = 1,
                                 .mutate = &sum,
                                 .mutate_count = 1,
                                 .name = "sum_up"};
  check("sum_up", heddle_push(app.engine, sum_up, block, NULL, &add, &error), error);

  const heddle_op_options ask = {.struct_size = sizeof ask,
                                 .read = &sum,
                                 .read_count = 1,
                                 .mutate = to_answer,
                                 .mutate_count = 2,
                                 .name = "ask"};
  check("ask",
        push_exchange(&app.ops, app.engine, (uv_stream_t*)&app.client, (const char*)&block->sum,
                      (char*)&block->answer, sizeof block->sum, &ask, &error),
        error);
  heddle_var_destroy(bytes);
  heddle_var_destroy(sum);
}

static void on_connected(uv_connect_t* connecting, int result) {
  heddle_var *clock, *connection, *answers[kBlocks];
  heddle_error* error = NULL;
  (void)connecting;
  check_uv("connect", result);
  check("var", heddle_var_create(app.engine, &clock, &error), error);
  check("var", heddle_var_create(app.engine, &connection, &error), error);
  for (int i = 0; i < kBlocks; ++i) {
    check("var", heddle_var_create(app.engine, &answers[i], &error), error);
    push_block(i, clock, connection, answers[i]);
  }
  const heddle_op_options last = {.struct_size = sizeof last,
                                  .read = answers,
                                  .read_count = kBlocks,
                                  .name = "finish",
                                  .skipped = finish_failed};
  check("finish", heddle_push(app.engine, finish, NULL, NULL, &last, &error), error);
  for (int i = 0; i < kBlocks; ++i) heddle_var_destroy(answers[i]);
  heddle_var_destroy(clock);
  heddle_var_destroy(connection);
}

// --- the program ---

static void on_finished(uv_async_t* finished) {
  uv_handle_t* const handles[] = {(uv_handle_t*)finished, (uv_handle_t*)&app.listener,
                                  (uv_handle_t*)&app.peer, (uv_handle_t*)&app.client};
  for (size_t i = 0; i < sizeof handles / sizeof *handles; ++i) uv_close(handles[i], NULL);
  loop_ops_close(&app.ops);
}

static void write_file(void) {
  uv_fs_t request;
  strcpy(app.path, "/tmp/heddle-event-loop-XXXXXX");
  check_uv("mkstemp", uv_fs_mkstemp(NULL, &request, app.path, NULL));
  app.file = (uv_file)request.result;
  strcpy(app.path, request.path);
  uv_fs_req_cleanup(&request);
  for (int i = 0; i < kBlocks; ++i) {
    char bytes[kBlock];
    memset(bytes, i + 1, sizeof bytes);
    const uv_buf_t buffer = uv_buf_init(bytes, sizeof bytes);
    if (uv_fs_write(NULL, &request, app.file, &buffer, 1, (int64_t)i * kBlock, NULL) != kBlock)
      die("write", "the file is shorter than it should be");
    uv_fs_req_cleanup(&request);
  }
}

static void connect_to_peer(void) {
  struct sockaddr_in address;
  int length = sizeof address;
  check_uv("address", uv_ip4_addr("127.0.0.1", 0, &address));
  check_uv("tcp", uv_tcp_init(&app.loop, &app.listener));
  check_uv("tcp", uv_tcp_init(&app.loop, &app.client));
  check_uv("bind", uv_tcp_bind(&app.listener, (const struct sockaddr*)&address, 0));
  check_uv("listen", uv_listen((uv_stream_t*)&app.listener, 1, on_connection));
  check_uv("address", uv_tcp_getsockname(&app.listener, (struct sockaddr*)&address, &length));
  check_uv("connect",
           uv_tcp_connect(&app.connecting, &app.client, (const struct sockaddr*)&address, on_connected));
}

int main(void) {
  heddle_error* error = NULL;
  uv_fs_t request;
  int right = 0;
  // The scheduler is threaded, so ops start on workers only: naive and fuzz would run them in pushes and
  // waits, and block this loop.
  heddle_engine_options options = {.struct_size = sizeof options};
  check("options", heddle_engine_options_from_environment(&options, &error), error);
  options.scheduler = HEDDLE_THREADED;
  check("engine", heddle_engine_create(&options, &app.engine, &error), error);
  check_uv("loop", uv_loop_init(&app.loop));
  check_uv("loop", loop_ops_init(&app.ops, &app.loop));
  check_uv("loop", uv_async_init(&app.loop, &app.finished, on_finished));
  write_file();
  connect_to_peer();
  check_uv("loop", uv_run(&app.loop, UV_RUN_DEFAULT));

  if (app.failure) check("pipeline", HEDDLE_FAILED, app.failure);
  for (int i = 0; i < kBlocks; ++i) right += app.blocks[i].answer == (uint64_t)kBlock * (i + 1) + 1;
  printf("%d of %d answers are right\n", right, kBlocks);
  check("engine", heddle_engine_destroy(app.engine, &error), error);
  check_uv("loop", uv_loop_close(&app.loop));
  uv_fs_unlink(NULL, &request, app.path, NULL);
  uv_fs_req_cleanup(&request);
  uv_fs_close(NULL, &request, app.file, NULL);
  uv_fs_req_cleanup(&request);
  return right == kBlocks ? 0 : 1;
}
