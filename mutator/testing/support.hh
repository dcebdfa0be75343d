#pragma once
// What the tests of this folder share.

#include "core/testing/support.hh" // IWYU pragma: export

#include <fstream>
#include <iterator>
#include <string>

namespace reprise::mutator {

inline std::string file_text(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
}

} // namespace reprise::mutator
