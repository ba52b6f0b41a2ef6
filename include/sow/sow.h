// Everything: tensors, operations, settings.
#pragma once

#include "sow/autograd.h"
#include "sow/cuda.h"
#include "sow/dims.h"
#include "sow/dtype.h"
#include "sow/error.h"
#include "sow/index.h"
#include "sow/math.h"
#include "sow/ops.h"
#include "sow/program.h"
#include "sow/recipe.h"
#include "sow/reduce.h"
#include "sow/runtime.h"
#include "sow/tensor.h"
#include "sow/version.h"
