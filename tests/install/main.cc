// Uses the installed library as a stranger would: the version of header and library agree.
#include <cstdio>
#include <cstring>

#include "sow/version.h"

int main() {
  std::printf("sow %s\n", sow::version());
  return std::strcmp(sow::version(), SOW_VERSION) == 0 ? 0 : 1;
}
