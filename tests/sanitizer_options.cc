// SPDX-License-Identifier: Apache-2.0
// Tells LeakSanitizer about a leak that is not ours: libomp never frees what it keeps per thread.
extern "C" const char* __lsan_default_suppressions();
extern "C" const char* __lsan_default_suppressions() { return "leak:libomp.so"; }
