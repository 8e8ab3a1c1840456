// Numbers as text, in a process whose locale has a decimal comma.
#include <cmath>
#include <comma_locale.h>
#include <cstdio>
#include <files.h>
#include <message_of.h>
#include <sstream>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/csv.h>
#include <heddle/memory_report.h>
#include <heddle/ndarray.h>
#include <heddle/npy.h>
#include <heddle/number_text.h>
#include <heddle/random.h>
#include <heddle/safetensors.h>

using namespace heddle;
using namespace heddle::test;

namespace {

// The texts of everything that the library writes as text or reads from text.
std::vector<std::string> texts() {
  const TemporaryFile file;
  std::vector<std::string> all;
  const NDArray values = array({1.0 / 3, 1e-10, 12345.678, 1.5e300});
  for (const DType dtype : {DType::f64, DType::f32, DType::f16, DType::bf16}) {
    all.push_back(values.astype(dtype).to_string());
    all.push_back(array({1234567.25, 0.5}).astype(dtype).to_string());
    all.push_back(array(0.1).astype(dtype).to_string());
  }
  std::ostringstream stream;
  stream << arange(1000, 1003) << Shape{1000, 2000};
  all.push_back(stream.str());
  save_csv(file.path, values);
  all.push_back(read_file(file.path));
  write_file(file.path, "1.5,1e400,-1e400,1.5e-400\n");
  all.push_back(load_csv(file.path).to_string());
  save_safetensors(file.path, {.arrays = {{"x", values}}, .metadata = {}}, {.checksums = true});
  all.push_back(load_safetensors(file.path).arrays.at("x").to_string());
  all.push_back(message_of([] { Generator(1).bernoulli({2}, 1.5); }));
  all.push_back(number_text(0.25) + " " + fixed_text(1234.5678, 2));
  return all;
}

}  // namespace

TEST_CASE("numbers are written and read with a point, whatever the locale") {
  const std::vector<std::string> expected = texts();
  const CommaLocale locale;
  if (!locale) {
    MESSAGE("localedef makes no de_DE here");
    return;
  }
  char text[16];
  std::snprintf(text, sizeof text, "%.1f", 0.5);
  REQUIRE(std::string(text) == "0,5");
  const std::vector<std::string> found = texts();
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i) CHECK(found[i] == expected[i]);
}

TEST_CASE("number_text and fixed_text") {
  CHECK(number_text(0.1) == "0.1");
  CHECK(number_text(-1e-8) == "-1e-08");
  CHECK(number_text(INFINITY) == "inf");
  CHECK(fixed_text(12.345, 1) == "12.3");
  CHECK(fixed_text(1e300, 0).size() == 301);
  CHECK(fixed_text(NAN, 2) == "nan");
}
