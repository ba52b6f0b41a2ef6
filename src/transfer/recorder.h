// SPDX-License-Identifier: Apache-2.0
// A Recorder takes note of Transfers and Maps instead of letting them run: how a program is
// planned. A Watcher takes note of what does run: how a recipe is made.
#pragma once

#include "core/tensor/address_source.h"
#include "sow/tensor.h"

namespace sow::detail {

struct Transfer;
struct Map;
struct IndexedBackward;

// While one is set on a thread, execute() hands it everything, and new tensors get an address that
// no memory lies behind.
class Recorder : public AddressSource {
 public:
  virtual void record(const Transfer& transfer, Device device) = 0;
  virtual void record(const Map& map, Device device) = 0;
  virtual void record(const IndexedBackward& work, const Transfer& places) = 0;

 protected:
  ~Recorder() = default;
};

Recorder* current_recorder();

class RecordWith {
 public:
  explicit RecordWith(Recorder* recorder);
  ~RecordWith();
  RecordWith(const RecordWith&) = delete;
  RecordWith& operator=(const RecordWith&) = delete;

 private:
  Recorder* previous_;
};

// While one is set on a thread, execute() shows it everything that it runs.
class Watcher {
 public:
  virtual void on_run(const Transfer& transfer, Device device) = 0;
  virtual void on_data_read() = 0;  // anything else was run, or data was looked at

 protected:
  ~Watcher() = default;
};

Watcher* current_watcher();

class WatchWith {
 public:
  explicit WatchWith(Watcher* watcher);
  ~WatchWith();
  WatchWith(const WatchWith&) = delete;
  WatchWith& operator=(const WatchWith&) = delete;

 private:
  Watcher* previous_;
};

}  // namespace sow::detail
