// How many threads and which instructions the library may use.
#pragma once

#include "sow/export.h"

namespace sow {

// The number of threads an operation may use. It starts as OMP_NUM_THREADS or, without it, as the
// number of processors this process may run on. No result depends on it.
SOW_API int get_num_threads();

// Sets that number for the whole process, from 1 to 1024. Other users of OpenMP do not notice.
SOW_API void set_num_threads(int count);

// The vector instructions that kernels are chosen by: "portable", "avx2" or "avx512".
SOW_API const char* instruction_set();

}  // namespace sow
