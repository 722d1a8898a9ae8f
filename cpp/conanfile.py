"""Conan's recipe: `conan create cpp`. It packs what `cmake --install` installs, without the reader of frames, which cargo builds."""

from conan import ConanFile
from conan.errors import ConanInvalidConfiguration
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load
import os
import re


class Corank(ConanFile):
    name = "corank"
    description = "Coroutines with priorities for C++20, without heap, exceptions or RTTI"
    license = "MIT OR Apache-2.0"
    url = homepage = "https://github.com/corank/corank"
    topics = ("coroutines", "embedded", "header-only", "priorities", "scheduler")
    package_type = "header-library"
    settings = "os", "arch", "compiler", "build_type"
    exports_sources = "CMakeLists.txt", "cmake/*", "include/*", "mcu/board/*", "mcu/hal/*", "template/*", "LICENSE-*"
    no_copy_source = True

    def set_version(self):
        project = load(self, os.path.join(self.recipe_folder, "CMakeLists.txt"))
        self.version = re.search(r"VERSION (\d+\.\d+\.\d+)", project).group(1)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        check_min_cppstd(self, 20)
        if self.settings.compiler == "msvc":
            raise ConanInvalidConfiguration("corank needs GCC 12 or later, or clang 19 or later")

    def package_id(self):
        self.info.clear()

    def generate(self):
        toolchain = CMakeToolchain(self)
        toolchain.variables["CORANK_TESTS"] = False
        toolchain.variables["CORANK_INSTALL_FRAMES"] = False
        toolchain.generate()

    def package(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.install()
        copy(self, "LICENSE-*", self.source_folder, os.path.join(self.package_folder, "licenses"))

    def package_info(self):
        # The library's own package file, which also has the functions for firmware.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("share", "corank", "cmake")]
        self.cpp_info.bindirs = []
        self.cpp_info.libdirs = []
