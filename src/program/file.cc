// SPDX-License-Identifier: Apache-2.0
// Reads and replaces whole files.
#include "program/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <system_error>

#include "core/fail.h"

namespace sow::detail {
namespace {

// A descriptor that is closed at the end.
class File {
 public:
  explicit File(int descriptor) : descriptor_(descriptor) {}
  ~File() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  File(const File&) = delete;
  File& operator=(const File&) = delete;
  int get() const { return descriptor_; }
  bool close() {
    const int descriptor = descriptor_;
    descriptor_ = -1;
    return ::close(descriptor) == 0;
  }

 private:
  int descriptor_;
};

void expect_path(const char* op, const std::string& path) {
  if (path.find('\0') != std::string::npos) {
    fail(ErrorKind::argument, "{}: the path holds a null byte, where a file system would cut it",
         op);
  }
}

[[noreturn]] void cannot_write(const std::string& path, int error) {
  fail(ErrorKind::argument, "save: {} could not be written: {}", path,
       std::generic_category().message(error));
}

bool write_all(int descriptor, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::write(descriptor, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return false;
    bytes.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// Appends up to `count` bytes; fewer only at the end of the file.
void read_more(int descriptor, const std::string& path, uint64_t count, std::string& out) {
  constexpr uint64_t kPiece = 1 << 20;  // a size that a file claims is not believed in one piece
  while (count > 0) {
    const size_t before = out.size(), piece = static_cast<size_t>(std::min(count, kPiece));
    out.resize(before + piece);
    const ssize_t got = ::read(descriptor, out.data() + before, piece);
    out.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) {
      fail(ErrorKind::argument, "load: {} could not be read: {}", path,
           std::generic_category().message(errno));
    }
    if (got == 0) return;
    count -= static_cast<uint64_t>(got);
  }
}

// The folder a path lies in.
std::string folder_of(const std::string& path) {
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : slash == 0 ? "/" : path.substr(0, slash);
}

void write_in_place(const std::string& path, std::string_view bytes) {
  File file(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  if (file.get() < 0 || !write_all(file.get(), bytes) || !file.close()) cannot_write(path, errno);
}

// A new file in the folder, of a name that nobody else has.
int make_beside(const std::string& path, std::string& name) {
  static std::atomic<uint64_t> number{0};
  for (int tries = 0; tries < 100; ++tries) {
    name = text("{}/.sow-{}-{}.tmp", folder_of(path), ::getpid(), number.fetch_add(1));
    const int descriptor = ::open(name.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor >= 0 || errno != EEXIST) return descriptor;
  }
  return -1;
}

}  // namespace

void replace_file(const std::string& given, std::string_view bytes) {
  expect_path("save", given);
  // A link stays a link: what it points at is replaced.
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(given.c_str(), nullptr),
                                                         &std::free);
  const std::string path = real == nullptr ? given : real.get();
  struct stat old;
  const bool exists = ::stat(path.c_str(), &old) == 0;
  if (exists && !S_ISREG(old.st_mode)) return write_in_place(given, bytes);
  std::string beside;
  File file(make_beside(path, beside));
  if (file.get() < 0) cannot_write(given, errno);
  // Whoever may read the file that is replaced may read the new one.
  const bool written =
      write_all(file.get(), bytes) && (!exists || ::fchmod(file.get(), old.st_mode & 07777) == 0) &&
      ::fsync(file.get()) == 0 && file.close() && std::rename(beside.c_str(), path.c_str()) == 0;
  if (!written) {
    const int error = errno;
    ::unlink(beside.c_str());
    cannot_write(given, error);
  }
  // The new name is on the disk when the folder is; not every file system can say so.
  const File folder(::open(folder_of(path).c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (folder.get() >= 0) ::fsync(folder.get());
}

std::string read_file(const std::string& path, size_t header,
                      const std::function<uint64_t(std::string_view)>& size_of) {
  expect_path("load", path);
  const File file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (file.get() < 0) {
    fail(ErrorKind::argument, "load: {} could not be read: {}", path,
         std::generic_category().message(errno));
  }
  std::string bytes;
  read_more(file.get(), path, header, bytes);
  const uint64_t size = size_of(bytes);
  struct stat now;
  const bool regular = ::fstat(file.get(), &now) == 0 && S_ISREG(now.st_mode);
  if (regular && static_cast<uint64_t>(now.st_size) < size) {
    fail(ErrorKind::argument, "load: the file is damaged: it says that it has {} bytes, and has {}",
         size, now.st_size);
  }
  read_more(file.get(), path, size - header + 1, bytes);
  return bytes;
}

}  // namespace sow::detail
