// Communicators: ranks that call the same collectives in the same order. Each call is an op on its arrays.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

// A handle on one rank of a communicator. It keeps its engine alive: destroy it before the engine.
typedef struct heddle_communicator heddle_communicator;

#define HEDDLE_COMM_ERROR ((heddle_status)12)      // a communication error that has no more specific status
#define HEDDLE_COMM_MISMATCH ((heddle_status)13)   // the ranks of a collective made different calls
#define HEDDLE_PEER_LOST ((heddle_status)14)       // the process of another rank has ended
#define HEDDLE_PEER_SILENT ((heddle_status)15)     // another rank has sent no heartbeat for too long
#define HEDDLE_REMOTE_FAILURE ((heddle_status)16)  // the op that computes another rank's input has failed
#define HEDDLE_COMM_ABORTED ((heddle_status)17)

#define HEDDLE_SUM ((int32_t)0)
#define HEDDLE_PROD ((int32_t)1)
#define HEDDLE_MIN ((int32_t)2)
#define HEDDLE_MAX ((int32_t)3)
#define HEDDLE_AVG ((int32_t)4)

// Options of new communicators. A member that is zero or null takes its value from the environment
// (docs/comm.md), or its default.
typedef struct heddle_communicator_options {
  size_t struct_size;     // sizeof(heddle_communicator_options)
  heddle_engine* engine;  // null: the default engine
  const char* backend;    // "auto", "shm", "tcp", "mpi", "nccl"
  const char* algorithm;  // the algorithm of heddle_all_reduce
  int64_t timeout;        // nanoseconds without a heartbeat after which a rank has failed; a day at most
  int32_t reproducible;   // 1: reductions add in one fixed order, so that equal inputs give equal bits
  int32_t gpu;            // with "nccl": 1 + the number of this rank's GPU; 0: the local rank chooses the GPU
} heddle_communicator_options;

// Makes the communicator of the job that this process belongs to; it has one rank if the process belongs to
// no job. Blocks until all ranks have joined.
HEDDLE_API heddle_status heddle_communicator_create(const heddle_communicator_options* options,
                                                    heddle_communicator** communicator, heddle_error** error);
// Makes a communicator whose `size` ranks are all in this process, each usually used by its own thread.
// `communicators` has room for the `size` handles.
HEDDLE_API heddle_status heddle_communicator_create_local(const heddle_communicator_options* options,
                                                          int32_t size, heddle_communicator** communicators,
                                                          heddle_error** error);
// Destroys the handle: this rank leaves the communicator after its calls so far have ended.
HEDDLE_API heddle_status heddle_communicator_destroy(heddle_communicator* communicator);

HEDDLE_API heddle_status heddle_communicator_rank(const heddle_communicator* communicator, int32_t* rank,
                                                  int32_t* size, heddle_error** error);
// The name of the communicator's back end, such as "local", "shm" or "tcp". The text is static.
HEDDLE_API heddle_status heddle_communicator_backend(const heddle_communicator* communicator,
                                                     const char** backend, heddle_error** error);
// A var with which the program's own ops keep their order with collectives: an op that mutates it runs after
// all earlier and before all later calls on the communicator.
HEDDLE_API heddle_status heddle_communicator_var(const heddle_communicator* communicator, heddle_var** var,
                                                 heddle_error** error);

// Sets `out` on all ranks to the reduction of all ranks' `in`. `in` and `out` may be the same array.
HEDDLE_API heddle_status heddle_all_reduce(const heddle_communicator* communicator, const heddle_array* in,
                                           const heddle_array* out, int32_t reduction, heddle_error** error);
// Sets rank r's `out` to part r of the reduction of all ranks' `in`. `in` has as many elements as the `out`
// of all ranks together.
HEDDLE_API heddle_status heddle_reduce_scatter(const heddle_communicator* communicator,
                                               const heddle_array* in, const heddle_array* out,
                                               int32_t reduction, heddle_error** error);
// Sets part r of every rank's `out` to rank r's `in`. `out` has as many elements as the `in` of all ranks
// together.
HEDDLE_API heddle_status heddle_all_gather(const heddle_communicator* communicator, const heddle_array* in,
                                           const heddle_array* out, heddle_error** error);
// Sets the arrays of all ranks to the array of rank `root`.
HEDDLE_API heddle_status heddle_broadcast(const heddle_communicator* communicator, const heddle_array* array,
                                          int32_t root, heddle_error** error);
// Sets the array of rank `root` to the reduction of all ranks' arrays. The other ranks' arrays do not change.
HEDDLE_API heddle_status heddle_reduce(const heddle_communicator* communicator, const heddle_array* array,
                                       int32_t root, int32_t reduction, heddle_error** error);
// Sends part r of `in` to rank r, and receives part r of `out` from rank r. in_counts and out_counts give the
// number of elements of each part; if they are null, the parts are equal.
HEDDLE_API heddle_status heddle_all_to_all(const heddle_communicator* communicator, const heddle_array* in,
                                           const int64_t* in_counts, const heddle_array* out,
                                           const int64_t* out_counts, heddle_error** error);
// heddle_send and heddle_recv move one array between two ranks. The sends of rank a to rank b match the recvs
// of b from a in their order. A send may complete only after its recv was called.
HEDDLE_API heddle_status heddle_send(const heddle_communicator* communicator, const heddle_array* array,
                                     int32_t to, heddle_error** error);
HEDDLE_API heddle_status heddle_recv(const heddle_communicator* communicator, const heddle_array* array,
                                     int32_t from, heddle_error** error);
// Pushes a barrier and returns at once. When a later heddle_communicator_wait returns, or the result of a
// later call is ready, all ranks have made this call.
HEDDLE_API heddle_status heddle_barrier(const heddle_communicator* communicator, heddle_error** error);
// Blocks until all calls of this rank so far have ended. Returns the errors of barriers and sends, which have
// no result array that would report them.
HEDDLE_API heddle_status heddle_communicator_wait(const heddle_communicator* communicator,
                                                  heddle_error** error);
// Makes all current and later calls of all ranks fail with HEDDLE_COMM_ABORTED. Any thread may call this; it
// returns at once.
HEDDLE_API heddle_status heddle_communicator_abort(const heddle_communicator* communicator, const char* why,
                                                   heddle_error** error);

// Makes an array in memory that is shared by the ranks of a host, which collectives reduce without a copy. If
// no shared memory is left, the array is in ordinary memory.
HEDDLE_API heddle_status heddle_communicator_shared_array(const heddle_communicator* communicator,
                                                          int32_t dtype, const int64_t* shape, int32_t ndim,
                                                          heddle_array** array, heddle_error** error);

// Makes one communicator for each colour, of the ranks that give this colour. Their new order is by `key`,
// then by old rank. A rank with a negative colour gets null. All ranks must make this call; it blocks.
HEDDLE_API heddle_status heddle_communicator_split(const heddle_communicator* communicator, int32_t colour,
                                                   int32_t key, heddle_communicator** part,
                                                   heddle_error** error);
// After a rank was lost: aborts this communicator and makes a new one of the ranks that are alive, in the old
// order. Blocks until all live ranks have made this call. Fails with HEDDLE_PEER_LOST if the other ranks have
// excluded this rank.
HEDDLE_API heddle_status heddle_communicator_shrink(const heddle_communicator* communicator,
                                                    heddle_communicator** survivors, heddle_error** error);
// Aborts this communicator and makes a new one of `size` ranks (0: as many as before): the live processes of
// the job and new processes, which call heddle_communicator_create. Blocks for at most `timeout` nanoseconds
// (0: the timeout of the options), and may be called again after that time. Fails for communicators made by
// split and create_local.
HEDDLE_API heddle_status heddle_communicator_grow(const heddle_communicator* communicator, int32_t size,
                                                  int64_t timeout, heddle_communicator** grown,
                                                  heddle_error** error);

// A text with the latest 1,024 calls of this rank, and of the ranks with which it shares memory. Any thread
// may call this at any time. The caller frees *text with heddle_text_destroy.
HEDDLE_API heddle_status heddle_communicator_flight_recorder(const heddle_communicator* communicator,
                                                             char** text, heddle_error** error);

#ifdef __cplusplus
}
#endif
