#include "proxy/stateless/userspace/front.hh"

#include "core/base/address.hh"
#include "core/base/bytes.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "core/base/fd.hh"
#include "core/base/host.hh"
#include "core/base/random.hh"
#include "proxy/rewrite/headers.hh"
#include "proxy/stateless/common/counts.h"
#include "proxy/stateless/common/front.hh"
#include "proxy/stateless/common/options.hh"
#include "proxy/stateless/userspace/redirect.hh"
#include "proxy/stateless/userspace/responder.hh"
#include "proxy/stateless/userspace/segment.hh"
#include "proxy/stateless/userspace/transfer.hh"
#include "proxy/tun/tun.hh"

#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <iterator>
#include <linux/capability.h>
#include <memory>
#include <netinet/in.h>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace reprise::proxy::stateless {

namespace {

constexpr size_t kLargestPacket = 65'535;
constexpr size_t kBefore = 2; // room for a message's size before it
constexpr int kBatch = 64;
constexpr size_t kMostUdpHeaders = 48; // IPv6 and UDP
constexpr size_t kLeastMtu = 1'280;    // or the kernel takes IPv6 off the device

std::uint64_t entropy() {
    std::random_device device;
    return std::uint64_t{device()} << 32U | device();
}

/// What all interfaces can take. Throws UsageError where truncated replies do not fit.
size_t smallest_mtu(const StatelessOptions& options) {
    size_t mtu = kLargestPacket;
    for (const std::string& name : options.interfaces) {
        if (name == "lo") {
            throw UsageError("--interface lo: connections of this host to itself cannot be led "
                             "elsewhere; give the interface toward the clients");
        }
        mtu = std::min<size_t>(mtu, interface_mtu(name));
    }
    if (options.truncate_udp + kMostUdpHeaders > mtu) {
        throw UsageError(
            fmt::format("--truncate-udp {}: a reply of so many bytes does not fit in a "
                        "packet; give at most {}, or --front bpf",
                        options.truncate_udp, mtu - kMostUdpHeaders));
    }
    return mtu;
}

std::vector<FileDescriptor> lock_interfaces(const std::vector<std::string>& interfaces) {
    std::vector<FileDescriptor> locks;
    std::ranges::transform(interfaces, std::back_inserter(locks), lock_interface);
    return locks;
}

/// One at a time in a network namespace. Throws Error where another one is there.
FileDescriptor lock_host() {
    FileDescriptor lock = take_name("reprise-stateless");
    if (!lock.valid()) {
        throw Error("--front reference: another one runs on this host; stop it first");
    }
    return lock;
}

constexpr int kBuffer = 4 << 20; // bytes; a burst of answers while this process does not run

/// Raw ones toward the clients, UDP ones toward the server; not valid where the host has no such
/// family.
FileDescriptor open_socket(int family, int type, int protocol) {
    FileDescriptor fd(socket(family, type | SOCK_NONBLOCK | SOCK_CLOEXEC, protocol));
    if (!fd.valid() && errno != EAFNOSUPPORT) {
        if (errno == EPERM) {
            throw Error("--front reference: raw sockets are not permitted; run as root");
        }
        throw SystemError("open a socket");
    }
    if (fd.valid()) {
        static_cast<void>(
            setsockopt(fd.get(), SOL_SOCKET, SO_RCVBUFFORCE, &kBuffer, sizeof kBuffer));
        static_cast<void>(
            setsockopt(fd.get(), SOL_SOCKET, SO_SNDBUFFORCE, &kBuffer, sizeof kBuffer));
    }
    return fd;
}

bool send_to(const FileDescriptor& fd, Bytes bytes, const Endpoint& to) {
    sockaddr_storage storage{};
    const socklen_t length = to.to_sockaddr(storage);
    return sendto(fd.get(), bytes.data(), bytes.size(), 0,
                  reinterpret_cast<const sockaddr*>(&storage), length) >= 0;
}

class ReferenceFront final : public Front, private Outside {
public:
    explicit ReferenceFront(const StatelessOptions& options)
        : Front(options), mtu_(smallest_mtu(options)),
          interfaces_(lock_interfaces(options.interfaces)), tun_(options.tun),
          epoll_(check(epoll_create1(EPOLL_CLOEXEC), "epoll_create1")),
          transfers_(
              epoll_.get(), [this](const Reply& reply) { send(reply); }, counters_),
          responder_(options, mtu_, entropy(), random_, *this, counters_),
          buffer_(kBefore + kLargestPacket), packet_(kMostHeaders + kLargestPacket),
          redirect_(options.interfaces, options.port, tun_.index(), options.truncate_udp != 0) {
        watch(tun_.fd());
        for (size_t i = 0; i < servers_.size(); ++i) {
            servers_[i] = open_socket(i < kSockets ? AF_INET : AF_INET6, SOCK_DGRAM, 0);
            if (servers_[i].valid()) {
                watch(servers_[i].get());
            }
        }
        // In this order: setting the MTU waits until the kernel has changed the routes as well.
        tun_.wait_until_running();
        follow_carrier(options.tun);
        // Long replies that are to be truncated come whole.
        tun_.set_mtu(static_cast<int>(options.truncate_udp != 0 ? kLargestPacket
                                                                : std::max(mtu_, kLeastMtu)));
        give_up({CAP_DAC_OVERRIDE}); // its device is open
    }

    [[nodiscard]] int fd() const override { return epoll_.get(); }

    void readable() override {
        std::array<epoll_event, 16> events{};
        const int count =
            epoll_wait(epoll_.get(), events.data(), static_cast<int>(events.size()), 0);
        for (int i = 0; i < count; ++i) {
            serve(events[static_cast<size_t>(i)].data.fd);
        }
    }

    void tick(Nanoseconds now) override {
        responder_.expire(now);
        transfers_.tick(now);
    }

    [[nodiscard]] std::optional<Nanoseconds> next_due() const override {
        const auto query = responder_.next_due();
        const auto transfer = transfers_.next_due();
        return query && transfer ? std::min(*query, *transfer) : query ? query : transfer;
    }

    [[nodiscard]] Counters counters() override {
        const ForwardedQueries& pending = responder_.pending();
        Counters now{counters_};
        now.evictions = pending.evictions();
        now.entries = pending.size();
        now.entries_peak = pending.peak();
        now.entries_limit = pending.limit();
        now.entries_lived = pending.lived();
        now.bytes_per_entry = ForwardedQueries::kBytesPerEntry;
        now.state_bytes = now.entries * now.bytes_per_entry;
        now.memory_bytes = now.entries_peak * now.bytes_per_entry;
        return now;
    }

private:
    void refresh(Nanoseconds now) override {
        responder_.expire(now);
        redirect_.refresh();
        warn_of_unsent();
    }

    void watch(int fd) const {
        epoll_event event{.events = EPOLLIN, .data = {.fd = fd}};
        check(epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event), "epoll_ctl");
    }

    void serve(int fd) {
        const auto server = std::ranges::find(servers_, fd, &FileDescriptor::get);
        if (fd == tun_.fd()) {
            read_packets();
        } else if (server != servers_.end()) {
            read_answers(*server, static_cast<unsigned>(server - servers_.begin()) % kSockets);
        } else {
            transfers_.ready(fd, SteadyClock::now());
        }
    }

    void read_packets() {
        for (int i = 0; i < kBatch; ++i) {
            const std::span<std::uint8_t> packet = tun_.read(buffer_);
            if (packet.empty()) {
                break;
            }
            // What is neither is the kernel's own news of the device, IPv6 multicast.
            if (const auto protocol = protocol_of(packet); protocol == kTcp) {
                responder_.take_packet(packet, SteadyClock::now());
            } else if (protocol == kUdp && options().truncate_udp != 0) {
                pass_reply(packet);
            }
        }
    }

    void pass_reply(std::span<std::uint8_t> packet) {
        const Bytes left = truncate_reply(packet, options().truncate_udp);
        if (!left.empty()) {
            counters_.truncated += left.size() < packet.size() ? 1U : 0U;
            send_packet(left, destination_of(left));
        }
    }

    void read_answers(const FileDescriptor& server, unsigned number) {
        for (int i = 0; i < kBatch; ++i) {
            sockaddr_storage from{};
            socklen_t length = sizeof from;
            const ssize_t got = recvfrom(server.get(), &buffer_[kBefore], buffer_.size() - kBefore,
                                         0, reinterpret_cast<sockaddr*>(&from), &length);
            if (got < 0) {
                break;
            }
            const std::span<std::uint8_t> room(buffer_);
            responder_.take_answer(number, Endpoint::from_sockaddr(from),
                                   room.first(kBefore + static_cast<size_t>(got)),
                                   SteadyClock::now());
        }
    }

    /// A whole IP packet by the host's routing, whatever its source.
    void send_packet(Bytes packet, const IpAddress& to) {
        note(send_to(to.is_v6() ? packets6_ : packets4_, packet, {.address = to, .port = 0}));
    }

    void send(const Reply& reply) override {
        const size_t size =
            write_segment(packet_, reply, static_cast<std::uint16_t>(random_.bits()));
        log("to", reply.connection.client, reply.flags, reply.seq, reply.ack, reply.data.size());
        send_packet(Bytes(packet_).first(size), reply.connection.client.address);
    }

    void ask(unsigned socket, const Endpoint& server, Bytes message) override {
        note(send_to(servers_[socket + (server.address.is_v6() ? kSockets : 0)], message, server));
    }

    bool relay(const Segment& segment, std::uint16_t mss, Nanoseconds now) override {
        return transfers_.open(segment, mss, now);
    }

    bool relayed(const Segment& segment, Nanoseconds now) override {
        log("from", segment.connection.client, segment.flags, segment.seq, segment.ack,
            segment.data.size());
        return transfers_.take(segment, now);
    }

    /// Log level 3.
    static void log(const char* direction, const Endpoint& client, unsigned flags,
                    std::uint32_t seq, std::uint32_t ack, size_t bytes) {
        if (spdlog::should_log(spdlog::level::debug)) {
            spdlog::debug("event=segment {}={} flags={:#04x} seq={} ack={} bytes={}", direction,
                          client.text(), flags, seq, ack, bytes);
        }
    }

    void note(bool sent) {
        if (!sent) {
            unsent_error_ = errno;
            ++counters_.unsent;
        }
    }

    void warn_of_unsent() {
        const std::uint64_t unsent =
            counters_.unsent - std::exchange(told_unsent_, counters_.unsent);
        if (unsent != 0 && options().loglevel >= 1) {
            spdlog::warn("event=not_sent packets={} because=\"{}\" hint=\"see the route to the "
                         "clients and the server's address\"",
                         unsent, std::strerror(unsent_error_));
        }
    }

    size_t mtu_;
    FileDescriptor host_ = lock_host();
    std::vector<FileDescriptor> interfaces_; ///< locks against fronts of the other kind
    // Opened first: the rights that they need are all that are needed.
    FileDescriptor packets4_ = open_socket(AF_INET, SOCK_RAW, IPPROTO_RAW);
    FileDescriptor packets6_ = open_socket(AF_INET6, SOCK_RAW, IPPROTO_RAW);
    Tun tun_;
    std::array<FileDescriptor, 2 * size_t{kSockets}> servers_; ///< to ask it from; IPv4 first
    FileDescriptor epoll_;
    Random random_{entropy()};
    StatelessCounts counters_{};
    Transfers transfers_;
    Responder responder_;
    std::vector<std::uint8_t> buffer_; ///< what was read last
    std::vector<std::uint8_t> packet_; ///< what is being sent
    Redirect redirect_;                ///< undone first
    std::uint64_t told_unsent_ = 0;    ///< of them the log has told
    int unsent_error_ = 0;
};

} // namespace

void repair_reference_host() {
    const FileDescriptor alone = lock_host();
    Redirect::repair();
}

std::unique_ptr<Front> make_reference_front(const StatelessOptions& options) {
    return options.active ? std::make_unique<ReferenceFront>(options)
                          : std::make_unique<Front>(options);
}

} // namespace reprise::proxy::stateless
