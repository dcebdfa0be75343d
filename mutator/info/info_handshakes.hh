#pragma once
// Round-trip times from the TCP handshakes of a capture.

#include "core/trace/reassembly/handshake.hh"
#include "mutator/info/histogram.hh"

#include <cstdint>
#include <string_view>

namespace reprise::mutator {

class HandshakeFigures {
public:
    void add(const trace::TcpHandshake& times);

    [[nodiscard]] std::uint64_t count() const { return rtt_.count(); }

    /// SYN to ACK, ns: the clients' round-trip times wherever the capture was made.
    [[nodiscard]] const Histogram& rtt() const { return rtt_; }

    /// SYN to SYN-ACK: from the capture point to the server and back, with the server's own time.
    [[nodiscard]] const Histogram& to_server() const { return to_server_; }

    /// SYN-ACK to ACK: from the capture point to the client and back.
    [[nodiscard]] const Histogram& to_client() const { return to_client_; }

    /// "server" or "client" where in the median less than a tenth of the time passes on that side,
    /// else "between"; empty without handshakes. With both below, the nearer one.
    [[nodiscard]] std::string_view capture_point() const;

private:
    Histogram rtt_;
    Histogram to_server_;
    Histogram to_client_;
};

} // namespace reprise::mutator
