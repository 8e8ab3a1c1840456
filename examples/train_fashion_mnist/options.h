// The command line of train_fashion_mnist.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

struct Options {
  std::int64_t epochs = 5;
  std::int64_t batch = 128;
  std::optional<double> lr;  // learning rate; unset: the optimizer's default
  std::string optimizer = "sgd";
  std::string schedule = "cosine";
  std::string kvstore = "local";
  // Compression of gradients between processes; empty: the value of HEDDLE_COMM_COMPRESSION.
  std::string compression;
  // Compression of weights from servers; empty: the value of HEDDLE_STORE_PULL_COMPRESSION.
  std::string pull_compression;
  std::uint64_t seed = 1;
  std::int64_t limit = 0;  // number of training pictures, and of test pictures; 0: all
  int workers = 0;         // number of worker threads; 0: HEDDLE_WORKERS, or one per usable core
  std::string data = "/usr/share/datasets/fashion-mnist";
  std::string save, resume;
  std::string plot = "fashion_mnist.svg";

  double learning_rate() const;

  // Settings that a resumed run must share with the saved one, as text for a checkpoint's notes.
  std::map<std::string, std::string> to_notes() const;
};

struct ParsedOptions {
  std::optional<Options> options;
  // The exit status if `options` is empty: 0 after --help, 2 after bad flags, about which a message is
  // printed.
  int exit_status = 0;
};

// Parses the command line. With --resume, a setting for which no flag is given is that of the checkpoint's
// run. Throws heddle::Error if the checkpoint cannot be read.
ParsedOptions parse_options(int argc, char** argv);

// Checks that a file can be written at `path`, so that an error shows before the training: creates and
// removes a file beside it. Throws heddle::Error that names `flag`.
void check_writable(const std::string& flag, const std::string& path);

// Throws heddle::Error if the picture would overwrite a checkpoint.
void check_distinct(const Options& options);

// Throws heddle::Error if that many ranks cannot train together with these options.
void check_ranks(const Options& options, int ranks);
