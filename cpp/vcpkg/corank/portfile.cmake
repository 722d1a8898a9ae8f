# vcpkg's port, which builds from the repository that it lies in: `vcpkg install corank --overlay-ports=cpp/vcpkg`.
set(SOURCE_PATH ${CURRENT_PORT_DIR}/../..)
# Headers alone: a build for debugging would install the same.
set(VCPKG_BUILD_TYPE release)
vcpkg_cmake_configure(SOURCE_PATH ${SOURCE_PATH} OPTIONS -DCORANK_TESTS=OFF -DCORANK_INSTALL_FRAMES=OFF)
# The package file stays in share/corank/cmake, where find_package() looks as well: it finds boards and HAL from there.
vcpkg_cmake_install()
vcpkg_fixup_pkgconfig()
vcpkg_install_copyright(FILE_LIST ${SOURCE_PATH}/LICENSE-MIT ${SOURCE_PATH}/LICENSE-APACHE)
