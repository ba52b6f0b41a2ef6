// SPDX-License-Identifier: Apache-2.0
// Fuzzes the reader of saved programs and what it reads: any bytes give an Error or a program that
// can be printed, saved again and, where it is small, run with random feeds: optimised and as
// written, on one thread and on three, with the same bits.
#include <cstdio>
#include <cstdlib>
#include <map>

#include "fuzz/program_input.h"
#include "program/plan/plan_program.h"
#include "program/save.h"
#include "program/text.h"
#include "random_values.h"
#include "sow/sow.h"
#include "transfer/plan/plan.h"

namespace {

using namespace sow;

constexpr int64_t kMostUnknown = 4;  // what an unknown extent becomes

bool is_small(const detail::Graph& graph) {
  if (graph.nodes.size() > 64 || graph.outputs.empty()) return false;
  int gradients = 0;
  for (const detail::GraphNode& node : graph.nodes) gradients += node.op == nullptr;
  if (gradients > 3) return false;
  for (const detail::Value& value : graph.values) {
    int64_t count = 1;
    if (value.meta.device.type != DeviceType::cpu || value.meta.shape.size() > 6) return false;
    for (const int64_t extent : value.meta.shape) {
      if (extent > 64) return false;
      count *= extent < 0 ? kMostUnknown : extent;
      if (count > 4096) return false;
    }
  }
  return true;
}

// Unknown extents are drawn, those of one name once; keys are near the range they index.
TensorList draw_feeds(const detail::Graph& graph, uint64_t seed) {
  test::Draw draw(seed);
  std::map<std::string, int64_t> named;
  TensorList feeds;
  for (const detail::GraphInput& input : graph.inputs) {
    const detail::Meta& meta = graph.values[input.value].meta;
    Dims shape = meta.shape;
    for (size_t d = 0; d < shape.size(); ++d) {
      if (shape[d] >= 0) continue;
      shape[d] = draw.between(0, kMostUnknown);
      const std::string& name = input.extents[d];
      if (!name.empty()) shape[d] = named.try_emplace(name, shape[d]).first->second;
    }
    const Tensor feed = Tensor::zeros(shape, meta.dtype);
    const int64_t count = feed.numel();
    if (count != 0 && (meta.dtype == DType::int64 || meta.dtype == DType::int32)) {
      const int64_t most = draw.between(0, 6), least = draw.chance(70) ? 0 : -most - 1;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t key = draw.between(least, most);
        if (meta.dtype == DType::int64) {
          static_cast<int64_t*>(feed.data())[i] = key;
        } else {
          static_cast<int32_t*>(feed.data())[i] = static_cast<int32_t>(key);
        }
      }
    } else if (count != 0) {
      test::fill_random(draw, meta.dtype, test::draw_kind(draw), count, feed.data());
    }
    feeds.push_back(feed);
  }
  return feeds;
}

// The results as bytes; all errors are alike, because passes may meet another one first.
std::string outcome(const Program& program, const TensorList& feeds, bool optimize, int threads) {
  const int previous = get_num_threads();
  set_num_threads(threads);
  const detail::ShareSmallWork share(threads > 1);
  std::string out;
  try {
    CompileOptions options;
    options.optimize = optimize;
    for (const Tensor& result : CompiledProgram(program, options)(feeds)) {
      const Tensor dense = result.contiguous();
      out += name_of(dense.dtype()) + to_string(dense.shape());
      if (dense.numel() != 0) out.append(static_cast<const char*>(dense.data()), dense.nbytes());
    }
  } catch (const Error&) {
    out = "an error";
  }
  set_num_threads(previous);
  return out;
}

void run(const Program& program, uint64_t seed) {
  const TensorList feeds = draw_feeds(*program.graph(), seed);
  const std::string expected = outcome(program, feeds, false, 1);
  for (const bool optimize : {false, true}) {
    for (const int threads : {3, 1}) {
      if (!optimize && threads == 1) continue;
      if (outcome(program, feeds, optimize, threads) == expected) continue;
      std::fprintf(stderr, "%s, %d threads: another result than as written on one\n%s\n",
                   optimize ? "optimised" : "as written", threads, program.to_string().c_str());
      std::abort();
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const test::ProgramInput input = test::split_input(data, size);
  try {
    const std::shared_ptr<detail::Graph> graph = detail::read_graph(input.graph);
    detail::to_text(*graph);
    detail::to_dot(*graph);
    const std::string saved = detail::write_graph(*graph);
    if (detail::write_graph(*detail::read_graph(saved)) != saved) std::abort();
    Program program;
    *program.graph() = *graph;
    if (is_small(*graph)) run(program, input.seed);
  } catch (const Error&) {
  }
  return 0;
}
