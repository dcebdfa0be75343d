#pragma once
// The querier process: one thread between its parent (the host's distributor) and the server under
// test.

#include "core/base/fd.hh"
#include "core/wire/frame.hh"
#include "querier/carrier/carrier.hh"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <vector>

namespace reprise::querier {

struct QueryOptions {
    int control_fd = 3;           ///< socket pair to the parent; owned from then on
    std::string name;             ///< host's name in the experiment
    unsigned index = 0;           ///< of this querier on its host
    std::string run;              ///< must match the parent's
    std::string results;          ///< folder for .rq and .ra files
    std::vector<Prefix> prefixes; ///< of this host, for source mode mapped
    std::optional<unsigned> cpu;  ///< run on this processor only
    size_t descriptors = 1024;    ///< this process may have
    std::string failure;          ///< why it cannot run on this host; empty where it can
};

/// The way to the parent, the host's distributor. Never blocks: what cannot be sent at once waits
/// in a buffer.
class ControlLink {
public:
    virtual ~ControlLink() = default;

    virtual void send(const wire::Frame& frame) = 0;

    /// Writes what waits; what the parent does not take, for at most `limit_ms` milliseconds.
    virtual void flush(int limit_ms) = 0;

    /// Reads what is there, a bounded amount, good until the next call. Nothing where the parent
    /// closed its end.
    virtual std::optional<Bytes> receive() = 0;
};

/// A querier: runs until the trace has ended and everything is settled, or until stopped. Exit
/// status: 0 clean, 1 not.
int run_querier(const QueryOptions& options, ControlLink& link, Network& network);

/// The network as the kernel gives it: epoll with one absolute timer. A timerfd and not epoll's own
/// timeout: that one is rounded by a thousandth of its length, 10 us in 10 ms.
class KernelNetwork final : public Network {
public:
    KernelNetwork();

    [[nodiscard]] const Clock& clock() const override { return system_clock(); }

    std::unique_ptr<Carrier> udp_carrier(const CarrierWish& wish,
                                         const CarrierParts& parts) override;

    OpenedSocket connect(const Endpoint& server, const IpAddress& source,
                         bool kernel_stamps) override;
    void watch(int fd, std::uint32_t events, EventTag tag) override;
    std::span<const epoll_event> wait(Nanoseconds now, Nanoseconds wake) override;

    [[nodiscard]] bool timer_fired() const override { return timer_fired_; }

    void sleep_until(Nanoseconds time) override;

private:
    FileDescriptor epoll_;
    FileDescriptor timer_;
    Nanoseconds armed_ = 0;
    bool timer_fired_ = false;
    std::array<epoll_event, kMostEvents + 1> events_{}; ///< the timer's, too
};

/// `reprise-querier query`.
int run_query(QueryOptions options);

} // namespace reprise::querier
