#pragma once
// Carries packets from the device through the rewriting, and the delay line where there is one,
// back to the device.
//
// Cost. What this process computes is small against its system calls (0.3 of 5 µs a packet), and
// what those do is mostly the host's: a write to the device routes the packet, forwards it over the
// link and, where the other end is on the same machine, runs the receiver's stack and wakes its
// process, all on our account. See link_sender.hh for the way past the host's routing.

#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "proxy/delay/delay_model.hh"
#include "proxy/rewrite/rewrite.hh"
#include "proxy/statistics.hh"
#include "proxy/tun/link_sender.hh"
#include "proxy/tun/tun.hh"

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace reprise::proxy {

class Loop {
public:
    /// `device`, `statistics` and `clock` must outlive the loop. `model` is null where nothing
    /// waits. `link` is null where every packet goes back to the device.
    Loop(const Device& device, Routes routes, DelayModel* model, LinkSender* link,
         Statistics& statistics, const Clock& clock);

    /// The packets that wait at the device, at most a batch of them, so that signals and due
    /// packets get their turn. Throws Error where the device has vanished.
    void read_batch();

    /// Writes what is due, at most a few batches: the rest has its turn after a look at the device.
    void release_due(Nanoseconds now);

    /// When release_due() has something to do next.
    [[nodiscard]] std::optional<Nanoseconds> next_due() const { return line_.next_due(); }

private:
    void take(std::span<std::uint8_t> packet);
    void hold(std::span<const std::uint8_t> packet, const Outcome& outcome);
    void send(Bytes packet);
    void write(Bytes packet);
    void flush();

    const Device& device_;
    Routes routes_;
    DelayModel* model_;
    LinkSender* link_;
    Statistics& statistics_;
    const Clock& clock_;
    DelayLine line_;
    std::vector<std::uint8_t> buffer_;
    std::vector<Nanoseconds> released_; ///< when what flush() sends was due
};

} // namespace reprise::proxy
