// SPDX-License-Identifier: Apache-2.0
// The public face of compiled programs: feeds and results by name, by place, and explained.
#include "core/fail.h"
#include "program/run/executable.h"

namespace sow {

using detail::fail;

CompiledProgram::CompiledProgram(const Program& program, const CompileOptions& options)
    : executable_(std::make_shared<detail::Executable>(*program.graph(), options)) {}

void CompiledProgram::run(const Tensor* feeds, size_t feed_count, Tensor* results,
                          size_t result_count) const {
  executable_->run(feeds, feed_count, results, result_count);
}

TensorList CompiledProgram::operator()(const TensorList& feeds) const {
  TensorList results(executable_->graph().outputs.size());
  run(feeds.data(), feeds.size(), results.data(), results.size());
  return results;
}

void CompiledProgram::run_into(const TensorList& feeds, const TensorList& outputs) const {
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!outputs[i].defined()) {
      fail(ErrorKind::argument, "run: the tensor for output {} is undefined", i);
    }
  }
  // Tensors that are given are written into, never replaced.
  run(feeds.data(), feeds.size(), const_cast<Tensor*>(outputs.data()), outputs.size());
}

CompiledProgram::Named CompiledProgram::run(const Named& feeds, const Named& outputs) const {
  const detail::Graph& graph = executable_->graph();
  TensorList inputs(graph.inputs.size()), results(graph.outputs.size());
  size_t used = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const auto found = feeds.find(graph.inputs[i].name);
    if (found == feeds.end()) continue;
    inputs[i] = found->second;
    ++used;
  }
  for (const auto& feed : feeds) {
    if (used == feeds.size()) break;
    const bool known = std::any_of(graph.inputs.begin(), graph.inputs.end(),
                                   [&](const auto& input) { return input.name == feed.first; });
    if (!known) fail(ErrorKind::argument, "run: there is no input \"{}\"", feed.first);
  }
  for (const auto& output : outputs) {
    const auto found = std::find_if(graph.outputs.begin(), graph.outputs.end(),
                                    [&](const auto& o) { return o.name == output.first; });
    if (found == graph.outputs.end()) {
      fail(ErrorKind::argument, "run: there is no output \"{}\"", output.first);
    }
    results[found - graph.outputs.begin()] = output.second;
  }
  run(inputs.data(), inputs.size(), results.data(), results.size());
  Named named;
  for (size_t i = 0; i < results.size(); ++i) named.emplace(graph.outputs[i].name, results[i]);
  return named;
}

std::string CompiledProgram::explain(const std::vector<Dims>& shapes) const {
  return detail::explain(*executable_->plan_for(shapes));
}

ProgramStats CompiledProgram::stats(const std::vector<Dims>& shapes) const {
  return detail::stats_of(*executable_->plan_for(shapes));
}

}  // namespace sow
