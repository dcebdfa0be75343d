// reprise-flood: SYNs at a fixed rate from addresses that nobody has.
//
// Frames are written to an interface below the host's network stack (AF_PACKET), a batch with each
// system call. Source address, source port and sequence number of each SYN are pseudo-random. It
// sends until SIGINT or SIGTERM; then it prints its counts as JSON.
#include "core/base/bytes.hh"
#include "core/base/checksum.hh"
#include "core/base/clock.hh"
#include "core/base/command_line.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/json.hh"
#include "core/base/log.hh"
#include "core/base/random.hh"
#include "core/base/signals.hh"

#include <fmt/format.h>

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <iostream>
#include <linux/if_packet.h>
#include <net/ethernet.h>
#include <net/if.h>
#include <netinet/ether.h>
#include <netinet/in.h>
#include <netinet/ip.h>
#include <netinet/tcp.h>
#include <string>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/uio.h>

namespace {

using reprise::check;
using reprise::FileDescriptor;
using reprise::Nanoseconds;

struct Options {
    std::string interface;
    std::string mac; ///< of the next hop
    std::string server;
    std::uint16_t port = 53;
    std::uint64_t rate = 200'000; ///< SYNs a second
};

constexpr std::uint32_t kFirstSource = 0x64400000; // 100.64.0.0/10: routed nowhere (RFC 6598)
constexpr std::uint32_t kSourceMask = 0x003fffff;
constexpr std::uint16_t kLowestPort = 1024;
constexpr std::size_t kBatch = 64;
constexpr Nanoseconds kPause = 200 * reprise::kMicrosecond;
/// What is more than this behind schedule is left out: a burst would overrun the receiver's ring.
constexpr Nanoseconds kMostBehind = 2 * reprise::kMillisecond;

struct [[gnu::packed]] Frame {
    ether_header ethernet{};
    iphdr ip{};
    tcphdr tcp{};
    /// What Linux sends with a SYN: the largest segment, 1,460, and that more is understood.
    std::array<std::uint8_t, 8> options{2, 4, 0x05, 0xb4, 4, 2, 0, 0};
};

constexpr std::uint16_t kTcpSize = sizeof(tcphdr) + sizeof(Frame::options);

template <typename T> reprise::Bytes bytes_of(const T& value) {
    return {reinterpret_cast<const std::uint8_t*>(&value), sizeof value}; // NOLINT
}

/// Everything that all frames share; checksums come with the rest.
Frame make_frame(const Options& options) {
    Frame frame;
    const ether_addr* const mac = ether_aton(options.mac.c_str());
    reprise::demand(
        mac != nullptr,
        fmt::format("--mac {}: not a hardware address; give it as 02:00:00:00:00:01", options.mac));
    std::memcpy(static_cast<std::uint8_t*>(frame.ethernet.ether_dhost), mac, ETH_ALEN);
    frame.ethernet.ether_shost[0] = 2; // locally administered
    frame.ethernet.ether_type = htons(ETHERTYPE_IP);
    frame.ip.version = 4;
    frame.ip.ihl = sizeof(iphdr) / 4;
    frame.ip.tot_len = htons(sizeof(iphdr) + kTcpSize);
    frame.ip.ttl = 64;
    frame.ip.protocol = IPPROTO_TCP;
    reprise::demand(inet_pton(AF_INET, options.server.c_str(), &frame.ip.daddr) == 1,
                    fmt::format("{}: not an IPv4 address; give the server's", options.server));
    frame.tcp.dest = htons(options.port);
    frame.tcp.doff = kTcpSize / 4;
    frame.tcp.syn = 1;
    frame.tcp.window = htons(64'240);
    return frame;
}

/// Makes SYN number `number` of the frame.
void renew(Frame& frame, std::uint64_t number) {
    const std::uint64_t random = reprise::mix_bits((number + 1) * reprise::kGoldenStep);
    const auto port = static_cast<std::uint16_t>(random >> 22U);
    frame.ip.saddr = htonl(kFirstSource + (static_cast<std::uint32_t>(random) & kSourceMask));
    frame.tcp.source = htons(std::max(port, kLowestPort));
    frame.tcp.seq = static_cast<std::uint32_t>(random >> 32U);

    frame.ip.check = 0;
    reprise::Checksum header;
    header.add(bytes_of(frame.ip));
    frame.ip.check = htons(header.value());

    frame.tcp.check = 0;
    reprise::Checksum segment;
    const std::array<std::uint32_t, 2> addresses{frame.ip.saddr, frame.ip.daddr};
    segment.add(bytes_of(addresses));
    segment.add(std::uint16_t{IPPROTO_TCP});
    segment.add(kTcpSize);
    segment.add(bytes_of(frame.tcp));
    segment.add(bytes_of(frame.options));
    frame.tcp.check = htons(segment.value());
}

/// A packet socket that sends on the interface, past its queueing discipline.
FileDescriptor open_socket(const Options& options) {
    const unsigned index = if_nametoindex(options.interface.c_str());
    reprise::demand(
        index != 0,
        fmt::format("interface {} does not exist; see the names with ip link", options.interface));
    FileDescriptor made(
        check(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), "open a packet socket"));
    const int yes = 1;
    check(setsockopt(made.get(), SOL_PACKET, PACKET_QDISC_BYPASS, &yes, sizeof yes),
          "setsockopt PACKET_QDISC_BYPASS");
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_ifindex = static_cast<int>(index);
    check(bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), // NOLINT
          "bind a packet socket");
    return made;
}

class Flood {
public:
    explicit Flood(const Options& options)
        : socket_(open_socket(options)),
          gap_(static_cast<double>(reprise::kSecond) / static_cast<double>(options.rate)) {
        frames_.fill(make_frame(options));
        for (std::size_t place = 0; place < kBatch; ++place) {
            parts_.at(place) = {.iov_base = &frames_.at(place), .iov_len = sizeof(Frame)};
            messages_.at(place).msg_hdr.msg_iov = &parts_.at(place);
            messages_.at(place).msg_hdr.msg_iovlen = 1;
        }
    }

    /// Until a signal comes; returns its counts.
    reprise::Json run(const reprise::Signals& ending) {
        const Nanoseconds start = reprise::SteadyClock::now();
        Nanoseconds next = start; // when the next SYN is due
        while (!ending.next()) {
            const Nanoseconds now = reprise::SteadyClock::now();
            next = std::max(next, now - kMostBehind);
            const auto due = static_cast<std::uint64_t>(static_cast<double>(now - next) / gap_);
            if (due == 0) {
                const timespec pause{.tv_sec = 0, .tv_nsec = kPause};
                nanosleep(&pause, nullptr);
                continue;
            }
            next += static_cast<Nanoseconds>(static_cast<double>(send(due)) * gap_);
        }
        const auto spent = static_cast<double>(reprise::SteadyClock::now() - start);
        return {{"sent", sent_},
                {"refused", refused_},
                {"seconds", spent / static_cast<double>(reprise::kSecond)}};
    }

private:
    /// Sends at most so many of the next SYNs; returns how many were done with.
    std::size_t send(std::uint64_t most) {
        const std::size_t wanted = std::min<std::uint64_t>(most, kBatch);
        for (std::size_t place = 0; place < wanted; ++place) {
            renew(frames_.at(place), sent_ + refused_ + place);
        }
        const int sent =
            sendmmsg(socket_.get(), messages_.data(), static_cast<unsigned>(wanted), 0);
        if (sent > 0) {
            sent_ += static_cast<std::uint64_t>(sent);
            return static_cast<std::size_t>(sent);
        }
        if (errno != ENOBUFS && errno != EAGAIN && errno != EINTR) {
            throw reprise::SystemError("send SYNs");
        }
        ++refused_; // the first of the batch
        return 1;
    }

    FileDescriptor socket_;
    double gap_; ///< nanoseconds between two SYNs
    std::uint64_t sent_ = 0;
    std::uint64_t refused_ = 0; ///< by the interface
    std::array<Frame, kBatch> frames_{};
    std::array<iovec, kBatch> parts_{};
    std::array<mmsghdr, kBatch> messages_{};
};

int body(int argc, char** argv) {
    reprise::Command app("Sends TCP SYNs from addresses that nobody has until SIGINT or SIGTERM; "
                         "then prints its counts as JSON.",
                         "reprise-flood");
    Options options;
    app.add_option("INTERFACE", options.interface, "where the SYNs leave").required();
    app.add_option("SERVER", options.server, "IPv4 address that they go to").required();
    app.add_option("--mac", options.mac, "hardware address of the next hop").required();
    app.add_option("--port", options.port, "TCP port that they go to").show_default();
    app.add_option("--rate", options.rate, "SYNs a second")
        .in_range(std::uint64_t{1}, std::uint64_t{10'000'000})
        .show_default();
    if (const auto status = app.parse(argc, argv)) {
        return *status;
    }
    const reprise::Signals ending{SIGINT, SIGTERM};
    prctl(PR_SET_TIMERSLACK, 1000UL); // ns
    Flood flood(options);
    std::cerr << "event=sending rate=" << options.rate << '\n';
    std::cout << reprise::json_text(flood.run(ending)) << '\n';
    return 0;
}

} // namespace

int main(int argc, char** argv) { return reprise::run_main("reprise-flood", body, argc, argv); }
