// Pictures of models: which boxes there are, what stands in them, and that they do not lie on each other.
#include <algorithm>
#include <message_of.h>
#include <regex>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include <heddle/layers.h>
#include <heddle/model.h>
#include <heddle/model_picture.h>
#include <heddle/ops.h>
#include <heddle/sequential.h>

#include "files.h"

using namespace heddle;
using heddle::test::message_of;

namespace {

struct Box {
  double x, y, width, height;
  std::vector<std::string> lines;
};

std::vector<Box> boxes_in(const std::string& svg) {
  const std::regex group(
      "<g><title>[^<]*</title><rect x=\"([-0-9.]+)\" y=\"([-0-9.]+)\" width=\"([0-9.]+)\" "
      "height=\"([0-9.]+)\".*</g>"),
      text("<text [^>]*>([^<]*)</text>");
  std::vector<Box> boxes;
  for (std::sregex_iterator one(svg.begin(), svg.end(), group), end; one != end; ++one) {
    const std::smatch& m = *one;
    Box box{std::stod(m[1]), std::stod(m[2]), std::stod(m[3]), std::stod(m[4]), {}};
    const std::string inside = m[0];
    for (std::sregex_iterator line(inside.begin(), inside.end(), text); line != end; ++line)
      box.lines.push_back((*line)[1]);
    boxes.push_back(box);
  }
  return boxes;
}

std::size_t count_of(const std::string& text, const std::string& word) {
  std::size_t count = 0;
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1)) ++count;
  return count;
}

void check_apart(const std::vector<Box>& boxes) {
  for (std::size_t i = 0; i < boxes.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) {
      const Box &a = boxes[i], &b = boxes[j];
      const bool apart =
          a.x + a.width <= b.x || b.x + b.width <= a.x || a.y + a.height <= b.y || b.y + b.height <= a.y;
      CHECK(apart);
    }
}

}  // namespace

TEST_CASE("a picture of a Sequential is a column of its layers, with shapes if it is given inputs") {
  Sequential net{Conv2d(1, 2, 3, {.relu = true}), Sequential{Flatten(), Dense(kInferred, 3)}};
  const std::vector<Box> boxes = boxes_in(to_svg(net, {zeros({4, 1, 5, 5})}));
  REQUIRE(boxes.size() == 4);
  using Lines = std::vector<std::string>;
  CHECK(boxes[0].lines == Lines{"x", "(4, 1, 5, 5)"});
  CHECK(boxes[1].lines == Lines{"Conv2d(1, 2, 3, relu)", "(4, 2, 3, 3)", "20 parameters"});
  CHECK(boxes[2].lines == Lines{"Flatten", "(4, 18)"});
  CHECK(boxes[3].lines == Lines{"Dense(18, 3)", "(4, 3)", "57 parameters"});
  for (std::size_t i = 1; i < 4; ++i) CHECK(boxes[i].y > boxes[i - 1].y + boxes[i - 1].height);
  CHECK(net.training());
  Sequential unknown{Dense(kInferred, 3)};
  CHECK(boxes_in(to_svg(unknown))[1].lines == Lines{"Dense(None, 3)"});
}

TEST_CASE("a picture of a Model has its inputs, steps and arrows, and boxes apart from each other") {
  const Symbol a = input("a", {kInferred, 4}), b = input("b<&>", {kInferred, 4});
  std::vector<Symbol> parts;
  for (int i = 0; i < 6; ++i) parts.push_back(connect(Dense(4, 5, {.relu = true}), i % 2 ? a : b));
  Symbol all = connect("concat", {parts, 1});
  for (int i = 0; i < 12; ++i) all = connect("add", {connect(Dense(30, 30), all), all});
  Model model({a, b}, {all, connect(Dense(4, 2), a)});
  const std::string svg = to_svg(model);
  const std::vector<Box> boxes = boxes_in(svg);
  REQUIRE(boxes.size() == 2 + 6 + 1 + 24 + 1);
  check_apart(boxes);
  CHECK(count_of(svg, "marker-end") == 6 + 6 + 12 * 3 + 1);
  CHECK(svg.find("b&lt;&amp;&gt;") != std::string::npos);
  CHECK(svg.find("b<&>") == std::string::npos);
  CHECK(boxes[0].lines == std::vector<std::string>{"a", "(?, 4)"});
  const auto concat =
      std::find_if(boxes.begin(), boxes.end(), [](const Box& one) { return one.lines[0] == "concat"; });
  REQUIRE(concat != boxes.end());
  CHECK(concat->lines[1] == "(?, 30)");
  CHECK(to_svg(model) == svg);
  CHECK(boxes_in(to_svg(model, {ones({3, 4}), ones({3, 4})}))[0].lines[1] == "(3, 4)");
}

TEST_CASE("save_svg writes the file, and says what is wrong") {
  const test::TemporaryFile file;
  Dense layer(3, 2);
  save_svg(file.path, layer, {ones({1, 3})});
  CHECK(test::read_file(file.path) == to_svg(layer, {ones({1, 3})}));
  CHECK(message_of<Error>([&] { save_svg(file.path + "/x", layer); }) ==
        "picture '" + file.path + "/x' cannot be written");
  CHECK(message_of<InvalidArgument>([&] { to_svg(layer, {ones({1, 4})}); }).find("Dense") == 0);
  const Symbol x = input("x", {2});
  Model model({x}, {connect("exp", {x})});
  CHECK(message_of<InvalidArgument>([&] {
          to_svg(model, {ones({2}), ones({2})});
        }) == "Model: 2 inputs; want 1");
}
