// A user-defined stream whose methods fail: ops keep their order, and an op's context lives until its work
// has run.
#include <pthread.h>
#include <stdlib.h>

#include "check.h"

enum { kQueue = 4096, kEvents = 4096, kVars = 3, kOps = 400 };

struct item {
  void (*work)(void* arg);
  void* arg;
  const atomic_ullong* awaited;  // if not null, the item first waits until the value is `generation`
  atomic_ullong* recorded;       // if not null, the item sets the value to `generation`
  uint64_t generation;
};

struct event {
  // Generations: another stream may wait for a complete one while the next one is recorded.
  atomic_ullong complete, recorded;
};

// A thread that executes queued items in order. Every `every`th call of record or wait fails; 0: none.
struct slow_device {
  pthread_t thread;
  pthread_mutex_t mutex;
  pthread_cond_t changed;
  struct item queue[kQueue];
  unsigned first, last;  // indices of the queue, counted up without wrapping
  int ends, every, calls;
};

static void put(struct slow_device* device, struct item item) {
  pthread_mutex_lock(&device->mutex);
  CHECK(device->last - device->first < kQueue);
  device->queue[device->last++ % kQueue] = item;
  pthread_cond_signal(&device->changed);
  pthread_mutex_unlock(&device->mutex);
}

static int fails(struct slow_device* device) { return device->every && ++device->calls % device->every == 0; }

static void* work_through(void* self) {
  struct slow_device* device = self;
  pthread_mutex_lock(&device->mutex);
  while (1) {
    while (device->first == device->last && !device->ends)
      pthread_cond_wait(&device->changed, &device->mutex);
    if (device->first == device->last) break;
    const struct item item = device->queue[device->first++ % kQueue];
    pthread_mutex_unlock(&device->mutex);
    while (item.awaited && atomic_load(item.awaited) < item.generation) sched_yield();
    if (item.work) item.work(item.arg);
    if (item.recorded) atomic_store(item.recorded, item.generation);
    pthread_mutex_lock(&device->mutex);
  }
  pthread_mutex_unlock(&device->mutex);
  return NULL;
}

static heddle_status slow_enqueue(void* self, void (*work)(void* arg), void* arg, heddle_error** error) {
  (void)error;
  put(self, (struct item){.work = work, .arg = arg});
  return HEDDLE_OK;
}
static heddle_status slow_copy(void* self, void* to, const void* from, size_t bytes, heddle_error** error) {
  (void)self, (void)to, (void)from, (void)bytes, (void)error;
  return HEDDLE_OK;
}
static heddle_status slow_create_event(void* self, void** event, heddle_error** error) {
  (void)self, (void)error;
  *event = calloc(1, sizeof(struct event));
  return HEDDLE_OK;
}
static void slow_destroy_event(void* self, void* event) {
  (void)self;
  CHECK(atomic_load(&((struct event*)event)->complete) == atomic_load(&((struct event*)event)->recorded));
  free(event);
}
static heddle_status slow_record(void* self, void* event, uint64_t generation, heddle_error** error) {
  struct event* mine = event;
  (void)error;
  if (fails(self)) return HEDDLE_USER + 1;
  CHECK(generation == atomic_load(&mine->recorded) + 1);
  atomic_store(&mine->recorded, generation);
  put(self, (struct item){.recorded = &mine->complete, .generation = generation});
  return HEDDLE_OK;
}
static heddle_status slow_wait(void* self, void* event, uint64_t generation, heddle_error** error) {
  (void)error;
  CHECK(generation <= atomic_load(&((struct event*)event)->recorded));
  if (fails(self)) return HEDDLE_USER + 2;
  put(self, (struct item){.awaited = &((struct event*)event)->complete, .generation = generation});
  return HEDDLE_OK;
}
static heddle_status slow_poll(void* self, void* event, uint64_t generation, int32_t* complete,
                               heddle_error** error) {
  (void)self, (void)error;
  *complete = atomic_load(&((struct event*)event)->complete) >= generation;
  return HEDDLE_OK;
}

// An op that mutates one var. When its work runs, the numbers of earlier ops of that var must be smaller.
struct ordered {
  unsigned* seen;  // last number of this var; ordered by the engine, not atomic
  unsigned number;
  atomic_int worked, destroyed;
};

static heddle_status see(void* ctx, heddle_error** error) {
  struct ordered* op = ctx;
  (void)error;
  CHECK(atomic_load(&op->destroyed) == 0);
  CHECK(*op->seen < op->number);  // not necessarily number - 1: ops in between may have failed
  *op->seen = op->number;
  atomic_store(&op->worked, 1);
  return HEDDLE_OK;
}
static heddle_status enqueue_see(void* ctx, const heddle_run* run, heddle_stream* stream,
                                 heddle_error** error) {
  (void)run;
  return heddle_stream_enqueue(stream, see, ctx, NULL, error);
}
static heddle_status see_at_once(void* ctx, const heddle_run* run, heddle_error** error) {
  (void)run;
  return see(ctx, error);
}
static void destroy_ordered(void* ctx) { atomic_fetch_add(&((struct ordered*)ctx)->destroyed, 1); }

static void run_ops(int every, unsigned seed) {
  static struct ordered ops[kOps];
  struct slow_device devices[2];
  unsigned seen[kVars] = {0};
  heddle_engine* engine = new_engine();
  heddle_stream* streams[2];
  heddle_var* vars[kVars];
  const heddle_stream_methods methods = {.struct_size = sizeof methods,
                                         .enqueue = slow_enqueue,
                                         .copy = slow_copy,
                                         .create_event = slow_create_event,
                                         .destroy_event = slow_destroy_event,
                                         .record = slow_record,
                                         .wait = slow_wait,
                                         .poll = slow_poll};
  for (int i = 0; i < 2; ++i) {
    memset(&devices[i], 0, sizeof devices[i]);
    devices[i].every = every;
    pthread_mutex_init(&devices[i].mutex, NULL);
    pthread_cond_init(&devices[i].changed, NULL);
    CHECK(pthread_create(&devices[i].thread, NULL, work_through, &devices[i]) == 0);
    OK(heddle_stream_adopt(engine, &methods, &devices[i], NULL, HEDDLE_CPU, i, 0, &streams[i], NULL));
  }
  for (int i = 0; i < kVars; ++i) vars[i] = new_var(engine);
  for (unsigned i = 0; i < kOps; ++i) {
    seed = seed * 1664525u + 1013904223u;
    const unsigned var = (seed >> 8) % kVars, where = (seed >> 16) % 3, read = (seed >> 20) % kVars;
    ops[i] = (struct ordered){.seen = &seen[var], .number = i + 1};
    heddle_op_options options = {.struct_size = sizeof options,
                                 .mutate = &vars[var],
                                 .mutate_count = 1,
                                 .read = &vars[read],
                                 .read_count = read != var && (seed >> 24) % 4 == 0 ? 1 : 0,
                                 .name = "ordered"};
    if (where == 2) {
      OK(heddle_push(engine, see_at_once, &ops[i], destroy_ordered, &options, NULL));
    } else {
      OK(heddle_push_on(engine, streams[where], enqueue_see, &ops[i], destroy_ordered, &options, NULL));
    }
  }
  const heddle_status ended = heddle_wait_all(engine, NULL);
  CHECK(every ? ended != HEDDLE_OK : ended == HEDDLE_OK);
  int worked = 0;
  for (int i = 0; i < kOps; ++i) {
    CHECK(atomic_load(&ops[i].destroyed) == 1);
    worked += atomic_load(&ops[i].worked);
  }
  CHECK(every ? worked > kOps / 10 : worked == kOps);
  OK(heddle_engine_destroy(engine, NULL));
  for (int i = 0; i < kVars; ++i) OK(heddle_var_destroy(vars[i]));
  for (int i = 0; i < 2; ++i) {
    OK(heddle_stream_destroy(streams[i]));
    pthread_mutex_lock(&devices[i].mutex);
    devices[i].ends = 1;
    pthread_cond_signal(&devices[i].changed);
    pthread_mutex_unlock(&devices[i].mutex);
    CHECK(pthread_join(devices[i].thread, NULL) == 0);
    pthread_mutex_destroy(&devices[i].mutex);
    pthread_cond_destroy(&devices[i].changed);
  }
}

void test_failing_streams(void) {
  for (unsigned seed = 0; seed < 10; ++seed) {
    run_ops(0, seed);
    run_ops(7, seed);
    run_ops(2, seed);
  }
}
