#pragma once
// The sink over TCP and TLS: answers each query with itself, QR and AA set.
//
// A process has 20,000 descriptors, so several share the port (SO_REUSEPORT). They count in memory
// shared with their parent.

#include "core/base/signals.hh"

#include <cstddef>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

namespace reprise::bench {

inline constexpr std::size_t kMostProcesses = 64;

struct TcpOptions {
    std::uint16_t port = 53;
    std::size_t processes = 8;
    std::uint32_t delay_ms = 0; ///< between reading a query and answering it
    std::string certificate;    ///< PEM file; empty: plain TCP
    std::string key;
    std::uint32_t early_data = 0; ///< bytes taken before a handshake's end (0-RTT); 0: none
    std::string keylog;           ///< file that takes the sessions' secrets, for tshark
};

/// Serves on all addresses until a signal comes; what was seen. Throws UsageError, SystemError.
nlohmann::ordered_json serve_tcp(const TcpOptions& options, const Signals& ending);

} // namespace reprise::bench
