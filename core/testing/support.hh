#pragma once
// What tests of several components use: a temporary folder, messages made by hand.

#include "core/dns/message.hh"
#include "core/dns/name.hh"
#include "core/wire/query.hh"

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

// NOLINTBEGIN(bugprone-unchecked-optional-access): an empty one ends the test, as it should.
/// A response to query_bytes(): QR set and the rcode, the question as it is.
inline std::vector<std::uint8_t> reply_bytes(std::uint16_t id, std::string_view name,
                                             std::uint8_t rcode = 0, std::uint16_t type = 1) {
    auto out = query_bytes(id, name, type);
    out[2] |= 0x80;
    out[3] = rcode;
    return out;
}

/// A message between client 198.18.0.1:PORT and server 192.0.2.53:53; the bytes are borrowed.
inline Query message_of(Nanoseconds time, const std::vector<std::uint8_t>& bytes,
                        std::uint16_t port = 40'000, std::uint64_t connection = 0) {
    Query query;
    query.time = time;
    query.message = bytes;
    const Endpoint client{*IpAddress::parse("198.18.0.1"), port};
    const Endpoint server{*IpAddress::parse("192.0.2.53"), 53};
    query.source = query.is_response() ? server : client;
    query.destination = query.is_response() ? client : server;
    query.transport = connection == 0 ? Transport::kUdp : Transport::kTcp;
    query.connection = connection;
    return query;
}

// NOLINTEND(bugprone-unchecked-optional-access)

} // namespace reprise
