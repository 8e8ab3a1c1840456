// Arrays in files. A save writes a temporary file and renames it. Loading checks every length in the file.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

// NumPy's .npy, one array. Blocks. Options: dtype does not count when a file is loaded, here and below.
HEDDLE_API heddle_status heddle_npy_save(const char* path, const heddle_array* array, heddle_error** error);
HEDDLE_API heddle_status heddle_npy_load(const char* path, const heddle_array_options* options,
                                         heddle_array** array, heddle_error** error);

// The array on the file's own pages, which the system reads when an op touches them; changes stay in this process. Options: the
// device is cpu 0. Do not let the file get shorter meanwhile: the process would be killed.
HEDDLE_API heddle_status heddle_npy_map(const char* path, const heddle_array_options* options,
                                        heddle_array** array, heddle_error** error);

// A table of numbers as text: an array (rows, columns) of the options' dtype. Fields are separated by `delimiter`, or by spaces
// and tabs if that is ' '; the first skip_lines are left out, and what follows '#' in a line. HEDDLE_FAILED names the line.
HEDDLE_API heddle_status heddle_csv_load(const char* path, char delimiter, int32_t skip_lines,
                                         const heddle_array_options* options, heddle_array** array,
                                         heddle_error** error);
// An array of one axis, a row a value, or of two, with as many digits as give the same numbers. `header`, the first line, may
// be null. Blocks.
HEDDLE_API heddle_status heddle_csv_save(const char* path, const heddle_array* array, char delimiter,
                                         const char* header, heddle_error** error);

// Arrays with names, and texts with names: the content of a .safetensors file.
typedef struct heddle_archive heddle_archive;

HEDDLE_API heddle_status heddle_archive_create(heddle_archive** archive, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_destroy(heddle_archive* archive);
// Replaces what has that name. The array is not copied: saving writes the values it has by then.
HEDDLE_API heddle_status heddle_archive_set(heddle_archive* archive, const char* name,
                                            const heddle_array* array, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_set_text(heddle_archive* archive, const char* name, const char* text,
                                                 heddle_error** error);

// The number of arrays and of texts, and their names in the order of bytes. *name lives as long as the archive has it.
HEDDLE_API heddle_status heddle_archive_size(const heddle_archive* archive, size_t* arrays, size_t* texts,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_archive_name(const heddle_archive* archive, size_t index, const char** name,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_archive_text_name(const heddle_archive* archive, size_t index,
                                                  const char** name, heddle_error** error);
// What has that name; fails if nothing has. The caller destroys *array; *text lives as long as the archive has it.
HEDDLE_API heddle_status heddle_archive_get(const heddle_archive* archive, const char* name,
                                            heddle_array** array, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_text(const heddle_archive* archive, const char* name,
                                             const char** text, heddle_error** error);

// Blocks. checksums: 1: the file has a CRC-32 of each array, which loading checks; 0: none.
HEDDLE_API heddle_status heddle_archive_save(const heddle_archive* archive, const char* path,
                                             int32_t checksums, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_load(const char* path, const heddle_array_options* options,
                                             heddle_archive** archive, heddle_error** error);

// The arrays of a .safetensors file on its own pages, as heddle_npy_map gives them. Checksums of arrays are not looked at.
HEDDLE_API heddle_status heddle_archive_map(const char* path, const heddle_array_options* options,
                                            heddle_archive** archive, heddle_error** error);

// NumPy's .npz. Blocks. An archive with texts cannot be saved as one. compressed: 1: deflated; 0: stored.
HEDDLE_API heddle_status heddle_archive_save_npz(const heddle_archive* archive, const char* path,
                                                 int32_t compressed, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_load_npz(const char* path, const heddle_array_options* options,
                                                 heddle_archive** archive, heddle_error** error);

#ifdef __cplusplus
}
#endif
