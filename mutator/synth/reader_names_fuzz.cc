// Lists of names: of a list's lines those that are names, and the top-level domains of a public
// suffix list.
#include "mutator/synth/names.hh"

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <sstream>
#include <string>
#include <string_view>

namespace {

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

/// Labels of 1 to 63 bytes up to its end.
bool is_wire_name(std::string_view wire) {
    while (!wire.empty()) {
        const auto label = static_cast<unsigned char>(wire.front());
        if (label == 0 || label > 63 || label >= wire.size()) {
            return false;
        }
        wire.remove_prefix(label + 1U);
    }
    return true;
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    reprise::mutator::NameList names;
    std::istringstream list(text);
    for (std::string line; std::getline(list, line);) {
        add_line(line, names);
    }
    for (size_t i = 0; i < names.size(); ++i) {
        require(names.wire(i).size() <= 254 && is_wire_name(names.wire(i)));
    }
    std::istringstream lines(text);
    for (const std::string& domain : reprise::mutator::read_tlds(lines)) {
        require(!domain.empty() && domain.size() <= 63);
    }
    return 0;
}
