#include "cli/native/tcp_states.hh"

#include "cli/native/host_counters.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <sys/socket.h>
#include <sys/types.h>

namespace reprise::sampler {

namespace {

constexpr size_t kBuffer = size_t{1} << 20; // the kernel fills pieces of at most 32 KiB

/// The older of the two requests: only that one asks for both families at once.
struct Request {
    nlmsghdr header;
    inet_diag_req body;
};

constexpr size_t aligned(size_t length) { return (length + 3) & ~size_t{3}; }

Request make_request(std::uint32_t mask) {
    Request request{};
    request.header.nlmsg_len = sizeof request;
    request.header.nlmsg_type = TCPDIAG_GETSOCK;
    request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
    request.body.idiag_states = mask;
    return request;
}

} // namespace

bool add_sockets(Bytes datagram, StateCounts& counts, const Ports& ports) {
    while (datagram.size() >= sizeof(nlmsghdr)) {
        nlmsghdr header{};
        std::memcpy(&header, datagram.data(), sizeof header);
        if (header.nlmsg_type == NLMSG_DONE || header.nlmsg_type == NLMSG_ERROR ||
            header.nlmsg_len < sizeof header || header.nlmsg_len > datagram.size()) {
            return true;
        }
        inet_diag_msg socket{};
        if (header.nlmsg_len >= sizeof header + sizeof socket) {
            std::memcpy(&socket, datagram.data() + sizeof header, sizeof socket);
            const auto is_its = [port = ntohs(socket.id.idiag_sport)](auto one) {
                return one == port;
            };
            if (ports.empty() || std::ranges::any_of(ports, is_its)) {
                ++counts[socket.idiag_state % counts.size()];
            }
        }
        datagram = datagram.subspan(std::min(aligned(header.nlmsg_len), datagram.size()));
    }
    return false;
}

SockDiag::SockDiag()
    : socket_(check(::socket(AF_NETLINK, SOCK_DGRAM | SOCK_CLOEXEC, NETLINK_SOCK_DIAG),
                    "open a sock_diag socket")),
      buffer_(kBuffer) {}

StateCounts SockDiag::count(std::uint32_t mask, const Ports& ports) {
    const Request request = make_request(mask);
    check(::send(socket_.get(), &request, sizeof request, 0), "ask sock_diag");
    StateCounts counts{};
    for (;;) {
        const ssize_t got = ::recv(socket_.get(), buffer_.data(), buffer_.size(), 0);
        if (got < 0 && errno == EINTR) {
            continue;
        }
        check(got, "read from sock_diag");
        if (add_sockets({buffer_.data(), static_cast<size_t>(got)}, counts, ports)) {
            return counts;
        }
    }
}

namespace {

constexpr std::uint64_t kMany = 2'000; // sockets; dumping them costs 2 ms
constexpr std::uint32_t kListening = 1U << kListen;
constexpr std::uint32_t kAll = 0x1fff & ~kListening & ~(1U << kClose) & ~1U;

constexpr std::uint32_t bit(TcpState state) { return 1U << state; }

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

Nanoseconds cpu_now() { return read_clock(CLOCK_THREAD_CPUTIME_ID); }

} // namespace

std::uint32_t dump_mask(const Sockets& kernel) {
    std::uint32_t mask = kAll;
    if (kernel.synchronized > kMany) {
        mask &= ~bit(kEstablished);
    }
    if (kernel.time_wait > kMany) {
        mask &= ~bit(kTimeWait);
    }
    return mask;
}

TcpStates states_of(const StateCounts& dump, std::uint32_t mask, const Sockets& kernel) {
    const auto has = [mask](TcpState state) { return (mask & bit(state)) != 0; };
    return {.established = has(kEstablished) ? dump[kEstablished]
                                             : minus(kernel.synchronized, dump[kCloseWait]),
            .syn_recv = dump[kSynRecv] + dump[kNewSynRecv],
            .time_wait = has(kTimeWait) ? dump[kTimeWait] : kernel.time_wait,
            .fin_wait = dump[kFinWait1] + dump[kFinWait2],
            .close_wait = dump[kCloseWait],
            .other = dump[kSynSent] + dump[kLastAck] + dump[kClosing]};
}

TcpStates carried_on(const TcpStates& last, const Sockets& kernel, std::uint64_t listening) {
    TcpStates now = last;
    now.time_wait = kernel.time_wait;
    now.close_wait = std::min(last.close_wait, kernel.synchronized);
    now.established = kernel.synchronized - now.close_wait;
    const std::uint64_t rest = minus(kernel.tcp, listening + kernel.synchronized);
    now.fin_wait = std::min(last.fin_wait, rest);
    now.other = rest - now.fin_wait;
    return now;
}

TcpStates TcpCounter::sample(const Sockets& kernel, bool exact) {
    dumped_ = allowance_.earn() || exact;
    if (dumped_) {
        const Nanoseconds begin = cpu_now();
        const std::uint32_t mask = exact || !ports_.empty() ? kAll : dump_mask(kernel);
        last_ = states_of(diag_.count(mask, ports_), mask, kernel);
        allowance_.spend(cpu_now() - begin);
    } else if (ports_.empty()) {
        last_ = carried_on(last_, kernel, diag_.count(kListening)[kListen]);
    }
    return last_;
}

} // namespace reprise::sampler
