// Compiled alone: the headers of libpcap and of the kernel's BPF exclude each other.
#include "core/base/address.hh"
#include "core/base/error.hh"
#include "querier/packet/frame_ring.hh"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <pcap/dlt.h>
#include <pcap/pcap.h>

#include <arpa/inet.h>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <linux/filter.h>
#include <memory>
#include <string>
#include <vector>

namespace reprise::querier {
namespace {

constexpr int kLongestFrame = 65535;

struct Close {
    void operator()(pcap_t* pcap) const { pcap_close(pcap); }
};

/// Compares the address in a packet at an offset in `header` (ip, ip6) with the server's.
std::string same_address(const IpAddress& address, const char* header, const char* offset) {
    std::vector<std::string> words;
    for (size_t at = 0; at < address.size(); at += 4) {
        std::uint32_t word = 0;
        std::memcpy(&word, &address.bytes[at], sizeof word);
        words.push_back(fmt::format("{}[{} + {}:4] = {}", header, offset, at, ntohl(word)));
    }
    return fmt::format("{}", fmt::join(words, " and "));
}

/// In ICMP errors the packet that they are about lies behind IP's header and 8 bytes of ICMP's.
std::string replies_v4(const Endpoint& server) {
    return fmt::format("(ip src {} and ip proto 17 and (ip[6:2] & 0x3fff != 0 or udp src port "
                       "{}))"
                       " or (icmp[0] = 3 and {})",
                       server.address.text(), server.port,
                       same_address(server.address, "ip", "((ip[0] & 15) << 2) + 8 + 16"));
}

std::string replies_v6(const Endpoint& server) {
    return fmt::format("(ip6 src {} and (ip6[6] = 0 or ip6[6] = 43 or ip6[6] = 44 or ip6[6] = 60"
                       " or (ip6[6] = 17 and ip6[40:2] = {})))"
                       " or (ip6[6] = 58 and ip6[40] = 1 and {})",
                       server.address.text(), server.port,
                       same_address(server.address, "ip6", "40 + 8 + 24"));
}

} // namespace

std::vector<sock_filter> reply_filter(const Servers& servers) {
    std::vector<std::string> accepted;
    if (servers.v4) {
        accepted.push_back(replies_v4(*servers.v4));
    }
    if (servers.v6) {
        accepted.push_back(replies_v6(*servers.v6));
    }
    const std::string text =
        accepted.empty() ? "less 0" : fmt::format("{}", fmt::join(accepted, " or "));
    const std::unique_ptr<pcap_t, Close> ethernet(pcap_open_dead(DLT_EN10MB, kLongestFrame));
    bpf_program program{};
    if (!ethernet ||
        pcap_compile(ethernet.get(), &program, text.c_str(), 1, PCAP_NETMASK_UNKNOWN) != 0) {
        throw Error(fmt::format("compile the filter of replies: {}; is libpcap older than 1.10?",
                                ethernet ? pcap_geterr(ethernet.get()) : "no memory"));
    }
    std::vector<sock_filter> out;
    for (unsigned i = 0; i < program.bf_len; ++i) {
        const bpf_insn& line = program.bf_insns[i];
        out.push_back({.code = line.code, .jt = line.jt, .jf = line.jf, .k = line.k});
    }
    pcap_freecode(&program);
    return out;
}

} // namespace reprise::querier
