// A layered drawing (Sugiyama et al., 1981): a node's layer is the length of the longest path to it, nodes of a layer are ordered by the
// mean of their neighbours, and an edge over several layers passes through a point in each.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include <heddle/call_site.h>
#include <heddle/error.h>
#include <heddle/model_picture.h>

#include "model/module_graph.h"

namespace heddle {

using nn_detail::GraphNode;

namespace {

constexpr double kLine = 16, kCharacter = 7.3, kSide = 12, kBetween = 28, kRowGap = 36, kMargin = 20,
                 kPoint = 10;
constexpr std::size_t kMostCharacters = 44;
constexpr int kSweeps = 8;

// A box, or a point through which an edge passes.
struct Place {
  std::vector<std::string> lines;
  std::vector<std::size_t> above, below;
  std::size_t layer = 0;
  double x = 0, y = 0, width = kPoint, height = 0;  // x: the middle; y: the top
};

std::string shape_text(const std::optional<Shape>& shape) {
  if (!shape) return "";
  std::string text;
  for (const std::int64_t size : *shape)
    text += (text.empty() ? "" : ", ") + (size < 0 ? "?" : std::to_string(size));
  return "(" + text + (shape->size() == 1 ? ",)" : ")");
}

std::string with_commas(std::int64_t number) {
  std::string text = std::to_string(number);
  for (auto at = static_cast<std::ptrdiff_t>(text.size()) - 3; at > 0; at -= 3)
    text.insert(static_cast<std::size_t>(at), ",");
  return text;
}

std::string shortened(const std::string& text) {
  if (text.size() <= kMostCharacters) return text;
  return text.substr(0, kMostCharacters - 3) + "...";
}

std::vector<std::string> lines_of(const GraphNode& node) {
  std::vector<std::string> lines{shortened(node.text)};
  std::string shapes;
  for (const auto& one : node.outputs) {
    const std::string text = shape_text(one);
    if (!text.empty()) shapes += (shapes.empty() ? "" : ", ") + text;
  }
  if (!shapes.empty()) lines.push_back(shortened(shapes));
  if (node.parameters > 0) lines.push_back(with_commas(node.parameters) + " parameters");
  return lines;
}

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '&')
      out += "&amp;";
    else if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '"')
      out += "&quot;";
    else if (static_cast<unsigned char>(c) < 0x20)
      out += ' ';
    else
      out += c;
  }
  return out;
}

std::string number(double value) {
  char text[32];
  const int size = std::snprintf(text, sizeof text, "%.1f", value);
  for (int i = 0; i < size; ++i)
    if (text[i] == ',') text[i] = '.';  // of the locale
  return text;
}

class Drawing {
 public:
  explicit Drawing(const std::vector<GraphNode>& nodes) : nodes_(nodes) {
    place_boxes();
    place_edges();
    for (int i = 0; i < kSweeps; ++i) order(i % 2 == 0);
    place_columns();
  }

  std::string svg() const {
    std::string text =
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(width_) + "\" height=\"" +
        number(height_) + "\" viewBox=\"0 0 " + number(width_) + " " + number(height_) +
        "\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"12\">\n"
        "<defs><marker id=\"arrow\" viewBox=\"0 0 8 8\" refX=\"7\" refY=\"4\" markerWidth=\"7\" "
        "markerHeight=\"7\" orient=\"auto\"><path d=\"M0 0 L8 4 L0 8 z\" fill=\"#5c6670\"/>"
        "</marker></defs>\n<rect width=\"100%\" height=\"100%\" fill=\"#ffffff\"/>\n";
    for (const auto& path : edges_) text += edge(path);
    for (std::size_t i = 0; i < nodes_.size(); ++i) text += box(nodes_[i], places_[i]);
    return text + "</svg>\n";
  }

 private:
  void place_boxes() {
    for (const GraphNode& node : nodes_) {
      Place place;
      place.lines = lines_of(node);
      for (const std::string& line : place.lines)
        place.width = std::max(place.width, kCharacter * static_cast<double>(line.size()) + 2 * kSide);
      place.height = kLine * static_cast<double>(place.lines.size()) + kSide;
      for (const std::size_t from : node.inputs) place.layer = std::max(place.layer, places_[from].layer + 1);
      places_.push_back(std::move(place));
    }
  }
  void place_edges() {
    for (std::size_t to = 0; to < nodes_.size(); ++to) {
      std::vector<std::size_t> sources = nodes_[to].inputs;
      std::sort(sources.begin(), sources.end());
      sources.erase(std::unique(sources.begin(), sources.end()), sources.end());
      for (const std::size_t from : sources) {
        std::vector<std::size_t> path{from};
        for (std::size_t layer = places_[from].layer + 1; layer < places_[to].layer; ++layer) {
          Place point;
          point.layer = layer;
          places_.push_back(std::move(point));
          path.push_back(places_.size() - 1);
        }
        path.push_back(to);
        for (std::size_t i = 0; i + 1 < path.size(); ++i) {
          places_[path[i]].below.push_back(path[i + 1]);
          places_[path[i + 1]].above.push_back(path[i]);
        }
        edges_.push_back(std::move(path));
      }
    }
    for (std::size_t i = 0; i < places_.size(); ++i) {
      if (layers_.size() <= places_[i].layer) layers_.resize(places_[i].layer + 1);
      layers_[places_[i].layer].push_back(i);
    }
  }

  // Orders each layer by the mean position of the neighbours in the layer before, downwards or upwards.
  void order(bool down) {
    std::vector<double> position(places_.size());
    const auto number_layer = [&](const std::vector<std::size_t>& layer) {
      for (std::size_t i = 0; i < layer.size(); ++i)
        position[layer[i]] = (static_cast<double>(i) + 0.5) / static_cast<double>(layer.size());
    };
    for (const auto& layer : layers_) number_layer(layer);
    for (std::size_t i = 0; i < layers_.size(); ++i) {
      std::vector<std::size_t>& layer = layers_[down ? i : layers_.size() - 1 - i];
      std::vector<double> wanted(places_.size());
      for (const std::size_t at : layer) {
        const auto& near = down ? places_[at].above : places_[at].below;
        double sum = 0;
        for (const std::size_t one : near) sum += position[one];
        wanted[at] = near.empty() ? position[at] : sum / static_cast<double>(near.size());
      }
      std::stable_sort(layer.begin(), layer.end(),
                       [&](std::size_t a, std::size_t b) { return wanted[a] < wanted[b]; });
      number_layer(layer);
    }
  }

  // Layers are rows. A place goes as near to the middle of those above it as its neighbours in the row let it.
  void place_columns() {
    double y = kMargin;
    for (const auto& layer : layers_) {
      double height = 0;
      for (const std::size_t at : layer) height = std::max(height, places_[at].height);
      std::vector<double> wanted;
      for (const std::size_t at : layer) {
        double sum = 0;
        for (const std::size_t one : places_[at].above) sum += places_[one].x;
        const auto count = static_cast<double>(places_[at].above.size());
        wanted.push_back(count > 0 ? sum / count : 0);
      }
      set_row(layer, wanted);
      for (const std::size_t at : layer) {
        places_[at].y = y;
        if (at >= nodes_.size()) places_[at].height = height;
      }
      y += height + kRowGap;
    }
    double left = 0, right = 0;
    for (const Place& one : places_) {
      left = std::min(left, one.x - one.width / 2);
      right = std::max(right, one.x + one.width / 2);
    }
    for (Place& one : places_) one.x += kMargin - left;
    width_ = right - left + 2 * kMargin;
    height_ = y - kRowGap + kMargin;
  }

  // Packs the row from the left, and moves all of it so that its places are where they are wanted on average.
  void set_row(const std::vector<std::size_t>& layer, const std::vector<double>& wanted) {
    double end = 0, shift = 0;
    for (std::size_t i = 0; i < layer.size(); ++i) {
      Place& place = places_[layer[i]];
      const double least = i == 0 ? wanted[0] : end + kBetween + place.width / 2;
      place.x = std::max(least, wanted[i]);
      end = place.x + place.width / 2;
      shift += wanted[i] - place.x;
    }
    for (const std::size_t at : layer) places_[at].x += shift / static_cast<double>(layer.size());
  }

  std::string edge(const std::vector<std::size_t>& path) const {
    std::string d;
    for (std::size_t i = 0; i + 1 < path.size(); ++i) {
      const Place &from = places_[path[i]], &to = places_[path[i + 1]];
      const double top = from.y + from.height, middle = (top + to.y) / 2;
      if (i == 0)
        d += "M" + number(from.x) + " " + number(top);
      else
        d += " L" + number(from.x) + " " + number(top);
      d += " C" + number(from.x) + " " + number(middle) + " " + number(to.x) + " " + number(middle) + " " +
           number(to.x) + " " + number(to.y);
    }
    return "<path d=\"" + d + "\" fill=\"none\" stroke=\"#5c6670\" marker-end=\"url(#arrow)\"/>\n";
  }

  static std::string box(const GraphNode& node, const Place& place) {
    const bool input = node.kind == GraphNode::Kind::input;
    const char* const fill = input ? "#e8f1e4" : node.kind == GraphNode::Kind::op ? "#f3ecdf" : "#e3ecf7";
    std::string text = "<g><title>" + escaped(node.path + ": " + node.text) + "</title><rect x=\"" +
                       number(place.x - place.width / 2) + "\" y=\"" + number(place.y) + "\" width=\"" +
                       number(place.width) + "\" height=\"" + number(place.height) + "\" rx=\"" +
                       (input ? "14" : "4") + "\" fill=\"" + fill + "\" stroke=\"#5c6670\" stroke-width=\"" +
                       (node.is_output ? "2.5" : "1") + "\"/>";
    double y = place.y + kSide / 2 + kLine * 0.75;
    for (std::size_t i = 0; i < place.lines.size(); ++i, y += kLine)
      text += "<text x=\"" + number(place.x) + "\" y=\"" + number(y) + "\" text-anchor=\"middle\"" +
              (i == 0 ? " font-weight=\"bold\"" : " fill=\"#444c55\"") + ">" + escaped(place.lines[i]) +
              "</text>";
    return text + "</g>\n";
  }

  const std::vector<GraphNode>& nodes_;
  std::vector<Place> places_;  // those of the nodes first
  std::vector<std::vector<std::size_t>> edges_, layers_;
  double width_ = 0, height_ = 0;
};

}  // namespace

std::string to_svg(Module& module, std::span<const NDArray> inputs, Where where) {
  const CallSite site(where);
  const std::vector<GraphNode> nodes = nn_detail::module_graph(module, inputs);
  return Drawing(nodes).svg();
}

std::string to_svg(Module& module, std::initializer_list<NDArray> inputs, Where where) {
  return to_svg(module, std::span(inputs.begin(), inputs.size()), where);
}

void save_svg(const std::string& path, Module& module, std::span<const NDArray> inputs, Where where) {
  const CallSite site(where);
  const std::string text = to_svg(module, inputs, where);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) throw Error("picture '" + path + "' cannot be written");
}

void save_svg(const std::string& path, Module& module, std::initializer_list<NDArray> inputs, Where where) {
  save_svg(path, module, std::span(inputs.begin(), inputs.size()), where);
}

}  // namespace heddle
