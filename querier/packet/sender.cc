#include "querier/packet/sender.hh"

#include "querier/packet/packet_sender.hh"
#include "querier/packet/route.hh"
#include "querier/packet/xsk_sender.hh"

#include <memory>
#include <string>
#include <system_error>

namespace reprise::querier {

std::unique_ptr<FrameSender> open_sender(const PacketRoute& route, std::string& why) {
    if (!XskSender::carries(route)) {
        why = "frames of this MTU are too large for an XDP socket";
        return std::make_unique<PacketSender>(route);
    }
    try {
        return std::make_unique<XskSender>(route);
    } catch (const std::system_error& error) {
        why = error.what();
        return std::make_unique<PacketSender>(route);
    }
}

} // namespace reprise::querier
