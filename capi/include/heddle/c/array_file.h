// Saves arrays to files and loads them. Saving writes a temporary file and renames it. Loading checks every
// length in the file. A loaded array has the file's dtype, not options->dtype, unless a call says otherwise.
#pragma once

#include <heddle/c/array.h>

#ifdef __cplusplus
extern "C" {
#endif

// Saves or loads one array in NumPy's format .npy. Blocks.
HEDDLE_API heddle_status heddle_npy_save(const char* path, const heddle_array* array, heddle_error** error);
HEDDLE_API heddle_status heddle_npy_load(const char* path, const heddle_array_options* options,
                                         heddle_array** array, heddle_error** error);

// Makes an array on the mapped pages of a .npy file, which the system reads at their first use. Changes of
// the array stay in this process. The options' device must be cpu(0). Truncating the file while the array
// exists would kill the process.
HEDDLE_API heddle_status heddle_npy_map(const char* path, const heddle_array_options* options,
                                        heddle_array** array, heddle_error** error);

// Loads a table of numbers in a text file as an array (rows, columns) of the options' dtype. Fields are
// separated by `delimiter`, or by spaces and tabs if `delimiter` is ' '. The first skip_lines lines and all
// text behind '#' are skipped. The message of HEDDLE_FAILED names the line.
HEDDLE_API heddle_status heddle_csv_load(const char* path, char delimiter, int32_t skip_lines,
                                         const heddle_array_options* options, heddle_array** array,
                                         heddle_error** error);
// Writes an array of one or two axes as text, a line for each index of axis 0, with as many digits as needed
// to read the same numbers again. `header` is the first line and may be null. Blocks.
HEDDLE_API heddle_status heddle_csv_save(const char* path, const heddle_array* array, char delimiter,
                                         const char* header, heddle_error** error);

// A handle on an archive, which has named arrays and named texts: the content of a .safetensors file.
typedef struct heddle_archive heddle_archive;

HEDDLE_API heddle_status heddle_archive_create(heddle_archive** archive, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_destroy(heddle_archive* archive);
// Sets or replaces the archive's entry of that name. The array is not copied: saving writes the values that
// it has when it is saved.
HEDDLE_API heddle_status heddle_archive_set(heddle_archive* archive, const char* name,
                                            const heddle_array* array, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_set_text(heddle_archive* archive, const char* name, const char* text,
                                                 heddle_error** error);

// The number of arrays and of texts in an archive, and their names by index, in bytewise order. *name lives
// as long as the entry.
HEDDLE_API heddle_status heddle_archive_size(const heddle_archive* archive, size_t* arrays, size_t* texts,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_archive_name(const heddle_archive* archive, size_t index, const char** name,
                                             heddle_error** error);
HEDDLE_API heddle_status heddle_archive_text_name(const heddle_archive* archive, size_t index,
                                                  const char** name, heddle_error** error);
// Gets the archive's entry of that name; fails if there is none. The caller destroys *array; *text lives as
// long as the entry.
HEDDLE_API heddle_status heddle_archive_get(const heddle_archive* archive, const char* name,
                                            heddle_array** array, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_text(const heddle_archive* archive, const char* name,
                                             const char** text, heddle_error** error);

// Saves or loads an archive as a .safetensors file. Blocks. `checksums` 1: the file has a CRC-32 of each
// array, which loading checks; 0: the file has no checksums.
HEDDLE_API heddle_status heddle_archive_save(const heddle_archive* archive, const char* path,
                                             int32_t checksums, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_load(const char* path, const heddle_array_options* options,
                                             heddle_archive** archive, heddle_error** error);

// Makes an archive whose arrays are on the mapped pages of a .safetensors file, with the rules of
// heddle_npy_map. Does not check checksums.
HEDDLE_API heddle_status heddle_archive_map(const char* path, const heddle_array_options* options,
                                            heddle_archive** archive, heddle_error** error);

// Saves or loads an archive without texts in NumPy's format .npz. Blocks. `compressed` 1: the arrays are
// deflated; 0: they are stored as they are.
HEDDLE_API heddle_status heddle_archive_save_npz(const heddle_archive* archive, const char* path,
                                                 int32_t compressed, heddle_error** error);
HEDDLE_API heddle_status heddle_archive_load_npz(const char* path, const heddle_array_options* options,
                                                 heddle_archive** archive, heddle_error** error);

#ifdef __cplusplus
}
#endif
