// Whatever is wrong with the CUDA backend or the driver is one line in cuda::status(), and tensors on a
// device are refused with it. The backend is looked for once in a process: each way has one of its own.
#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>

#include "sow/cuda.h"
#include "sow/error.h"

namespace sow {
namespace {

// Prints what is said about the backend, and whether it is refused as it should be.
[[noreturn]] void say_status(const char* library, const char* behaviour) {
  setenv("SOW_CUDA_LIBRARY", library, 1);
  setenv("FAKE_CUDA", behaviour, 1);
  const std::string status = cuda::status();
  bool refused = false;
  try {
    Tensor::zeros({2}, DType::float32, {DeviceType::cuda, 0});
  } catch (const Error& error) {
    refused = error.kind() == ErrorKind::device && std::string(error.what()).find(status) != std::string::npos;
  }
  const bool one_line = !status.empty() && status.find('\n') == std::string::npos;
  const bool absent = !cuda::available() && cuda::device_count() == 0;
  std::fprintf(stderr, "[%s]%s%s%s\n", status.c_str(), one_line ? "" : " not one line", absent ? "" : " but available",
               refused ? " refused" : "");
  std::exit(0);
}

void expect_status(const char* library, const char* behaviour, const std::string& words) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(say_status(library, behaviour), testing::ExitedWithCode(0), "\\[" + words + "\\] refused");
}

TEST(CudaBackendDeathTest, ALibraryThatIsNotThere) { expect_status("/nowhere/libsow_cuda.so", "", "no CUDA backend: .*"); }

TEST(CudaBackendDeathTest, AFileThatIsNoLibrary) { expect_status("/etc/passwd", "", "no CUDA backend: .*"); }

TEST(CudaBackendDeathTest, ALibraryOfAnotherVersion) {
  for (const char* way : {"no table", "another version", "another size", "another build"}) {
    expect_status(SOW_FAKE_CUDA, way, "no CUDA backend: .* was built for another version of sow");
  }
}

TEST(CudaBackendDeathTest, AnOldDriver) {
  expect_status(SOW_FAKE_CUDA, "old driver", "no CUDA device: cuda: the driver is older than the runtime");
}

TEST(CudaBackendDeathTest, NoDevice) { expect_status(SOW_FAKE_CUDA, "", "no CUDA device: none was found"); }

}  // namespace
}  // namespace sow
