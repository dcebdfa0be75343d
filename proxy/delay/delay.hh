#pragma once
// What a packet waits for on its way: the model says how long, the line keeps it until then.

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"

#include <optional>

namespace reprise::proxy {

/// What becomes of one packet.
struct DrawnDelay {
    Nanoseconds delay = 0; ///< one way, on this side
    bool lost = false;     ///< dropped by the model, and counted
};

/// Draws a packet's drawn. Deterministic for a seed and an order of packets.
class DelayModel {
public:
    DelayModel() = default;
    DelayModel(const DelayModel&) = delete;
    DelayModel& operator=(const DelayModel&) = delete;
    virtual ~DelayModel() = default;

    /// `far` is the address whose distance counts: the OQDA beside a resolver or the
    /// meta-DNS-server, the client's address beside a server.
    virtual DrawnDelay draw(const IpAddress& far) = 0;
};

} // namespace reprise::proxy
