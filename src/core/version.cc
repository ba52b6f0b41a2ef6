// SPDX-License-Identifier: Apache-2.0
// Says which version of the library is loaded.
#include "sow/version.h"

namespace sow {

const char* version() noexcept { return SOW_VERSION; }

}  // namespace sow
