# Flags live on the interface target reprise_flags, never in global variables.
option(REPRISE_WERROR "Warnings, which are errors, and checks of format strings (dev and CI)" OFF)
option(REPRISE_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
option(REPRISE_SHARED "Link components as shared libraries (dev and sanitizers: links cost less)" OFF)
option(REPRISE_PRECOMPILE "Precompile the system's headers" ON)
set(REPRISE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")
find_program(REPRISE_MOLD mold DOC "a faster linker")

add_library(reprise_flags INTERFACE)
target_compile_features(reprise_flags INTERFACE cxx_std_20)
target_compile_definitions(reprise_flags INTERFACE REPRISE_VERSION="${PROJECT_VERSION}")
# Every target has the same libraries' definitions and floating point, so that all share one precompiled header.
target_link_libraries(reprise_flags INTERFACE fmt::fmt spdlog::spdlog)
target_compile_options(reprise_flags INTERFACE -ffp-contract=off $<$<BOOL:${REPRISE_SHARED}>:-fPIC>)
if(REPRISE_WERROR)
    target_compile_options(reprise_flags INTERFACE
        -Werror -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Wconversion -Wsign-conversion
        -Wnull-dereference -Wformat=2)
else()
    target_compile_definitions(reprise_flags INTERFACE FMT_CONSTEVAL=) # checks of format strings cost time
endif()
if(CMAKE_CXX_COMPILER MATCHES "tidy.sh$") # with other options for it ninja looks at all files again
    file(SHA256 ${PROJECT_SOURCE_DIR}/.clang-tidy tidy_options)
    target_compile_definitions(reprise_flags INTERFACE REPRISE_TIDY_OPTIONS="${tidy_options}")
endif()
if(REPRISE_MOLD)
    target_link_options(reprise_flags INTERFACE -fuse-ld=mold)
endif()
if(REPRISE_SANITIZE)
    target_compile_options(reprise_flags INTERFACE
        -fsanitize=${REPRISE_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
    target_link_options(reprise_flags INTERFACE -fsanitize=${REPRISE_SANITIZE})
endif()
if(REPRISE_FUZZ)
    # The libraries need libFuzzer's coverage too, or it finds nothing in them.
    target_compile_options(reprise_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # libstdc++ 12's std::stable_sort uses what it has deprecated itself.
    target_compile_options(reprise_flags INTERFACE -Wno-deprecated-declarations)
endif()
if(CMAKE_COMPILER_IS_GNUCXX)
    # g++ 12 reports false null dereferences and maybe-uninitialized values inside inlined library code.
    # clang-tidy reads these options too, as clang.
    target_compile_options(reprise_flags INTERFACE
        -Wno-null-dereference -Wno-maybe-uninitialized -Wno-unknown-warning-option)
    if(CMAKE_UNITY_BUILD)
        # By itself g++ inlines less in a large file: queries cost up to a sixth more (docs/decisions/0012-compiling.md).
        # It collects garbage from 1 GB on.
        target_compile_options(reprise_flags INTERFACE
            --param=inline-unit-growth=400 --param=large-function-growth=1000 --param=ggc-min-heapsize=1000000)
    endif()
endif()

set(REPRISE_LIBRARY_KIND STATIC)
if(REPRISE_SHARED)
    set(REPRISE_LIBRARY_KIND SHARED)
endif()

# A header of the system's headers that most files include, compiled once. Files include what they use all the same:
# clang-tidy reads them without it.
function(reprise_precompiled name) # [LIBRARIES ...] HEADERS ...
    cmake_parse_arguments(arg "" "" "HEADERS;LIBRARIES" ${ARGN})
    if(NOT REPRISE_PRECOMPILE)
        return()
    endif()
    file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/${name}.cc CONTENT "// the precompiled header's own file\n")
    add_library(${name} OBJECT ${PROJECT_BINARY_DIR}/${name}.cc)
    target_link_libraries(${name} PRIVATE reprise_flags ${arg_LIBRARIES})
    target_precompile_headers(${name} PRIVATE ${arg_HEADERS})
endfunction()

set(REPRISE_SYSTEM_HEADERS <algorithm> <array> <bit> <cerrno> <charconv> <cmath> <csignal> <cstddef> <cstdint> <cstring>
    <deque> <filesystem> <fstream> <functional> <iterator> <limits> <map> <memory> <mutex> <numeric> <optional> <random>
    <set> <span> <sstream> <string> <string_view> <system_error> <thread> <tuple> <unordered_map> <unordered_set>
    <utility> <variant> <vector> <fmt/format.h> <spdlog/spdlog.h> ${PROJECT_SOURCE_DIR}/cmake/fmt_instances.hh)
reprise_precompiled(reprise_pch HEADERS ${REPRISE_SYSTEM_HEADERS})
if(BUILD_TESTING)
    add_custom_target(reprise_tests COMMENT "The test programs and what they start")
    reprise_precompiled(reprise_test_pch LIBRARIES GTest::gmock
        HEADERS ${REPRISE_SYSTEM_HEADERS} <gmock/gmock.h> <gtest/gtest.h>)
endif()

# reprise_library(NAME [ROOMS ...] [SOURCES ...] [HEADERS ...] [PUBLIC library ...] [PRIVATE library ...]): a component, or
# a part of one. Each header compiles alone (target NAME_verify_interface_header_sets).
function(reprise_library name)
    cmake_parse_arguments(arg "" "" "ROOMS;SOURCES;HEADERS;PUBLIC;PRIVATE" ${ARGN})
    add_library(${name} ${REPRISE_LIBRARY_KIND})
    foreach(room IN LISTS arg_ROOMS)
        get_target_property(sources ${room} REPRISE_SOURCES)
        target_sources(${name} PRIVATE ${sources})
    endforeach()
    target_sources(${name} PRIVATE ${arg_SOURCES})
    target_link_libraries(${name} PUBLIC reprise_flags ${arg_PUBLIC} ${arg_ROOMS} PRIVATE ${arg_PRIVATE})
    reprise_headers(${name} PUBLIC)
    reprise_precompile(${name} reprise_pch)
endfunction()

# reprise_room(NAME [SOURCES ...] [HEADERS ...] USES ...): a folder of a library. USES are the rooms and libraries of this
# project that stand below it; it may include nothing else (RepriseRooms.cmake). It is compiled as part of the library
# that lists it under ROOMS, so that the files of small folders share a unity file.
function(reprise_room name)
    cmake_parse_arguments(arg "" "" "SOURCES;HEADERS;USES" ${ARGN})
    add_library(${name} INTERFACE)
    target_link_libraries(${name} INTERFACE reprise_flags ${arg_USES})
    reprise_headers(${name} INTERFACE)
endfunction()

# The part that rooms and libraries share; uses the caller's arguments.
macro(reprise_headers name scope)
    target_sources(${name} ${scope} FILE_SET HEADERS BASE_DIRS ${PROJECT_SOURCE_DIR} FILES ${arg_HEADERS})
    list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    list(TRANSFORM arg_HEADERS PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/)
    set_target_properties(${name} PROPERTIES VERIFY_INTERFACE_HEADER_SETS ON
        REPRISE_SOURCES "${arg_SOURCES}" REPRISE_HEADERS "${arg_HEADERS}")
    set_property(GLOBAL APPEND PROPERTY REPRISE_ROOMS ${name})
endmacro()

# reprise_program(NAME [OF library] SOURCES ... LIBRARIES ...). OF: where nothing else links that component, the sources
# are compiled as part of it, in its unity file.
function(reprise_program name)
    cmake_parse_arguments(arg "" "OF" "SOURCES;LIBRARIES" ${ARGN})
    if(arg_OF AND CMAKE_UNITY_BUILD AND NOT BUILD_TESTING AND NOT REPRISE_FUZZ)
        target_sources(${arg_OF} PRIVATE ${arg_SOURCES})
        set(arg_SOURCES $<TARGET_OBJECTS:${arg_OF}>)
    endif()
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE reprise_flags ${arg_OF} ${arg_LIBRARIES})
    set_target_properties(${name} PROPERTIES LINKER_LANGUAGE CXX)
    reprise_precompile(${name} reprise_pch)
endfunction()

function(reprise_precompile name header)
    if(REPRISE_PRECOMPILE)
        target_precompile_headers(${name} REUSE_FROM ${header})
    endif()
endfunction()

# reprise_messages(NAME file.proto): a library of protobuf messages of the lite runtime.
function(reprise_messages name file)
    add_library(${name} ${REPRISE_LIBRARY_KIND} ${file})
    target_link_libraries(${name} PUBLIC protobuf::libprotobuf-lite)
    target_include_directories(${name} SYSTEM PUBLIC ${PROJECT_BINARY_DIR})
    protobuf_generate(TARGET ${name} LANGUAGE cpp)
endfunction()

# reprise_test(NAME LABEL unit|scenario|netns SOURCES ... LIBRARIES ...): one labeled line per test; `scenario` if its
# threads take turns, `netns` if it sends packets. The time limit ends what hangs; it has to hold on a machine that is
# busy with ten other things.
function(reprise_test name)
    if(NOT BUILD_TESTING)
        return()
    endif()
    cmake_parse_arguments(arg "" "LABEL" "SOURCES;LIBRARIES" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE reprise_flags ${arg_LIBRARIES} GTest::gmock_main)
    set_target_properties(${name} PROPERTIES UNITY_BUILD_BATCH_SIZE 8) # fewer than of a component: one is edited
    reprise_precompile(${name} reprise_test_pch)
    add_dependencies(reprise_tests ${name})
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT 1800)
endfunction()

# reprise_fuzz(NAME SOURCES ... LIBRARIES ... [PIECES form]): a libFuzzer target. SOURCES begin with the one that has
# LLVMFuzzerTestOneInput. Seeds lie in tests/fuzz/NAME/, words of the format in tests/fuzz/NAME.dict. PIECES is for
# input that is made of pieces with their sizes in front: the initializer of Form in tests/fuzz/pieces_mutator.cc.
# Without libFuzzer the seeds are taken by fuzz_seeds_test (tests/fuzz/CMakeLists.txt).
function(reprise_fuzz name)
    cmake_parse_arguments(arg "" "PIECES" "SOURCES;LIBRARIES" ${ARGN})
    foreach(file IN LISTS arg_SOURCES)
        get_filename_component(path ${file} ABSOLUTE)
        set_property(GLOBAL APPEND PROPERTY REPRISE_FUZZ_SOURCES_${name} ${path})
    endforeach()
    set_property(GLOBAL APPEND PROPERTY REPRISE_FUZZ_TARGETS ${name})
    set_property(GLOBAL APPEND PROPERTY REPRISE_FUZZ_LIBRARIES ${arg_LIBRARIES})
    if(NOT REPRISE_FUZZ)
        return()
    endif()
    add_executable(${name} ${arg_SOURCES})
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
    if(DEFINED arg_PIECES)
        target_sources(${name} PRIVATE ${PROJECT_SOURCE_DIR}/tests/fuzz/pieces_mutator.cc)
        target_compile_definitions(${name} PRIVATE "REPRISE_PIECES=${arg_PIECES}")
    endif()
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
