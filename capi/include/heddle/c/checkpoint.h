// Checkpoints: everything that a training run needs to go on as if it had never stopped, in one .safetensors file.
#pragma once

#include <heddle/c/random.h>
#include <heddle/c/trainer.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct heddle_named_generator {
  const char* name;
  heddle_generator* generator;
} heddle_named_generator;

typedef struct heddle_counter {
  const char* name;
  int64_t value;
} heddle_counter;

// What is saved, and what loading fills in. Names are the caller's, each once in its list; loading wants the same ones. All
// arrays belong to one engine. Nulls: nothing of that kind.
typedef struct heddle_checkpoint {
  size_t struct_size;                    // sizeof(heddle_checkpoint)
  const heddle_named_array* parameters;  // filled in place
  size_t parameter_count;
  heddle_trainer* trainer;                   // its optimizer's state and count of steps
  const heddle_named_generator* generators;  // seeds and positions
  size_t generator_count;
  heddle_counter* counters;  // epoch, step and the like; loading sets the values
  size_t counter_count;
  // Arrays and texts, the notes. Loading fills an array of the saved shape and dtype in place and replaces all else in it.
  heddle_archive* more;
} heddle_checkpoint;

// Blocks until all arrays are there. Writes a temporary file and renames it.
HEDDLE_API heddle_status heddle_checkpoint_save(const char* path, const heddle_checkpoint* checkpoint,
                                                heddle_error** error);
// Blocks. Fails, before anything is changed, for names, shapes and dtypes that are not those that were saved, and for an array
// whose checksum is wrong. With a trainer of several ranks, all of them load.
HEDDLE_API heddle_status heddle_checkpoint_load(const char* path, const heddle_checkpoint* checkpoint,
                                                heddle_error** error);

// What compression has left out of this worker's pushes, in a file beside `path`. All workers call it at the same count of steps,
// and then one of them saves the checkpoint; loading takes the file of its worker, if there is one. Blocks for all workers.
HEDDLE_API heddle_status heddle_checkpoint_save_residuals(const char* path, const heddle_trainer* trainer,
                                                          heddle_error** error);
// The texts of a checkpoint, which the caller destroys: what one must know to make the parameters that loading fills.
HEDDLE_API heddle_status heddle_checkpoint_notes(const char* path, heddle_archive** notes,
                                                 heddle_error** error);

#ifdef __cplusplus
}
#endif
