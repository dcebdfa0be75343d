#pragma once
// The fuzz targets as functions, for programs without libFuzzer.

#include <cstddef>
#include <cstdint>
#include <vector>

struct FuzzTarget {
    const char* name;
    int (*take)(const std::uint8_t* data, std::size_t size);
};

const std::vector<FuzzTarget>& fuzz_targets();
