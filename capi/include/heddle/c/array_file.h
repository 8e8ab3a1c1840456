// Arrays in files. A save writes a temporary file and renames it. Loading checks every length in the file.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

// NumPy's .npy, one array. Blocks. Here and below, a loaded array has the file's dtype, not options->dtype.
HEDDLE_API heddle_status heddle_npy_save(const char* path, const heddle_array* array, heddle_error** error);
HEDDLE_API heddle_status heddle_npy_load(const char* path, const heddle_array_options* options,
                                         heddle_array** array, heddle_error** error);

// An array on the file's mapped pages, which the system reads at their first use; changes stay in this
// process. The options' device must be cpu 0. Truncating the file meanwhile would kill the process.
HEDDLE_API heddle_status heddle_npy_map(const char* path, const heddle_array_options* options,
                                        heddle_array** array, heddle_error** error);

// A table of numbers as text: an array (rows, columns) of the options' dtype. Fields are separated by
// `delimiter`, or by spaces and tabs if that is ' '; the first skip_lines lines are skipped, and text behind
// '#'. HEDDLE_FAILED names the line.
HEDDLE_API heddle_status heddle_csv_load(const char* path, char delimiter, int32_t skip_lines,
                                         const heddle_array_options* options, heddle_array** array,
                                         heddle_error** error);
// Writes an array of one axis, one value per line, or of two axes, with as many digits as needed to read the
// same numbers. `header`, the first line, may be null. Blocks.
HEDDLE_API heddle_status heddle_csv_save(const char* path, const heddle_array* array, char delimiter,
                                         const char* header, heddle_error** error);

// Named arrays and named texts: the content of a .safetensors file.
typedef struct heddle_archive heddle_archive;

HEDDLE_API heddle_status heddle_archive_create(heddle_archive** archive, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_destroy(heddle_archive* archive);
// Sets or replaces the entry of that name. The array is not copied: saving writes its values at that time.
HEDDLE_API heddle_status heddle_archive_set(heddle_archive* archive, const char* name,
                                            const heddle_array* array, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_set_text(heddle_archive* archive, const char* name, const char* text,
                                                 heddle_error** error);

// The numbers of arrays and texts, and their names in bytewise order. *name lives as long as the entry.
HEDDLE_API heddle_status heddle_archive_size(const heddle_archive* archive, size_t* arrays, size_t* texts,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_archive_name(const heddle_archive* archive, size_t index, const char** name,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_archive_text_name(const heddle_archive* archive, size_t index,
                                                  const char** name, heddle_error** error);
// The entry of that name; fails without one. The caller destroys *array; *text lives as long as the entry.
HEDDLE_API heddle_status heddle_archive_get(const heddle_archive* archive, const char* name,
                                            heddle_array** array, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_text(const heddle_archive* archive, const char* name,
                                             const char** text, heddle_error** error);

// Blocks. `checksums` 1: the file has a CRC-32 of each array, which loading checks; 0: none.
HEDDLE_API heddle_status heddle_archive_save(const heddle_archive* archive, const char* path,
                                             int32_t checksums, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_load(const char* path, const heddle_array_options* options,
                                             heddle_archive** archive, heddle_error** error);

// The arrays of a .safetensors file on its mapped pages, as by heddle_npy_map. Does not check checksums.
HEDDLE_API heddle_status heddle_archive_map(const char* path, const heddle_array_options* options,
                                            heddle_archive** archive, heddle_error** error);

// NumPy's .npz. Blocks. An archive with texts cannot be saved as one. `compressed` 1: deflated; 0: stored.
HEDDLE_API heddle_status heddle_archive_save_npz(const heddle_archive* archive, const char* path,
                                                 int32_t compressed, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_load_npz(const char* path, const heddle_array_options* options,
                                                 heddle_archive** archive, heddle_error** error);

#ifdef __cplusplus
}
#endif
