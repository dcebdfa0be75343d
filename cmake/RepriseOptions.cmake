# Flags live on the interface target reprise_flags, never in global variables.
option(REPRISE_WERROR "Treat warnings as errors (dev and CI)" OFF)
option(REPRISE_FUZZ "Build the libFuzzer targets (needs clang)" OFF)
set(REPRISE_SANITIZE "" CACHE STRING "Sanitizers, as for -fsanitize=")

add_library(reprise_flags INTERFACE)
target_compile_features(reprise_flags INTERFACE cxx_std_20)
target_compile_definitions(reprise_flags INTERFACE REPRISE_VERSION="${PROJECT_VERSION}")
target_compile_options(reprise_flags INTERFACE
    -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast -Wcast-align -Wconversion
    -Wsign-conversion -Wnull-dereference -Wformat=2
    $<$<BOOL:${REPRISE_WERROR}>:-Werror>)
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
    target_compile_options(reprise_flags INTERFACE -Wno-null-dereference)
    if(REPRISE_SANITIZE)
        target_compile_options(reprise_flags INTERFACE -Wno-maybe-uninitialized)
    endif()
endif()

# reprise_test(NAME LABEL unit|scenario|netns|slow SOURCES ... LIBRARIES ...): one labelled line per test.
function(reprise_test name)
    if(NOT BUILD_TESTING)
        return()
    endif()
    cmake_parse_arguments(arg "" "LABEL;TIMEOUT" "SOURCES;LIBRARIES" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES} GTest::gmock_main)
    add_test(NAME ${name} COMMAND ${name})
    if(NOT arg_TIMEOUT)
        set(arg_TIMEOUT 60)
    endif()
    set_tests_properties(${name} PROPERTIES LABELS ${arg_LABEL} TIMEOUT ${arg_TIMEOUT}
        SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\]")
endfunction()

# reprise_fuzz(NAME SOURCES ... LIBRARIES ...): a libFuzzer target; its seeds lie in tests/fuzz/NAME/.
function(reprise_fuzz name)
    if(NOT REPRISE_FUZZ)
        return()
    endif()
    cmake_parse_arguments(arg "" "" "SOURCES;LIBRARIES" ${ARGN})
    add_executable(${name} ${arg_SOURCES})
    target_link_libraries(${name} PRIVATE ${arg_LIBRARIES})
    target_compile_options(${name} PRIVATE -fsanitize=fuzzer)
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
endfunction()
