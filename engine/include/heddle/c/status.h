// The status that every call returns, the error object with the details, the library's version and log.
//
// A call that takes `heddle_error** error` sets *error: to null if it succeeds, else to a new object, which the caller
// destroys. A null `error` is legal. A call without it fails only for bad arguments. Outputs are written on success only.
#pragma once

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define HEDDLE_API __attribute__((visibility("default")))
#else
#define HEDDLE_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef int32_t heddle_status;
#define HEDDLE_OK ((heddle_status)0)
// A null pointer, a wrong struct_size, a value out of range.
#define HEDDLE_INVALID_ARGUMENT ((heddle_status)1)
#define HEDDLE_BAD_HANDLE ((heddle_status)2)  // a handle of another kind, or one that was destroyed
#define HEDDLE_OUT_OF_MEMORY ((heddle_status)3)
#define HEDDLE_FAILED ((heddle_status)4)              // everything that has no code of its own
#define HEDDLE_CANCELLED ((heddle_status)5)           // the op's group was cancelled before the op started
#define HEDDLE_OVERDUE ((heddle_status)6)             // the op's group was past its deadline
#define HEDDLE_DROPPED ((heddle_status)7)             // the op's completion was dropped
#define HEDDLE_WOULD_DEADLOCK ((heddle_status)8)      // a wait inside an op that could only end after that op
#define HEDDLE_TIMEOUT ((heddle_status)9)             // the time of a wait is over; the ops go on
#define HEDDLE_SEVERAL ((heddle_status)10)            // several errors of heddle_wait_all, as causes
#define HEDDLE_UNDECLARED_ACCESS ((heddle_status)11)  // an op touched data that it did not declare
#define HEDDLE_USER ((heddle_status)1000)             // this code and all greater ones are the program's own

// The name of the constant, "HEDDLE_OK"; "HEDDLE_USER" for every code of the program's own. The text is
// static.
HEDDLE_API heddle_status heddle_status_name(heddle_status status, const char** name);

// An error: immutable, and owner of all its texts. Any thread may read it; exactly one destroys it.
typedef struct heddle_error heddle_error;

// The parts of an error. The pointers live as long as the error; no text is null.
typedef struct heddle_error_info {
  size_t struct_size;  // sizeof(heddle_error_info), set by the caller
  heddle_status code;
  uint32_t line;        // where the failed op was pushed; 0: not known, or the call itself failed
  const char* message;  // what is wrong
  const char* op;       // the name of the failed op; "" if the call itself failed
  const char* file;     // the file of `line`; "": not known
  // The ops skipped between the failed op and the var that was waited for, nearest the failure first: "name
  // at file:line".
  const char* const* skipped;
  size_t skipped_count;
  size_t cause_count;  // number of causes, see heddle_error_cause
} heddle_error_info;

HEDDLE_API heddle_status heddle_error_describe(const heddle_error* error, heddle_error_info* info);
// The cause with that index, which lives as long as `error` and is not to be destroyed.
HEDDLE_API heddle_status heddle_error_cause(const heddle_error* error, size_t index,
                                            const heddle_error** cause);
// The whole error in a few lines of text. The caller frees *text with heddle_text_destroy.
HEDDLE_API heddle_status heddle_error_to_text(const heddle_error* error, char** text);
// Makes an error for an op that fails. `message` and `cause` are copied; `cause` may be null.
HEDDLE_API heddle_status heddle_error_create(heddle_status code, const char* message,
                                             const heddle_error* cause, heddle_error** created);
// A second handle on the same error.
HEDDLE_API heddle_status heddle_error_copy(const heddle_error* error, heddle_error** copy);
// A null error is legal, as a null handle is in all calls named destroy.
HEDDLE_API heddle_status heddle_error_destroy(heddle_error* error);

// Frees a text that a call has made.
HEDDLE_API heddle_status heddle_text_destroy(char* text);

// Copies of texts that live as long as the process, for programs that make names at run time: *interned of equal texts is
// the same pointer.
HEDDLE_API heddle_status heddle_intern(const char* text, const char** interned);

// The version of these headers. A program runs with every library of the same major version that is not older.
#define HEDDLE_VERSION_MAJOR 0
#define HEDDLE_VERSION_MINOR 1
#define HEDDLE_VERSION_PATCH 0

// How the library was built. The texts are static.
typedef struct heddle_build {
  size_t struct_size;  // sizeof(heddle_build), set by the caller
  int32_t major, minor, patch;
  int32_t tbb;           // 1: workers run in a oneTBB arena
  int32_t cuda;          // 1: with streams of NVIDIA GPUs
  int32_t checked;       // 1: HEDDLE_CHECK=1 was set when the library was loaded, so that handles are checked
  const char* version;   // "0.1.0"
  const char* compiler;  // "GNU 12.2.0"
  const char* sanitizer;  // "thread"; "": none
} heddle_build;

HEDDLE_API heddle_status heddle_build_describe(heddle_build* build);

// Called with each line of the log, which then is not written to stderr: by any thread, perhaps by two at
// once, also while the process exits. It must not call this library.
typedef void (*heddle_log_fn)(void* ctx, const char* line);
// Called once with a ctx that is not needed any more. Each function that takes one says on which thread.
typedef void (*heddle_destroy_fn)(void* ctx);

// Replaces the log of the process; a null `log` is stderr. destroy(ctx) is called when it has been replaced and the last
// call of `log` has returned, or here if this fails; null: not called.
HEDDLE_API heddle_status heddle_log_set(heddle_log_fn log, void* ctx, heddle_destroy_fn destroy,
                                        heddle_error** error);

#ifdef __cplusplus
}
#endif
