// Ops on the engine's streams, and on a user-defined stream.
#include "check.h"

struct copy_job {
  struct job job;
  int from, to;
  heddle_status work_status;
};

static heddle_status add_one(void* ctx, heddle_error** error) {
  struct copy_job* copy = ctx;
  (void)error;
  ++copy->to;
  return copy->work_status;
}

static void destroy_work(void* ctx) { destroy_job(ctx); }

static heddle_status enqueue_copy(void* ctx, const heddle_run* run, heddle_stream* stream,
                                  heddle_error** error) {
  struct copy_job* copy = ctx;
  void* native = copy;
  (void)run;
  OK(heddle_stream_native(stream, &native, error));
  OK(heddle_stream_copy(stream, &copy->to, &copy->from, sizeof copy->to, error));
  return heddle_stream_enqueue(stream, add_one, copy, destroy_work, error);
}

static void use_stream(heddle_engine* engine, heddle_stream* stream) {
  struct copy_job copy = {.from = 41};
  heddle_var* a = new_var(engine);
  heddle_op_options options = {
      .struct_size = sizeof options, .mutate = &a, .mutate_count = 1, .name = "copy"};
  OK(heddle_push_on(engine, stream, enqueue_copy, &copy, destroy_work, &options, NULL));
  OK(heddle_wait(engine, a, NULL));
  OK(heddle_wait_all(engine, NULL));
  CHECK(copy.to == 42 && copy.job.destroyed == 2);
  copy.work_status = HEDDLE_USER + 1;
  OK(heddle_push_on(engine, stream, enqueue_copy, &copy, destroy_work, &options, NULL));
  IS(heddle_wait(engine, a, NULL), HEDDLE_USER + 1);
  IS(heddle_push_on(engine, NULL, enqueue_copy, &copy, destroy_work, &options, NULL),
     HEDDLE_INVALID_ARGUMENT);
  IS(heddle_push_on(engine, stream, NULL, &copy, destroy_work, &options, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_clear_error(engine, a, NULL, NULL));
  OK(heddle_wait_all(engine, NULL));
  CHECK(copy.job.destroyed == 6);
  OK(heddle_var_destroy(a));
}

// A device that executes everything synchronously.
struct device {
  struct job job;
  int events;
};

static heddle_status device_enqueue(void* self, void (*work)(void* arg), void* arg, heddle_error** error) {
  (void)self, (void)error;
  work(arg);
  return HEDDLE_OK;
}
static heddle_status device_copy(void* self, void* to, const void* from, size_t bytes, heddle_error** error) {
  (void)self, (void)error;
  memcpy(to, from, bytes);
  return HEDDLE_OK;
}
static heddle_status device_create_event(void* self, void** event, heddle_error** error) {
  (void)error;
  ++((struct device*)self)->events;
  *event = self;
  return HEDDLE_OK;
}
static void device_destroy_event(void* self, void* event) {
  CHECK(self == event);
  --((struct device*)self)->events;
}
static heddle_status device_record(void* self, void* event, uint64_t generation, heddle_error** error) {
  (void)error;
  CHECK(self == event && generation > 0);
  return HEDDLE_OK;
}
static heddle_status device_wait(void* self, void* event, uint64_t generation, heddle_error** error) {
  (void)self, (void)event, (void)generation, (void)error;
  return HEDDLE_OK;
}
static heddle_status device_poll(void* self, void* event, uint64_t generation, int32_t* complete,
                                 heddle_error** error) {
  (void)self, (void)event, (void)generation, (void)error;
  *complete = 1;
  return HEDDLE_OK;
}

void test_streams(void) {
  heddle_engine* engine = new_engine();
  heddle_stream *own = NULL, *adopted = NULL;
  OK(heddle_stream_of(engine, HEDDLE_CPU, 0, HEDDLE_LANE_COPY_IN, &own, NULL));
  IS(heddle_stream_of(engine, 7, 0, HEDDLE_LANE_COPY_IN, &own, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_stream_of(engine, HEDDLE_CPU, -1, HEDDLE_LANE_COPY_IN, &own, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_stream_of(engine, HEDDLE_CPU, 0, 4, &own, NULL), HEDDLE_INVALID_ARGUMENT);
  use_stream(engine, own);

  struct device device = {0};
  heddle_stream_methods methods = {.struct_size = sizeof methods,
                                   .enqueue = device_enqueue,
                                   .copy = device_copy,
                                   .create_event = device_create_event,
                                   .destroy_event = device_destroy_event,
                                   .record = device_record,
                                   .wait = device_wait};
  IS(heddle_stream_adopt(engine, &methods, &device, destroy_job, HEDDLE_CPU, 1, 0, &adopted, NULL),
     HEDDLE_INVALID_ARGUMENT);
  CHECK(device.job.destroyed == 1);
  methods.poll = device_poll;
  OK(heddle_stream_adopt(engine, &methods, &device, destroy_job, HEDDLE_CPU, 1, 0, &adopted, NULL));
  use_stream(engine, adopted);
  OK(heddle_engine_destroy(engine, NULL));
  CHECK(device.job.destroyed == 2 && device.events == 0);
  struct copy_job copy = {0};
  // The stream's engine was destroyed.
  IS(heddle_stream_copy(own, &copy.to, &copy.from, sizeof copy.to, NULL), HEDDLE_FAILED);
  OK(heddle_stream_destroy(own));
  OK(heddle_stream_destroy(adopted));
}
