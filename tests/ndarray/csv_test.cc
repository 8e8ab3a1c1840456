#include <cmath>
#include <cstdint>
#include <files.h>
#include <message_of.h>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/csv.h>
#include <heddle/random.h>

using namespace heddle;
using namespace heddle::test;

namespace {

using Doubles = std::vector<double>;

struct Text {
  TemporaryFile file;
  explicit Text(const std::string& text) { write_file(file.path, text); }
  NDArray load(const CsvOptions& options = {}) const { return load_csv(file.path, options); }
  std::string problem(const CsvOptions& options = {}) const {
    const std::string message = message_of([&] { load(options); });
    const std::string begin = "load_csv: file '" + file.path + "', ";
    return message.starts_with(begin) ? message.substr(begin.size()) : message;
  }
};

}  // namespace

TEST_CASE("a table of numbers") {
  const NDArray x = Text("1,2.5,-3e2\n +4 ,inf,  .5\r\n").load();
  CHECK(x.dtype() == DType::f64);
  CHECK(x.shape() == Shape{2, 3});
  CHECK(x.to_vector<double>() == Doubles{1, 2.5, -300, 4, HUGE_VAL, 0.5});
  CHECK(Text("").load().shape() == Shape{0, 0});
  CHECK(Text("1e999,-1e999,1e-999").load().to_vector<double>() == Doubles{HUGE_VAL, -HUGE_VAL, 0});
}

TEST_CASE("names, comments, empty lines, other delimiters, columns") {
  const std::string text = "a;b;c\n# nothing\n1;2;3 # a comment\n\n4;;6\n";
  const NDArray x = Text(text).load({.delimiter = ';', .skip_lines = 1});
  CHECK(x.shape() == Shape{2, 3});
  CHECK(std::isnan(x.to_vector<double>()[4]));
  const Text rows("0 1\t 2\n  3   4 5  \n");
  CHECK(rows.load({.delimiter = ' '}).to_vector<double>() == Doubles{0, 1, 2, 3, 4, 5});
  CHECK(rows.load({.delimiter = ' ', .columns = {-1, 0}}).to_vector<double>() == Doubles{2, 0, 5, 3});
  CHECK(rows.load({.delimiter = ' ', .dtype = DType::u8}).to_vector<std::uint8_t>() ==
        std::vector<std::uint8_t>{0, 1, 2, 3, 4, 5});
}

TEST_CASE("what is no number, or no table, is named with its line") {
  CHECK(Text("1,2\n3,x4\n").problem() == "line 2: column 1 is 'x4', no f64");
  CHECK(Text("1,2\n3\n").problem() == "line 2: 1 columns, where the lines before have 2");
  CHECK(Text("1,2\n").problem({.columns = {2}}) == "line 1: no column 2 of 2");
  CHECK(Text("1.5\n").problem({.dtype = DType::i64}) == "line 1: column 0 is '1.5', no i64");
  CHECK(Text(std::string("1,\0002\n", 5)).problem() == "line 1: column 1 is '\\x002', no f64");
  CHECK(Text("1,\x1b[2\x7f\n").problem() == "line 1: column 1 is '\\x1b[2\\x7f', no f64");
  CHECK(Text("1,\n").problem({.dtype = DType::i32}) == "line 1: column 1 is '', no i32");
  CHECK(Text("300\n").problem({.dtype = DType::u8}) == "line 1: column 0 is '300', no u8");
  CHECK(Text("2\n").problem({.dtype = DType::boolean}) == "line 1: column 0 is '2', no bool");
  CHECK(Text("+-1\n").problem() == "line 1: column 0 is '+-1', no f64");
  CHECK(message_of([] { load_csv("/no/such"); }) ==
        "load_csv: file '/no/such' cannot be opened: No such file or directory");
  CHECK_THROWS_AS(Text("1").load({.skip_lines = -1}), InvalidArgument);
}

TEST_CASE("what is written is read again, to the last bit") {
  const TemporaryFile file;
  const NDArray x = Generator(1).normal({50, 3}, 0, 1e10, DType::f64);
  save_csv(file.path, x, {.header = "a,b,c"});
  CHECK(read_file(file.path).starts_with("a,b,c\n"));
  CHECK(load_csv(file.path, {.skip_lines = 1}).to_vector<double>() == x.to_vector<double>());
  const NDArray single = x.astype(DType::f32);
  save_csv(file.path, single, {.delimiter = ' '});
  CHECK(load_csv(file.path, {.delimiter = ' ', .dtype = DType::f32}).to_vector<float>() ==
        single.to_vector<float>());
  save_csv(file.path, array<std::int64_t>({1, -2}));
  CHECK(read_file(file.path) == "1\n-2\n");
  save_csv(file.path, array<double>({1.23456, 2.0}), {.precision = 3});
  CHECK(read_file(file.path) == "1.23\n2\n");
  CHECK_THROWS_AS(save_csv(file.path, zeros({1, 1, 1})), InvalidArgument);
  save_csv(file.path, array<double>({1e300, -5e-324}), {.precision = 100});
  CHECK(load_csv(file.path).to_vector<double>() == Doubles{1e300, -5e-324});
  for (const int precision : {-1, 101})
    CHECK_THROWS_AS(save_csv(file.path, ones({1}), {.precision = precision}), InvalidArgument);
  for (const char delimiter : {'.', 'e', '-', '7', '\n'}) {
    CHECK_THROWS_AS(save_csv(file.path, ones({1}), {.delimiter = delimiter}), InvalidArgument);
    CHECK_THROWS_AS(load_csv(file.path, {.delimiter = delimiter}), InvalidArgument);
  }
  write_file(file.path,
             "\xef\xbb\xbf"
             "1,2\n");
  CHECK(load_csv(file.path).to_vector<double>() == Doubles{1, 2});
}
