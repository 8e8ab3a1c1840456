#include <typeinfo>

#include <heddle/layers.h>
#include <heddle/model.h>
#include <heddle/replaceable_calls.h>
#include <heddle/sequential.h>

#include "module/module_node.h"

namespace heddle {
namespace {

bool is_of_library(const Module& module) {
  return module.as_layer() || dynamic_cast<const Sequential*>(&module) || dynamic_cast<const Model*>(&module);
}

}  // namespace

bool has_replaceable_calls(const Module& module) {
  const nn_detail::ModuleNode& node = nn_detail::ModuleNode::of(module);
  if (!is_of_library(module) || !node.hooks(true).empty() || !node.hooks(false).empty()) return false;
  for (const nn_detail::ModuleNode::Entry& entry : node.entries)
    if (entry.module && !has_replaceable_calls(*entry.module)) return false;
  return true;
}

}  // namespace heddle
