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

// What saving writes and what loading fills in. The caller chooses the names, which are unique in each list;
// loading needs the names that were saved. All arrays belong to one engine. A null list or pointer means that
// there is nothing of that kind.
typedef struct heddle_checkpoint {
  size_t struct_size;                    // sizeof(heddle_checkpoint)
  const heddle_named_array* parameters;  // loading writes into these arrays
  size_t parameter_count;
  heddle_trainer* trainer;                   // its optimizer's state and step count are saved; may be null
  const heddle_named_generator* generators;  // the seed and position of each are saved
  size_t generator_count;
  heddle_counter* counters;  // epoch, step and the like; loading sets the values
  size_t counter_count;
  // Other arrays, and texts ("notes"). Loading fills arrays of equal shape and dtype, and replaces the rest.
  heddle_archive* more;
} heddle_checkpoint;

// Saves a checkpoint: blocks until all arrays are computed, writes a temporary file and renames it.
HEDDLE_API heddle_status heddle_checkpoint_save(const char* path, const heddle_checkpoint* checkpoint,
                                                heddle_error** error);
// Loads a checkpoint. Blocks. Fails, with nothing changed, if names, shapes or dtypes differ from the saved
// ones, or if an array has a wrong checksum. If a trainer has several ranks, all of its ranks must load.
HEDDLE_API heddle_status heddle_checkpoint_load(const char* path, const heddle_checkpoint* checkpoint,
                                                heddle_error** error);

// Saves the compression residuals of this worker's pushes in a file beside `path`. All workers make this call
// at the same step count; it blocks until all have made it. Then one worker saves the checkpoint. Loading
// reads the file of this worker, if there is one.
HEDDLE_API heddle_status heddle_checkpoint_save_residuals(const char* path, const heddle_trainer* trainer,
                                                          heddle_error** error);
// Reads only the texts of a checkpoint, from which the program may learn which parameters to make before it
// loads the checkpoint. The caller destroys *notes.
HEDDLE_API heddle_status heddle_checkpoint_notes(const char* path, heddle_archive** notes,
                                                 heddle_error** error);

#ifdef __cplusplus
}
#endif
