// SPDX-License-Identifier: Apache-2.0
// Exchange over MPI. A header alone, so that the library does not depend on any MPI: include it in
// a program that links one.
#pragma once

#include <mpi.h>

#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "sow/distributed.h"
#include "sow/error.h"

namespace sow::distributed {

class MpiExchange : public Exchange {
 public:
  // The communicator stays the caller's; all of its ranks take part. Arrays on GPUs need an MPI
  // that takes their addresses.
  explicit MpiExchange(MPI_Comm comm = MPI_COMM_WORLD) : comm_(comm) {
    expect(MPI_Comm_rank(comm, &rank_), "MPI_Comm_rank");
    expect(MPI_Comm_size(comm, &size_), "MPI_Comm_size");
  }
  int rank() const override { return rank_; }
  int size() const override { return size_; }

 protected:
  void gather(const void* mine, int64_t bytes, void* all) override {
    const int count = narrow(bytes);
    expect(MPI_Allgather(mine, count, MPI_BYTE, all, count, MPI_BYTE, comm_), "MPI_Allgather");
  }

  void exchange(const Tensor& rows, const std::vector<int64_t>& send, const Tensor& into,
                const std::vector<int64_t>& receive) override {
    int64_t row = static_cast<int64_t>(size_of(rows.dtype()));
    for (int d = 1; d < rows.dim(); ++d) row *= rows.size(d);
    MPI_Datatype type = MPI_BYTE;  // counts are of rows, which are fewer than 2^31
    expect(MPI_Type_contiguous(narrow(row), MPI_BYTE, &type), "MPI_Type_contiguous");
    expect(MPI_Type_commit(&type), "MPI_Type_commit");
    const Blocks out(send), in(receive);
    const int status = MPI_Alltoallv(rows.data(), out.counts.data(), out.begins.data(), type,
                                     into.data(), in.counts.data(), in.begins.data(), type, comm_);
    MPI_Type_free(&type);
    expect(status, "MPI_Alltoallv");
  }

 private:
  struct Blocks {
    explicit Blocks(const std::vector<int64_t>& sizes) {
      int64_t at = 0;
      for (const int64_t size : sizes) {
        counts.push_back(narrow(size));
        begins.push_back(narrow(at));
        at += size;
      }
    }
    std::vector<int> counts, begins;
  };

  static int narrow(int64_t count) {
    if (count > std::numeric_limits<int>::max())
      throw Error(ErrorKind::memory, "MpiExchange: a block of " + std::to_string(count) +
                                         " rows; MPI counts to 2^31 - 1");
    return static_cast<int>(count);
  }
  static void expect(int status, const char* function) {
    if (status != MPI_SUCCESS)
      throw Error(ErrorKind::device,
                  std::string(function) + " failed with code " + std::to_string(status));
  }

  MPI_Comm comm_;
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace sow::distributed
