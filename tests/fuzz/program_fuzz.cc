// Fuzzes the reader of saved programs: any bytes give an Error or a program that can be printed,
// saved again and, where it is small, run.
#include "program/plan_program.h"
#include "program/save.h"
#include "program/text.h"

namespace {

using namespace sow;

bool is_small(const detail::Graph& graph) {
  if (graph.nodes.size() > 64) return false;
  for (const detail::Value& value : graph.values) {
    int64_t count = 1;
    if (value.meta.device.type != DeviceType::cpu || value.meta.shape.size() > 8) return false;
    for (const int64_t extent : value.meta.shape) {
      if (extent < 0 || extent > 64) return false;
      count *= extent;
      if (count > 4096) return false;
    }
  }
  return true;
}

void run(const Program& program) {
  TensorList feeds;
  for (const detail::GraphInput& input : program.graph()->inputs) {
    const detail::Meta& meta = program.graph()->values[input.value].meta;
    feeds.push_back(Tensor::zeros(meta.shape, meta.dtype));
  }
  compile(program)(feeds);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  try {
    const std::shared_ptr<detail::Graph> graph = detail::read_graph(bytes);
    detail::to_text(*graph);
    detail::to_dot(*graph);
    detail::read_graph(detail::write_graph(*graph));
    Program program;
    *program.graph() = *graph;
    if (is_small(*graph) && !graph->outputs.empty()) run(program);
  } catch (const Error&) {
  }
  return 0;
}
