#pragma once
// What tests of several components use: a temporary folder, a query made by hand.

#include "core/dns/message.hh"
#include "core/dns/name.hh"

#include <cerrno>
#include <cstdint>
#include <filesystem>
#include <stdlib.h>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace reprise {

/// A folder that vanishes with its owner.
class TemporaryFolder {
public:
    TemporaryFolder()
        : path_((std::filesystem::temp_directory_path() / "reprise-test-XXXXXX").string()) {
        if (::mkdtemp(path_.data()) == nullptr) {
            throw std::system_error(errno, std::generic_category(), "mkdtemp " + path_);
        }
    }

    ~TemporaryFolder() {
        std::error_code ignored;
        std::filesystem::remove_all(path_, ignored);
    }

    TemporaryFolder(const TemporaryFolder&) = delete;
    TemporaryFolder& operator=(const TemporaryFolder&) = delete;

    [[nodiscard]] std::string file(const std::string& name) const { return path_ + "/" + name; }

    [[nodiscard]] bool empty() const { return std::filesystem::is_empty(path_); }

private:
    std::string path_;
};

/// A query for "www.example".
inline std::vector<std::uint8_t> query_bytes(std::uint16_t id, std::string_view name,
                                             std::uint16_t type = 1) {
    std::vector<std::uint8_t> out;
    build_query(out, {.id = id, .type = type}, parse_name(name).value_or(Name()).bytes());
    return out;
}

} // namespace reprise
