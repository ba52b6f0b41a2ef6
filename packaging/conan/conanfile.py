# SPDX-License-Identifier: Apache-2.0
"""The Conan recipe of the C++ library: `conan create packaging/conan -s compiler.cppstd=20` from a clone.

The shared library by default; -o "sow/*:shared=False" for the static one, -o "sow/*:cuda=True" for the CUDA backend.
"""

import pathlib

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load


class Sow(ConanFile):
    name = "sow"
    license = "Apache-2.0"
    description = "Every scatter, on every array, at memory speed, the same bits every time"
    topics = ("scatter", "reduction", "exact-summation", "deterministic")
    package_type = "library"
    settings = "os", "arch", "compiler", "build_type"
    options = {"shared": [True, False], "cuda": [True, False]}
    default_options = {"shared": True, "cuda": False}

    def set_version(self):
        self.version = load(self, pathlib.Path(self.recipe_folder, "../../VERSION")).strip()

    def export_sources(self):
        root = pathlib.Path(self.recipe_folder, "../..")
        for pattern in ("CMakeLists.txt", "VERSION", "LICENSE", "NOTICE", "cmake/*", "include/*", "src/*"):
            copy(self, pattern, root, self.export_sources_folder)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.os not in ("Linux", "Macos"):
            raise ConanInvalidConfiguration("sow is for Linux and macOS")

    def layout(self):
        cmake_layout(self)

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["SOW_BUILD_STATIC"] = "OFF"
        toolchain.cache_variables["SOW_PRECOMPILE"] = "ON"
        toolchain.cache_variables["SOW_CUDA"] = "ON" if self.options.cuda else "OFF"
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        for name in ("LICENSE", "NOTICE"):
            copy(self, name, self.source_folder, pathlib.Path(self.package_folder, "licenses"))
        CMake(self).install()

    def package_info(self):
        # The CMake files that sow installs are right in every case: they are what find_package(sow) takes.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = ["lib/cmake/sow"]
        self.cpp_info.libs = ["sow"]
        if not self.options.shared and self.settings.os == "Linux":
            self.cpp_info.system_libs = ["gomp", "pthread", "dl"]
