// SPDX-License-Identifier: Apache-2.0
// Everything: tensors, operations, settings.
#pragma once

#include "sow/export.h"  // first: it says so where C++20 is missing

#include "sow/autograd.h"
#include "sow/cuda.h"
#include "sow/dims.h"
#include "sow/distributed.h"
#include "sow/dlpack.h"
#include "sow/dtype.h"
#include "sow/error.h"
#include "sow/groups.h"
#include "sow/index.h"
#include "sow/limits.h"
#include "sow/math.h"
#include "sow/memory.h"
#include "sow/ops.h"
#include "sow/program.h"
#include "sow/reduce.h"
#include "sow/runtime.h"
#include "sow/tensor.h"
#include "sow/version.h"
