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

// What is saved, and what loading fills in. The caller chooses the names, unique in each list; loading needs
// the same ones. All arrays belong to one engine. A null list or pointer: nothing of that kind.
typedef struct heddle_checkpoint {
  size_t struct_size;                    // sizeof(heddle_checkpoint)
  const heddle_named_array* parameters;  // loading fills them in place
  size_t parameter_count;
  heddle_trainer* trainer;                   // saves the optimizer's state and the step count; or null
  const heddle_named_generator* generators;  // saves their seeds and positions
  size_t generator_count;
  heddle_counter* counters;  // epoch, step and the like; loading sets the values
  size_t counter_count;
  // Other arrays, and texts ("notes"). Loading fills arrays of equal shape and dtype, and replaces the rest.
  heddle_archive* more;
} heddle_checkpoint;

// Blocks until all arrays are computed. Writes a temporary file and renames it.
HEDDLE_API heddle_status heddle_checkpoint_save(const char* path, const heddle_checkpoint* checkpoint,
                                                heddle_error** error);
// Blocks. Fails, with nothing changed, for names, shapes and dtypes that differ from the saved ones, and for
// an array with a wrong checksum. With a trainer of several ranks, all of them must load.
HEDDLE_API heddle_status heddle_checkpoint_load(const char* path, const heddle_checkpoint* checkpoint,
                                                heddle_error** error);

// Saves the compression residuals of this worker's pushes in a file beside `path`. All workers call it at the
// same count of steps, and then one of them saves the checkpoint; loading reads this worker's file, if there
// is one. Blocks for all workers.
HEDDLE_API heddle_status heddle_checkpoint_save_residuals(const char* path, const heddle_trainer* trainer,
                                                          heddle_error** error);
// The texts of a checkpoint, to know what parameters to make before loading. The caller destroys *notes.
HEDDLE_API heddle_status heddle_checkpoint_notes(const char* path, heddle_archive** notes,
                                                 heddle_error** error);

#ifdef __cplusplus
}
#endif
