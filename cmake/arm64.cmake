# Toolchain of programs for arm64 on a machine of another architecture: Debian's cross compiler, and arm64's libraries
# beside the machine's own; docs/development.md names the packages. Code generators (protoc, clang for BPF) are the
# machine's, and qemu-user starts the tests.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(PKG_CONFIG_EXECUTABLE aarch64-linux-gnu-pkg-config)
set(CMAKE_CROSSCOMPILING_EMULATOR qemu-aarch64)
