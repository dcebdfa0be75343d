#include "mutator/info/info_handshakes.hh"

#include "core/trace/reassembly/handshake.hh"

#include <algorithm>
#include <cstdint>
#include <string_view>

namespace reprise::mutator {

void HandshakeFigures::add(const trace::TcpHandshake& times) {
    rtt_.add(times.ack - times.syn);
    to_server_.add(times.syn_ack - times.syn);
    to_client_.add(times.ack - times.syn_ack);
}

std::string_view HandshakeFigures::capture_point() const {
    if (count() == 0) {
        return {};
    }
    const std::int64_t server = to_server_.quantile(0.5);
    const std::int64_t client = to_client_.quantile(0.5);
    if (10 * std::min(server, client) >= rtt_.quantile(0.5)) {
        return "between";
    }
    return server <= client ? "server" : "client";
}

} // namespace reprise::mutator
