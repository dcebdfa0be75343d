#pragma once
// Traces of a few hand-made packets, for the controller's tests.

#include "controller/options.hh"
#include "core/base/bytes.hh"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <ios>
#include <sstream>
#include <string>
#include <vector>

namespace reprise::controller::testing {

using Raw = std::vector<std::uint8_t>;

/// A DNS query for the root's NS with the given flags word.
inline Raw dns(unsigned flags) {
    Raw message;
    for (const unsigned word : {7U, flags, 1U, 0U, 0U, 0U}) {
        append16(message, word);
    }
    message.push_back(0);
    append16(message, 2);
    append16(message, 1);
    return message;
}

inline Raw udp(const Raw& message, unsigned source_port, unsigned destination_port) {
    Raw out;
    append16(out, source_port);
    append16(out, destination_port);
    append16(out, static_cast<unsigned>(8 + message.size()));
    append16(out, 0);
    out.insert(out.end(), message.begin(), message.end());
    return out;
}

/// A segment to port 53 with this payload; `flags` are those of the header (0x11: FIN, ACK).
inline Raw tcp(unsigned source_port, unsigned sequence, unsigned flags, const Raw& payload = {}) {
    Raw out;
    for (const unsigned word : {source_port, 53U, 0U, sequence, 0U, 0U, 0x5000U | flags}) {
        append16(out, word);
    }
    out.insert(out.end(), {0xff, 0xff, 0, 0, 0, 0});
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

/// A message with its length in front, as TCP carries it.
inline Raw prefixed(const Raw& message) {
    Raw out;
    append16(out, static_cast<unsigned>(message.size()));
    out.insert(out.end(), message.begin(), message.end());
    return out;
}

/// An IPv4 packet from 192.0.2.`host`.
inline Raw ipv4(std::uint8_t host, const Raw& payload, std::uint8_t protocol = 17) {
    Raw out{0x45, 0};
    append16(out, static_cast<unsigned>(20 + payload.size()));
    out.insert(out.end(), {0, 1, 0, 0, 64, protocol, 0, 0, 192, 0, 2, host, 198, 51, 100, 1});
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

inline Raw ipv6(const Raw& payload) {
    Raw out{0x60, 0, 0, 0};
    append16(out, static_cast<unsigned>(payload.size()));
    out.insert(out.end(), {17, 64});
    for (const std::uint8_t last : {std::uint8_t{1}, std::uint8_t{2}}) {
        Raw address{0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last};
        out.insert(out.end(), address.begin(), address.end());
    }
    out.insert(out.end(), payload.begin(), payload.end());
    return out;
}

template <typename T> void put(std::ofstream& file, T value) {
    file.write(reinterpret_cast<const char*>(&value), sizeof value);
}

class TinyTrace : public ::testing::Test {
protected:
    TinyTrace() {
        std::string pattern = ::testing::TempDir() + "/feedXXXXXX";
        folder_ = mkdtemp(pattern.data());
        options_.trace = folder_ + "/trace.pcap";
        options_.results = folder_;
    }

    ~TinyTrace() override { std::filesystem::remove_all(folder_); }

    void write(const std::vector<Raw>& packets) const {
        std::ofstream file(options_.trace, std::ios::binary);
        put(file, std::uint32_t{0xa1b23c4d});
        put(file, std::uint32_t{0x00040002});
        put(file, std::uint64_t{0});
        put(file, std::uint32_t{65535});
        put(file, std::uint32_t{101});
        for (std::uint32_t i = 0; i < packets.size(); ++i) {
            put(file, std::uint32_t{1'000'000'000});
            put(file, i);
            put(file, static_cast<std::uint32_t>(packets[i].size()));
            put(file, static_cast<std::uint32_t>(packets[i].size()));
            file.write(reinterpret_cast<const char*>(packets[i].data()),
                       static_cast<std::streamsize>(packets[i].size()));
        }
    }

    /// `count` queries of ten sources.
    void write_many(std::uint64_t count) const {
        std::vector<Raw> packets;
        packets.reserve(count);
        for (std::uint64_t i = 0; i < count; ++i) {
            packets.push_back(i >= 10 ? packets[i - 10]
                                      : ipv4(static_cast<std::uint8_t>(i), udp(dns(0), 1000, 53)));
        }
        write(packets);
    }

    static std::string read_file(const std::string& path) {
        std::stringstream text;
        text << std::ifstream(path, std::ios::binary).rdbuf();
        return text.str();
    }

    std::string folder_;
    Options options_;
};

} // namespace reprise::controller::testing
