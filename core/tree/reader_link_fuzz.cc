// What a neighbor sends on a control connection, whole and then closed: frames and blocks until it
// is refused or ends, and exactly one end.
#include "core/base/bytes.hh"
#include "core/base/fd.hh"
#include "core/tree/kernel_host.hh"
#include "core/wire/replay.pb.h"

#include <event2/event.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <sys/socket.h>

namespace {

void require(bool holds) {
    if (!holds) {
        std::abort();
    }
}

} // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, size_t size) {
    constexpr size_t kMost = 64UL << 10U; // fits into a socket's buffer
    if (size > kMost) {
        return 0;
    }
    static reprise::tree::KernelHost host;
    std::array<int, 2> pair{};
    require(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0);
    const auto link = host.local(reprise::FileDescriptor(pair[0]));
    int ends = 0;
    size_t bytes = 0;
    link->set_handler({.frame =
                           [&](reprise::wire::Frame& frame) {
                               require(frame.body_case() != reprise::wire::Frame::BODY_NOT_SET);
                               bytes += 4;
                           },
                       .down =
                           [&](const std::string& reason) {
                               require(!reason.empty());
                               ++ends;
                           },
                       .block = [&](reprise::Bytes records) { bytes += 4 + records.size(); }});
    {
        const reprise::FileDescriptor peer(pair[1]);
        require(send(peer.get(), data, size, 0) == static_cast<ssize_t>(size));
    }
    while (link->open()) {
        event_base_loop(host.base(), EVLOOP_ONCE);
    }
    event_base_loop(host.base(), EVLOOP_NONBLOCK); // frees what libevent has put off
    require(ends == 1 && bytes <= size);
    return 0;
}
