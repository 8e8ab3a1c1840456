// Arrays in files: .npy, archives, CSV.
#include <unistd.h>

#include "support.h"

static const float kValues[] = {1, 2, 3, 4};
static const int64_t kTwoByTwo[] = {2, 2};

static void npy(heddle_engine* engine, const char* path) {
  heddle_array *array = new_array(engine, kValues, kTwoByTwo, 2), *loaded = NULL;
  const heddle_array_options options = {.struct_size = sizeof options, .engine = engine};
  OK(heddle_npy_save(path, array, NULL));
  OK(heddle_npy_load(path, &options, &loaded, NULL));
  holds(loaded, kValues, 4);
  OK(heddle_array_destroy(loaded));
  heddle_archive* archive = NULL;
  IS(heddle_archive_load(path, &options, &archive, NULL), HEDDLE_FAILED);  // the file is a .npy
  CHECK(unlink(path) == 0);
  heddle_error* error = NULL;
  IS(heddle_npy_load(path, &options, &loaded, &error), HEDDLE_FAILED);
  heddle_error_info info = {.struct_size = sizeof info};
  OK(heddle_error_describe(error, &info));
  CHECK(strstr(info.message, path) != NULL);
  OK(heddle_error_destroy(error));
  IS(heddle_npy_save(NULL, array, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_array_destroy(array));
}

static void safetensors(heddle_engine* engine, const char* path) {
  heddle_array *array = new_array(engine, kValues, kTwoByTwo, 2), *loaded = NULL;
  heddle_archive *archive = NULL, *again = NULL;
  OK(heddle_archive_create(&archive, NULL));
  OK(heddle_archive_set(archive, "weight", array, NULL));
  OK(heddle_archive_set(archive, "bias", array, NULL));
  OK(heddle_archive_set_text(archive, "epoch", "3", NULL));
  OK(heddle_array_fill(array, 5, NULL));  // the archive holds a reference, not a copy
  OK(heddle_archive_save(archive, path, 1, NULL));
  OK(heddle_archive_destroy(archive));
  const heddle_array_options options = {.struct_size = sizeof options, .engine = engine};
  OK(heddle_archive_load(path, &options, &again, NULL));
  size_t arrays = 0, texts = 0;
  OK(heddle_archive_size(again, &arrays, &texts, NULL));
  CHECK(arrays == 2 && texts == 1);
  const char *name = NULL, *text = NULL;
  OK(heddle_archive_name(again, 1, &name, NULL));
  CHECK(strcmp(name, "weight") == 0);
  OK(heddle_archive_get(again, name, &loaded, NULL));
  const float fives[] = {5, 5, 5, 5};
  holds(loaded, fives, 4);
  OK(heddle_array_destroy(loaded));
  OK(heddle_archive_text_name(again, 0, &name, NULL));
  OK(heddle_archive_text(again, name, &text, NULL));
  CHECK(strcmp(name, "epoch") == 0 && strcmp(text, "3") == 0);
  IS(heddle_archive_name(again, 2, &name, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_archive_get(again, "epoch", &loaded, NULL), HEDDLE_INVALID_ARGUMENT);
  IS(heddle_archive_text(again, "weight", &text, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_archive_destroy(again));
  OK(heddle_array_destroy(array));
  CHECK(unlink(path) == 0);
}

static void other_files(heddle_engine* engine, const char* path) {
  heddle_array *array = new_array(engine, kValues, kTwoByTwo, 2), *loaded = NULL;
  heddle_archive *archive = NULL, *again = NULL;
  heddle_array_options options = {.struct_size = sizeof options, .engine = engine};
  OK(heddle_npy_save(path, array, NULL));
  OK(heddle_npy_map(path, &options, &loaded, NULL));
  holds(loaded, kValues, 4);
  OK(heddle_array_destroy(loaded));
  OK(heddle_csv_save(path, array, ';', "a;b", NULL));
  IS(heddle_csv_load(path, ';', 0, &options, &loaded, NULL), HEDDLE_FAILED);  // a header line is not a number
  OK(heddle_csv_load(path, ';', 1, &options, &loaded, NULL));
  holds(loaded, kValues, 4);
  OK(heddle_array_destroy(loaded));
  OK(heddle_archive_create(&archive, NULL));
  OK(heddle_archive_set(archive, "x", array, NULL));
  OK(heddle_archive_save(archive, path, 0, NULL));
  OK(heddle_archive_map(path, &options, &again, NULL));
  OK(heddle_archive_get(again, "x", &loaded, NULL));
  holds(loaded, kValues, 4);
  OK(heddle_array_destroy(loaded));
  OK(heddle_archive_destroy(again));
  for (int compressed = 0; compressed < 2; ++compressed) {
    OK(heddle_archive_save_npz(archive, path, compressed, NULL));
    OK(heddle_archive_load_npz(path, &options, &again, NULL));
    OK(heddle_archive_get(again, "x", &loaded, NULL));
    holds(loaded, kValues, 4);
    OK(heddle_array_destroy(loaded));
    OK(heddle_archive_destroy(again));
  }
  OK(heddle_archive_set_text(archive, "epoch", "3", NULL));
  IS(heddle_archive_save_npz(archive, path, 0, NULL), HEDDLE_INVALID_ARGUMENT);
  options.device.index = 1;
  IS(heddle_npy_map(path, &options, &loaded, NULL), HEDDLE_INVALID_ARGUMENT);
  OK(heddle_archive_destroy(archive));
  OK(heddle_array_destroy(array));
  CHECK(unlink(path) == 0);
}

void test_files(void) {
  heddle_engine* engine = new_engine();
  const char* folder = getenv("TMPDIR");
  char path[4096];
  snprintf(path, sizeof path, "%s/heddle_capi_%ld", folder ? folder : "/tmp", (long)getpid());
  npy(engine, path);
  safetensors(engine, path);
  other_files(engine, path);
  OK(heddle_engine_destroy(engine, NULL));
}
