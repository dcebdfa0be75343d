#pragma once
// The network of a scenario: packets take half a round trip, nothing is lost unless the scenario
// says so. What it writes down is what a capture at the server would show.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/testing/simulation/server.hh"
#include "querier/testing/simulation/timeline.hh"
#include "querier/testing/tls_server.hh"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <vector>

namespace reprise::querier::testing {

/// What a server that reads nothing lets a client send, in bytes.
constexpr size_t kWindow = 64UL << 10U;

/// One TCP connection, both ends.
struct Flow {
    unsigned number = 0; ///< from 1
    std::string source;
    Endpoint server;
    EventTag tag;
    bool watched = false;
    bool connected = false;
    bool fin = false;                ///< the server's FIN has arrived
    int error = 0;                   ///< what the client's next call says
    bool broken = false;             ///< by a RST
    bool closed = false;             ///< by the client
    bool server_done = false;        ///< the server's side is closed
    bool reads_not = false;          ///< the server takes nothing
    size_t unread = 0;               ///< bytes that it has not taken
    Nanoseconds unanswered = 0;      ///< sent into a cut link, first; 0 = nothing
    std::vector<std::uint8_t> inbox; ///< arrived, to be read by the client
    std::vector<std::uint8_t> heard; ///< by the server, not yet a whole message
    std::unique_ptr<MemoryTlsServer::Session> tls;
    size_t tls_taken = 0;                          ///< of what the session heard
    std::vector<std::vector<std::uint8_t>> unsaid; ///< answers to early data
};

using FlowPtr = std::shared_ptr<Flow>;

class SimulatedNetwork final : public Network {
public:
    /// `offset`: of the host's clock.
    SimulatedNetwork(Timeline& timeline, Rules& rules, MemoryTlsServer& tls, Nanoseconds offset = 0)
        : timeline_(timeline), clock_(timeline, offset), rules_(rules), tls_(tls) {}

    // What a scenario sets

    void set_round_trip(Nanoseconds time) { one_way_ = time / 2; }

    void stop_server();

    void start_server() { stopped_ = false; }

    void cut_link() { cut_ = true; }

    void restore_link();

    /// The next query is sent only so much later, although the querier has begun.
    void stall_next(Nanoseconds time) { stall_ = time; }

    /// The server ends a connection while nothing was asked.
    void end_flow(unsigned number, Action how);

    /// Whether the parent has something to say.
    void watch_parent(std::function<bool()> ready) { parent_ready_ = std::move(ready); }

    // Network

    [[nodiscard]] const Clock& clock() const override { return clock_; }

    std::unique_ptr<Carrier> udp_carrier(const CarrierWish& wish,
                                         const CarrierParts& parts) override;
    OpenedSocket connect(const Endpoint& server, const IpAddress& source,
                         bool kernel_stamps) override;

    /// Its sockets have no descriptors.
    void watch(int /*fd*/, std::uint32_t /*events*/, EventTag /*tag*/) override {}

    std::span<const epoll_event> wait(Nanoseconds now, Nanoseconds wake) override;

    [[nodiscard]] bool timer_fired() const override { return timer_fired_; }

    void sleep_until(Nanoseconds time) override;

    // What its sockets call

    [[nodiscard]] Timeline& timeline() { return timeline_; }

    /// A datagram to the server; `reply` takes the answer's bytes, or nothing for an ICMP error.
    using OnReply = std::function<void(std::vector<std::uint8_t>)>;
    void send_datagram(const std::string& source, const Endpoint& server,
                       std::vector<std::uint8_t> bytes, const OnReply& reply);
    void deliver(const FlowPtr& flow, std::vector<std::uint8_t> bytes);
    void client_closed(const FlowPtr& flow);
    void raise(const FlowPtr& flow);

    /// Before a datagram is sent.
    void stall();

    void raise_udp(std::uint8_t number) { udp_ready_.insert(number); }

private:
    void in(Nanoseconds delay, std::function<void()> action);
    void begin(const FlowPtr& flow);
    void serve(const FlowPtr& flow);
    void serve_message(const FlowPtr& flow, std::vector<std::uint8_t> message);
    void say(const FlowPtr& flow, std::vector<std::uint8_t> message, Action action);
    void send_bytes(const FlowPtr& flow, std::vector<std::uint8_t> bytes);
    void finish(const FlowPtr& flow);
    void reset(const FlowPtr& flow, int error);
    [[nodiscard]] bool is_tls(const Flow& flow) const;
    [[nodiscard]] bool ready() const;
    void guard_against_spinning();

    std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
    Timeline& timeline_;
    HostClock clock_;
    Rules& rules_;
    MemoryTlsServer& tls_;
    Nanoseconds one_way_ = 5 * kMillisecond;
    bool stopped_ = false;
    bool cut_ = false;
    Nanoseconds stall_ = 0;                   ///< of the next datagram
    std::vector<std::function<void()>> held_; ///< segments that wait for the link
    std::vector<FlowPtr> flows_;
    std::vector<FlowPtr> raised_;
    std::set<std::uint8_t> udp_ready_;
    std::function<bool()> parent_ready_;
    std::vector<epoll_event> events_;
    bool timer_fired_ = false;
    Nanoseconds looked_at_ = 0;
    unsigned looks_ = 0; ///< at this time
};

} // namespace reprise::querier::testing
