// SPDX-License-Identifier: Apache-2.0
// Graphs of captured calls, as the border hands them on: opaque pointers.
#pragma once

#include "transfer/device/cuda_table.h"

namespace sow::detail::cuda {

// A stream of the backend's own that is captured from now on, by this thread.
void* begin_capture(int device);
// Ends the capture and gives the graph, ready to be launched; null where it is not wanted.
void* end_capture(int device, void* stream, bool wanted);
void launch_graph(const CudaContext& context, void* graph);
void destroy_graph(void* graph);

}  // namespace sow::detail::cuda
