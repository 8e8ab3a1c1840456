// Requests that one thread of the program answers, as ops of the engine: each request is an asynchronous op
// that the thread completes, and sums are ops that read the answers. Some requests fail; the sums that need
// them are skipped.
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include <heddle/c/engine.h>

enum { kRequests = 12 };

struct request {
  int number;
  long answer;
  heddle_completion* completion;
  struct request* next;
};

// Requests that wait for the answering thread. The thread ends when the queue is closed and empty.
static struct {
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct request* first;
  int closed;
} queue = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, 0};

struct sum {
  const struct request* requests[2];
  long value;
};

static void check(heddle_status status, heddle_error* error) {
  if (status == HEDDLE_OK) return;
  char* text = NULL;
  heddle_error_to_text(error, &text);
  fprintf(stderr, "%s\n", text ? text : "no memory");
  exit(1);
}

// The engine calls this when the op's dependencies are done. The op ends when the answering thread completes
// it.
static heddle_status ask(void* ctx, const heddle_run* run, heddle_completion* completion,
                         heddle_error** error) {
  struct request* request = ctx;
  (void)run, (void)error;
  request->completion = completion;
  pthread_mutex_lock(&queue.mutex);
  request->next = queue.first;
  queue.first = request;
  pthread_cond_signal(&queue.changed);
  pthread_mutex_unlock(&queue.mutex);
  return HEDDLE_OK;
}

static void answer(struct request* request) {
  heddle_error* error = NULL;
  if (request->number % 5 == 4) {
    heddle_error_create(HEDDLE_USER, "no such page", NULL, &error);
    heddle_completion_fail(request->completion, error);
    return;
  }
  request->answer = 10L * request->number;
  heddle_completion_done(request->completion);
}

static void* answer_all(void* unused) {
  for (;;) {
    pthread_mutex_lock(&queue.mutex);
    while (!queue.first && !queue.closed) pthread_cond_wait(&queue.changed, &queue.mutex);
    struct request* request = queue.first;
    if (request) queue.first = request->next;
    pthread_mutex_unlock(&queue.mutex);
    if (!request) return unused;
    // called without the mutex: the completion may run other ops on this thread, which call ask() again
    answer(request);
  }
}

static heddle_status add(void* ctx, const heddle_run* run, heddle_error** error) {
  struct sum* sum = ctx;
  (void)run, (void)error;
  sum->value = sum->requests[0]->answer + sum->requests[1]->answer;
  return HEDDLE_OK;
}

// Pushes the requests and the sum of each two consecutive answers. Returns how many sums there are; *total is
// their total.
static int run_requests(heddle_engine* engine, long* total) {
  struct request requests[kRequests] = {{0}};
  struct sum sums[kRequests - 1];
  heddle_var *answers[kRequests], *results[kRequests - 1];
  heddle_error* error = NULL;
  int done = 0;
  for (int i = 0; i < kRequests; ++i) {
    static const heddle_site here = HEDDLE_SITE;
    requests[i].number = i;
    check(heddle_var_create(engine, &answers[i], &error), error);
    const heddle_op_options options = {.struct_size = sizeof options,
                                       .mutate = &answers[i],
                                       .mutate_count = 1,
                                       .name = "ask",
                                       .site = &here};
    check(heddle_push_async(engine, ask, &requests[i], NULL, &options, &error), error);
  }
  for (int i = 0; i + 1 < kRequests; ++i) {
    sums[i].requests[0] = &requests[i];
    sums[i].requests[1] = &requests[i + 1];
    check(heddle_var_create(engine, &results[i], &error), error);
    const heddle_op_options options = {.struct_size = sizeof options,
                                       .read = &answers[i],
                                       .read_count = 2,
                                       .mutate = &results[i],
                                       .mutate_count = 1,
                                       .name = "add"};
    check(heddle_push(engine, add, &sums[i], NULL, &options, &error), error);
  }
  for (int i = 0; i + 1 < kRequests; ++i) {
    const heddle_status status = heddle_wait(engine, results[i], &error);
    if (status == HEDDLE_OK) ++done, *total += sums[i].value;
    if (status != HEDDLE_OK && status != HEDDLE_USER) check(status, error);
    heddle_error_destroy(error);
    heddle_var_destroy(results[i]);
  }
  for (int i = 0; i < kRequests; ++i) heddle_var_destroy(answers[i]);
  return done;
}

int main(void) {
  heddle_engine* engine = NULL;
  heddle_error* error = NULL;
  pthread_t thread;
  long total = 0, expected = 0;
  if (pthread_create(&thread, NULL, answer_all, NULL) != 0) return 1;
  check(heddle_engine_create(NULL, &engine, &error), error);
  const int done = run_requests(engine, &total);
  heddle_engine_destroy(engine, NULL);

  pthread_mutex_lock(&queue.mutex);
  queue.closed = 1;
  pthread_cond_signal(&queue.changed);
  pthread_mutex_unlock(&queue.mutex);
  pthread_join(thread, NULL);

  for (int i = 0; i + 1 < kRequests; ++i) {
    if (i % 5 != 4 && (i + 1) % 5 != 4) expected += 10L * i + 10L * (i + 1);
  }
  printf("%d of %d sums, %ld in all\n", done, kRequests - 1, total);
  return total == expected ? 0 : 1;
}
