# BPF programs: compiled by clang and embedded in a static library, so that a program needs no file beside it.
pkg_check_modules(bpf REQUIRED IMPORTED_TARGET libbpf)
find_program(REPRISE_BPF_CLANG NAMES clang-19 clang DOC "clang with the bpf target")

# reprise_bpf(NAME program.bpf.c): the library NAME with the header NAME.hh, which declares
# `std::span<const std::uint8_t> reprise::bpf::NAME()`: the object file, for libbpf's bpf_object__open_mem. Where clang
# is missing the object is empty, and whoever loads it says so.
# The program may include headers by their path from the project's root.
function(reprise_bpf name source)
    get_filename_component(source ${source} ABSOLUTE)
    set(folder ${CMAKE_CURRENT_BINARY_DIR}/bpf)
    set(object ${folder}/${name}.bpf.o)
    file(MAKE_DIRECTORY ${folder})
    # The bpf target knows no multiarch folder, where Debian keeps asm/types.h. -g makes the BTF that maps need.
    if(REPRISE_BPF_CLANG)
        add_custom_command(OUTPUT ${object} VERBATIM
            DEPENDS ${source}
            DEPFILE ${object}.d
            COMMAND ${REPRISE_BPF_CLANG} -target bpf -mcpu=v3 -O2 -g -Wall -Wextra -Werror
                -I${PROJECT_SOURCE_DIR} -isystem /usr/include/${CMAKE_LIBRARY_ARCHITECTURE}
                -MD -MF ${object}.d -MT ${object} -c ${source} -o ${object}
            COMMENT "Compiling BPF program ${name}")
    else()
        message(STATUS "${name} is left out: clang is missing; apt-get install clang-19")
        file(WRITE ${object} "")
    endif()

    file(CONFIGURE OUTPUT ${folder}/${name}.hh @ONLY CONTENT [[#pragma once
#include <cstdint>
#include <span>

namespace reprise::bpf {

/// The BPF object file.
std::span<const std::uint8_t> @name@();

} // namespace reprise::bpf
]])
    file(CONFIGURE OUTPUT ${folder}/${name}.cc @ONLY CONTENT [[#include "@name@.hh"

asm(".section .rodata\n"
    ".balign 16\n"
    "reprise_@name@_begin:\n"
    ".incbin \"@object@\"\n"
    "reprise_@name@_end:\n"
    ".byte 0\n"
    ".previous\n");

extern "C" const std::uint8_t begin_of_object[] asm("reprise_@name@_begin");
extern "C" const std::uint8_t end_of_object[] asm("reprise_@name@_end");

namespace reprise::bpf {

std::span<const std::uint8_t> @name@() { return {begin_of_object, end_of_object}; }

} // namespace reprise::bpf
]])
    set_source_files_properties(${folder}/${name}.cc PROPERTIES OBJECT_DEPENDS ${object})
    add_library(${name} STATIC ${folder}/${name}.cc)
    # Neither a unity file nor ccache sees that the object is part of the file.
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF CXX_COMPILER_LAUNCHER "")
    target_sources(${name}
        PUBLIC FILE_SET HEADERS BASE_DIRS ${folder} FILES ${folder}/${name}.hh)
    target_link_libraries(${name} PRIVATE reprise_flags)
endfunction()
