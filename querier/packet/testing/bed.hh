#pragma once
// Two hosts and a wire. The test's process is the client's host; a thread of it in a network
// namespace of its own is the server's.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "querier/carrier/carrier.hh"
#include "querier/testing/servers.hh"

#include <atomic>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace reprise::querier::testing {

/// The client's end of the wire.
inline constexpr auto* kWire = "data";

/// Runs a shell command of set-up in the caller's network namespace; throws Error where it fails.
void run(const std::string& command);

class PacketBed {
public:
    /// What the server sends back for a query; called by two threads, one a family.
    using Answer = std::function<Message(Bytes query)>;

    /// Makes the wire and a server that answers on both its addresses. The server's way back to
    /// 10.0.0.0/8 and 2001:db8::/32 is the client. Throws Error.
    explicit PacketBed(Answer answer);
    ~PacketBed();
    PacketBed(const PacketBed&) = delete;
    PacketBed& operator=(const PacketBed&) = delete;

    [[nodiscard]] static Servers servers();
    [[nodiscard]] static Endpoint server_of(std::uint8_t family);

    /// Runs a command on the server's host, between two queries.
    void on_server(const std::string& command);

    /// Whom the server got queries from so far, one entry a query, by family.
    [[nodiscard]] std::vector<Endpoint> seen() const;

    [[nodiscard]] size_t count() const;

private:
    void serve();
    void run_pending();

    Answer answer_;
    std::promise<int> entered_;
    std::promise<void> wired_;
    std::promise<void> ready_;
    std::atomic<bool> done_ = false;
    std::vector<std::unique_ptr<UdpServer>> servers_; ///< while the thread serves
    std::mutex mutex_;                                ///< of what follows
    std::vector<std::packaged_task<void()>> pending_;
    std::thread thread_;
};

} // namespace reprise::querier::testing
