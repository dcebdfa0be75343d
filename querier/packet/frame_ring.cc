#include "querier/packet/frame_ring.hh"

#include "core/base/address.hh"
#include "core/base/clock.hh"
#include "core/base/error.hh"
#include "querier/packet/route.hh"
#include "querier/sockets/carrier.hh"

#include <algorithm>
#include <arpa/inet.h>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/filter.h>
#include <linux/if_ether.h>
#include <linux/if_packet.h>
#include <netinet/icmp6.h>
#include <netinet/in.h>
#include <netinet/ip_icmp.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <utility>
#include <vector>

namespace reprise::querier {

namespace {

/// Offsets in a frame.
constexpr std::uint32_t kType = 12;
constexpr std::uint32_t kIp = 14;
constexpr std::uint32_t kV4Fragment = kIp + 6;
constexpr std::uint32_t kV4Protocol = kIp + 9;
constexpr std::uint32_t kV4Source = kIp + 12;
constexpr std::uint32_t kV4Destination = 16; ///< within an IPv4 header
constexpr std::uint32_t kV6Next = kIp + 6;
constexpr std::uint32_t kV6Source = kIp + 8;
constexpr std::uint32_t kV6Payload = kIp + 40;
constexpr std::uint32_t kV6Destination = 24; ///< within an IPv6 header
constexpr std::uint32_t kIcmpHeader = 8;
constexpr std::uint32_t kFragmentBits = 0x3fff;

constexpr std::uint16_t kLoadWord = BPF_LD | BPF_W | BPF_ABS;
constexpr std::uint16_t kLoadHalf = BPF_LD | BPF_H | BPF_ABS;
constexpr std::uint16_t kLoadByte = BPF_LD | BPF_B | BPF_ABS;
/// The same, at the index register (the length of the IPv4 header) plus an offset.
constexpr std::uint16_t kLoadWordBehind = BPF_LD | BPF_W | BPF_IND;
constexpr std::uint16_t kLoadHalfBehind = BPF_LD | BPF_H | BPF_IND;
constexpr std::uint16_t kLoadByteBehind = BPF_LD | BPF_B | BPF_IND;
constexpr std::uint16_t kLoadHeaderLength = BPF_LDX | BPF_B | BPF_MSH;

/// Where a comparison leads: to the next line, or to one of the ends.
enum class Then : std::uint8_t { kNext, kAccept, kReject, kOther };

/// Writes lines forward; the ends are put in when all lines are known. kOther is a place further
/// down, given by here().
class Writer {
public:
    void load(std::uint16_t code, std::uint32_t offset) {
        add(code, offset, Then::kNext, Then::kNext);
    }

    void equal(std::uint32_t value, Then yes, Then no) {
        add(BPF_JMP | BPF_JEQ | BPF_K, value, yes, no);
    }

    void any_bit(std::uint32_t bits, Then yes, Then no) {
        add(BPF_JMP | BPF_JSET | BPF_K, bits, yes, no);
    }

    /// Lines that lead to kOther up to now lead here.
    void here() {
        for (Line& line : lines_) {
            settle(line.yes, line.yes_at);
            settle(line.no, line.no_at);
        }
    }

    std::vector<sock_filter> finish() {
        const size_t accept = lines_.size();
        std::vector<sock_filter> out;
        for (size_t i = 0; i < lines_.size(); ++i) {
            const Line& line = lines_[i];
            out.push_back({.code = line.code,
                           .jt = distance(i, line.yes, line.yes_at, accept),
                           .jf = distance(i, line.no, line.no_at, accept),
                           .k = line.value});
        }
        out.push_back({.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0xffffffff});
        out.push_back({.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0});
        return out;
    }

private:
    struct Line {
        std::uint16_t code = 0;
        std::uint32_t value = 0;
        Then yes = Then::kNext;
        Then no = Then::kNext;
        size_t yes_at = 0; ///< of kOther, once known
        size_t no_at = 0;
    };

    void add(int code, std::uint32_t value, Then yes, Then no) {
        lines_.push_back({.code = static_cast<std::uint16_t>(code),
                          .value = value,
                          .yes = yes,
                          .no = no,
                          .yes_at = 0,
                          .no_at = 0});
    }

    void settle(Then then, size_t& at) const {
        if (then == Then::kOther && at == 0) {
            at = lines_.size();
        }
    }

    static std::uint8_t distance(size_t from, Then then, size_t other, size_t accept) {
        const size_t to = then == Then::kAccept   ? accept
                          : then == Then::kReject ? accept + 1
                          : then == Then::kOther  ? other
                                                  : from + 1;
        return static_cast<std::uint8_t>(to - from - 1);
    }

    std::vector<Line> lines_;
};

std::uint32_t word_of(const IpAddress& address, size_t at) {
    std::uint32_t word = 0;
    std::memcpy(&word, &address.bytes[at], sizeof word);
    return ntohl(word);
}

void same_v6(Writer& writer, const IpAddress& address, std::uint32_t offset) {
    for (std::uint32_t at = 0; at < 16; at += 4) {
        writer.load(kLoadWord, offset + at);
        writer.equal(word_of(address, at), Then::kNext, Then::kReject);
    }
}

void accept_v4(Writer& writer, const Endpoint& server) {
    const std::uint32_t address = word_of(server.address, 0);
    writer.load(kLoadHeaderLength, kIp);
    writer.load(kLoadByte, kV4Protocol);
    writer.equal(IPPROTO_UDP, Then::kOther, Then::kNext);
    writer.equal(IPPROTO_ICMP, Then::kNext, Then::kReject);
    writer.load(kLoadByteBehind, kIp);
    writer.equal(ICMP_DEST_UNREACH, Then::kNext, Then::kReject);
    writer.load(kLoadWordBehind, kIp + kIcmpHeader + kV4Destination);
    writer.equal(address, Then::kAccept, Then::kReject);
    writer.here();
    writer.load(kLoadWord, kV4Source);
    writer.equal(address, Then::kNext, Then::kReject);
    writer.load(kLoadHalf, kV4Fragment);
    writer.any_bit(kFragmentBits, Then::kAccept, Then::kNext);
    writer.load(kLoadHalfBehind, kIp);
    writer.equal(server.port, Then::kAccept, Then::kReject);
}

void accept_v6(Writer& writer, const Endpoint& server) {
    writer.load(kLoadByte, kV6Next);
    writer.equal(IPPROTO_ICMPV6, Then::kNext, Then::kOther);
    writer.load(kLoadByte, kV6Payload);
    writer.equal(ICMP6_DST_UNREACH, Then::kNext, Then::kReject);
    same_v6(writer, server.address, kV6Payload + kIcmpHeader + kV6Destination);
    writer.equal(word_of(server.address, 12), Then::kAccept, Then::kReject);
    writer.here();
    same_v6(writer, server.address, kV6Source);
    writer.load(kLoadByte, kV6Next);
    writer.equal(IPPROTO_HOPOPTS, Then::kAccept, Then::kNext);
    writer.equal(IPPROTO_ROUTING, Then::kAccept, Then::kNext);
    writer.equal(IPPROTO_FRAGMENT, Then::kAccept, Then::kNext);
    writer.equal(IPPROTO_DSTOPTS, Then::kAccept, Then::kNext);
    writer.equal(IPPROTO_UDP, Then::kNext, Then::kReject);
    writer.load(kLoadHalf, kV6Payload);
    writer.equal(server.port, Then::kAccept, Then::kReject);
}

/// Frames of `type` go through `accept`, others to what is written next.
template <typename Accept>
void section(std::vector<sock_filter>& out, std::uint16_t type, Accept accept) {
    Writer writer;
    writer.load(kLoadHalf, kType);
    writer.equal(type, Then::kNext, Then::kReject);
    accept(writer);
    std::vector<sock_filter> lines = writer.finish();
    if (!out.empty()) {
        // The section before rejects another type by leaving through its second line: it goes on
        // behind its own end instead.
        out[1].jf = static_cast<std::uint8_t>(out.size() - 2);
    }
    out.insert(out.end(), lines.begin(), lines.end());
}

} // namespace

std::vector<sock_filter> reply_filter(const Servers& servers) {
    std::vector<sock_filter> out;
    if (servers.v4) {
        section(out, ETH_P_IP, [&](Writer& writer) { accept_v4(writer, *servers.v4); });
    }
    if (servers.v6) {
        section(out, ETH_P_IPV6, [&](Writer& writer) { accept_v6(writer, *servers.v6); });
    }
    if (out.empty()) {
        out.push_back({.code = BPF_RET | BPF_K, .jt = 0, .jf = 0, .k = 0});
    }
    return out;
}

namespace {

constexpr size_t kBlock = 1 << 20;
/// The kernel's header of a frame and its alignment, generously.
constexpr size_t kOverhead = 128;

size_t frame_size(const PacketRoute& route) {
    return std::clamp(std::bit_ceil(route.mtu + kOverhead), size_t{2048}, kBlock);
}

template <typename Value>
void set(int socket, int option, const Value& value, const char* attempt) {
    check(setsockopt(socket, SOL_PACKET, option, &value, sizeof value), attempt);
}

/// Before the socket is bound, so that no other frame ever comes in.
void attach(int socket, std::vector<sock_filter> filter) {
    const sock_fprog program{.len = static_cast<unsigned short>(filter.size()),
                             .filter = filter.data()};
    check(setsockopt(socket, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program),
          "attach the filter of replies");
}

void bind_to(int socket, const PacketRoute& route) {
    sockaddr_ll address{};
    address.sll_family = AF_PACKET;
    address.sll_protocol = htons(ETH_P_ALL);
    address.sll_ifindex = static_cast<int>(route.interface);
    check(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof address),
          "bind the ring of replies");
}

} // namespace

FrameRing::FrameRing(const PacketRoute& route, const Servers& servers, size_t frames)
    : socket_(check(::socket(AF_PACKET, SOCK_RAW | SOCK_CLOEXEC, 0), "open a packet socket")),
      frame_size_(frame_size(route)) {
    const size_t blocks = std::max<size_t>(1, frames * frame_size_ / kBlock);
    count_ = blocks * (kBlock / frame_size_);
    set(socket_.get(), PACKET_VERSION, int{TPACKET_V2}, "choose the ring's version");
    set(socket_.get(), PACKET_IGNORE_OUTGOING, 1, "leave out what this host sends");
    attach(socket_.get(), reply_filter(servers));
    const tpacket_req request{.tp_block_size = static_cast<unsigned>(kBlock),
                              .tp_block_nr = static_cast<unsigned>(blocks),
                              .tp_frame_size = static_cast<unsigned>(frame_size_),
                              .tp_frame_nr = static_cast<unsigned>(count_)};
    set(socket_.get(), PACKET_RX_RING, request, "make the ring of replies");
    void* memory =
        mmap(nullptr, blocks * kBlock, PROT_READ | PROT_WRITE, MAP_SHARED, socket_.get(), 0);
    if (memory == MAP_FAILED) {
        throw SystemError("map the ring of replies");
    }
    memory_ = static_cast<std::uint8_t*>(memory);
    bind_to(socket_.get(), route);
}

FrameRing::FrameRing(FrameRing&& other) noexcept
    : socket_(std::move(other.socket_)), memory_(std::exchange(other.memory_, nullptr)),
      frame_size_(other.frame_size_), count_(other.count_), next_(other.next_) {}

FrameRing::~FrameRing() {
    if (memory_ != nullptr) {
        munmap(memory_, count_ * frame_size_);
    }
}

std::uint8_t* FrameRing::at(size_t index) const { return memory_ + index * frame_size_; }

FrameRing::Frame FrameRing::front() {
    std::uint8_t* place = at(next_);
    auto* header = reinterpret_cast<tpacket2_hdr*>(place);
    if ((std::atomic_ref(header->tp_status).load(std::memory_order_acquire) & TP_STATUS_USER) ==
        0) {
        return {};
    }
    return {.bytes = {place + header->tp_mac, header->tp_snaplen},
            .wire_length = header->tp_len,
            .time = header->tp_sec * kSecond + header->tp_nsec};
}

void FrameRing::release() {
    auto* header = reinterpret_cast<tpacket2_hdr*>(at(next_));
    std::atomic_ref(header->tp_status).store(TP_STATUS_KERNEL, std::memory_order_release);
    next_ = next_ + 1 == count_ ? 0 : next_ + 1;
}

std::uint64_t FrameRing::take_drops() {
    tpacket_stats statistics{};
    socklen_t size = sizeof statistics;
    check(getsockopt(socket_.get(), SOL_PACKET, PACKET_STATISTICS, &statistics, &size),
          "read the ring's drops");
    return statistics.tp_drops;
}

} // namespace reprise::querier
