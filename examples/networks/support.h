// What the networks of this folder share: options, pictures, and main() around a function.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <heddle/fit.h>

struct Options {
  bool quick = false;  // small data and network and few epochs, for tests
  std::string data;    // a file or a folder; what it holds depends on the program
  std::string logdir;  // where records for TensorBoard are written; empty: nowhere
  std::string picture;
  std::string save;  // a checkpoint, from which a run that finds it goes on; empty: none
  int epochs = 0;    // 0: the program's own number
  std::uint64_t seed = 1;
  double wanted = 0;              // the result that the run has to reach; 0: the program's own
  std::string precision = "f32";  // of products: f32 or bf16, where Description::precisions is set

  int epochs_or(int full, int in_quick_run) const {
    return epochs > 0 ? epochs : quick ? in_quick_run : full;
  }
  double wanted_or(double full, double in_quick_run) const {
    return wanted != 0 ? wanted : quick ? in_quick_run : full;
  }
};

struct Description {
  std::string name, text;       // of --help
  std::string quick_data = {};  // of a --quick run: beside the sources
  std::string full_data = {};   // of other runs; empty: the program makes its data itself
  std::string how_to_get = {};  // a command that makes the data
  bool precisions = false;      // whether there is a --precision
};

// Parses the command line and calls `run`, which returns whether the result is good enough. Returns the exit status: 0 done, 1
// failed or not good enough, 2 bad options or data.
int run_example(int argc, char** argv, const Description& description,
                const std::function<bool(const Options&)>& run);

// What the options ask of fit(): epochs, the seed of the order, checkpoints, records for TensorBoard.
heddle::FitOptions fit_options(const Options& options, int epochs);

// These draw an SVG file, and print where it is. An empty path: nothing.
// One curve for each name, a value an epoch, and lines of text below.
void draw_curves(const std::string& path, const std::map<std::string, std::vector<double>>& curves,
                 const std::vector<std::string>& notes = {});
// How often each label (row) was predicted as each class (column): a matrix (C, C) of counts.
void draw_confusion(const std::string& path, const heddle::NDArray& counts,
                    const std::vector<std::string>& names);
// Grey pictures (n, H, W) with numbers from 0 to 1, in rows of so many, and lines of text below.
void draw_pictures(const std::string& path, const heddle::NDArray& pictures, int columns,
                   const std::vector<std::string>& notes = {});
