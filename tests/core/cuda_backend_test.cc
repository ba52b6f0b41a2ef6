// SPDX-License-Identifier: Apache-2.0
// Whatever is wrong with the CUDA backend or the driver is one line in cuda::status(), and tensors
// on a device are refused with it. The backend is looked for once in a process: each way has one of
// its own.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

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
    refused = error.kind() == ErrorKind::device &&
              std::string(error.what()).find(status) != std::string::npos;
  }
  const bool one_line = !status.empty() && status.find('\n') == std::string::npos;
  const bool absent = !cuda::available() && cuda::device_count() == 0;
  std::fprintf(stderr, "[%s]%s%s%s\n", status.c_str(), one_line ? "" : " not one line",
               absent ? "" : " but available", refused ? " refused" : "");
  std::exit(0);
}

void expect_status(const char* library, const char* behaviour, const std::string& words) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(say_status(library, behaviour), testing::ExitedWithCode(0),
              "\\[" + words + "\\] refused");
}

TEST(CudaBackendDeathTest, ALibraryThatIsNotThere) {
  expect_status("/nowhere/libsow_cuda.so", "",
                "no CUDA backend: there is no /nowhere/libsow_cuda.so; for Python the package "
                "sow-cuda brings it");
}

TEST(CudaBackendDeathTest, APathThatIsNotAbsolute) {
  for (const char* path : {"libsow_cuda.so", "./libsow_cuda.so", "~/libsow_cuda.so"}) {
    expect_status(path, "", "no CUDA backend: SOW_CUDA_LIBRARY is .* must be an absolute path");
  }
}

// Also run by the test below, in a process of its own.
TEST(CudaBackendDeathTest, TheStatusIsOneLine) {
  const std::string status = cuda::status();
  std::printf("secure %lu [%s]\n", getauxval(AT_SECURE), status.c_str());
  EXPECT_FALSE(status.empty());
  EXPECT_EQ(status.find('\n'), std::string::npos);
}

TEST(CudaBackendDeathTest, ASetuidProgramIsNotToldWhatToLoad) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can make a program setuid root";
  namespace fs = std::filesystem;
  const fs::path folder = fs::temp_directory_path() / ("sow_setuid_" + std::to_string(getpid()));
  fs::create_directory(folder);
  fs::permissions(folder, fs::perms::all);
  const fs::path program = folder / "program", said = folder / "said";
  fs::copy_file("/proc/self/exe", program);
  ASSERT_EQ(chmod(program.c_str(), 04755), 0);
  const pid_t child = fork();
  if (child == 0) {
    const int out = open(said.c_str(), O_WRONLY | O_CREAT, 0666);
    dup2(out, STDOUT_FILENO);
    setenv("SOW_CUDA_LIBRARY", "/told/by/the/caller.so", 1);
    unsetenv("GTEST_TOTAL_SHARDS");
    unsetenv("GTEST_SHARD_INDEX");
    const char* const filter = "--gtest_filter=CudaBackendDeathTest.TheStatusIsOneLine";
    unsetenv("GTEST_OUTPUT");
    if (setgid(65534) == 0 && setuid(65534) == 0) {
      execl(program.c_str(), "program", filter, nullptr);
    }
    _exit(1);
  }
  int status = 0;
  waitpid(child, &status, 0);
  std::ifstream file(said);
  const std::string text(std::istreambuf_iterator<char>(file), {});
  fs::remove_all(folder);
  if (text.find("secure 0") != std::string::npos) GTEST_SKIP() << "no setuid programs here";
  EXPECT_NE(text.find("secure 1"), std::string::npos) << text;
  EXPECT_EQ(text.find("/told/by/the/caller.so"), std::string::npos) << text;
}

TEST(CudaBackendDeathTest, AFileThatIsNoLibrary) {
  expect_status("/etc/passwd", "", "no CUDA backend: .*");
}

TEST(CudaBackendDeathTest, ALibraryOfAnotherVersion) {
  for (const char* way : {"no table", "another version", "another size", "another build"}) {
    expect_status(SOW_FAKE_CUDA, way, "no CUDA backend: .* was built for another version of sow");
  }
}

TEST(CudaBackendDeathTest, AnOldDriver) {
  expect_status(SOW_FAKE_CUDA, "old driver",
                "no CUDA device: cuda: the driver is older than the runtime");
}

TEST(CudaBackendDeathTest, NoDevice) {
  expect_status(SOW_FAKE_CUDA, "", "no CUDA device: none was found");
}

}  // namespace
}  // namespace sow
