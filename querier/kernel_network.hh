#pragma once
// The network as the kernel gives it, and the process that lives on it.

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "querier/carrier/carrier.hh"
#include "querier/carrier/socket.hh"
#include "querier/process.hh"

#include <memory>
#include <optional>
#include <span>
#include <sys/epoll.h>

namespace reprise::querier {

class KernelNetwork final : public Network {
public:
    /// Readable: reported as an event of the parent (EventKind::kControl).
    void watch_parent(int fd) { poller_.add(fd, EPOLLIN, {.kind = EventKind::kControl}); }

    [[nodiscard]] const Clock& clock() const override { return system_clock(); }

    std::unique_ptr<Carrier> udp_carrier(const CarrierWish& wish,
                                         const CarrierParts& parts) override;

    OpenedSocket connect(const Endpoint& server, const std::optional<IpAddress>& source,
                         bool kernel_stamps) override {
        return open_tcp(poller_, clock(), server, source, kernel_stamps);
    }

    std::span<const epoll_event> wait(Nanoseconds now, Nanoseconds wake) override {
        return poller_.wait(now, wake);
    }

    [[nodiscard]] bool timer_fired() const override { return poller_.timer_fired(); }

    void sleep_until(Nanoseconds time) override;

private:
    Poller poller_;
};

/// `reprise-querier query`.
int run_query(QueryOptions options);

} // namespace reprise::querier
